"""Tests of the figures of look-ups."""

import unittest
from pathlib import Path
from unittest.mock import Mock, patch

from driver import lookup, report
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


if __name__ == "__main__":
    unittest.main()
