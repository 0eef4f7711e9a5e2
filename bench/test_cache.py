"""Tests of the cache's figures: `python3 bench/test_cache.py`."""

import unittest
from pathlib import Path
from unittest.mock import Mock, patch

from driver import cache_core, cache_http, cache_shards, report
from driver.programs import Bench
from driver.throughput import Rounds

LOCKS = [("none", 1, 100e6, None), ("none", 2, 200e6, None), ("bravo", 1, 40e6, 500), ("bravo", 2, 70e6, 2_500)]
# The rate of one thread, and of two.
LOOKUPS = {"directory": (20e6, 39e6), "std-map": (10e6, 20e6), "quick_cache": (15e6, 3e6)}
LOOKUPS |= {"moka": (5e6, 2e6), "tinyufo": (10e6, 9e6)}
RATIOS = {"directory": 0.50, "quick_cache": 0.51, "moka": 0.45, "tinyufo": 0.53}


def lines(command: str, factor: float) -> list[dict]:
    """What `bench-cache` prints."""
    if command == "hit-ratio":
        return [
            {"kind": kind, "percent": 1, "sizes": sizes, "scans": False}
            | {"hit_ratio": ratio * factor, "hit_ratio_bytes": ratio}
            for sizes in (False, True)
            for kind, ratio in RATIOS.items()
        ]
    if command == "locks":
        return [
            {"kind": kind, "threads": threads, "bytes": 0, "reads_per_write": 100}
            | {"reads_per_second": rate * factor, "write_ns_p99": ns, "write_ns_max": ns}
            for kind, threads, rate, ns in LOCKS
        ]
    return [
        {"kind": kind, "threads": threads, "keys": keys, "bytes": copied}
        | {"reads_per_second": rate * factor, "write_ns_p99": None, "write_ns_max": None}
        for keys, copied in ((1, 1024), (10_000, 0))
        for kind, rates in LOOKUPS.items()
        for threads, rate in zip((1, 2), rates, strict=True)
    ]


def measured() -> dict:
    """An entry of three rounds, of which one was slow."""
    bench = Bench(Path("programs"), Path("folder"), 0, 1, 32)
    factors = iter([factor for factor in (1.0, 0.1, 1.0) for _ in range(3)])
    tool = Mock(side_effect=lambda bench, cores, command, *_: lines(command, next(factors)))
    with patch.object(cache_core, "tool", tool), patch("os.cpu_count", Mock(return_value=2)):
        return cache_core.cache_core(bench, Rounds(3, 1, False, 0), Mock())


class Core(unittest.TestCase):
    def test_figures_are_of_the_median_round(self):
        figures = measured()["figures"]
        self.assertAlmostEqual(figures["scaling"][2][0], 39 / 20 / 2)
        self.assertAlmostEqual(figures["scaling"][2][1], 1.0)
        self.assertAlmostEqual(figures["lookup_ns"], 50.0)
        self.assertAlmostEqual(figures["best_lookup_ns"], 1e9 / 15e6)
        self.assertAlmostEqual(figures["hit_ratio_behind"], 3.0)

    def test_the_page_judges_every_target(self):
        page = report.markdown({"started_at": "now", "machine": {}, "skipped": [], "scenarios": [measured()]})
        self.assertIn("to 2 threads 0.97 of linear (a map that nothing protects 1.00), at least 0.95: met", page)
        self.assertIn("50.0 ns, the best crate 66.7 ns; at most 60 ns and 1.2 of the best: met", page)
        self.assertIn("at most 3.0 points below the best crate", page)
        self.assertIn("at most 2: missed", page)
        self.assertIn("| bravo | 40.0 | 70.0 | 2.5 |", page)


def hit(name: str, number: int, per_cpu_s: float, **others: object) -> dict:
    """A round of one cache."""
    figures = {"answers": 40_000, "errors": 0, "rate": 40_000.0, "latency_us": {"p50": 40, "p999": 900}}
    found = {"cache": name, "round": number, "per_cpu_s": per_cpu_s}
    return found | figures | others


