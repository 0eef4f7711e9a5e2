"""Tests of the live feed's figures: `python3 bench/test_live.py`."""

import tempfile
import unittest
from pathlib import Path
from unittest.mock import Mock, patch

from driver import live, live_auctions, report
from driver.programs import Bench, Failed
from driver.throughput import Rounds

QUIET = {"p50": 400, "p99": 900, "p999": 1_800, "max": 2_000}
BIDS = {"bidders": 1_000, "lots": 100, "accepted_per_s": 2_000, "outrun": 9, "latency_us": QUIET}
PING_PONG = {"report": BIDS | {"problems": ["a price"]}, "group_commit_per_s": 5_000.4}


def load(per_cpu_s: int) -> dict:
    """A report of the hammer or of the peer's load."""
    server = {"delivered_per_cpu_s": per_cpu_s, "resident_before_kib": 9_000}
    server |= {"resident_peak_kib": 9_100, "send_queue_peak_bytes": 0}
    return {"server": server, "latency_us": QUIET, "gaps": 0, "closed": 0}


def measured(has_nats: bool) -> dict:
    """An entry of two rounds, without processes."""
    bench = Bench(Path("programs"), Path("folder"), 0, 1, 32)
    of_loads = Mock(side_effect=lambda bench, target, *_: load(target))
    of_nats = iter([300, 500, 320, 520])
    with (
        patch.object(live, "raw", Mock(return_value=server(1_000))),
        patch.object(live, "floor", Mock(return_value=server(900))),
        patch.object(live, "nats", Mock(return_value=server(0))),
        patch.object(live, "hammer", of_loads),
        patch.object(live.lots, "ping_pong", Mock(return_value=PING_PONG)),
        patch.object(live, "load_nats", Mock(side_effect=lambda *_: load(next(of_nats)))),
    ):
        return live.feed(bench, Rounds(2, 1, False, 0), has_nats, Mock())


def server(target: int) -> Mock:
    """A context manager, for any number of uses."""
    context = Mock()
    context.__enter__ = Mock(return_value=target)
    context.__exit__ = Mock(return_value=None)
    return context


def write(entry: dict) -> str:
    return live.write(entry, report.table, report.verdict)


class Feed(unittest.TestCase):
    def test_nats_has_its_column(self) -> None:
        entry = measured(has_nats=True)
        self.assertEqual([row["nats"] for row in entry["rows"]], [310, 510])
        self.assertEqual([len(row["reports"]) for row in entry["rounds"]], [3] * 4)
        page = write(entry)
        self.assertIn("| of the raw loop | 0.8 | NATS |", page)
        self.assertIn("| 1000 × 200/s | 1000 | 900 | 0.90 | met | 310 |", page)
        self.assertIn("It writes no log, and its frames carry less", page)

    def test_a_wrong_price_is_a_missed_target(self) -> None:
        page = write(measured(has_nats=False))
        self.assertIn("2000 durable bids/s (9 bids came too late)", page)
        self.assertIn("1 wrong prices, numbers or winners: missed", page)
        self.assertIn("5000 records/s", page)

    def test_a_run_without_nats_has_a_dash(self) -> None:
        entry = measured(has_nats=False)
        self.assertIn("| 100 × 5000/s | 1000 | 900 | 0.90 | met | – |", write(entry))
        for row in entry["rows"]:
            del row["nats"]
        self.assertIn("| 100 × 5000/s | 1000 | 900 | 0.90 | met | – |", write(entry))

    def test_a_load_whose_subscribers_missed_messages_is_no_figure(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(Path("programs"), Path(folder), 0, 1, 32)
            target = (Mock(pid=1), "127.0.0.1:1")
            for report_text, code in (('{"gaps":1,"closed":0}', 0), ('{"gaps":0,"closed":1}', 0), ("", 1)):
                done = Mock(returncode=code, stdout=report_text, stderr="refused")
                with patch.object(live.subprocess, "run", Mock(return_value=done)):
                    self.assertRaises(Failed, live.load_nats, bench, target, live.SHAPES[0], 1)


class Auctions(unittest.TestCase):
    def rounds(self, shards_s: dict[str, float], delivered: float = 1.0) -> list[dict]:
        """Two passes of 1,000 auctions each, with these seconds of the shards' CPU time."""
        found = []
        for variant in (live_auctions.OFF, live_auctions.ONE, live_auctions.ALL) * 2:
            threads = {"shard": shards_s[variant.name], "live": 0.002, "log": 0.004}
            each = {"program": variant.name, "round": 1, "auctions": 1_000, "server_threads_s": threads}
            each |= {"subscribers": variant.subscribers, "void": False, "errors": 0, "asked": 1.0}
            each |= {"delivered": int(delivered * variant.subscribers * 1_000)}
            each |= {"counts": {"beacons": 0, "beacons_failed": 0}, "notices_seen_by_dsps": {}}
            found.append(each | {"notices_in_window": {"delivered": 0, "not_delivered": 0}})
        return found

    def test_delivery_is_apart_from_publishing(self) -> None:
        seconds = {"off": 0.100, "one subscriber": 0.102, "100 subscribers": 0.160}
        entry = live_auctions.conclude(500, self.rounds(seconds))
        page = live_auctions.write(entry, report.table, report.verdict)
        self.assertIn("| 100 subscribers | 160.0 | 2.0 | 4.0 | 100.00 |", page)
        self.assertIn("+2.0% of the shards' CPU time per auction, at most 3%: met.", page)
        self.assertIn("With 100 subscribers of every auction +60.0%", page)
        self.assertEqual(entry["problems"], [])

    def test_auctions_that_reached_nobody_are_a_problem(self) -> None:
        seconds = {"off": 0.100, "one subscriber": 0.104, "100 subscribers": 0.160}
        entry = live_auctions.conclude(500, self.rounds(seconds, delivered=0.5))
        self.assertFalse(entry["publishing_met"])
        self.assertIn("one subscriber, round 1: 500 of 1000 messages were delivered", entry["problems"])


if __name__ == "__main__":
    unittest.main()
