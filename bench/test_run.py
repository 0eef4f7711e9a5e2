"""Tests of the driver's arithmetic: `python3 bench/test_run.py`."""

import io
import json
import math
import tempfile
import tomllib
import unittest
from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest.mock import Mock

from driver import figures, hostile, overload, reload, report, scenarios, throughput, variants
from driver.figures import CoreTimes
from driver.machine import ProcessTimes, Reading, label
from driver.programs import Child, Fleet, FleetOptions, Load, Terms, floor_arguments

PROC_STAT = """\
cpu  300 0 100 1600 0 0 0 0 0 0
cpu0 100 10 50 800 20 5 5 10 40 0
cpu1 200 0 50 800 0 0 0 0 0 0
"""

PAGE = """\
# TYPE vickrey_exchange_dsp_calls counter
vickrey_exchange_dsp_calls_total{dsp="dsp-0",outcome="answered"} 7
vickrey_exchange_dsp_calls_total{dsp="dsp-1",outcome="answered"} 5
vickrey_exchange_dsp_calls_total{dsp="dsp-1",outcome="no_bid"} 9
vickrey_exchange_overshoot_seconds_sum 0.004
vickrey_exchange_overshoot_seconds_count 3
vickrey_exchange_overshoot_seconds_bucket{le="0.001024"} 2
vickrey_exchange_overshoot_seconds_bucket{le="0.002048"} 3
vickrey_exchange_overshoot_seconds_bucket{le="+Inf"} 3
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
        self.assertEqual(figures.total(samples, "vickrey_exchange_dsp_calls_total"), 21)
        self.assertEqual(figures.total(samples, "vickrey_exchange_dsp_calls_total", dsp="dsp-1"), 14)
        sums = figures.sums_by(samples, "vickrey_exchange_dsp_calls_total", "outcome")
        self.assertEqual(sums, {"answered": 12, "no_bid": 9})

    def test_counts_between_two_pages(self) -> None:
        before, after = (
            figures.metrics(page) for page in (PAGE, PAGE.replace('"no_bid"} 9', '"no_bid"} 11'))
        )
        counted = figures.since(before, after)
        self.assertEqual(figures.total(counted, "vickrey_exchange_dsp_calls_total", outcome="no_bid"), 2)
        self.assertEqual(figures.total(counted, "vickrey_exchange_dsp_calls_total"), 2)
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
            "50 DSPs listen\n"
            "90 requests: 27 answered with 28 bids, 60 without, 2 late, 3 malformed; 2.8 s of CPU\n"
        )
        want = {"requests": 90, "bid_answers": 27, "bids": 28, "no_bids": 60}
        want |= {"late": 2, "malformed": 3}
        self.assertEqual(figures.fleet_totals(said), want)
        with self.assertRaisesRegex(ValueError, "without their totals"):
            figures.fleet_totals("50 DSPs listen\n")
        said = "warning: x\nauctions 9 cpu_s 1.5 auctions_per_cpu_s 6\n"
        self.assertEqual(
            figures.name_value_pairs(said), {"auctions": 9, "cpu_s": 1.5, "auctions_per_cpu_s": 6}
        )
        self.assertEqual(figures.name_value_pairs("nothing"), {})

    def test_notices_of_dsps(self) -> None:
        said = (
            "9 requests fell on sick phases\n"
            "7 calls of nurl: 5 counted, 1 failed, 0 malformed, 1 repeated, 0 overpriced\n"
            "2 calls of lurl: 2 counted, 0 failed, 0 malformed, 0 repeated, 0 overpriced\n"
        )
        found = figures.fleet_notices(said)
        self.assertEqual(list(found), ["nurl", "lurl"])
        want = {"counted": 5, "failed": 1, "malformed": 0, "repeated": 1, "overpriced": 0}
        self.assertEqual(found["nurl"], want)
        self.assertEqual(figures.fleet_notices("nothing"), {})

    def test_dsps_are_chosen_by_their_ids(self) -> None:
        page = PAGE.replace('dsp="dsp-1"', 'dsp="hostile-1"')
        samples = figures.metrics(page)
        name = "vickrey_exchange_dsp_calls_total"
        check = self.assertEqual
        check(figures.total_of(samples, name, "dsp-"), 7)
        check(figures.total_of(samples, name, "hostile-"), 14)
        check(figures.total_of(samples, name, "hostile-", outcome="answered"), 5)
        check(hostile.calls_of(samples, "hostile"), {"answered": 5, "no_bid": 9})
        check(figures.asked_share(samples, 7, 3), 1.0)
        check(figures.asked_share([], 7, 3), None)
        check(figures.kind_of_thread("shard-11"), "shard")
        check(figures.kind_of_thread("log"), "log")

    def test_bodies_are_as_long_as_their_heads_say(self) -> None:
        message = b"POST / HTTP/1.1\r\nContent-Length: 3\r\nx: y\r\n\r\n{ }rest"
        self.assertEqual(figures.http_body(io.BytesIO(message)), b"{ }")
        with self.assertRaisesRegex(ValueError, "ended in its head"):
            figures.http_body(io.BytesIO(message[:20]))

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
    """Cores with 100 ticks per second; the fleet uses half of its core."""
    core = CoreTimes(busy=busy, steal=0, total=int(100 * at_s))
    server, fleet = (ProcessTimes(s, s / 4, s * 3 / 4) for s in (server_s, at_s / 2))
    return Reading(at_s, server, fleet, server_core=core, testbed_core=core)


def hammer_report(no_bid: int) -> dict:
    """A report of 1000 requests, 10 of which failed."""
    counts = {"sent": 995, "unsent": 5, "ok_bid": 990 - no_bid, "no_bid": no_bid, "nbr": 0}
    counts |= {"beacons": 0, "beacons_failed": 0, "after_tmax": 0}
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
            head = {"program": program, "round": number, "calls_lost": {}, "asked": None}
            rounds.append(found | head | {"auctions_per_cpu_s": figure})
        entry = throughput.conclude(scenario, FleetOptions(50, latency_ms=7), 32, rounds)
        self.assertEqual(entry["auctions_per_cpu_s"]["floor"]["median"], 105)
        self.assertAlmostEqual(entry["auctions_per_cpu_s"]["vickrey"]["of_floor"], 70 / 105)
        self.assertEqual((entry["void"], len(entry["problems"])), (False, 3))
        rounds[1]["calls_lost"] = {"late": 990}
        want = ["vickrey, round 1: 2% of calls to DSPs came to nothing"]
        self.assertEqual(throughput.notes(50, rounds), want)
        want = ["x: DSPs were asked 99.8% of the time"]
        for asked, void, told in [(None, False, []), (0.999, False, []), (0.998, False, want)] + [
            (0.998, True, [])
        ]:
            self.assertEqual(throughput.not_asked("x", {"asked": asked, "void": void}), told)
        page = {"started_at": "now", "machine": {"cores": 2}, "skipped": [], "scenarios": [entry]}
        text = report.markdown(json.loads(json.dumps(page)))
        for part in [
            "each after 7 ms",
            "≥ 0.80: missed",
            "| 0.667 |",
            "10 of 1000 requests went wrong",
        ]:
            self.assertIn(part, text)


class Verdicts(unittest.TestCase):
    """The hammer's observations are in every verdict."""

    def test_costs(self) -> None:
        scenario = throughput.Scenario("dsps-50", "title", FleetOptions(50), 0.80)
        for figure, errors, void, want in [
            (80, 0, False, "met"),
            (79, 0, False, "missed"),
            (80, 0, True, "void"),
            (80, 3, False, "missed, 3 requests went wrong"),
            (80, 3, True, "void, 3 requests went wrong"),
        ]:
            rounds = []
            for program, cost, wrong in [("floor", 100, 1), ("vickrey", figure, errors)]:
                found = throughput.window(
                    reading(10, 2.0, 500), reading(14, 4.0, 700), hammer_report(0)
                )
                found |= {"program": program, "round": 1, "calls_lost": {}, "asked": None}
                rounds.append(found | {"errors": wrong, "auctions_per_cpu_s": cost, "void": void})
            entry = throughput.conclude(scenario, FleetOptions(50), 32, rounds)
            told = report.medians(entry, "vickrey")["target"]
            self.assertEqual(told, f"≥ 0.80: {want}", (figure, errors, void))

    def test_latency(self) -> None:
        for exchange_us, hammer_us, errors, want in [
            (1000, 1000, 0, True),
            (1024, 0, 0, False),
            (0, 1001, 0, False),
            (0, 0, 1, False),
        ]:
            run = {"overshoot_exchange_us": times(exchange_us, 5000), "errors": errors}
            run |= {"overshoot_hammer_us": times(hammer_us, 5000)}
            self.assertEqual(scenarios.is_in_time(run), want, (exchange_us, hammer_us, errors))

    def test_memory(self) -> None:
        entry = {"name": "memory", "title": "title", "target_mib": 100, "samples": []}
        entry |= {"first_kib": 1024, "last_kib": 2048, "slope_kib_per_minute": 0.0}
        for max_kib, errors, want in [
            (102_400, 0, "| 0 | ≤ 100 MiB: met |"),
            (102_401, 0, "| 0 | ≤ 100 MiB: missed |"),
            (102_400, 7, "| 7 | ≤ 100 MiB: missed |"),
        ]:
            text = report.memory(entry | {"max_kib": max_kib, "errors": errors})
            self.assertIn(want, text)


