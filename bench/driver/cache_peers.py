"""Caches in front of a simulated origin: Vickrey, the proxies of the distribution's packages, and bare
hyper, which has the answer at hand.

Owns their configurations, each for one core and for memory alone, and their starts. Must not know
what is measured.
"""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from driver import machine
from driver.programs import POLL_S, START_S, Argv, Bench, Child, Failed

# By executable.
PACKAGES = {"nginx": "nginx-core", "varnishd": "varnish", "traffic_server": "trafficserver"}
EXECUTABLES = {"nginx": "nginx", "varnish": "varnishd", "trafficserver": "traffic_server"}
INSTALL_S = 600

FRESH = "max-age=86400"

# By which a slow disk is slower.
SLOW_SYNC_MS = 100


@dataclass
class CacheServer:
    """A running cache."""

    name: str
    child: Child
    port: int
    # Only of Vickrey.
    admin: str | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def cpu_s(self) -> float:
        """Of the process and all below it."""
        return sum(machine.process_times(pid).cpu_s for pid in family(self.child.pid))


def family(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            found += map(int, children.read_text().split())
    return found


def install() -> list[str]:
    """Installs the proxies that are missing; returns what cannot be had."""
    missing = [package for name, package in PACKAGES.items() if shutil.which(name) is None]
    if missing and shutil.which("apt-get"):
        argv = ["apt-get", "install", "-y", "-q", *missing]
        subprocess.run(argv, capture_output=True, timeout=INSTALL_S, check=False)
    return [f"{name} is not installed" for name in PACKAGES if shutil.which(name) is None]


def proxies() -> list[str]:
    """Those that are installed."""
    return [name for name, executable in EXECUTABLES.items() if shutil.which(executable)]


@contextmanager
def origin(bench: Bench, *arguments: str) -> Iterator[str]:
    """A simulated origin on the testbed's core: its URL."""
    argv: Argv = [bench.programs / "vickrey", "origin", "--cache-control", FRESH, *arguments]
    with Child(bench, "origin", argv, bench.testbed_core) as child:
        yield child.wait_for(child.stdout, r"an origin listens at (http://[^\s;]+)")


@contextmanager
def cache(
    bench: Bench,
    name: str,
    origin_url: str,
    keys: str = "",
    bytes_: int = 1024,
    slow_sync: bool = False,
    cores: Sequence[int] = (),
) -> Iterator[CacheServer]:
    """One of the caches, with all its threads on the server's core. `keys` are more of Vickrey's, and so is
    whether each sync of a file takes long. Vickrey and hyper may have a thread on each of several `cores`."""
    threads, on = str(max(1, len(cores))), ",".join(map(str, cores)) or bench.server_core
    if name == "hyper":
        argv: Argv = [bench.programs / "bench-cache", "bare", "--bytes", str(bytes_), "--path", "/0"]
        argv += ["--threads", threads]
        with Child(bench, name, argv, on) as child:
            port = child.wait_for(child.stdout, r'"listening":"127.0.0.1:(\d+)"')
            yield CacheServer(name, child, int(port))
        return
    port = free_port()
    if name == "vickrey":
        file = bench.folder / "cache.toml"
        file.write_text(
            f'[admin]\nlisten = "127.0.0.1:0"\n[cache]\nlisten = "127.0.0.1:{port}"\n{keys}\n'
            f'[[cache.route]]\nid = "all"\norigin = "{origin_url}"\n'
        )
        argv = [bench.programs / "vickrey", "serve", "--shards", threads, "--config", file]
        if slow_sync:
            argv = ["env", f"LD_PRELOAD={slow_sync_library(bench.folder)}", *argv]
        with Child(bench, name, argv, on) as child:
            admin = child.wait_for(child.stderr, r"metrics and health at (http://[^\s,/]+)")
            yield CacheServer(name, child, port, admin)
        return
    folder = bench.folder / f"{name}-{port}"
    folder.mkdir()
    argv = {"nginx": nginx, "varnish": varnish, "trafficserver": trafficserver}[name](folder, port, origin_url)
    with Child(bench, name, argv, bench.server_core) as child:
        wait_for_port(child, port)
        yield CacheServer(name, child, port)


def slow_sync_library(folder: Path) -> Path:
    """A library that makes every fdatasync take longer."""
    source, library = folder / "slow_sync.c", folder / "slow_sync.so"
    if not library.exists():
        source.write_text(
            "#include <sys/syscall.h>\n#include <unistd.h>\n"
            f"int fdatasync(int fd) {{ usleep({SLOW_SYNC_MS} * 1000); return syscall(SYS_fdatasync, fd); }}\n"
        )
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    return library


def free_port() -> int:
    """One that nobody has now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def wait_for_port(child: Child, port: int) -> None:
    """Returns once it accepts connections."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if child.process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"{child.name} did not start: {child.said()}") from None
            time.sleep(POLL_S)


def nginx(folder: Path, port: int, origin_url: str) -> Argv:
    """One worker, files in the page cache and their descriptors kept."""
    paths = "".join(
        f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "fastcgi", "uwsgi", "scgi", "proxy")
    )
    file = folder / "nginx.conf"
    file.write_text(f"""\
user root; daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off; sendfile on; tcp_nopush off; tcp_nodelay on; keepalive_requests 1000000000;
    {paths}
    open_file_cache max=10000 inactive=1d; open_file_cache_valid 1d;
    proxy_cache_path {folder}/cache keys_zone=all:10m inactive=1d use_temp_path=off;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass {origin_url}; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_cache all; proxy_cache_lock on;
        }}
    }}
}}
""")
    return ["nginx", "-c", file, "-p", folder, "-e", folder / "error.log"]


