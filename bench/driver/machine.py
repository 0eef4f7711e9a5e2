"""Describes the machine, and what it and its processes have used.

Reads /proc and asks tools for their versions; starts nothing that is measured. Reveals no host name
and no path, because results are published.
"""

import os
import platform
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from driver import figures
from driver.figures import CoreTimes

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class ProcessTimes:
    """CPU time of all threads of a process, in seconds."""

    cpu_s: float
    user_s: float
    system_s: float


@dataclass(frozen=True)
class Reading:
    """All readings at one end of a measured window."""

    at_s: float
    server: ProcessTimes
    fleet: ProcessTimes
    server_core: CoreTimes
    testbed_core: CoreTimes
    server_threads: dict[str, float] = field(default_factory=dict)


def process_times(pid: int) -> ProcessTimes:
    """User and system time in ticks of usually 10 ms, and their sum in nanoseconds if the kernel
    keeps scheduler statistics."""
    proc = Path(f"/proc/{pid}")
    user, system = figures.user_system_ticks((proc / "stat").read_text())
    ticks_s = (user + system) / TICKS_PER_S
    try:
        threads = [file.read_text() for file in proc.glob("task/*/schedstat")]
    except FileNotFoundError:  # A thread has ended meanwhile.
        threads = []
    cpu_s = figures.schedstat_ns(threads) / 1e9 if threads else ticks_s
    return ProcessTimes(cpu_s, user / TICKS_PER_S, system / TICKS_PER_S)


def thread_times(pid: int) -> dict[str, float]:
    """CPU seconds of a process by kind of thread, without threads that have ended."""
    seconds: dict[str, float] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            kind = figures.kind_of_thread((task / "comm").read_text().strip())
            spent = figures.schedstat_ns([(task / "schedstat").read_text()]) / 1e9
        except FileNotFoundError:  # It has ended meanwhile.
            continue
        seconds[kind] = seconds.get(kind, 0.0) + spent
    return seconds


def read(server_pid: int, fleet_pids: Sequence[int], cores: tuple[int, int]) -> Reading:
    """Reads the server and its core last at both ends, so that windows are equal."""
    fleets = [process_times(pid) for pid in fleet_pids]
    stat = Path("/proc/stat").read_text()
    return Reading(
        server_core=figures.core_times(stat, cores[0]),
        testbed_core=figures.core_times(stat, cores[1]),
        fleet=ProcessTimes(
            cpu_s=sum(each.cpu_s for each in fleets),
            user_s=sum(each.user_s for each in fleets),
            system_s=sum(each.system_s for each in fleets),
        ),
        at_s=time.monotonic(),
        server_threads=thread_times(server_pid),
        server=process_times(server_pid),
    )


def resident_kib(pid: int) -> int:
    """The resident set of a process, in KiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    match = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    if match is None:
        raise ProcessLookupError(f"process {pid} has ended")
    return int(match[1])


def describe(repository: Path) -> dict[str, str | int]:
    """The machine and the tools, for the head of a report."""
    model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    congestion = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    commit = first_line(["git", "-C", str(repository), "rev-parse", "--short=12", "HEAD"])
    changed = first_line(["git", "-C", str(repository), "status", "--porcelain"])
    return {
        "cpu": model[1].strip() if model else platform.machine(),
        "cores": os.cpu_count() or 0,
        "kernel": platform.release(),
        "rustc": first_line(["rustc", "--version"], repository) or "absent",
        "go": first_line(["go", "version"]).removeprefix("go version ") or "absent",
        "commit": commit + (" with changes" if changed else ""),
        "tcp_congestion_control": congestion.read_text().strip()
        if congestion.exists()
        else "unknown",
    }


def label(machine: dict[str, str | int]) -> str:
    """A name for files, such as `amd-epyc-2c`."""
    words = re.sub(r"\(.*?\)|@.*", " ", str(machine["cpu"]))
    slug = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
    return f"{slug[:40]}-{machine['cores']}c"


def first_line(argv: list[str], folder: Path | None = None) -> str:
    """The first line that a tool prints; empty if it is absent or fails."""
    try:
        done = subprocess.run(
            argv, cwd=folder, capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.partition("\n")[0].strip()