PROFILES = """\
seed = 1

[[dsp]]
count = 40
bids = "30%"
notices = true

# Never answers.
[[dsp]]
count = 2

[[dsp.phase]]
kind = "hang"

[[dsp]]

[[dsp.phase]]
kind = "reset"
"""

DSPS = """\
[[dsp]]
id = "dsp-0"
url = "http://127.0.0.1:1/bid"
seats = ["seat-0"]

[[dsp]]
id = "dsp-1"
url = "http://127.0.0.1:2/bid"
seats = ["seat-1"]

"""


class Configurations(unittest.TestCase):
    def fleet(self, options: FleetOptions) -> Fleet:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "dsps.toml").write_text(DSPS)
        child = Mock(spec=Child)
        return Fleet(child, options, folder / "dsps.toml", folder / "urls", folder / "ca.pem")

    def test_hostile_dsps_are_told_from_healthy_ones(self) -> None:
        healthy, sick = hostile.fleets_of(PROFILES)
        self.assertEqual((healthy.dsps, healthy.name), (40, "dsp"))
        self.assertEqual((sick.dsps, sick.name), (3, "hostile"))
        for side, groups in ((healthy, 1), (sick, 2)):
            read = tomllib.loads(side.profile_file())
            self.assertEqual((read["seed"], len(read["dsp"])), (1, groups))
            self.assertEqual(any("phase" in dsp for dsp in read["dsp"]), side is sick)
            self.assertFalse(any("notices" in dsp for dsp in read["dsp"]))
        with self.assertRaisesRegex(ValueError, "no hostile DSPs"):
            hostile.fleets_of("[[dsp]]\ncount = 4\n")

    def test_the_file_of_the_testbed_has_forty_and_ten(self) -> None:
        healthy, sick = hostile.fleets_of(hostile.PROFILES.read_text())
        self.assertEqual((healthy.dsps, sick.dsps), (40, 10))
        kinds = [dsp["phase"][0]["kind"] for dsp in tomllib.loads(sick.profiles)["dsp"]]
        self.assertEqual(kinds, ["hang", "trickle", "reset", "malformed", "status"])

    def test_one_sick_dsp_is_beside_forty_nine_over_each_version(self) -> None:
        runs = hostile.one_sick_runs()
        self.assertEqual(len({run.name for run in runs}), 6)
        for run in runs:
            (healthy,) = tomllib.loads(run.healthy.profiles)["dsp"]
            self.assertEqual((healthy["count"], run.healthy.dsps), (49, 49))
            self.assertEqual(run.name == run.base, run.sick is None and not run.deaf)
            self.assertEqual(tomllib.loads(run.terms.dsp)["http"], run.base.split(",")[0])

    def test_profiles_are_written_only_where_the_command_line_cannot_say_it(self) -> None:
        self.assertEqual(FleetOptions(50, latency_ms=7).profile_file(), "")
        text = FleetOptions(50, 80, latency_ms=7, profile="notices = true\n").profile_file()
        (dsp,) = tomllib.loads(text)["dsp"]
        self.assertEqual((dsp["count"], dsp["bids"], dsp["notices"]), (50, "80%", True))
        self.assertEqual(dsp["latency"], {"min": "7ms", "median": "7ms", "p99": "7ms"})

    def test_tables_carry_terms_and_names(self) -> None:
        options = FleetOptions(2, name="hostile", tls=True)
        text = self.fleet(options).configuration(Terms(dsp="breaker = false\n"))
        dsps = tomllib.loads(text)["dsp"]
        self.assertEqual([dsp["id"] for dsp in dsps], ["hostile-0", "hostile-1"])
        self.assertEqual(dsps[0]["seats"], ["hostile-seat-0"])
        self.assertFalse(dsps[1]["breaker"])
        plain = self.fleet(FleetOptions(2))
        gzip = Terms(floor=("--gzip",))
        self.assertEqual(floor_arguments([plain], gzip), ["--gzip"])
        (trusted,) = floor_arguments([self.fleet(options), plain], Terms())
        self.assertRegex(trusted, "^--ca=.*/ca.pem$")
        plain = plain.configuration(Terms())
        self.assertEqual(tomllib.loads(plain)["dsp"][0].keys(), {"id", "url", "seats"})

    def test_reloads_change_connections_places_and_terms(self) -> None:
        first, second = (
            tomllib.loads(text)["dsp"] for text in reload.configurations(DSPS, configured=150)
        )
        self.assertEqual((len(first), len(second)), (150, 150))
        ids = [{dsp["id"] for dsp in dsps} for dsps in (first, second)]
        self.assertEqual([len(each) for each in ids], [150, 150])
        self.assertEqual(len(ids[0] - ids[1]), 100)
        asked = [dsp for dsp in first if "publishers_allowed" not in dsp]
        self.assertEqual([dsp["id"] for dsp in asked], ["dsp-0", "dsp-1"])
        self.assertNotEqual(first[0], second[0])
        self.assertEqual(first[1], second[1])


