"""The cost per auction of accounts for seats, and of direct campaigns.

Rounds without and with them alternate, at one rate, over the same DSPs, with the same notices and
beacons. Each is reported as a share of the adjacent round without them. Campaigns bid less than
DSPs, so the same DSPs win in all rows, and all rows have their notices.
"""

import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from driver import counted, figures, variants
from driver.definitions import Campaigns, account, write
from driver.programs import Bench, Failed, FleetOptions, Terms, fleet
from driver.scenarios import DSPS
from driver.throughput import PROBE_S, Rounds, Say, line
from driver.variants import BEACONS, SHARDS, Variant, one_round

Table = Callable[..., str]

# Share of the closed loop without budgets.
SHARE = 0.5

# Limit as a share of the process's CPU time per auction, if a realistic share matches.
COST_MAX = 0.03

# Minimum share of answers with a bid that were reserved, and settled when their beacon came.
PAID_MIN = 0.99

CAMPAIGNS = 100
ACCOUNTS = 10
# Above the request's floor of 0.35 USD, below the winning bids of DSPs that bid around 1.50.
VALUE = "0.60"

TERMS = Terms(
    exchange=(
        f'[exchange.notices]\nurl = "{BEACONS}"\nmode = "final"\n'
        'networks_allowed = ["127.0.0.0/8"]\n'
    ),
    record=True,
)
BIDDERS = FleetOptions(DSPS, profile="notices = true\nloss_notices = false\n")


@dataclass(frozen=True)
class Row:
    """The feature that a row switches on."""

    name: str
    about: str
    campaigns: Campaigns | None
    target: float | None = None


MIDDLES = ("off_us", "on_us", "cost", "shards_cost", "ledger_us", "bids_more", "refused")

OFF = "off"
ROWS = (
    Row("seats", "an account for each seat of the DSPs", None),
    Row(
        "seats, 100 campaigns",
        "and 100 direct campaigns, of which 6 are for the request",
        Campaigns(CAMPAIGNS, ACCOUNTS, 20, VALUE),
        COST_MAX,
    ),
    Row(
        "seats, 100 campaigns match",
        "and 100 campaigns, all of which are for the request",
        Campaigns(CAMPAIGNS, ACCOUNTS, 1, VALUE),
    ),
)


def auction(bench: Bench, rounds: Rounds, say: Say) -> dict:
    """Rounds of all rows, each between two rounds without the feature."""
    off = Variant(OFF, OFF, BIDDERS, terms=TERMS, beacons=BEACONS, insecure=True)
    floor = Variant("floor", "floor", BIDDERS, "floor", insecure=True)
    rows = [(row, on(bench, row, off)) for row in ROWS]
    closed = one_round(bench, replace(off, beacons=None), (rounds.latency_ms, PROBE_S, None), 0)
    say(f"  closed loop       {line(closed)}")
    pace = (rounds.latency_ms, rounds.seconds, max(1, int(SHARE * closed["answers_per_s"])))
    measured = []
    for number in range(1, rounds.count + 1):
        for variant in order([variant for _, variant in rows], off, floor, number):
            measured.append(one_round(bench, variant, pace, number))
            say(f"  round {number}  {line(measured[-1])}")
    instructions, skipped = [], ["valgrind is not installed: no instructions were counted"]
    if counted.is_possible():
        instructions = counted.rows(bench, [off, *(variant for _, variant in rows)], say)
        skipped = []
    return conclude(pace[2], measured, instructions) | {"skipped": skipped}


def order(rows: Sequence[Variant], off: Variant, floor: Variant, number: int) -> list[Variant]:
    """The order of a round: the floor, then every row next to one without; every other round in
    reverse."""
    turns = [floor]
    for place, row in enumerate(rows):
        turns += [off, row] if place % 2 == 0 else [row, off]
    return turns if number % 2 else turns[::-1]


def on(bench: Bench, row: Row, off: Variant) -> Variant:
    """A row's exchange, with files of its own."""
    folder = bench.folder / f"campaigns-{ROWS.index(row)}.d"
    folder.mkdir(exist_ok=True)
    if row.campaigns:
        write(folder, row.campaigns)
    with fleet(bench, BIDDERS) as dsps:
        seats = seats_of(dsps.configuration(TERMS))
    tables = [account(f"seat-account-{at}", (seat,)) for at, seat in enumerate(seats)]
    (folder / "seats.toml").write_text("".join(tables))
    terms = replace(TERMS, campaigns=f"{folder.name}/*.toml")
    return replace(off, name=row.name, terms=terms)


