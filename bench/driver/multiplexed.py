"""HTTP/2 to DSPs, compared with HTTP/1.1 and with the floor of each, in clear and under TLS.

Each row is measured at given rates, and with as many auctions in flight as keep its core busy.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from driver import figures, variants
from driver.programs import Bench, FleetOptions, Terms
from driver.throughput import Rounds, Say, line
from driver.variants import Variant

DSPS = 50
# Answers after 2 to 20 ms, 30 % of them bids.
PROFILES = f"""[[dsp]]
count = {DSPS}
bids = "30%"
latency = {{ min = "2ms", median = "8ms", p99 = "20ms" }}
"""
# In flight for the most that a core does: with fewer, the DSPs' latency would limit it.
IN_FLIGHT = 128
# Largest share of requests refused for overload.
REFUSED_MAX = 0.01
RATES_PER_S: tuple[int | None, ...] = (500, 1500, None)


@dataclass(frozen=True)
class Row:
    """A program and its protocol; `base` and `floor` are names of rows."""

    variant: Variant
    base: str
    # Least share of the base, by rate; None is the most.
    targets: dict[int | None, float]


def rows() -> tuple[Row, ...]:
    """Each after those that it is compared with."""
    clear = FleetOptions(DSPS, profiles=PROFILES)
    tls = replace(clear, tls=True)
    one = Terms(dsp='http = "1.1"\n')
    two = Terms(dsp='http = "2"\n', floor=("--http2",))

    def row(
        name: str, base: str, variant: Variant, targets: dict[int | None, float] | None = None
    ) -> Row:
        return Row(replace(variant, name=name, base=base), base, targets or {})

    def of(fleet: FleetOptions, terms: Terms, program: str, floor: str | None = None) -> Variant:
        return Variant("", "", fleet, program, terms, floor=floor)

    return (
        row("floor, 1.1", "floor, 1.1", of(clear, one, "floor")),
        row("floor, 2", "floor, 1.1", of(clear, two, "floor")),
        row("1.1", "1.1", of(clear, one, "vickrey", "floor, 1.1")),
        row("2", "1.1", of(clear, two, "vickrey", "floor, 2"), {1500: 1.6, None: 2.0}),
        row("TLS, 1.1", "TLS, 1.1", of(tls, one, "vickrey")),
        row("TLS, 2", "TLS, 1.1", of(tls, two, "vickrey"), {1500: 1.8, None: 2.2}),
    )


def multiplexed(bench: Bench, rounds: Rounds, say: Say) -> dict:
    """Every row in turn, round by round, at each rate."""
    many = replace(bench, in_flight=IN_FLIGHT)
    loads: list[dict] = []
    for rate_per_s in RATES_PER_S:
        load = f"{rate_per_s}/s" if rate_per_s else f"{IN_FLIGHT} in flight"
        measured: list[dict] = []
        for number in range(1, rounds.count + 1):
            for row in rows():
                pace = (0, rounds.seconds, rate_per_s)
                measured.append(variants.one_round(many, row.variant, pace, number))
                say(f"  {load:<14} round {number}  {line(measured[-1])}")
        loads.append({"load": load, "rate_per_s": rate_per_s} | conclude(rate_per_s, measured))
    return {
        "name": "http2",
        "kind": "multiplexed",
        "title": f"HTTP/2 to {DSPS} DSPs that answer after 2 to 20 ms",
        "loads": loads,
        "void": any(load["void"] for load in loads),
        "problems": [problem for load in loads for problem in load["problems"]],
    }


def conclude(rate_per_s: int | None, measured: list[dict]) -> dict:
    """Medians of each row, and their ratios to base and floor."""
    concluded: dict[str, dict] = {}
    for row in rows():
        own = [each for each in measured if each["program"] == row.variant.name]
        figure = figures.spread([each["auctions_per_cpu_s"] for each in own])
        base = concluded.get(row.base, figure)
        floor = concluded.get(row.variant.floor or "")
        calls = [each["auctions"] * DSPS for each in own]
        fleet_s = [each["fleet_busy"] * each["wall_s"] for each in own]
        # A refusal for overload costs next to nothing, and would make a row look cheap.
        refused = max(each["counts"]["nbr"] / max(1, each["auctions"]) for each in own)
        figure |= {
            "base": row.base,
            "of_base": figures.ratio(figure["median"], base["median"]),
            "of_floor": figures.ratio(figure["median"], floor["median"]) if floor else None,
            "target": row.targets.get(rate_per_s),
            "answers_per_s": figures.spread([each["answers_per_s"] for each in own])["median"],
            "connections": max(each["connections"] for each in own),
            "dsps_us_per_call": round(1e6 * sum(fleet_s) / max(1, sum(calls)), 2),
            "refused": round(refused, 4),
            "void": any(each["void"] for each in own) or refused > REFUSED_MAX,
        }
        concluded[row.variant.name] = figure
    return {
        "rows": concluded,
        "rounds": measured,
        "void": any(row["void"] for row in concluded.values()),
        "problems": [problem for each in measured for problem in variants.problems(each)],
    }


def write(
    entry: dict,
    table: Callable[[list[str], list[list[object]]], str],
    verdict: Callable[[bool, bool], str],
) -> str:
    """The page's part."""
    parts = [f"## {entry['name']}: {entry['title']}\n"]
    parts.append(
        "A row's server has its core to itself; a row is void if the testbed's core was over 80 % "
        "busy in one of its rounds, or if more than 1 % of its requests were refused for overload. `connections` are those to all DSPs at the end.\n"
    )
    head = [
        "row",
        "auctions/CPU-s, median",
        "spread",
        "µs of CPU",
        "auctions/s",
        "of",
        "ratio",
        "of the floor with the same",
        "DSPs' µs per call",
        "connections",
        "target",
    ]
    for load in entry["loads"]:
        lines: list[list[object]] = []
        for name, row in load["rows"].items():
            void = load["rows"][row["base"]]["void"] or row["void"]
            target = ""
            if row["target"] is not None:
                is_met = (row["of_base"] or 0.0) >= row["target"]
                target = f"≥ {row['target']:.1f}: {verdict(is_met, void)}"
            lines.append(
                [
                    name + (" (void)" if row["void"] else ""),
                    f"{row['median']:.0f}",
                    f"{row['spread']:.0%}",
                    f"{1e6 / row['median']:.0f}" if row["median"] else "",
                    f"{row['answers_per_s']:.0f}",
                    row["base"],
                    f"{row['of_base']:.2f}" if row["of_base"] else "",
                    f"{row['of_floor']:.2f}" if row["of_floor"] else "",
                    row["dsps_us_per_call"],
                    row["connections"] or "",
                    target,
                ]
            )
        parts.append(f"**{load['load']}**\n")
        parts.append(table(head, lines))
    return "\n".join(parts)
