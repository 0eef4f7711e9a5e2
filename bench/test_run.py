"""Tests of the driver's arithmetic: `python3 bench/test_run.py`."""

import json
import math
import unittest

from driver import figures, report, scenarios, throughput
from driver.figures import CoreTimes
from driver.machine import ProcessTimes, Reading, label
from driver.programs import FleetOptions

PROC_STAT = """\
cpu  300 0 100 1600 0 0 0 0 0 0
cpu0 100 10 50 800 20 5 5 10 40 0
cpu1 200 0 50 800 0 0 0 0 0 0
"""

PAGE = """\
# TYPE exchange_dsp_calls counter
exchange_dsp_calls_total{dsp="dsp-0",outcome="answered"} 7
exchange_dsp_calls_total{dsp="dsp-1",outcome="answered"} 5
exchange_dsp_calls_total{dsp="dsp-1",outcome="no_bid"} 9
exchange_overshoot_seconds_sum 0.004
exchange_overshoot_seconds_count 3
exchange_overshoot_seconds_bucket{le="0.001024"} 2
exchange_overshoot_seconds_bucket{le="0.002048"} 3
exchange_overshoot_seconds_bucket{le="+Inf"} 3
# EOF
"""


class Cores(unittest.TestCase):
    def test_a_core_is_read_without_guest_time(self) -> None:
        self.assertEqual(
            figures.core_times(PROC_STAT, 0), CoreTimes(busy=180, steal=10, total=1000)
        )
        self.assertEqual(figures.core_times(PROC_STAT, 1), CoreTimes(busy=250, steal=0, total=1050))
        with self.assertRaisesRegex(ValueError, "no core 2"):
            figures.core_times(PROC_STAT, 2)

    def test_shares_are_of_the_time_between_readings(self) -> None:
        check = self.assertEqual
        before = CoreTimes(busy=100, steal=10, total=1000)
        #                                                 busy  steal  total
        check(figures.busy_share(before, CoreTimes(180, 10, 1100)), 0.8)
        check(figures.busy_share(before, before), 0.0)
        check(figures.steal_share(before, CoreTimes(180, 15, 1100)), 0.05)

    def test_processes_are_read_past_their_names(self) -> None:
        stat = "42 (a (b) c) S 1 42 42 0 -1 0 0 0 0 0 120 34 0 0 20 0 5 0 100 0 0"
        self.assertEqual(figures.user_system_ticks(stat), (120, 34))
        self.assertEqual(figures.schedstat_ns(["1500 20 3\n", "500 0 1\n"]), 2000)

    def test_a_label_names_the_machine_and_nothing_else(self) -> None:
        self.assertEqual(label({"cpu": "AMD EPYC", "cores": 2}), "amd-epyc-2c")
        model = "Intel(R) Xeon(R) CPU E5-2690 v4 @ 2.60GHz"
        self.assertEqual(label({"cpu": model, "cores": 8}), "intel-xeon-cpu-e5-2690-v4-8c")


class VoidRule(unittest.TestCase):
    def test_the_edge(self) -> None:
        for busy, want in [(0.0, False), (0.80, False), (0.801, True), (1.0, True)]:
            self.assertEqual(figures.is_void(busy), want, busy)

    def test_latency_rises_until_the_loop_sends_less(self) -> None:
        #  latency  answers/s  own busy   want: 60 % of 32 / (answers/s * 0.72 / busy), or a tenth
        #  more, or the same where others were the cause
        for latency_ms, answers_per_s, own_busy, want in [
            (0, 2000, 1.00, 13),
            (0, 20000, 1.00, 1),
            (13, 1900, 0.95, 14),
            (40, 700, 0.85, 44),
            (40, 700, 0.73, 44),
            (40, 700, 0.72, 40),
            (7, 0, 0.90, 7),
        ]:
            found = figures.next_latency_ms(latency_ms, 32, answers_per_s, own_busy)
            self.assertEqual(found, want, (latency_ms, answers_per_s, own_busy))