def times(p999: float, most: float) -> dict:
    return {"p50": 0, "p99": 0, "p999": p999, "max": most}


def hostile_run(**changes: object) -> dict:
    """A run that meets every target exactly, except for the given changes."""
    found = throughput.window(reading(10, 2.0, 500), reading(14, 4.0, 700), hammer_report(90))
    bids = {"bids_sent": 1000, "bids_judged": 998}
    answers = {"answers_sent": 3000, "answers_counted": 2996, "answers_after_close": 1}
    answers["answers_share"] = 0.999
    run = found | {
        "name": "breaker on",
        "errors": 0,
        "counts": found["counts"] | {"sent": 990},
        "overshoot_hammer_us": times(1000, 10_000),
        "overshoot_exchange_us": times(512, 4096) | {"missed": 2},
        "auctions_exchange": {"all": 990, "abandoned": 0, "turned_away": 0, "panics": 0},
        "healthy": bids | answers,
        "healthy_calls_in_window": {"answered": 11_400, "no_bid": 28_200},
        "hostile_calls_in_window": {"late": 7, "reset": 0},
        "hostile": {"requests": 9},
    }
    return run | changes


class Hostile(unittest.TestCase):
    def judged(self, **changes: object) -> dict:
        base = hostile_run(healthy_calls_in_window={"answered": 12_000}, auctions_per_cpu_s=521.0)
        run = hostile_run(**changes)
        return run | hostile.against(run, base, 40)

    def test_targets_hold_at_their_edges(self) -> None:
        self.assertEqual(set(hostile.verdicts(self.judged()).values()), {True})
        for name, changes in [
            ("overshoot_p999_us", {"overshoot_hammer_us": times(1001, 1001)}),
            ("overshoot_p999_us", {"overshoot_exchange_us": times(1024, 1024)}),
            ("overshoot_max_us", {"overshoot_hammer_us": times(0, 10_001)}),
            ("overshoot_max_us", {"overshoot_exchange_us": times(0, 16_384)}),
            ("lost", {"counts": {"sent": 991}}),
            ("failed", {"errors": 1}),
            ("healthy_bids_counted", {"healthy": {"answers_share": 0.9989}}),
            ("healthy_bids_counted", {"healthy": {"answers_share": None}}),
            ("healthy_throughput", {"answers_per_s": 237.0}),
            ("healthy_throughput", {"healthy_calls_in_window": {"answered": 11_399}}),
            ("auctions_per_cpu_s", {"auctions_per_cpu_s": 494.0}),
        ]:
            met = hostile.verdicts(self.judged(**changes))
            missed = [each for each, is_met in met.items() if not is_met]
            self.assertEqual(missed, [name], changes)

    def test_bids_that_came_late_are_not_counted(self) -> None:
        page = "\n".join(
            f'vickrey_exchange_dsp_{name}_total{{dsp="{dsp}"{label}}} {count}'
            for name, dsp, label, count in [
                ("responses", "dsp-0", ',content="bids"', 27),
                ("responses", "dsp-0", ',content="no_bid"', 1),
                ("responses", "hostile-0", ',content="bids"', 9),
                ("calls", "dsp-0", ',outcome="answered"', 27),
                ("calls", "dsp-0", ',outcome="no_bid"', 69),
                ("calls", "dsp-0", ',outcome="late"', 4),
                ("late_answers", "dsp-0", "", 3),
                ("late_answers", "hostile-0", "", 5),
            ]
        )
        totals = {"bid_answers": 30, "bids": 30, "no_bids": 70, "requests": 100}
        found = hostile.books_of_bids(totals, figures.metrics(page))
        self.assertEqual((found["bids_sent"], found["bids_judged"]), (30, 27))
        self.assertEqual((found["answers_sent"], found["answers_counted"]), (100, 96))
        self.assertEqual((found["answers_after_close"], found["answers_share"]), (3, 96 / 97))

    def test_healthy_dsps_that_are_not_asked_are_told(self) -> None:
        run = self.judged(healthy_calls_in_window={"answered": 30_000, "no_bid": 9_200, "late": 9})
        self.assertEqual(run["healthy_asked"], 39_209 / (990 * 40))
        self.assertEqual(run["healthy_in_time"], 39_200 / 39_209)
        want = ["breaker on: healthy DSPs were asked 99.0% of the time"]
        self.assertEqual(hostile.problems(run), want)

    def test_a_void_run_is_no_problem_but_a_panic_is(self) -> None:
        run = self.judged(errors=2, counts={"sent": 995})
        self.assertEqual(len(hostile.problems(run)), 2)
        self.assertEqual(hostile.problems(run | {"void": True}), [])
        run = self.judged(auctions_exchange={"all": 990, "panics": 1}, void=True)
        self.assertEqual(len(hostile.problems(run)), 1)

    def test_runs_are_written_down(self) -> None:
        counts = self.judged()["counts"] | {"after_tmax": 7}
        runs = [self.judged(name="without", hostile={}), self.judged(errors=1, counts=counts)]
        runs = [run | {"met": hostile.verdicts(run)} for run in runs]
        entry = {
            "name": "hostile",
            "kind": "hostile",
            "title": "title",
            "closed_loop": runs[0],
            "closed_loop_in_flight": 96,
            "share": 0.6,
            "rate_per_s": 600,
            "tmax_ms": 250,
            "targets": hostile.TARGETS,
            "runs": runs,
            "void": False,
        }
        text = report.hostile(json.loads(json.dumps(entry)))
        for part in [
            "open loop at 60 % of it, 600/s",
            "| auctions failed: none | missed |",
            "| past tmax, p99.9 ≤ 1 ms | met |",
            "| 990 | 990 | 0 | 1 | 2 | 7 |",
            "| auctions lost: none | met |",
            "| late | 0 | 7 | 0 | 7 |",
            "| 0.99900 |",
        ]:
            self.assertIn(part, text)
        self.assertNotIn("| reset |", text)


