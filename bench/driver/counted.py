"""Instructions of the exchange per auction, counted by valgrind if it is installed.

Times of equal rounds differ by more than the cost of budgets; counts do not, whatever else the
machine does. Owns the method: two loads of the same length, so that work by the clock, which goes
on while valgrind is slow, is in both; and the functions that attribute instructions to accounts and
campaigns. The kernel's instructions are not counted.
"""

import re
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from driver import figures
from driver.programs import (
    Argv,
    Bench,
    Child,
    Failed,
    Load,
    Server,
    configuration,
    fleet,
    hammer,
)
from driver.throughput import Say
from driver.variants import Variant

# Valgrind makes a program thirty times slower, including its start.
START_S = 120.0
SECONDS = 20
RATES = (10, 40)
# Connections are opened before the first counted auction, in both loads.
GENTLE = Load(4, rate_per_s=5)

# Minimum share of an auction's calls that succeed: calls not sent, or late, are cheap.
CALLS_MIN = 0.99

# To a slow exchange, even a DSP that answers in time looks slow.
UNBROKEN = "breaker = false\n"

COUNTING: Argv = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--fair-sched=yes"]

# The work of accounts and campaigns, by file and function; the first match counts. Functions of the
# standard library count only if they were inlined there.
PARTS = {
    "funnels": r"funnel|shard/counting|shard::counting",
    "decide": (
        r"AuctionPacing|pacer_core::strategy|pacer/core/src/strategy"
        r"|pacer_core::pacing|pacer/core/src/pacing"
    ),
    "search": r"exchange/core/src/campaigns|exchange_core::campaigns|ShardBudget::bid",
    "reserve, settle": (
        r"exchange/serve/src/budgets|exchange_serve::budgets"
        r"|exchange/serve/src/auctions/reservations|exchange_serve::auctions::reservations"
        r"|pacer_core::shard|pacer/core/src/shard"
        r"|exchange_core::judging::win_cost|exchange/core/src/judging/win_cost"
    ),
    "ledger": r"pacer_core|pacer/core|pacer_serve|pacer/serve|redb",
    "judging": (
        r"exchange_core::judging|exchange/core/src/judging"
        r"|exchange_core::creatives|exchange/core/src/creatives|openrtb::response"
    ),
}
# Work for any bid, whatever its source.
OF_ANY_BID = "judging"


@dataclass(frozen=True)
class Counted:
    """One load, and all instructions of the process from start to end."""

    instructions: int
    auctions: int
    calls: int
    reserved: int
    refused: int
    bids: int = 0
    parts: dict[str, int] = field(default_factory=dict)


def is_possible() -> bool:
    """Whether this machine can count instructions."""
    return shutil.which("valgrind") is not None


def rows(bench: Bench, variants: Sequence[Variant], say: Say) -> list[dict]:
    """Each variant under both loads; the others are compared with the first."""
    counted = []
    for variant in variants:
        low, high = (one(bench, variant, Load(SECONDS, rate)) for rate in RATES)
        counted.append(row_of(variant.name, low, high))
        say(f"  {variant.name:<28} {counted[-1]['instructions']:>9.0f} instructions an auction")
    base = counted[0]["instructions"]
    return [row | {"more": row["instructions"] / base - 1} for row in counted]


def row_of(name: str, low: Counted, high: Counted) -> dict:
    """The additional instructions of the higher load, per auction."""
    auctions = high.auctions - low.auctions
    reserved, refused = high.reserved - low.reserved, high.refused - low.refused
    return {
        "name": name,
        "auctions": auctions,
        "instructions": (high.instructions - low.instructions) / auctions,
        "calls": (high.calls - low.calls) / auctions,
        "reserved": reserved / auctions,
        "refused": refused / auctions,
        "bids": (high.bids - low.bids) / auctions,
        "parts": {name: (high.parts[name] - low.parts[name]) / auctions for name in low.parts},
    }