class Statistics(unittest.TestCase):
    def test_spread(self) -> None:
        want = {"median": 100.0, "min": 90.0, "max": 120.0, "spread": 0.3}
        self.assertEqual(figures.spread([120.0, 90.0, 100.0]), want)
        self.assertEqual(figures.spread([4.0, 6.0])["median"], 5.0)
        self.assertEqual(figures.spread([0.0])["spread"], 0.0)

    def test_ratio_and_slope(self) -> None:
        self.assertEqual(figures.ratio(80, 100), 0.8)
        self.assertIsNone(figures.ratio(80, 0))
        self.assertEqual(figures.slope([(0, 10), (10, 30), (20, 50)]), 2.0)
        self.assertEqual(figures.slope([(0, 10)]), 0.0)
        self.assertEqual(figures.slope([(3, 10), (3, 20)]), 0.0)


class Outputs(unittest.TestCase):
    def test_metrics_are_summed_by_label(self) -> None:
        samples = figures.metrics(PAGE)
        self.assertEqual(figures.total(samples, "exchange_dsp_calls_total"), 21)
        self.assertEqual(figures.total(samples, "exchange_dsp_calls_total", dsp="dsp-1"), 14)
        sums = figures.sums_by(samples, "exchange_dsp_calls_total", "outcome")
        self.assertEqual(sums, {"answered": 12, "no_bid": 9})

    def test_counts_between_two_pages(self) -> None:
        before, after = (
            figures.metrics(page) for page in (PAGE, PAGE.replace('"no_bid"} 9', '"no_bid"} 11'))
        )
        counted = figures.since(before, after)
        self.assertEqual(figures.total(counted, "exchange_dsp_calls_total", outcome="no_bid"), 2)
        self.assertEqual(figures.total(counted, "exchange_dsp_calls_total"), 2)
        self.assertEqual(figures.since([], after), after)

    def test_overshoot_counts_auctions_in_time_as_zero(self) -> None:
        samples = figures.metrics(PAGE)
        #    auctions  p50  p99   p99.9  max
        for auctions, p50, p99, p999, most in [
            (3, 1024, 2048, 2048, 2048),
            (100, 0, 1024, 2048, 2048),
            (1000, 0, 0, 1024, 2048),
            (100_000, 0, 0, 0, 2048),
        ]:
            found = figures.overshoot_us(samples, auctions)
            want = {"missed": 3, "p50": p50, "p99": p99, "p999": p999, "max": most}
            self.assertEqual({name: round(value) for name, value in found.items()}, want)
        beyond = figures.metrics(PAGE.replace('"0.002048"} 3', '"0.002048"} 2'))
        self.assertEqual(figures.overshoot_us(beyond, 3)["max"], math.inf)

    def test_totals_of_programs(self) -> None:
        said = (
            "50 DSPs listen\n90 requests: 27 bids, 60 no bids, 2 late, 3 malformed; 2.8 s of CPU\n"
        )
        want = {"requests": 90, "bids": 27, "no_bids": 60, "late": 2, "malformed": 3}
        self.assertEqual(figures.fleet_totals(said), want)
        with self.assertRaisesRegex(ValueError, "without their totals"):
            figures.fleet_totals("50 DSPs listen\n")
        said = "warning: x\nauctions 9 cpu_s 1.5 auctions_per_cpu_s 6\n"
        self.assertEqual(
            figures.name_value_pairs(said), {"auctions": 9, "cpu_s": 1.5, "auctions_per_cpu_s": 6}
        )
        self.assertEqual(figures.name_value_pairs("nothing"), {})

    def test_tables_of_tools(self) -> None:
        strace = (
            "% time     seconds  usecs/call     calls    errors syscall\n"
            "------ ----------- ----------- --------- --------- ----------------\n"
            " 60.81    0.275911          11     25000           writev\n"
            "  0.05    0.000207           6        33         1 accept4\n"
            "100.00    0.453756           8     25033         1 total\n"
        )
        self.assertEqual(figures.strace_calls(strace), {"writev": 25000, "accept4": 33})
        perf = (
            "# started\n\n"
            "<not supported>,,cycles,0,100.00,,\n"
            "29,,raw_syscalls:sys_enter,1,100.00,,\n"
        )
        self.assertEqual(figures.perf_counts(perf), {"raw_syscalls:sys_enter": 29.0})

    def test_prompt_answers_must_all_be_counted(self) -> None:
        dsps = {"requests": 100, "bids": 30, "no_bids": 70, "late": 4, "malformed": 0}
        for answered, no_bid, want in [(28, 68, 0), (27, 68, 1)]:
            calls = {"answered": answered, "no_bid": no_bid, "late": 4}
            self.assertEqual(scenarios.counted(dsps, calls)["not_counted"], want)