def seats_of(tables: str) -> list[str]:
    """Each DSP and its seat, from the exchange's tables."""
    found = re.findall(r'(?m)^id = "(.+)"\n(?:.+\n)*?seats = \["(.+)"\]', tables)
    if len(found) != tables.count("[[dsp]]"):
        raise Failed("the DSPs do not tell a seat each")
    return [f"{dsp}/{seat}" for dsp, seat in found]


def conclude(rate_per_s: int, measured: list[dict], instructions: Sequence[dict] = ()) -> dict:
    """Each row's rounds compared with those without, the outcomes of reservations, and the
    counts."""
    found = pairs(measured)
    rows = [row_of(row, found) for row in ROWS]
    floors = [process_us(each) for each in measured if each["program"] == "floor"]
    offs = [process_us(each) for each in measured if each["program"] == OFF]
    return {
        "name": "budget-auction",
        "kind": "budget_auction",
        "title": f"auctions among {DSPS} DSPs with accounts and campaigns, and without",
        "rate_per_s": rate_per_s,
        "share": SHARE,
        "floor_us": statistics.median(floors),
        "off_us": statistics.median(offs),
        "off_spread": figures.spread(offs)["spread"],
        "rows": rows,
        "instructions": list(instructions),
        "pairs": found,
        "rounds": measured,
        "void": any(each["void"] for each in measured),
        "problems": [problem for each in measured for problem in variants.problems(each)]
        + [problem for each in measured for problem in problems(each)]
        + counted.problems(instructions, DSPS),
    }


def pairs(measured: Sequence[dict]) -> list[dict]:
    """Pairs each round with budgets with the adjacent one without, and computes the additional CPU
    time per auction, of the whole process and of the shards."""
    own = [each for each in measured if each["program"] != "floor"]
    found = []
    for pair in zip(own[::2], own[1::2], strict=True):
        on, off = sorted(pair, key=lambda each: each["program"] == OFF)
        found.append(
            {
                "round": on["round"],
                "row": on["program"],
                "off_us": process_us(off),
                "on_us": process_us(on),
                "cost": process_us(on) / process_us(off) - 1,
                "shards_off_us": shards_us(off),
                "shards_on_us": shards_us(on),
                "shards_cost": shards_us(on) / shards_us(off) - 1,
                "ledger_us": ledger_us(on),
                "bids_more": on["bids_per_auction"] - off["bids_per_auction"],
                "refused": refused_share(on["reservations"]),
            }
        )
    return found


def row_of(row: Row, found: Sequence[dict]) -> dict:
    """The median of a row's pairs."""
    own = [pair for pair in found if pair["row"] == row.name]
    middle = {
        key: statistics.median(pair[key] for pair in own)
        for key in MIDDLES
    }
    is_met = None if row.target is None else middle["cost"] <= row.target
    costs = [pair["cost"] for pair in own]
    head = {"name": row.name, "about": row.about, "target": row.target, "is_met": is_met}
    return head | middle | {"cost_min": min(costs), "cost_max": max(costs)}


def process_us(each: dict) -> float:
    """CPU time per auction, of all threads, in microseconds."""
    return 1e6 * each["cpu_s"] / each["auctions"]


def shards_us(each: dict) -> float:
    return 1e6 * each["server_threads_s"].get(SHARDS, 0.0) / each["auctions"]


def ledger_us(each: dict) -> float:
    """CPU time per auction of the threads that keep budgets, in microseconds."""
    kinds = ("ledger", "ledger-store", "catalogue", "catalogues", "campaigns")
    return 1e6 * sum(each["server_threads_s"].get(kind, 0.0) for kind in kinds) / each["auctions"]


def refused_share(money: dict[str, int]) -> float:
    """The share of winners with an account whose shard had no grant at that time; the next bid was
    tried instead."""
    asked = money["reserved"] + money["refused"]
    return money["refused"] / asked if asked else 0.0


def problems(each: dict) -> list[str]:
    """Reservations that do not match the wins."""
    name, money = f"{each['program']}, round {each['round']}", each["reservations"]
    if each["program"] in (OFF, "floor"):
        return [f"{name}: {money['reserved']} reservations"] if money["reserved"] else []
    wins = each["counts"]["ok_bid"]
    found = []
    if money["reserved"] < PAID_MIN * wins:
        found.append(f"{name}: {money['reserved']} reservations for {wins} answers with a bid")
    if money["settled"] < PAID_MIN * wins:
        found.append(f"{name}: {money['settled']} settlements for {wins} answers with a bid")
    return found


