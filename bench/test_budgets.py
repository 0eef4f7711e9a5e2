"""Tests of the scenarios of budgets: `python3 bench/test_budgets.py`."""

import json
import tempfile
import tomllib
import unittest
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from driver import budget_auction, budgets, campaigns, counted, definitions, figures, report
from driver.definitions import Campaigns
from driver.programs import Bench, Failed, FleetOptions, Load, Terms, configuration
from driver.variants import Variant, reservations_of


def line(who: str, nanos: float, allocations: int = 0) -> dict:
    """A line that bench-pacer prints for a round."""
    steps = {f"{step}_ns": nanos for step in budgets.STEPS}
    return {"round": 1, "who": who, "campaigns": 10, "open": 5, "allocations": allocations} | steps


def page(entry: dict) -> str:
    """The page of an entry after one pass through JSON."""
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


def round_of(program: str, cpu_us: float, number: int = 1, **money: int) -> dict:
    """A round of `budget-auction`, as far as the tests need it."""
    auctions = 1000
    reservations = {"reserved": 0, "settled": 0, "refused": 0} | money
    return {
        "program": program,
        "round": number,
        "auctions": auctions,
        "cpu_s": cpu_us * auctions / 1e6,
        "server_threads_s": {"shard": cpu_us * auctions / 2e6, "ledger": 0.001},
        "bids_per_auction": 15.0 if program == budget_auction.OFF else 18.0,
        "reservations": reservations,
        "counts": {"ok_bid": auctions, "beacons_failed": 0, "beacons": 0},
        "errors": 0,
        "asked": None,
        "notices_seen_by_dsps": {},
        "notices_in_window": {"not_delivered": 0},
        "void": False,
    }


def rounds_of(costs: dict[str, float], **money: int) -> list[dict]:
    """A round of every row, each costing this much more than its neighbour."""
    paid = {"reserved": 1000, "settled": 1000} | money
    rounds = [round_of("floor", 400.0)]
    for place, row in enumerate(budget_auction.ROWS):
        on = round_of(row.name, 800.0 * (1 + costs.get(row.name, 0.0)), **paid)
        rounds += [round_of(budget_auction.OFF, 800.0), on] if place % 2 == 0 else [on, round_of(budget_auction.OFF, 800.0)]
    return rounds


class Auction(unittest.TestCase):
    realistic = next(row.name for row in budget_auction.ROWS if row.target is not None)

    def test_each_row_is_a_share_of_the_round_beside_it(self) -> None:
        rounds = rounds_of({self.realistic: 0.02, budget_auction.ROWS[0].name: 0.01})
        # A machine that slows down in the middle slows both rounds of a pair.
        for each in rounds[3:]:
            each["cpu_s"] *= 1.5
        entry = budget_auction.conclude(500, rounds)
        costs = {row["name"]: row["cost"] for row in entry["rows"]}
        self.assertAlmostEqual(costs[self.realistic], 0.02)
        self.assertAlmostEqual(costs[budget_auction.ROWS[0].name], 0.01)
        self.assertEqual(entry["rows"][1]["bids_more"], 3.0)
        self.assertEqual(entry["problems"], [])
        self.assertIn("| +2.0% |", page(entry))

    def test_the_verdict_is_of_the_realistic_row(self) -> None:
        for cost, want in [(0.0299, "met"), (0.0301, "missed")]:
            entry = budget_auction.conclude(500, rounds_of({self.realistic: cost}))
            self.assertIn(f"≤ 3%: {want}", page(entry))
        entry = budget_auction.conclude(500, rounds_of({budget_auction.ROWS[0].name: 0.5}))
        self.assertIn("≤ 3%: met", page(entry))

    def test_what_was_not_paid_is_a_problem(self) -> None:
        for money in ({"reserved": 900}, {"settled": 900}):
            entry = budget_auction.conclude(500, rounds_of({}, **money))
            self.assertEqual(len(entry["problems"]), len(budget_auction.ROWS), money)
        free = [*rounds_of({}), round_of("floor", 400.0, reserved=1)]
        self.assertEqual(len(budget_auction.conclude(500, free)["problems"]), 1)

    def test_money_is_read_off_the_metrics_page(self) -> None:
        text = 'vickrey_exchange_reservations_total{outcome="reserved"} 9\n'
        text += 'vickrey_exchange_reservations_total{outcome="won"} 5\n'
        text += 'vickrey_exchange_reservations_total{outcome="won_late"} 2\n'
        text += 'vickrey_exchange_wins_refused_total{reason="unknown"} 1\n'
        text += 'vickrey_exchange_wins_refused_total{reason="paused"} 3\n'
        money = {"reserved": 9, "settled": 7, "refused": 4}
        self.assertEqual(reservations_of(figures.metrics(text)), money)
        self.assertEqual(reservations_of([]), dict.fromkeys(money, 0))

    def test_refusals_are_told(self) -> None:
        entry = budget_auction.conclude(500, rounds_of({}, refused=1000))
        self.assertEqual(entry["rows"][0]["refused"], 0.5)
        self.assertIn("| 50.0% |", page(entry))

    def test_every_row_has_one_without_beside_it_in_both_directions(self) -> None:
        off = Variant(budget_auction.OFF, budget_auction.OFF, FleetOptions(1))
        rows = [replace(off, name=row.name) for row in budget_auction.ROWS]
        for number in (1, 2):
            turns = budget_auction.order(rows, off, replace(off, name="floor"), number)
            own = [each.name for each in turns if each.name != "floor"]
            for pair in zip(own[::2], own[1::2], strict=True):
                self.assertEqual(sum(name == budget_auction.OFF for name in pair), 1, own)

    def test_seats_are_those_of_the_tables(self) -> None:
        tables = '[[dsp]]\nid = "dsp-0"\nurl = "u"\nseats = ["seat-0"]\n\n'
        tables += '[[dsp]]\nid = "dsp-1"\nseats = ["seat-1"]\n'
        self.assertEqual(budget_auction.seats_of(tables), ["dsp-0/seat-0", "dsp-1/seat-1"])
        with self.assertRaises(Failed):
            budget_auction.seats_of(tables + '[[dsp]]\nid = "dsp-2"\n')


