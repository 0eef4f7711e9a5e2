"""What strategies buy with a budget, on generated streams of many kinds.

Each value is a share of the optimum in hindsight, beside what hindsight buys hour by hour along the
same curve. Streams have seeds, so figures are the same on every machine. Owns the kinds, the
figures and their table; `vickrey simulate` makes and spends on the streams.
"""

import json
import statistics
import subprocess
from collections.abc import Callable, Sequence
from typing import NamedTuple

from driver.programs import Bench, Failed
from driver.throughput import Say

Table = Callable[..., str]

DEFAULT = "slot_dual"
# Strategies that change prices; throttles buy a third less and are left out.
PEERS = ("pid", "adaptive")
SHARES = ("1/64", "1/32", "1/8", "1/2")

# Constants of strategies were chosen with seeds below 100.
SEED_FIRST = 1001

# Limit of what another strategy buys more, as a share of the optimum: noise between seeds.
BEHIND_MAX = 0.005
# Minimum share of hindsight by the hour.
OF_HOURLY_MIN = 0.99
DELIVERY_MIN = 0.99
RUN_S = 120


class Kind(NamedTuple):
    """A kind of stream."""

    profile: str
    auctions: int


# A day of 150,000 is two auctions per second; of 15,000, a campaign that wins once in a few
# minutes.
KINDS = (
    Kind("flat", 150_000),
    Kind("diurnal", 150_000),
    Kind("bursty", 150_000),
    Kind("drift-up", 150_000),
    Kind("shock", 150_000),
    Kind("correlated", 150_000),
    Kind("heavy-tail", 150_000),
    Kind("fixed-value", 150_000),
    Kind("retargeting", 150_000),
    Kind("night", 150_000),
    Kind("minutely", 150_000),
    Kind("hourly", 150_000),
    Kind("market", 150_000),
    Kind("dear-tail", 150_000),
    Kind("few-dear", 150_000),
    Kind("night-dear", 60_000),
    Kind("diurnal", 15_000),
    Kind("minutely", 15_000),
    Kind("hourly", 15_000),
    Kind("market", 15_000),
    Kind("dear-tail", 15_000),
    Kind("diurnal", 3_000),
)


def pacing(bench: Bench, seeds: int, say: Say) -> dict:
    """Each strategy on each kind with each budget: means over the seeds."""
    runs = []
    for kind in KINDS:
        for number in range(seeds):
            runs += streamed(bench, kind, SEED_FIRST + number)
        own = [row for row in rows_of(runs) if (row["profile"], row["auctions"]) == kind]
        values = ", ".join(f"{row['share']} {row['values'][DEFAULT]:.3f}" for row in own)
        say(f"  {kind.profile} {kind.auctions}: {values}")
    return entry_of(runs)


def streamed(bench: Bench, kind: Kind, seed: int) -> list[dict]:
    """One stream of a kind, with each budget."""
    path = bench.folder / "stream.tsv"
    made = ("--profile", kind.profile, "--auctions", kind.auctions, "--seed", seed, "--out", path)
    simulate(bench, "generate", *made)
    runs = []
    for share in SHARES:
        names = ",".join((DEFAULT, *PEERS))
        asked = ("--auctions", path, "--budget-share", share, "--strategy", names, "--json")
        told = json.loads(simulate(bench, "pacing", *asked))
        figures = {each["strategy"]: each for each in told["strategies"]}
        runs.append(
            {
                "profile": kind.profile,
                "auctions": kind.auctions,
                "seed": seed,
                "share": share,
                "slot_ms": told["slot_ms"],
                "hourly": told["optimum"]["hourly"],
                "values": {name: figures[name]["value_of_optimum"] for name in figures},
                "rmse": figures[DEFAULT]["rmse_target"],
                "delivery": figures[DEFAULT]["delivery"],
                "overspent_nanos": max(each["overspent_nanos"] for each in figures.values()),
            }
        )
    path.unlink()
    return runs


def simulate(bench: Bench, *arguments: object) -> str:
    """The output of `vickrey simulate`."""
    argv = [bench.programs / "vickrey", "simulate", *map(str, arguments)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=RUN_S, check=False)
    if done.returncode != 0:
        raise Failed(f"vickrey simulate {arguments[0]}: {done.stderr.strip()[-400:]}")
    return done.stdout