def reading(at_s: float, server_s: float, busy: int) -> Reading:
    """Cores of 100 ticks a second; the fleet uses half of its core."""
    core = CoreTimes(busy=busy, steal=0, total=int(100 * at_s))
    server, fleet = (ProcessTimes(s, s / 4, s * 3 / 4) for s in (server_s, at_s / 2))
    return Reading(at_s, server, fleet, server_core=core, testbed_core=core)


def hammer_report(no_bid: int) -> dict:
    """A report of 1000 requests, 10 of which went wrong."""
    counts = {"sent": 995, "unsent": 5, "ok_bid": 990 - no_bid, "no_bid": no_bid, "nbr": 0}
    times = {"p50": 900, "p90": 950, "p99": 1000, "p999": 2000, "max": 3000}
    return {
        "counts": counts,
        "answers_per_s": 250.0,
        "latency_us": times,
        "overshoot_us": None,
        "generator_busy_ppm": 100_000,
    }


class Windows(unittest.TestCase):
    def test_a_figure_is_of_the_window_alone(self) -> None:
        found = throughput.window(reading(10, 2.0, 500), reading(14, 4.0, 840), hammer_report(90))
        self.assertEqual((found["auctions"], found["errors"]), (990, 10))
        self.assertEqual((found["cpu_s"], found["auctions_per_cpu_s"]), (2.0, 495.0))
        self.assertEqual((found["server_busy"], found["testbed_core_busy"]), (0.5, 0.85))
        self.assertEqual((found["server_core_others"], found["testbed_core_others"]), (0.35, 0.25))
        self.assertEqual((found["system_share"], found["void"]), (0.75, True))

    def test_medians_are_set_against_the_floor_and_written_down(self) -> None:
        scenario = throughput.Scenario("dsps-50", "title", FleetOptions(50), 0.80)
        rounds = []
        for number, program, figure in [(1, "floor", 100), (1, "vickrey", 70), (2, "floor", 110)]:
            found = throughput.window(
                reading(10, 2.0, 500), reading(14, 4.0, 700), hammer_report(0)
            )
            head = {"program": program, "round": number, "calls_lost": {}}
            rounds.append(found | head | {"auctions_per_cpu_s": figure})
        entry = throughput.conclude(scenario, FleetOptions(50, latency_ms=7), 32, rounds)
        self.assertEqual(entry["auctions_per_cpu_s"]["floor"]["median"], 105)
        self.assertAlmostEqual(entry["auctions_per_cpu_s"]["vickrey"]["of_floor"], 70 / 105)
        self.assertEqual((entry["void"], len(entry["problems"])), (False, 3))
        rounds[1]["calls_lost"] = {"late": 990}
        want = ["vickrey, round 1: 2% of calls to DSPs came to nothing"]
        self.assertEqual(throughput.notes(50, rounds), want)
        page = {"started_at": "now", "machine": {"cores": 2}, "skipped": [], "scenarios": [entry]}
        text = report.markdown(json.loads(json.dumps(page)))
        for part in [
            "each after 7 ms",
            "≥ 0.80: missed",
            "| 0.667 |",
            "10 of 1000 requests went wrong",
        ]:
            self.assertIn(part, text)


if __name__ == "__main__":
    unittest.main()
