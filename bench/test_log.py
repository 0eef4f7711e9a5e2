"""Tests of the scenarios of the log: `python3 bench/test_log.py`."""

import json
import os
import tempfile
import threading
import time
import tomllib
import unittest
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from driver import log, record, report, stalls
from driver.programs import Bench, Failed, Terms, configuration


def line(who: str, seconds: float, records: int = 1000) -> dict:
    """A line that the log's tool prints for a round."""
    return {
        "round": 1,
        "who": who,
        "records": records,
        "seconds": seconds,
        "records_per_s": records / seconds,
        "groups": 10,
        "bytes": 10_240,
        "syncs": 11,
    }


def page(entry: dict) -> str:
    """The page of an entry after one pass through JSON."""
    whole = {"started_at": "now", "machine": {"cores": 2}, "skipped": [], "scenarios": [entry]}
    return report.markdown(json.loads(json.dumps(whole)))


class Pairs(unittest.TestCase):
    def test_each_round_is_beside_its_neighbour(self) -> None:
        lines = [line("log", 2.0), line("raw", 1.0), line("raw", 1.5), line("log", 1.5)]
        found = log.pairs(lines, "log", "raw")
        self.assertEqual([pair["ratio"] for pair in found], [0.5, 1.0])
        self.assertEqual(log.median_ratio(found), 0.75)
        self.assertEqual(log.median_ratio([]), 0.0)
        # A round without a neighbour forms no pair.
        with self.assertRaises(ValueError):
            log.pairs(lines[:3], "log", "raw")


class Commit(unittest.TestCase):
    def rows(self, log_s: float, raw_s: float) -> dict:
        lines = [line("log", log_s)]
        lines += [line(log.SET_ASIDE, raw_s), line(log.WRITTEN, raw_s / 2)] * 2
        lines += [line("log", log_s)]
        return log.commit_row("2 × 8", lines) | {"fio": None, "target": 0.8}

    def test_the_verdict_is_of_the_file_that_is_like_the_logs(self) -> None:
        for log_s, raw_s, want in [(1.0, 0.8, "met"), (1.0, 0.79, "missed"), (0.5, 1.0, "met")]:
            row = self.rows(log_s, raw_s)
            self.assertAlmostEqual(row["of_set_aside"], raw_s / log_s)
            self.assertAlmostEqual(row["of_written"], raw_s / log_s / 2)
            entry = {"name": "log-commit", "kind": "log_commit", "title": "t", "problems": []}
            text = page(entry | {"rows": [row]})
            self.assertIn(f"≥ 0.80: {want}", text)
            self.assertIn(f"{raw_s / log_s:.2f}, {raw_s / log_s:.2f}", text)
            rounds = [each for each in text.splitlines() if each.startswith("| 2 × 8 | 1 |")]
            self.assertEqual(len(rounds), 6, "every round is listed")
            text = page(entry | {"rows": [row | {"target": None}]})
            self.assertNotIn("≥", text, "a load that leaves the log idle is no measure of it")


class Reading(unittest.TestCase):
    def test_only_what_comes_from_the_disk_has_a_target(self) -> None:
        found = log.pairs([line("log", 1.0), line("raw", 0.7)], "log", "raw")
        rows = [log.read_row("reader", cache, found, 0.8) for cache in ("cold", "warm")]
        self.assertEqual([row["target"] for row in rows], [0.8, None])
        entry = {"name": "log-read", "kind": "log_read", "title": "t", "rows": rows}
        text = page(entry | {"skipped": ["no replay"], "problems": ["verify ended with 1"]})
        self.assertEqual(text.count("≥ 0.80: missed"), 1)
        self.assertIn("Skipped: no replay.", text)
        self.assertIn("- log-read: verify ended with 1", text)