def rows_of(runs: Sequence[dict]) -> list[dict]:
    """A row for each kind and budget: means over seeds, and the default's worst."""
    rows = []
    for key in dict.fromkeys((run["profile"], run["auctions"], run["share"]) for run in runs):
        own = [run for run in runs if (run["profile"], run["auctions"], run["share"]) == key]
        values = {
            name: statistics.mean(run["values"][name] for run in own) for name in own[0]["values"]
        }
        hourly = statistics.mean(run["hourly"] for run in own)
        ahead = values[DEFAULT] - max(values[name] for name in values if name != DEFAULT)
        rows.append(
            {
                "profile": key[0],
                "auctions": key[1],
                "share": key[2],
                "values": values,
                "hourly": hourly,
                "ahead": ahead,
                "of_hourly": values[DEFAULT] / hourly,
                "rmse_max": max(run["rmse"] for run in own),
                "delivery_min": min(run["delivery"] for run in own),
                "missed": missed(ahead, values[DEFAULT] / hourly, own),
            }
        )
    return rows


def missed(ahead: float, of_hourly: float, runs: Sequence[dict]) -> list[str]:
    """The targets that the default does not meet."""
    checks = {
        "behind": ahead >= -BEHIND_MAX,
        "of hindsight by the hour": of_hourly >= OF_HOURLY_MIN,
        "delivery": min(run["delivery"] for run in runs) >= DELIVERY_MIN,
        "overspent": max(run["overspent_nanos"] for run in runs) == 0,
    }
    return [name for name, is_met in checks.items() if not is_met]


def entry_of(runs: Sequence[dict]) -> dict:
    """The complete entry."""
    rows = rows_of(runs)
    seeds = sorted({run["seed"] for run in runs})
    overspent = [run for run in runs if run["overspent_nanos"]]
    return {
        "name": "pacing",
        "kind": "pacing",
        "title": f"what strategies buy, {len(seeds)} seeds from {seeds[0]} on",
        "seeds": seeds,
        "rows": rows,
        "runs": list(runs),
        "problems": [f"{run['profile']} {run['share']}: overspent" for run in overspent],
    }


def write(entry: dict, table: Table) -> str:
    """A row for each kind and budget, then means of each budget."""
    names = list(entry["rows"][0]["values"])
    head = ["profile", "auctions", "budget", "hindsight by the hour", *names]
    head += ["ahead of others", "of hindsight by the hour"]
    head += ["RMSE, worst", "delivery, worst", "target"]
    rows = [
        [
            row["profile"],
            row["auctions"],
            row["share"],
            f"{row['hourly']:.4f}",
            *(f"{row['values'][name]:.4f}" for name in names),
            f"{row['ahead']:+.4f}",
            f"{row['of_hourly']:.4f}",
            f"{row['rmse_max']:.4f}",
            f"{row['delivery_min']:.4f}",
            f"missed: {', '.join(row['missed'])}" if row["missed"] else "met",
        ]
        for row in entry["rows"]
    ]
    means = []
    for share in dict.fromkeys(row["share"] for row in entry["rows"]):
        own = [row for row in entry["rows"] if row["share"] == share]
        hourly = statistics.mean(row["hourly"] for row in own)
        values = [statistics.mean(row["values"][name] for row in own) for name in names]
        behind = sum("behind" in row["missed"] for row in own)
        figures = [f"{value:.4f}" for value in (hourly, *values)]
        means.append([share, *figures, f"{behind} of {len(own)}"])
    about = (
        "Values are shares of the optimum, the relaxed knapsack over the whole day; the budget is a "
        "share of what bidding at value spends. *Hindsight by the hour* knows each hour, and spends "
        f"along the curve that the strategies follow. Targets of {DEFAULT}: no other strategy is "
        f"ahead by more than {BEHIND_MAX}, {OF_HOURLY_MIN} of hindsight by the hour, "
        f"{DELIVERY_MIN:.0%} delivered by every seed, nothing overspent.\n"
    )
    title = f"## {entry['name']}: {entry['title']}\n"
    mean_head = ["budget", "hindsight by the hour", *names, "others ahead"]
    return "\n".join([title, about, table(head, rows), table(mean_head, means)])
