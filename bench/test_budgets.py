"""Tests of the scenarios of budgets: `python3 bench/test_budgets.py`."""

import json
import unittest

from driver import budgets, report


def line(who: str, nanos: float, allocations: int = 0) -> dict:
    """What bench-pacer prints of a round."""
    steps = {f"{step}_ns": nanos for step in budgets.STEPS}
    return {"round": 1, "who": who, "campaigns": 10, "open": 5, "allocations": allocations} | steps


def page(entry: dict) -> str:
    """An entry as it is written down, once through JSON."""
    whole = {"started_at": "now", "machine": {"cores": 2}, "skipped": [], "scenarios": [entry]}
    return report.markdown(json.loads(json.dumps(whole)))


class Core(unittest.TestCase):
    def test_the_verdict_is_of_the_slowest_step_and_of_allocations(self) -> None:
        others = [line("counters", 1.0), line("map", 500.0)]
        for nanos, allocations, want in [(40.0, 0, "met"), (40.1, 0, "missed"), (1.0, 1, "missed")]:
            entry = budgets.core_entry([line("shard", nanos, allocations), *others])
            self.assertIn(want, page(entry))
            self.assertEqual(entry["is_met"], want == "met")

    def test_a_figure_is_the_middle_of_all_rounds(self) -> None:
        lines = [line("shard", nanos) for nanos in (30.0, 20.0, 90.0)]
        lines += [line("counters", 1.0), line("map", 2.0)]
        self.assertEqual(budgets.core_entry(lines)["rows"][0]["reserve"], 30.0)


class Store(unittest.TestCase):
    def test_each_load_is_beside_raw_syncs_of_its_bytes(self) -> None:
        def measured(who: str, leases: int, in_flight: int, rate: float) -> dict:
            load = {"who": who, "leases": leases, "in_flight": in_flight, "ms_p99": 3.0}
            return load | {"batches_per_s": rate, "commits_per_s": rate}

        lines = [measured("store", 1, 1, 100.0), measured("store", 1, 16, 900.0)]
        lines += [measured("raw", 1, 1, 400.0), measured("raw, synced twice", 1, 1, 200.0)]
        rows = budgets.store_rows(lines)
        rates = [(row["in_flight"], row["store"], row["raw"]) for row in rows]
        self.assertEqual(rates, [(1, 100.0, 400.0), (16, 900.0, 400.0)])
        entry = {"name": "budget-store", "kind": "budget_store", "title": "t", "rows": rows}
        self.assertIn("| 900 |", page(entry | {"rounds": lines, "problems": []}))


if __name__ == "__main__":
    unittest.main()
