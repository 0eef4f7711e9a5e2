"""Tests of the cache's figures: `python3 bench/test_cache.py`."""

import unittest
from pathlib import Path
from unittest.mock import Mock, patch

from driver import cache_core, report
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


if __name__ == "__main__":
    unittest.main()