class Instructions(unittest.TestCase):
    def test_what_is_done_by_the_clock_is_in_both_loads(self) -> None:
        low = counted.Counted(10_000_000, 100, 4_000, 10, 90)
        high = counted.Counted(13_000_000, 400, 19_000, 250, 150)
        row = counted.row_of("seats", low, high)
        self.assertEqual((row["auctions"], row["instructions"], row["calls"]), (300, 10_000.0, 50.0))
        self.assertEqual((row["reserved"], row["refused"]), (0.8, 0.2))

    def test_valgrinds_sum_is_read_and_nothing_else(self) -> None:
        self.assertEqual(counted.instructions("==9== I   refs:      1,234,567\n"), 1_234_567)
        with self.assertRaises(Failed):
            counted.instructions("==9== D refs: 7")

    def test_they_are_split_by_who_spends_them(self) -> None:
        text = """desc: I1 cache: 32768 B
fl=/w/crates/exchange/core/src/campaigns/bidding.rs
fn=exchange_core::campaigns::bidding::Bidding::ad
12 100
fl=/rustc/1/library/core/src/slice/mod.rs
fn=<exchange_serve::budgets::shard::AuctionPacing as exchange_core::campaigns::bidder::CampaignBidder>::decide
1 20
2 3
fn=exchange_core::judging::judge::Judging::proceed
7 50
fn=hyper::proto
8 1000
fl=/w/crates/pacer/core/src/funnel/buffer.rs
fn=exchange_serve::budgets::shard::counting::Open::count
9 7
fl=/w/crates/pacer/core/src/ledger/book.rs
fn=pacer_core::ledger::book::Book::pool
9 4
fl=/w/crates/exchange/serve/src/auctions/reservations.rs
fn=exchange_serve::auctions::reservations::AuctionReservations::reserve
9 6
"""
        parts = dict.fromkeys(counted.PARTS, 0)
        want = {"search": 100, "decide": 23, "judging": 50, "funnels": 7, "ledger": 4}
        want |= {"reserve, settle": 6}
        self.assertEqual(counted.of_parts(text.splitlines(keepends=True)), parts | want)

    def test_every_part_names_code_that_there_is(self) -> None:
        crates = Path(__file__).parent.parent / "crates"
        paths = {path.relative_to(crates).as_posix() for path in crates.rglob("*.rs")}
        sources = "".join(path.read_text() for path in crates.rglob("*.rs"))
        for name in (name for part in counted.PARTS.values() for name in part.split("|")):
            if "/" in name:
                self.assertTrue(any(name in path for path in paths), name)
            elif name[0].isupper():
                self.assertIn(name.split("::")[-1], sources, name)

    def test_what_is_any_bids_is_not_the_campaigns_own(self) -> None:
        def row(instructions: int, bids: int, **parts: int) -> dict:
            parts = dict.fromkeys(counted.PARTS, 0) | parts
            low = counted.Counted(0, 0, 0, 0, 0, 0, dict.fromkeys(parts, 0))
            high = counted.Counted(instructions, 1, 50, 1, 0, bids, parts)
            return counted.row_of("row", low, high) | {"more": 0.0}

        off = row(10_000, 15, judging=100)
        seats = row(10_300, 15, judging=100, ledger=200)
        campaigns = row(11_300, 19, judging=500, ledger=200, search=150, decide=50)
        self.assertAlmostEqual(counted.own_share(seats, off), 0.02)
        self.assertAlmostEqual(counted.own_share(campaigns, off), 0.04)
        self.assertEqual(budget_auction.by_bid(campaigns, [off, seats, campaigns]), "200")
        self.assertEqual(budget_auction.by_bid(seats, [off, seats, campaigns]), "–")
        text = page(budget_auction.conclude(500, rounds_of({}), [off, seats, campaigns]))
        self.assertIn("| 4.0% | +4.00 | 200 |", text)

    def test_they_are_written_down_where_there_are_any(self) -> None:
        low, high = counted.Counted(0, 0, 0, 0, 0), counted.Counted(1000, 10, 500, 9, 1)
        row = counted.row_of("seats", low, high) | {"more": 0.024}
        self.assertEqual(counted.problems([row], 50), [])
        self.assertEqual(len(counted.problems([row | {"calls": 49.4}], 50)), 1)
        self.assertIn("| +2.4% |", page(budget_auction.conclude(500, rounds_of({}), [row])))
        self.assertNotIn("valgrind", page(budget_auction.conclude(500, rounds_of({}))))


