"""Tests of the live feed's figures: `python3 bench/test_live.py`."""

import tempfile
import unittest
from pathlib import Path
from unittest.mock import Mock, patch

from driver import live, report
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


if __name__ == "__main__":
    unittest.main()