class Hits(unittest.TestCase):
    def test_shares_are_of_rounds_and_targets_are_judged(self):
        measured = [
            hit(name, number, rate * speed, bytes=size)
            for number, speed in ((1, 1.0), (2, 0.5), (3, 1.0))
            for size in cache_http.SIZES
            for name, rate in (("vickrey", 80e3), ("hyper", 100e3), ("nginx", 50e3))
        ]
        entry = cache_http.conclude(["vickrey", "hyper", "nginx"], measured, ["varnishd is not installed"])
        page = report.markdown({"started_at": "now", "machine": {}, "skipped": [], "scenarios": [entry]})
        self.assertIn("| vickrey | 1024 | 80,000 | 40 | 900 | – | – |", page)
        self.assertIn("| hyper | 1024 | 100,000 | 40 | 900 | 0.80 | at least 0.85: missed |", page)
        self.assertIn("| nginx | 0 | 50,000 | 40 | 900 | 1.60 | at least 1.4: met |", page)
        self.assertIn("Left out: varnishd is not installed.", page)
        self.assertFalse(entry["void"] or entry["problems"])

    def test_a_generator_that_falls_behind_voids_the_figures(self):
        slow = [
            hit(name, 1, 80e3, bytes=size, rate=30_000.0, errors=10_000, latency_us={})
            for size in cache_http.SIZES
            for name in ("vickrey", "hyper")
        ]
        entry = cache_http.conclude(["vickrey", "hyper"], slow, [])
        self.assertTrue(entry["void"])
        self.assertEqual(len(entry["problems"]), 4)


class Shards(unittest.TestCase):
    def test_each_is_a_share_of_one_shard_in_its_round(self):
        rounds = [
            {"round": number, "cache": name, "shards": shards, "rate": 40e3 * shards, "errors": 0}
            | {"per_cpu_s": one * share, "p999_us": 700}
            for number, one in ((1, 80e3), (2, 40e3), (3, 80e3))
            for name, shares in (("vickrey", (1.0, 0.9)), ("hyper", (1.0, 0.98)))
            for shards, share in zip((1, 8), shares, strict=True)
        ]
        entry = cache_shards.conclude([1, 8], rounds)
        page = report.markdown({"started_at": "now", "machine": {}, "skipped": [], "scenarios": [entry]})
        self.assertIn("| vickrey | 8 | 320,000 | 72,000 | 700 | 0.90 | at least 0.95: missed |", page)
        self.assertIn("| hyper | 8 | 320,000 | 78,400 | 700 | 0.98 | – |", page)
        self.assertFalse(entry["void"] or entry["problems"])
        rounds[1]["rate"] = 200e3
        self.assertTrue(cache_shards.conclude([1, 8], rounds)["void"])


class Storms(unittest.TestCase):
    def test_each_is_a_multiple_of_the_quiet_one_of_its_round(self):
        rounds = [
            {"round": number, "storm": storm, "errors": 0, "latency_us": {"p50": 40, "p999": quiet * factor}}
            for number, quiet in ((1, 1_000), (2, 400), (3, 1_000))
            for storm, factor in ((None, 1), ("misses", 1.5), ("purges", 1), ("evictions", 3), ("disk", 1), ("slow syncs", 2.5))
        ]
        entry = cache_http.conclude_storms(rounds)
        page = report.markdown({"started_at": "now", "machine": {}, "skipped": [], "scenarios": [entry]})
        self.assertIn("| quiet | 40 | 1000 | – | – |", page)
        self.assertIn("| misses | 40 | 1500 | 1.50 | met |", page)
        self.assertIn("| evictions | 40 | 3000 | 3.00 | missed |", page)
        self.assertIn("| disk | 40 | 1000 | 1.00 | met |", page)
        self.assertIn("| slow syncs | 40 | 2500 | 2.50 | missed |", page)


if __name__ == "__main__":
    unittest.main()