def write_auction(entry: dict, table: Table, verdict: Callable[[bool, bool], str]) -> str:
    """The rows beside the case without, then every pair."""
    head = ["row", "µs of CPU without", "with", "more", "range", "by shards alone"]
    head += ["ledger's threads, µs", "bids more", "winners refused", "with, of the floor", "target"]
    rows = []
    for row in entry["rows"]:
        target = ""
        if row["target"] is not None:
            target = f"≤ {row['target']:.0%}: {verdict(row['is_met'], entry['void'])}"
        rows.append(
            [
                row["name"],
                f"{row['off_us']:.0f}",
                f"{row['on_us']:.0f}",
                f"{row['cost']:+.1%}",
                f"{row['cost_min']:+.1%} to {row['cost_max']:+.1%}",
                f"{row['shards_cost']:+.1%}",
                f"{row['ledger_us']:.1f}",
                f"{row['bids_more']:+.2f}",
                f"{row['refused']:.1%}",
                f"{row['on_us'] / entry['floor_us']:.2f} ×",
                target,
            ]
        )
    about = (
        f"Open loop at {entry['rate_per_s']}/s, {entry['share']:.0%} of the closed loop without "
        "budgets. Record, notices and beacons are on in all rows, and every beacon is called: so "
        "every win is reserved, settled, and recorded as billed. µs are of all threads of the "
        f"process; without budgets {entry['off_us']:.0f} (spread {entry['off_spread']:.1%}), the "
        f"floor, which has no notices, {entry['floor_us']:.0f}. Each ratio is of two rounds next to "
        "each other; the middle is told.\n"
    )
    names = "".join(f"- *{row['name']}*: {row['about']}.\n" for row in entry["rows"])
    found = [
        [
            pair["round"],
            pair["row"],
            f"{pair['off_us']:.1f}",
            f"{pair['on_us']:.1f}",
            f"{pair['cost']:+.2%}",
            f"{pair['shards_off_us']:.1f}",
            f"{pair['shards_on_us']:.1f}",
            f"{pair['shards_cost']:+.2%}",
        ]
        for pair in entry["pairs"]
    ]
    columns = ["round", "row", "without, µs", "with, µs", "more"]
    columns += ["shards without, µs", "shards with, µs", "more "]
    title = f"## {entry['name']}: {entry['title']}\n"
    parts = [title, about, table(head, rows), names]
    parts += write_instructions(entry, table)
    return "\n".join([*parts, table(columns, found)])


def write_instructions(entry: dict, table: Table) -> list[str]:
    """The counts of valgrind, if there are any."""
    if not entry["instructions"]:
        return []
    about = (
        "Instructions of an auction outside the kernel, of all threads, counted by valgrind; breakers "
        "are off. What the ledger's thread does by the clock is not in them, but is in the times above.\n"
    )
    head = ["row", "auctions", "instructions", "more", "calls to DSPs", "reserved", "refused"]
    rows = [
        [
            row["name"],
            row["auctions"],
            f"{row['instructions']:.0f}",
            f"{row['more']:+.1%}",
            f"{row['calls']:.2f}",
            f"{row['reserved']:.2f}",
            f"{row['refused']:.2f}",
        ]
        for row in entry["instructions"]
    ]
    base = entry["instructions"][0]
    parts_head = ["row", *base["parts"], "own, of an auction", "bids", "more by a bid, at most"]
    parts = [
        [
            row["name"],
            *(f"{row['parts'][name] - base['parts'][name]:+.0f}" for name in base["parts"]),
            f"{counted.own_share(row, base):.1%}",
            f"{row['bids'] - base['bids']:+.2f}",
            by_bid(row, entry["instructions"]),
        ]
        for row in entry["instructions"][1:]
    ]
    split = (
        "Of these, by the functions that do it, beside the first row. *Own* is all but *judging*, which "
        "is any bid's. *More by a bid* is what a row of campaigns takes beyond the row of seats, but for "
        "what is its own, divided by the bids that it has more.\n"
    )
    return [about, table(head, rows), split, table(parts_head, parts)]


def by_bid(row: dict, rows: Sequence[dict]) -> str:
    """The cost of a direct campaign's bid that any bid has: judging, clearing, its part of the
    record."""
    base, seats = rows[0], rows[1]
    bids = row["bids"] - seats["bids"]
    if row is seats or bids <= 0:
        return "–"
    own = (counted.own_share(row, base) - counted.own_share(seats, base)) * base["instructions"]
    return f"{(row['instructions'] - seats['instructions'] - own) / bids:.0f}"