def own_share(row: dict, base: dict) -> float:
    """The instructions of accounts and campaigns alone, as a share of an auction without them.
    Excludes what all bids share, such as judging, and the standard library's work for them."""
    own = sum(
        row["parts"][name] - base["parts"][name] for name in row["parts"] if name != OF_ANY_BID
    )
    return own / base["instructions"]


def of_parts(lines: Iterable[str]) -> dict[str, int]:
    """Instructions by part, from a file of cachegrind."""
    patterns = {name: re.compile(pattern) for name, pattern in PARTS.items()}
    known: dict[tuple[str, str], str | None] = {}
    counts: Counter[str] = Counter()
    file = function = ""
    for line in lines:
        if line.startswith("fl="):
            file = line[3:].strip()
        elif line.startswith("fn="):
            function = line[3:].strip()
        elif line[:1].isdigit():
            place = (file, function)
            if place not in known:
                found = (
                    name for name, pattern in patterns.items() if pattern.search(" ".join(place))
                )
                known[place] = next(found, None)
            if known[place] is not None:
                counts[known[place]] += int(line.split()[1])
    return {name: counts[name] for name in PARTS}


def problems(rows: Sequence[dict], dsps: int) -> list[str]:
    """Rows whose auctions were incomplete."""
    return [
        f"{row['name']}: {row['calls']:.2f} of {dsps} calls were answered while valgrind counted"
        for row in rows
        if row["calls"] < CALLS_MIN * dsps
    ]


def one(bench: Bench, variant: Variant, load: Load) -> Counted:
    """A fresh exchange under valgrind, one load, and its end."""
    load = Load(load.seconds, load.rate_per_s, beacons=variant.beacons, insecure=variant.insecure)
    with fleet(bench, variant.fleet) as dsps:
        file = bench.folder / "counted.toml"
        text = configuration(bench, [dsps], variant.terms)
        file.write_text(text.replace("[[dsp]]\n", "[[dsp]]\n" + UNBROKEN))
        counts = bench.folder / "counted.cachegrind"
        out = f"--cachegrind-out-file={counts}"
        serve: Argv = [bench.programs / "vickrey", "serve", "--shards", "1", "--config", file]
        argv: Argv = [*COUNTING, out, *serve]
        with Child(bench, "counted", argv, bench.server_core) as child:
            taking = r"taking bid requests at (http://[^\s,]+)"
            url = child.wait_for(child.stderr, taking, START_S)
            metrics = child.wait_for(child.stderr, r"metrics and health at (http://[^\s,]+)")
            server = Server(child, url, metrics)
            gentle = replace(GENTLE, beacons=load.beacons, insecure=load.insecure)
            hammer(bench, server.url, gentle)
            hammer(bench, server.url, load)
            page = server.metrics()
            child.stop()
            said = child.stderr.read_text()
    calls = figures.sums_by(page, "vickrey_exchange_dsp_calls_total", "outcome")
    outcomes = figures.sums_by(page, "vickrey_exchange_reservations_total", "outcome")
    return Counted(
        instructions=instructions(said),
        auctions=int(figures.total(page, "vickrey_exchange_auctions_total")),
        calls=calls.get("answered", 0) + calls.get("no_bid", 0),
        reserved=outcomes.get("reserved", 0),
        refused=int(figures.total(page, "vickrey_exchange_wins_refused_total")),
        bids=int(figures.total(page, "vickrey_exchange_bids_total")),
        parts=parts_of(counts),
    )


def parts_of(file: Path) -> dict[str, int]:
    """Instructions by part, from the file that valgrind wrote."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        return of_parts(lines)


def instructions(said: str) -> int:
    """The total that valgrind reports."""
    match = re.search(r"I\s+refs:\s+([\d,]+)", said)
    if match is None:
        raise Failed(f"valgrind has counted nothing: {said.strip()[-400:]}")
    return int(match[1].replace(",", ""))