class Definitions(unittest.TestCase):
    def test_so_many_are_for_the_reference_request_and_of_many_accounts(self) -> None:
        ours = 'countries = ["USA"], publishers = ["publisher-7"]'
        wanted = [(row.campaigns, count) for row, count in zip(budget_auction.ROWS[1:], (6, 100), strict=True)]
        for of, count in [*wanted, (campaigns.CAMPAIGNS, 101)]:
            for_us = [n for n in range(of.count) if definitions.targeting(n, of) == ours]
            self.assertEqual(len(for_us), count)
            self.assertGreaterEqual(len({n % of.accounts for n in for_us}), min(count, 6))

    def test_files_are_toml_with_all_campaigns_once(self) -> None:
        of = Campaigns(10, 3, 2, "0.60")
        with tempfile.TemporaryDirectory() as folder:
            definitions.write(Path(folder), of)
            files = [tomllib.loads(file.read_text()) for file in Path(folder).glob("*.toml")]
        self.assertEqual(len(files), 3)
        ids = sorted(each["id"] for file in files for each in file["campaign"])
        self.assertEqual(ids, sorted(f"campaign-{n}" for n in range(10)))
        for file in files:
            (own,) = (account["id"] for account in file["account"])
            self.assertEqual({each["account"] for each in file["campaign"]}, {own})
        seats = tomllib.loads(definitions.account("a", ("dsp-1/seat-1",)))["account"][0]["seats"]
        self.assertEqual(seats, ["dsp-1/seat-1"])

    def test_budgets_have_books_of_their_own(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(Path(), Path(folder), 0, 1, 32)
            terms = Terms(record=True, campaigns="campaigns.d/*.toml", budgets="campaigns_max = 7\n")
            files = [tomllib.loads(configuration(bench, (), terms)) for _ in range(2)]
        books = [file["budgets"]["directory"] for file in files]
        self.assertNotEqual(books[0], books[1])
        self.assertEqual(files[0]["budgets"]["campaigns_max"], 7)
        self.assertEqual(files[0]["budgets"]["campaigns"], "campaigns.d/*.toml")


def run_of(name: str, reloads: list[dict], late: int = 0) -> dict:
    """A run of `budget-campaigns`, as far as the tests need it."""
    overshoot = {"missed": late, "p50": 0.0, "p99": 0.0, "p999": 0.0, "max": 0.0}
    return {
        "name": name,
        "reloads": reloads,
        "latency_us": {"p50": 1, "p99": 2, "p999": 3, "max": 4},
        "overshoot_exchange_us": overshoot,
        "overshoot_hammer_us": overshoot,
        "counts": {"after_tmax": late},
        "errors": 0,
        "lost": 0,
        "cpu_s": 1.0,
        "auctions": 1000,
        "server_core_busy": 0.5,
        "void": False,
    }


def reload_of(change: campaigns.Change, seconds: float) -> dict:
    changed = change.campaigns(campaigns.CAMPAIGNS)
    return {"change": change.name, "read_s": 0.1, "seconds": seconds, "changed": changed}


class HundredThousand(unittest.TestCase):
    memory = {"without": 1024, "started": 201 * 1024, "reloaded": 251 * 1024, "loaded": 1024}

    def conclude(self, idle: list[dict], runs: list[dict], **memory: int) -> dict:
        start = (12.0, self.memory | memory)
        return campaigns.conclude(Load(10, 500, 250), runs, idle, start)

    def test_memory_is_what_is_above_the_exchange_without(self) -> None:
        entry = self.conclude([], [run_of("left alone", [])])
        self.assertEqual(entry["memory_mib"], 250.0)
        self.assertIn("≤ 300 MiB: met", page(entry))
        more = self.conclude([], [run_of("left alone", [])], loaded=302 * 1024)
        self.assertIn("≤ 300 MiB: missed", page(more))

    def test_each_kind_of_reload_is_judged_by_its_slowest(self) -> None:
        one, whole = campaigns.CHANGES[1], campaigns.CHANGES[-1]
        idle = [reload_of(one, 0.5), reload_of(one, 0.9), reload_of(one, 0.6)]
        run = run_of(whole.name, [reload_of(whole, 20.0)])
        times = {each["change"]: each for each in self.conclude(idle, [run])["reload_times"]}
        self.assertEqual((times[one.name]["median_s"], times[one.name]["is_met"]), (0.6, True))
        self.assertEqual((times[whole.name]["when"], times[whole.name]["is_met"]), ("under load", False))
        idle.append(reload_of(one, 1.0))
        self.assertFalse(self.conclude(idle, [run])["reload_times"][0]["is_met"])

    def test_late_auctions_are_told_by_run(self) -> None:
        entry = self.conclude([], [run_of("left alone", []), run_of("all changed", [], late=3)])
        self.assertFalse(entry["late_met"])
        self.assertIn("| missed |", page(entry))
        self.assertTrue(self.conclude([], [run_of("left alone", [])])["late_met"])

    def test_a_reload_that_changed_something_else_is_a_problem(self) -> None:
        wrong = reload_of(campaigns.CHANGES[1], 0.5) | {"changed": 2}
        entry = self.conclude([], [run_of("one campaign changed", [wrong])])
        self.assertEqual(len(entry["problems"]), 1)

    def test_what_is_prepared_changes_as_many_as_it_says(self) -> None:
        of = Campaigns(6, 2, 2, "0.60")
        with tempfile.TemporaryDirectory() as folder:
            definitions.write(Path(folder), of)
            reloads = campaigns.Reloads(None, Path(folder), of)  # type: ignore[arg-type]
            reloads.began = datetime.now(UTC).replace(hour=0, minute=0, second=0)

            def parsed() -> dict[str, dict]:
                files = [tomllib.loads(file.read_text()) for file in Path(folder).glob("*.toml")]
                return {each["id"]: each for file in files for each in file["campaign"]}

            kinds = (
                campaigns.Change("one", 1, False),
                campaigns.Change("file", 1, True),
                campaigns.Change("all", 2, True),
                campaigns.Change("all", 2, True),
            )
            for change in kinds:
                before = parsed()
                for fresh in reloads.prepare(change):
                    fresh.replace(fresh.with_suffix(".toml"))
                after = parsed()
                changed = [name for name in after if after[name] != before[name]]
                self.assertEqual(len(changed), change.campaigns(of), change)


if __name__ == "__main__":
    unittest.main()
