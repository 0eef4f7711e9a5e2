"""The binary under comparison: its commands, and `vickrey serve` from start to end.

Knows nothing of the comparison: outputs are returned unchanged.
"""

import base64
import gzip
import http.client
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parent / "corpus"
ROOT = CORPUS.parent.parent
# The operators' token in the corpus' configurations.
TOKEN = "operators-token-1"
PATIENCE_S = 60.0
POLL_S = 0.02


class Broken(Exception):
    """A binary failed to do what the comparison needs: start, become ready, come to rest, or
    stop."""


@dataclass(frozen=True)
class Binary:
    """One of both sides."""

    path: Path
    # Translates a text of the corpus for this binary, whose keys may have other names.
    given: Callable[[str], str] = lambda text: text


@dataclass
class Answer:
    """An answer over HTTP; a gzipped body is decompressed."""

    status: int
    headers: list[tuple[str, str]]
    body: str


@dataclass(frozen=True)
class Request:
    """A request over HTTP, in the corpus' format."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""

    @classmethod
    def read(cls, raw: dict[str, Any]) -> "Request":
        """Reads `method`, `path`, `headers`, and a `body`: `repeat` times, or in `base64`;
        `gzip`ped."""
        body = raw.get("body", "").encode() * raw.get("repeat", 1)
        body = base64.b64decode(raw["base64"]) if "base64" in raw else body
        body = gzip.compress(body, mtime=0) if raw.get("gzip") else body
        return cls(raw.get("method", "GET"), raw["path"], raw.get("headers", {}), body)

    def send(self, address: str) -> Answer:
        """Sends it on a connection of its own."""
        connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
        try:
            connection.putrequest(self.method, self.path, skip_host=True, skip_accept_encoding=True)
            headers = {"host": address} | {name.lower(): it for name, it in self.headers.items()}
            if self.body or self.method in ("POST", "PUT", "PATCH"):
                headers = {"content-length": str(len(self.body))} | headers
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            try:
                connection.send(self.body)
            except (BrokenPipeError, ConnectionResetError):
                pass  # Refused after its head; the response is there.
            response = connection.getresponse()
            body = response.read()
            if response.getheader("content-encoding") == "gzip":
                body = gzip.decompress(body)
            return Answer(response.status, response.getheaders(), body.decode(errors="replace"))
        finally:
            connection.close()


@dataclass(frozen=True)
class Output:
    """The output and exit code of a command."""

    code: int
    stdout: str
    stderr: str


def environment() -> dict[str, str]:
    """The same environment everywhere."""
    return {
        "PATH": os.environ.get("PATH", ""), "HOME": "/nonexistent", "TZ": "UTC", "LANG": "C.UTF-8",
        "COLUMNS": "100", "NO_COLOR": "1", "VICKREY_ACTOR": "corpus", "VICKREY_ADMIN_TOKEN": TOKEN,
    }


def run(binary: Binary, folder: Path, *args: str | Path, stdin: str = "") -> Output:
    """Runs a command of the binary in this folder."""
    done = subprocess.run(
        [binary.path, *map(str, args)], cwd=folder, env=environment(), input=stdin.encode(),
        capture_output=True, timeout=PATIENCE_S, check=False,
    )
    return Output(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def until(what: str, holds: Callable[[], Any]) -> Any:
    """Waits for a condition, and returns its value."""
    end = time.monotonic() + PATIENCE_S
    while True:
        value = holds()
        if value:
            return value
        if time.monotonic() > end:
            raise Broken(f"waited {PATIENCE_S:.0f} s in vain: {what}")
        time.sleep(POLL_S)


def settle(binary: Binary, folder: Path, name: str) -> None:
    """Writes a configuration of the corpus into a folder, before a start."""
    shutil.copytree(CORPUS / name, folder, dirs_exist_ok=True)
    for path in folder.glob("**/*.toml"):
        path.write_text(binary.given(path.read_text()))


class Exchange:
    """A process that serves."""

    def __init__(self, binary: Binary, folder: Path, dsps: str) -> None:
        """Starts it with the configuration that `settle` wrote, with its ports filled in."""
        self.binary, self.folder = binary, folder
        self.callers, self.admin = (f"127.0.0.1:{free_port()}" for _ in range(2))
        path = folder / "vickrey.toml"
        text = path.read_text().replace("$CALLERS", self.callers).replace("$ADMIN", self.admin)
        path.write_text(text.replace("$DSPS", dsps))
        self.log = folder / "server.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [binary.path, "serve", "--config", path.name], cwd=folder, env=environment(),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )

    def get(self, path: str, **headers: str) -> Answer:
        headers = {"authorization": f"Bearer {TOKEN}"} | {k.replace("_", "-"): v for k, v in headers.items()}
        return Request("GET", path, headers).send(self.admin)

    def post(self, body: bytes, headers: dict[str, str]) -> Answer:
        """Posts a bid request."""
        headers = {"content-type": "application/json"} | headers
        return Request("POST", "/openrtb2/auction", headers, body).send(self.callers)

    def is_ready(self) -> bool:
        if self.process.poll() is not None:
            raise Broken(f"{self.binary.path} has ended with {self.process.returncode}: {self.log.read_text()}")
        try:
            return self.get("/health/ready").status == 200
        except OSError:
            return False

    def stop(self) -> int:
        """Stops it as an operator does, and returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired as error:
            raise Broken(f"{self.binary.path} does not end") from error


@contextmanager
def serving(binary: Binary, folder: Path, dsps: str) -> Iterator[Exchange]:
    """A ready exchange; killed if the block fails, otherwise stopped."""
    exchange = Exchange(binary, folder, dsps)
    try:
        until("ready", exchange.is_ready)
        yield exchange
        code = exchange.stop()
        if code != 0:
            raise Broken(f"{binary.path} has ended with {code}: {exchange.log.read_text()[-2000:]}")
    finally:
        if exchange.process.poll() is None:
            exchange.process.kill()
            exchange.process.wait()