def varnish(folder: Path, port: int, origin_url: str) -> Argv:
    """As few threads as it takes; objects in memory."""
    backend = origin_url.removeprefix("http://")
    argv: Argv = ["varnishd", "-F", "-a", f"127.0.0.1:{port}", "-b", backend, "-n", folder / "work"]
    argv += ["-s", "malloc,64m", "-p", "thread_pools=1", "-p", "thread_pool_min=50", "-t", "86400"]
    return argv


def trafficserver(folder: Path, port: int, origin_url: str) -> Argv:
    """One event thread; objects in its RAM cache."""
    for name in ("data", "run", "log", "cache", "var"):
        (folder / name).mkdir()
    shutil.copytree("/etc/trafficserver", folder / "etc")
    layout = {
        "prefix": folder,
        "exec_prefix": folder,
        "bindir": "/usr/bin",
        "sbindir": "/usr/bin",
        "sysconfdir": folder / "etc",
        "datadir": folder / "data",
        "includedir": "/usr/include",
        "libdir": "/usr/lib",
        "libexecdir": "/usr/lib/trafficserver/modules",
        "localstatedir": folder / "var",
        "runtimedir": folder / "run",
        "logdir": folder / "log",
        "mandir": folder,
        "infodir": folder,
        "cachedir": folder / "cache",
    }
    (folder / "runroot.yaml").write_text("".join(f"{key}: {value}\n" for key, value in layout.items()))
    records = {
        "http.server_ports STRING": f"{port}:ip-in=127.0.0.1",
        "exec_thread.autoconfig INT": 0,
        "exec_thread.limit INT": 1,
        "exec_thread.affinity INT": 0,
        "task_threads INT": 1,
        "accept_threads INT": 0,
        "cache.threads_per_disk INT": 1,
        "cache.ram_cache.size INT": 64 << 20,
        "log.logging_enabled INT": 0,
        "admin.user_id STRING": "#-1",
        "url_remap.remap_required INT": 1,
    }
    lines = [f"CONFIG proxy.config.{key} {value}\n" for key, value in records.items()]
    (folder / "etc/records.config").write_text("".join(lines))
    (folder / "etc/remap.config").write_text(f"map / {origin_url}/\n")
    (folder / "etc/storage.config").write_text(f"{folder}/cache 64M\n")
    return ["traffic_server", f"--run-root={folder}/runroot.yaml"]