class Start(unittest.TestCase):
    def entry(self, **changes: object) -> str:
        each = {"round": 1, "cache": "cold", "open_s": 0.1, "was_torn": True}
        each |= {"first_auction_s": 1.9, "skipped": None} | changes
        entry = {"name": "log-start", "kind": "log_start", "title": "t", "starts": [each]}
        entry |= {"segments": {"durable": 3, "firehose": 9}, "target_s": 2.0, "skipped": []}
        return page(entry | {"problems": []})

    def test_the_verdict_is_of_the_first_auction(self) -> None:
        self.assertIn("< 2 s: met", self.entry())
        self.assertIn("< 2 s: missed", self.entry(first_auction_s=2.0))
        # Without a served auction: the log alone.
        self.assertIn("< 2 s: met", self.entry(first_auction_s=None))
        self.assertIn("< 2 s: missed", self.entry(first_auction_s=None, open_s=3.0))

    def test_an_auction_is_asked_for_until_it_is_answered(self) -> None:
        statuses = [503, 204]

        class Exchange(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(statuses.pop(0))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        with HTTPServer(("127.0.0.1", 0), Exchange) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            log.answered_at(f"http://127.0.0.1:{server.server_port}/", b"{}")
            server.shutdown()
            thread.join()
        self.assertEqual(statuses, [], "the refusal was no answer")


class Tools(unittest.TestCase):
    def bench(self, script: str) -> Bench:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in ("bench-log", "vickrey"):
            (folder / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / name).chmod(0o755)
        return Bench(folder, folder, 0, 1, 4)

    def test_lines_of_the_tool_are_read_and_its_failure_is_told(self) -> None:
        found = log.tool(self.bench('echo "{\\"who\\": \\"$1\\"}"'), "open", Path("/x"))
        self.assertEqual(found, [{"who": "open"}])
        with self.assertRaisesRegex(Failed, "bench-log open: no such log"):
            log.tool(self.bench("echo no such log >&2; exit 1"), "open")

    def test_commands_are_beside_their_neighbours_and_failures_are_problems(self) -> None:
        bench = self.bench('case "$2" in replay) echo a difference; exit 1;; esac; echo \'{"who":'
                           ' "raw", "seconds": 1, "bytes": 9}\'')
        rows, problems = log.commands(bench, Path("/x"), "warm", 2)
        self.assertEqual([(row["name"], len(row["pairs"])) for row in rows],
                         [("verify", 4), ("replay", 4)])
        self.assertEqual([row["pairs"][0]["base"]["who"] for row in rows], ["raw", "verify"])
        self.assertEqual(problems, ["log replay ended with 1: a difference"] * 4)

    def test_a_vickrey_without_a_log_is_skipped(self) -> None:
        bench = self.bench("exit 64")
        self.assertFalse(log.has_log(bench))
        self.assertIsInstance(log.record_some(bench), str)

    def test_the_configurations_are_toml_with_a_directory(self) -> None:
        bench = self.bench("")
        for terms in (record.RECORD, Terms(exchange=log.record_at(bench.folder / 'a "b"'))):
            text = configuration(bench, [], terms)
            self.assertIn(str(bench.folder), tomllib.loads(text)["record"]["directory"])
        self.assertNotIn("record", tomllib.loads(configuration(bench, [], record.OFF.terms)))


def measured(program: str, number: int, shards_s: float, **changes: object) -> dict:
    """A round of a thousand auctions."""
    return {
        "program": program,
        "round": number,
        "auctions": 1000,
        "cpu_s": shards_s + 0.1,
        "server_threads_s": {"shard": shards_s, "log": 0.01 if program == "on" else 0.0},
        "errors": 0,
        "asked": None,
        "void": False,
        "counts": {"beacons_failed": 0},
        "notices_seen_by_dsps": {},
        "notices_in_window": {"not_delivered": 0},
    } | changes


def run_of(name: str, p999: int, **changes: object) -> dict:
    """A run of the slow disk."""
    times = {"p50": 900, "p99": 1000, "p999": p999, "max": 3000}
    seen = {"looks": 9, "blocked_ms": {}, "ready_ms": 4.0, "looker_late_ms": 1.0}
    found = {"name": name, "latency_us": times, "errors": 0, "testbed_core_busy": 0.5}
    found["stalls"] = seen
    return found | {"void": False, "syncs_held_up": 5 if "slow" in name else 0} | changes


class ThreadStalls(unittest.TestCase):
    def looks(self, *calls: str | None) -> list[stalls.Look]:
        return [stalls.Look(stalls.EVERY_S * at, call, 0.0) for at, call in enumerate(calls)]

    def test_a_thread_is_blocked_while_every_look_finds_it_in_the_same_call(self) -> None:
        looks = self.looks("futex", *["fdatasync"] * 7, None, *["fdatasync"] * 3, "epoll")
        seen = stalls.stalls_of(looks)
        self.assertEqual(list(seen.blocked_ms), ["fdatasync"])
        self.assertAlmostEqual(seen.blocked_ms["fdatasync"], 30.0)

    def test_who_waits_for_requests_is_not_blocked(self) -> None:
        seen = stalls.stalls_of(self.looks(*["epoll"] * 50, *[None] * 50))
        self.assertEqual((seen.blocked_ms, seen.looks), ({}, 100))

    def test_waiting_for_a_core_and_a_late_looker_are_told_apart(self) -> None:
        looks = [stalls.Look(at_s, "epoll", ready_s) for at_s, ready_s in
                 [(0.0, 7.0), (0.005, 7.15), (0.105, 7.16)]]
        seen = stalls.stalls_of(looks)
        self.assertAlmostEqual(seen.ready_ms, 150.0)
        self.assertAlmostEqual(seen.looker_late_ms, 95.0)
        self.assertEqual(stalls.stalls_of([]).as_dict()["looks"], 0)

    def test_a_call_is_read_by_its_number(self) -> None:
        #  line, and the call
        table = [("running\n", None), ("-1 0x7f 0x7f\n", None), ("99999 0x1\n", "call 99999")]
        for text, want in table:
            self.assertEqual(stalls.call_of(text), want)

    def test_a_thread_of_this_process_is_seen(self) -> None:
        is_over = threading.Event()
        sleeper = threading.Thread(target=is_over.wait)
        sleeper.start()
        thread, deadline = sleeper.native_id or 0, time.monotonic() + 30
        task = Path(f"/proc/{os.getpid()}/task/{thread}")
        try:
            with stalls.watched(os.getpid(), thread):
                while stalls.look_at(task).call is None and time.monotonic() < deadline:
                    os.sched_yield()
            self.assertEqual(stalls.look_at(task).call, "futex")
        finally:
            is_over.set()
            sleeper.join()


class Record(unittest.TestCase):
    def entry(self, on_s: float, runs: list[dict], **changes: object) -> dict:
        order = [("off", 0.5), ("on", on_s), ("on", on_s), ("off", 0.5)]
        rounds = [measured(name, 1, shards_s, **changes) for name, shards_s in order]
        return record.conclude(500, 600, rounds, runs) | {"skipped": []}

    def test_pairs_are_of_neighbours_whichever_came_first(self) -> None:
        order = [("off", 0.5), ("on", 0.6), ("on", 0.45), ("off", 0.9)]
        found = record.pairs([measured(name, 1, shards_s) for name, shards_s in order])
        costs = [round(pair["shards_cost"], 3) for pair in found]
        self.assertEqual(costs, [0.2, -0.5])
        self.assertEqual([round(pair["log_us"], 3) for pair in found], [10.0, 10.0])
        self.assertAlmostEqual(found[0]["process_cost"], 0.7 / 0.6 - 1)

    def test_the_cost_is_of_the_shards_alone(self) -> None:
        for on_s, void, want in [
            (0.5149, False, "**met**"),
            (0.516, False, "**missed**"),
            (0.4, True, "**void**"),
        ]:
            text = page(self.entry(on_s, [], void=void))
            self.assertIn(want, text, on_s)
            self.assertIn("| 10.0 |", text, "the log's thread is told apart")

    def test_a_percentile_is_unchanged_within_what_equal_runs_differ(self) -> None:
        for slow, usual, want in [
            ([1100, 1100], [1000, 1000], True),
            ([1101, 1101], [1000, 1000], False),
            # No worse than an undisturbed run.
            ([1500, 1500], [1000, 1500], True),
            ([], [1000], None),
        ]:
            runs = [run_of("on, slow disk", p999) for p999 in slow]
            runs += [run_of("on", p999) for p999 in usual] + [run_of("off", 1)]
            self.assertEqual(record.unchanged(runs), want, (slow, usual))

    def test_a_disk_that_was_not_slow_proves_nothing(self) -> None:
        runs = [run_of("on", 1000), run_of("on, slow disk", 1000, syncs_held_up=0)]
        entry = self.entry(0.5, runs)
        self.assertEqual(entry["problems"], ["on, slow disk: no sync was held up"])
        entry = self.entry(0.5, [run_of("on", 1000, errors=2), run_of("on, slow disk", 1000)])
        self.assertEqual(entry["problems"], ["on: 2 requests went wrong"])
        self.assertIn("p99.9 as it was: **met**", page(entry))


if __name__ == "__main__":
    unittest.main()