class Variants(unittest.TestCase):
    def entry(self, figure: float) -> dict:
        return self.concluded(variants.notices(), (100, 97, figure, 80, 76, 90, 90))

    def concluded(
        self,
        comparison: variants.Comparison,
        rows: Sequence[float],
        calls_lost: Mapping[str, dict[str, int]] | None = None,
    ) -> dict:
        """One round with these auctions per CPU-second."""
        measured = []
        for variant, auctions in zip(comparison.variants, rows, strict=True):
            found = throughput.window(
                reading(10, 2.0, 500), reading(14, 4.0, 700), hammer_report(0)
            )
            measured.append(
                found
                | {
                    "program": variant.name,
                    "round": 1,
                    "errors": 0,
                    "calls_lost": (calls_lost or {}).get(variant.name, {}),
                    "asked": 1.0,
                    "auctions_per_cpu_s": auctions,
                    "auctions_per_shard_cpu_s": 2 * auctions if variant.beacons else 200,
                    "notices_seen_by_dsps": {},
                    "notices_in_window": {"delivered": 0, "not_delivered": 0},
                }
            )
        return variants.conclude(comparison, 7, 900, measured)

    def test_rows_are_shares_of_the_row_they_name(self) -> None:
        entry = self.entry(90)
        shares = {name: row["of_base"] for name, row in entry["rows"].items()}
        want = {"off": 1, "nurl alone": 0.97, "nurl and burl": 0.9}
        want |= {"off, HTTP/2": 1, "nurl and burl, HTTP/2": 0.95}
        want |= {"off, lurl in bids": 1, "and all lurl": 1}
        self.assertEqual(shares, want)
        self.assertEqual(entry["rows"]["nurl and burl"]["shards_of_base"], 0.9)
        self.assertEqual(report.variant(entry, "nurl and burl")["target"], "≥ 0.89: met")
        worse = self.entry(89)
        self.assertEqual(report.variant(worse, "nurl and burl")["target"], "≥ 0.89: missed")
        text = report.variants(json.loads(json.dumps(worse)))
        self.assertIn("each after 7 ms; open loop, 900/s, which is 50% of the closed loop of `off`", text)
        self.assertIn("≥ 0.89: missed", text)

    def test_a_target_is_not_met_by_requests_that_went_wrong(self) -> None:
        entry = self.entry(90)
        row = next(each for each in entry["rounds"] if each["program"] == "nurl and burl")
        row["errors"] = 2
        told = report.variant(entry, "nurl and burl")["target"]
        self.assertEqual(told, "≥ 0.89: missed, 2 requests went wrong")
        self.assertEqual(report.variant(entry, "nurl and burl, HTTP/2")["target"], "≥ 0.94: met")

    def test_every_row_of_codings_has_a_floor_with_the_same(self) -> None:
        comparison = variants.codings()
        by_name = {variant.name: variant for variant in comparison.variants}
        own = [variant for variant in comparison.variants if variant.program == "vickrey"]
        self.assertEqual([each.name for each in own], ["plain", "gzip", "TLS", "TLS and gzip"])
        for each in own:
            floor = by_name[each.floor]
            self.assertEqual((floor.program, floor.fleet), ("floor", each.fleet))
            self.assertEqual("gzip = true" in each.terms.dsp, "--gzip" in floor.terms.floor)
            self.assertEqual("gzip" in each.fleet.profile, "--gzip" in floor.terms.floor)
        entry = self.concluded(comparison, (100, 80, 90, 60, 50, 25, 40, 18))
        shares = {name: row["of_floor"] for name, row in entry["rows"].items() if row["floor"]}
        self.assertEqual(shares, {"plain": 0.8, "gzip": 60 / 90, "TLS": 0.5, "TLS and gzip": 0.45})
        column = "of the floor with the same"
        self.assertEqual(report.variant(entry, "TLS")[column], "0.500")
        self.assertEqual(report.variant(entry, "TLS")["share of it"], "0.312")
        self.assertEqual(report.variant(entry, "floor, TLS")[column], "–")
        self.assertNotIn(column, report.variant(self.entry(95), "off"))
        self.assertIn(column, report.variants(json.loads(json.dumps(entry))))

    def test_calls_that_came_to_nothing_are_noted(self) -> None:
        comparison = variants.codings()
        # Of 990 auctions among 50 DSPs.
        for lost, want in [(495, []), (496, ["floor, TLS, round 1: 1% of calls to DSPs"])]:
            calls = {"floor, TLS": {"failed": lost}}
            entry = self.concluded(comparison, [100] * 8, calls)
            told = entry["notes"][len(comparison.notes) :]
            self.assertEqual([note.partition(" came")[0] for note in told], want)

    def test_what_goes_wrong_with_notices_is_a_problem(self) -> None:
        (each, *_) = self.entry(95)["rounds"]
        self.assertEqual(variants.problems(each), [])
        seen = {"counted": 1, "failed": 0, "malformed": 2, "repeated": 0, "overpriced": 0}
        wrong = each | {
            "notices_seen_by_dsps": {"nurl": seen},
            "counts": each["counts"] | {"beacons": 3, "beacons_failed": 1},
            "notices_in_window": {"delivered": 1, "not_delivered": 4},
        }
        wrong["asked"] = 0.5
        want = [
            "off, round 1: DSPs were asked 50.0% of the time",
            "off, round 1: 1 of 3 beacons failed",
            "off, round 1: 2 nurl were malformed",
            "off, round 1: 4 notices not delivered",
        ]
        self.assertEqual(variants.problems(wrong), want)

    def test_every_row_has_something_to_be_compared_with(self) -> None:
        for comparison in (variants.notices(), variants.codings()):
            known: set[str] = set()
            for variant in comparison.variants:
                known.add(variant.name)
                self.assertIn(variant.base, known)
            self.assertLessEqual(comparison.targets.keys(), known)

    def test_delivered_notices_are_told_from_the_rest(self) -> None:
        page = (
            'vickrey_exchange_notices_total{kind="billing",outcome="delivered"} 5\n'
            'vickrey_exchange_notices_total{kind="best_effort",outcome="delivered"} 6\n'
            'vickrey_exchange_notices_total{kind="best_effort",outcome="shed"} 2\n'
            'vickrey_exchange_notices_total{kind="any",outcome="queue_full"} 1\n'
        )
        found = variants.notices_of(figures.metrics(page))
        self.assertEqual(found, {"delivered": 11, "not_delivered": 3})


