"""DSPs whose responses come from the corpus, on one port: paths `/dsp/ID` take bid requests, every
other path is a notice. They keep what they receive.

Must not know what is compared.
"""

import gzip
import json
import threading
from contextlib import contextmanager
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

# Longest delay of a late response.
LATE_S = 10.0
# Outcomes that a DSP can cause itself, in the names of `vickrey explain --dsp-answers`.
LATE, RESET = "late", "reset"


@dataclass
class Call:
    """What a DSP has received: its id, the head as received, and the body, decompressed."""

    dsp: str
    head: list[str]
    body: str


@dataclass
class Script:
    """The DSPs' responses during one request of the corpus, and what they received."""

    answers: dict[str, Any]
    calls: list[Call] = field(default_factory=list)
    # Set once the exchange has responded; late responses come then.
    over: threading.Event = field(default_factory=threading.Event)


class Dsps:
    """All DSPs. One request of the corpus is under way at a time."""

    def __init__(self, port: int = 0) -> None:
        """On this port, or a free one if 0."""
        self.script = Script({})
        self.notices: list[str] = []
        self.lock = threading.Lock()
        handler = type("Handler", (Handler,), {"dsps": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self.server.daemon_threads = True
        self.port = self.server.server_port
        self.address = f"127.0.0.1:{self.port}"

    @contextmanager
    def running(self) -> Iterator["Dsps"]:
        thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.server.shutdown()
            thread.join()
            self.server.server_close()

    @contextmanager
    def answering(self, answers: dict[str, Any]) -> Iterator[Script]:
        """Uses these responses during the block."""
        self.script = script = Script(answers)
        try:
            yield script
        finally:
            script.over.set()
            self.script = Script({})

    def body(self, answer: Any, request: str) -> tuple[int, bytes]:
        """Status and body of the response to this request, in the format of `--dsp-answers`."""
        if isinstance(answer, str):
            return 204, b""
        if "status" in answer and "seatbid" not in answer:
            return answer["status"], answer.get("body", "").encode()
        auction = json.loads(request)["id"]
        text = json.dumps(answer, separators=(",", ":"), ensure_ascii=False)
        text = text.replace("$AUCTION_ID", auction).replace("$DSPS", self.address)
        return 200, text.encode()


class Handler(BaseHTTPRequestHandler):
    """One connection of the exchange."""

    protocol_version = "HTTP/1.1"
    dsps: Dsps

    def do_POST(self) -> None:
        script = self.dsps.script
        raw = self.rfile.read(int(self.headers["content-length"]))
        packed = self.headers.get("content-encoding") == "gzip"
        request = (gzip.decompress(raw) if packed else raw).decode()
        head = [self.requestline, *(f"{name}: {value}" for name, value in self.headers.items())]
        dsp = self.path.rsplit("/", 1)[1].split("?")[0]
        with self.dsps.lock:
            script.calls.append(Call(dsp, head, request))
        answer = script.answers.get(dsp, {"status": 204})
        if answer == LATE:
            script.over.wait(LATE_S)
        if answer == RESET:
            self.close_connection = True
            return
        self.reply(*self.dsps.body(answer, request))

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        names = ("x-forwarded-for", "x-device-user-agent")
        head = [f"{name}: {self.headers[name]}" for name in names if name in self.headers]
        with self.dsps.lock:
            self.dsps.notices.append(" | ".join([self.path, *head]))
        # The response to a notice is the markup in its URL, if any.
        markup = query.get("markup", [""])[0].encode()
        self.reply(200 if markup else 204, markup)

    def reply(self, status: int, body: bytes) -> None:
        packs = "gzip" in self.headers.get("accept-encoding", "") and body
        body = gzip.compress(body, mtime=0) if packs else body
        self.send_response_only(status)
        if packs:
            self.send_header("content-encoding", "gzip")
        if status != 204:
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
