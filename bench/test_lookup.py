"""Tests of the figures of look-ups."""

import unittest
from pathlib import Path
from unittest.mock import Mock, patch

from driver import enrichment, lookup, lookup_soak, lookups, report
from driver.figures import Sample
from driver.programs import Bench
from driver.throughput import Rounds

RATES = {"skipped": 5e6, "values": 1e6, "read": 2e6, "merged": 2e6, "read and merged": 9e5}


def lines(command: str, factor: float) -> list[dict]:
    """What `bench-lookup` prints."""
    if command == "lane":
        return [{"kind": "lane", "calls": 1, "calls_per_second": 2e6 * factor}]
    return [{"kind": kind, "records_per_second": rate * factor} for kind, rate in RATES.items()]


class Core(unittest.TestCase):
    def test_figures_are_of_the_median_round_and_targets_are_judged(self):
        bench = Bench(Path("programs"), Path("folder"), 0, 1, 32)
        factors = iter([1.0, 1.0, 0.1, 0.1, 1.0, 1.0])
        tool = Mock(side_effect=lambda bench, command: lines(command, next(factors)))
        with patch.object(lookup, "tool", tool):
            entry = lookup.lookup_core(bench, Rounds(3, 1, False, 0), Mock())
        page = report.markdown({"started_at": "now", "machine": {}, "skipped": [], "scenarios": [entry]})
        self.assertIn("| read and merged | 900,000 | 0.90 |", page)
        self.assertIn("900,000 records per second, at least 500,000: met", page)
        self.assertIn("2,000,000 per second, at least 10,000: met", page)
        slow = entry | {"figures": entry["figures"] | {"read and merged": 4e5}}
        page = report.markdown({"started_at": "now", "machine": {}, "skipped": [], "scenarios": [slow]})
        self.assertIn("400,000 records per second, at least 500,000: missed", page)


def found(**changes: object) -> dict:
    """What the experiments found, all within their targets."""
    run = {"failures": 0, "attempts": lookups.CALLS, "overshot": 0, "concurrent_max": 10, "elapsed_s": 11.0}
    return {
        "overloaded": {"known": [run], "unknown": [run | {"overshot": 100}]},
        "das": run | {"failures": 7, "elapsed_s": 53.5},
        "late_ms": [1.0, 2.0, 3.0],
        "dispatched": [20_000.0],
        "known": [{"bytes": 500, "own": 40_000.0, "bare": 50_000.0}],
        "polled": {"records": 80_100, "waits_ms": [1.0, 200.0], "polls_ms": [3.0, 4.0]},
        "memory": {"grown": 100 << 20, "answers": 50 << 20},
    } | changes


class Service(unittest.TestCase):
    def page(self, **changes: object) -> str:
        entry = {"name": "lookup", "kind": "lookup_service", "title": "queries", "problems": []}
        entry |= {"found": found(**changes)}
        return report.markdown({"started_at": "now", "machine": {}, "skipped": [], "scenarios": [entry]})

    def test_the_targets_of_the_service_are_judged(self):
        page = self.page()
        self.assertNotIn("missed", page)
        self.assertIn("das2go's design | 7 of 50 lack something, 0 above the limit, 5.00 of the least time", page)
        self.assertNotIn("das2go", self.page(das=None))
        self.assertIn("| calls per CPU-second | 20,000 | at least 10,000 | met |", page)
        self.assertIn("| 0.80 | at least 0.5 | met |", page)
        worse = {"failures": 1, "attempts": 6_000, "overshot": 1, "concurrent_max": 11, "elapsed_s": 20.0}
        page = self.page(overloaded={"known": [worse], "unknown": [worse]}, late_ms=[6.0], dispatched=[9_999.0])
        # In both: failures, attempts and time; a known limit, the deadline, and the calls.
        self.assertEqual(page.count("missed"), 2 * 3 + 3)
        page = self.page(memory={"grown": 165 << 20, "answers": 50 << 20})
        self.assertIn("of 50 MiB | 165 MiB | at most 164 MiB | missed |", page)


class Enrichment(unittest.TestCase):
    def page(self, is_void: bool = False, **loop: float) -> str:
        entry = {
            "void": is_void,
            "name": "enrichment",
            "kind": "enrichment",
            "title": "three enrichments",
            "loop": {"added_ns_mean": 8_000, "found_ns_p99": 9_000, "with_edits_ns_p99": 12_000} | loop,
            "auctions_per_cpu_s": {"without": 1_000.0, "with": 990.0},
            "coverage": 0.9995,
            "problems": [],
        }
        return report.markdown({"started_at": "now", "machine": {}, "skipped": [], "scenarios": [entry]})

    def test_cost_is_judged_as_time_and_as_share_of_an_auction(self):
        page = self.page()
        self.assertIn("| 12.0 µs | at most 20 µs | met |", page)
        self.assertIn("| 0.80% | at most 2% | met |", page)
        self.assertIn("1,000 per CPU-second without them, 990 with them, 0.990 of it", page)
        # The loop's own figure needs no testbed.
        page = self.page(is_void=True)
        self.assertIn("| 0.80% | at most 2% | void |", page)
        self.assertIn("(VOID:", page)
        self.assertEqual(self.page(added_ns_mean=20_001, with_edits_ns_p99=20_001).count("missed"), 2)

    def test_coverage_counts_what_could_be_added(self):
        counts = {"added": 90.0, "stale": 5.0, "unknown": 5.0, "no_value": 100.0}
        samples = [
            Sample("vickrey_exchange_enrichments_total", {"enrichment": "a", "outcome": outcome}, value)
            for outcome, value in counts.items()
        ]
        self.assertEqual(enrichment.coverage(samples), 0.95)


class Soak(unittest.TestCase):
    def test_growth_is_of_the_time_after_the_stores_are_full(self):
        def grown(*kib: int) -> float:
            return lookup_soak.growth(list(enumerate(kib)))

        # The first two of ten fill the stores.
        self.assertEqual(grown(1, 500, 1_000, 990, 1_000, 995, 1_000, 990, 1_000, 1_000), 0.0)
        self.assertAlmostEqual(grown(1, 500, 1_000, 1_000, 1_000, 1_000, 1_050, 1_060, 1_080, 1_100), 0.1)

    def test_the_target_is_judged(self):
        entry = {
            "name": "lookup-soak", "kind": "lookup_soak", "title": "memory", "problems": [],
            "asked": 1_000, "answered": 1_000, "growth": 0.04,
            "samples": [{"at_s": 0.0, "kib": 1 << 14}, {"at_s": 60.0, "kib": 1 << 16}],
        }

        def page(**changes: object) -> str:
            scenarios = [entry | changes]
            return report.markdown({"started_at": "now", "machine": {}, "skipped": [], "scenarios": scenarios})

        self.assertIn("| +4.0% | at most +5% | met |", page())
        self.assertIn("| 16 and 64 MiB |", page())
        self.assertIn("missed", page(growth=0.06))
        self.assertIn("missed", page(answered=999))


if __name__ == "__main__":
    unittest.main()
