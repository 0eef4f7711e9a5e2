"""A foreign WebSocket client, the package `websockets`, against a running live floor:
`python compat/live_client.py VICKREY`, in an environment with `websockets==17.4`."""

import json
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path
from typing import ClassVar

from websockets.sync.client import ClientConnection, connect

PATIENCE_S = 10.0
CONFIG = """\
record = {{ directory = "{folder}/record" }}

[admin]
listen = "127.0.0.1:0"

[live]
listen = "127.0.0.1:0"
trust_loopback = true
topics = ["news"]
"""
FROM_THE_FIRST = {"epoch": 0, "sequence": 0}


def receive(socket: ClientConnection, kind: str) -> dict:
    """The next message of this type. Heartbeats come at any time, and are left out."""
    while True:
        message = json.loads(socket.recv(PATIENCE_S))
        if message["type"] == "heartbeat":
            continue
        assert message["type"] == kind, f"expected {kind}: {message}"
        return message


class ForeignClient(unittest.TestCase):
    program: ClassVar[Path]

    @classmethod
    def setUpClass(cls) -> None:
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        config, log = Path(folder) / "vickrey.toml", Path(folder) / "log"
        config.write_text(CONFIG.format(folder=folder))
        with log.open("wb") as stderr:
            server = subprocess.Popen([cls.program, "serve", "--config", config], stderr=stderr)
        cls.addClassCleanup(server.wait)
        cls.addClassCleanup(server.terminate)
        deadline = time.monotonic() + PATIENCE_S
        while not (found := re.search(r"the live floor is at (\S+)\n", log.read_text())):
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the live floor did not start: {log.read_text()}")
            time.sleep(0.05)
        cls.address = found[1]

    def connect(self, **options: object) -> ClientConnection:
        """A connection that was welcomed."""
        socket = self.enterContext(connect(f"ws://{self.address}/feed", **options))
        self.assertEqual(receive(socket, "welcome")["protocol"], 1)
        return socket

    def publish(self, body: object) -> int:
        """Publishes over HTTP, and returns the status."""
        url = f"http://{self.address}/publish?topic=news&key=lot-7"
        request = urllib.request.Request(url, json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return response.status

    def subscribe(self, socket: ClientConnection, topic: str, **members: object) -> None:
        socket.send(json.dumps({"op": "subscribe", "topic": topic, "id": 1} | members))

    def test_a_published_message_is_received_and_the_connection_closed(self) -> None:
        socket = self.connect(compression=None)
        self.subscribe(socket, "news")
        self.assertEqual(receive(socket, "subscribed")["origin"], "now")
        self.assertEqual(self.publish({"price": "1.50"}), 202)
        message = receive(socket, "message")
        self.assertEqual(message["data"], {"publisher": "", "key": "lot-7", "body": {"price": "1.50"}})
        self.assertTrue(socket.ping().wait(PATIENCE_S))
        socket.close(1000, "done")
        self.assertEqual((socket.close_code, socket.protocol.close_rcvd.code), (1000, 1000))

    def test_an_unknown_topic_is_an_error_and_the_connection_goes_on(self) -> None:
        socket = self.connect()
        self.subscribe(socket, "weather", id=7)
        error = receive(socket, "error")
        self.assertEqual((error["id"], error["code"], error["field"]), (7, "unknown_topic", "topic"))
        self.subscribe(socket, "news", id=8)
        self.assertEqual(receive(socket, "subscribed")["id"], 8)

    def test_compression_is_offered_and_not_agreed_on(self) -> None:
        socket = self.connect(compression="deflate")
        self.assertIn("permessage-deflate", socket.request.headers["Sec-WebSocket-Extensions"])
        self.assertNotIn("Sec-WebSocket-Extensions", socket.response.headers)
        self.assertEqual(socket.protocol.extensions, [])
        text = "a" * 10_000
        self.subscribe(socket, "news")
        receive(socket, "subscribed")
        self.assertEqual(self.publish(text), 202)
        self.assertEqual(receive(socket, "message")["data"]["body"], text)

    def test_a_client_resumes_after_the_last_message(self) -> None:
        self.assertEqual([self.publish(number) for number in (1, 2)], [202, 202])
        socket = self.connect()
        self.subscribe(socket, "news", after=FROM_THE_FIRST)
        receive(socket, "subscribed")
        while (first := receive(socket, "message"))["data"]["body"] != 1:
            pass
        socket.close()
        after = {name: first[name] for name in ("epoch", "sequence", "part")}
        socket = self.connect()
        self.subscribe(socket, "news", after=after)
        receive(socket, "subscribed")
        self.assertEqual(receive(socket, "message")["data"]["body"], 2)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: live_client.py VICKREY")
    ForeignClient.program = Path(sys.argv.pop(1))
    unittest.main()
