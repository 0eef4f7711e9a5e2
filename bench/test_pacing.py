"""Tests of the scenario of pacing: `python3 bench/test_pacing.py`."""

import json
import unittest

from driver import pacing, report


def run(seed: int, own: float, other: float, **changes: object) -> dict:
    """A run of one kind and budget."""
    values = {pacing.DEFAULT: own, **dict.fromkeys(pacing.PEERS, other)}
    figures = {"slot_ms": 60_000, "rmse": 0.01 * seed, "delivery": 0.999, "overspent_nanos": 0}
    kind = {"profile": "flat", "auctions": 10, "share": "1/8", "seed": seed, "hourly": 0.98}
    return kind | figures | {"values": values} | changes


def page(entry: dict) -> str:
    """The page of an entry after one pass through JSON."""
    whole = {"started_at": "now", "machine": {"cores": 2}, "skipped": [], "scenarios": [entry]}
    return report.markdown(json.loads(json.dumps(whole)))


class Rows(unittest.TestCase):
    def test_a_row_is_of_the_mean_and_the_worst_of_its_seeds(self) -> None:
        runs = [run(1, 0.98, 0.97), run(2, 0.96, 0.99, delivery=0.995)]
        (row,) = pacing.rows_of(runs)
        self.assertAlmostEqual(row["values"][pacing.DEFAULT], 0.97)
        self.assertAlmostEqual(row["ahead"], -0.01)
        self.assertEqual((row["rmse_max"], row["delivery_min"]), (0.02, 0.995))

    def test_each_target_is_told_when_it_is_missed(self) -> None:
        for changed, want in [
            (run(1, 0.975, 0.9799), []),
            (run(1, 0.975, 0.9801), ["behind"]),
            (run(1, 0.97, 0.97), ["of hindsight by the hour"]),
            (run(1, 0.98, 0.98, delivery=0.9899), ["delivery"]),
            (run(1, 0.98, 0.98, overspent_nanos=1), ["overspent"]),
        ]:
            (row,) = pacing.rows_of([changed])
            self.assertEqual(row["missed"], want)
            verdict = f"missed: {want[0]}" if want else "| met |"
            self.assertIn(verdict, page(pacing.entry_of([changed])))

    def test_what_was_overspent_is_a_problem(self) -> None:
        runs = [run(1, 0.98, 0.98), run(2, 0.98, 0.98, overspent_nanos=5)]
        self.assertEqual(pacing.entry_of(runs)["problems"], ["flat 1/8: overspent"])
        self.assertEqual(pacing.entry_of(runs[:1])["problems"], [])

    def test_kinds_are_met_once(self) -> None:
        self.assertEqual(len(set(pacing.KINDS)), len(pacing.KINDS))


if __name__ == "__main__":
    unittest.main()