class Overload(unittest.TestCase):
    def test_what_is_in_time_is_a_share_of_what_is_offered_or_of_the_maximum(self) -> None:
        for in_time, target, share, met in [
            (784, (0.8, "offered", 0.98), 0.98, True),
            (780, (0.8, "offered", 0.98), 0.975, False),
            (900, (2.0, "maximum", 0.90), 0.9, True),
            (899, (2.0, "maximum", 0.90), 0.899, False),
        ]:
            measured = {"counts": {"in_time": 2 * in_time}, "statuses": {}}
            found = overload.verdict(measured, 2, (1000 * target[0], 1000), target)
            self.assertEqual((found["share"], found["met"]["in time"]), (share, met))

    def test_a_refusal_comes_soon(self) -> None:
        for p99, met in [(10_000, True), (10_001, False)]:
            statuses = {"503": {"latency_us": {"p50": 1, "p99": p99}}}
            measured = {"counts": {"in_time": 1}, "statuses": statuses}
            found = overload.verdict(measured, 1, (1, 1), (1.0, "maximum", 0.9))
            self.assertEqual(found["met"], {"in time": True, "refusals": met})


class Reloads(unittest.TestCase):
    def run_of(self, **changes: object) -> dict:
        found = throughput.window(reading(10, 2.0, 500), reading(14, 4.0, 700), hammer_report(0))
        return (
            found
            | {
                "name": "with",
                "errors": 0,
                "lost": 0,
                "asked": 1.0,
                "calls_lost": {},
                "is_reloaded": True,
                "reloads": {"asked": 4, "taken_over": 4, "refused": 0},
                "overshoot_exchange_us": times(0, 0) | {"missed": 0},
                "overshoot_hammer_us": times(0, 0),
            }
            | changes
        )

    # Three auctions are late by the exchange's clock, and forty by the hammer's.
    LATE_BY_EXCHANGE = {"overshoot_exchange_us": times(0, 64) | {"missed": 3.0}}
    LATE_BY_HAMMER = {"counts": hammer_report(0)["counts"] | {"after_tmax": 40}}

    def test_a_run_is_met_only_if_both_clocks_saw_nothing_late(self) -> None:
        for changes, want in [
            ({}, []),
            (self.LATE_BY_EXCHANGE, ["late_by_exchange"]),
            (self.LATE_BY_HAMMER, ["late_by_hammer"]),
            ({"errors": 1}, ["failed"]),
            ({"lost": 1}, ["lost"]),
            # More than was sent is wrong, too.
            ({"lost": -1}, ["lost"]),
            ({"reloads": {"asked": 4, "taken_over": 3, "refused": 0}}, ["reloads"]),
            ({"reloads": {"asked": 4, "taken_over": 4, "refused": 1}}, ["reloads"]),
            ({"reloads": {"asked": 0, "taken_over": 0, "refused": 0}}, ["reloaded"]),
        ]:
            met = reload.verdicts(self.run_of(**changes))
            self.assertEqual([name for name, is_met in met.items() if not is_met], want, changes)
        nothing = {"asked": 0, "taken_over": 0, "refused": 0}
        alone = self.run_of(is_reloaded=False, reloads=nothing)
        self.assertTrue(all(reload.verdicts(alone).values()))
        with self.assertRaisesRegex(ValueError, "told of no deadline"):
            reload.verdicts(self.run_of(overshoot_hammer_us=None))

    def test_all_runs_must_meet_it(self) -> None:
        good = self.run_of()
        for changes, want in [
            ({}, True),
            (self.LATE_BY_EXCHANGE, False),
            (self.LATE_BY_HAMMER, False),
            ({"errors": 1}, False),
        ]:
            bad = self.run_of(**changes)
            for runs in ([good, bad], [bad, good]):
                self.assertEqual(self.entry(runs)["met"], want, changes)

    def test_what_must_not_be(self) -> None:
        late = "with: 3 auctions were past their deadline by the exchange"
        late_too = "with: 40 auctions were past their deadline by the hammer"
        for changes, want in [
            ({}, []),
            (self.LATE_BY_EXCHANGE, [late]),
            (self.LATE_BY_HAMMER, [late_too]),
            (self.LATE_BY_EXCHANGE | self.LATE_BY_HAMMER, [late, late_too]),
            (self.LATE_BY_HAMMER | {"void": True}, []),
            ({"errors": 2}, ["with: 2 requests went wrong"]),
            ({"asked": 0.9}, ["with: DSPs were asked 90.0% of the time"]),
            ({"lost": 1}, ["with: 1 requests are missing from the books"]),
            ({"errors": 2, "void": True}, []),
            (
                {"reloads": {"asked": 4, "taken_over": 3, "refused": 1}, "void": True},
                ["with: of 4 reloads 3 were taken over and 1 refused"],
            ),
        ]:
            self.assertEqual(reload.problems(self.run_of(**changes)), want, changes)

    def entry(self, runs: list[dict]) -> dict:
        entry = reload.conclude(self.run_of(), Load(20, 600, 250), runs)
        return json.loads(json.dumps(entry))

    def test_runs_are_written_down(self) -> None:
        def told(*runs: dict) -> tuple[str, list[str], list[str]]:
            """The overall verdict and the single ones; the counts by each clock."""
            text = report.reloaded(self.entry(list(runs)))
            self.assertIn("open loop at 600/s", text)
            head, _, *rows = [
                [cell.strip() for cell in line.split("|")]
                for line in text.splitlines()
                if line.startswith("|")
            ]
            clocks = [f"past tmax, by the {clock}" for clock in ("exchange", "hammer")]
            counts = [row[head.index(clock)] for row in rows for clock in clocks]
            verdicts = [row[head.index("none late, none failed")] for row in rows]
            return text.split("**")[1], verdicts, counts

        good, late = self.run_of(), self.run_of(**self.LATE_BY_HAMMER)
        check = self.assertEqual
        check(told(good, good), ("met", ["met", "met"], ["0", "0", "0", "0"]))
        check(told(good, late), ("missed", ["met", "missed"], ["0", "0", "0", "40"]))
        late = self.run_of(**self.LATE_BY_EXCHANGE)
        check(told(late, good), ("missed", ["missed", "met"], ["3", "0", "0", "0"]))
        check(told(good, good | {"void": True})[:2], ("void", ["met", "void"]))

    def test_what_the_exchange_says_is_counted(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        file = folder / "vickrey.toml"
        file.write_text("first")
        server = Mock()
        server.configuration, server.child.stderr = file, folder / "err"
        server.child.stderr.write_text(
            "INFO the configuration is taken over\nWARN vickrey.toml is refused, the old\n"
        )
        reloads = reload.Reloads(server, ("first", "second"))
        reloads.reload()
        self.assertEqual(file.read_text(), "second")
        self.assertEqual(reloads.said(), {"asked": 1, "taken_over": 1, "refused": 1})
        self.assertTrue(reloads.is_done())
        reloads.reload()
        self.assertEqual(file.read_text(), "first")
        reloads.reload()
        self.assertFalse(reloads.is_done())


if __name__ == "__main__":
    unittest.main()
