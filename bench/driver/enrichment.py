"""What three enrichments cost an auction: as a loop, and as CPU of a server whose data is in memory.

Owns the scenario `enrichment` and its targets. The loop's figures are of one core without sockets; the
server's are of auctions with 50 DSPs, in turn with and without enrichments.
"""

import re
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from driver import lookup
from driver.programs import NO_TERMS, Argv, Bench, Child, FleetOptions, Load, Terms, fleet, hammer, serving
from driver.throughput import START, WARM_UP_S, Rounds, Say, line, measure

P99_US_MAX = 20.0
CPU_SHARE_MAX = 0.02
DSPS = 50
# Leaves both cores idle time.
RATE_PER_S = 800
LOOP = ("added_ns_mean", "found_ns_p99", "with_edits_ns_p99")
# Hosts of the providers that the example describes.
PORTS = (7511, 7512, 7513)

LOOKUP = """
[lookup]
listen = "127.0.0.1:0"
maps = "{maps}"
"""


@contextmanager
def providers(bench: Bench, deploy: Path) -> Iterator[Terms]:
    """Simulated providers of the example, and the configuration of an exchange that asks them."""
    argv: Argv = [bench.programs / "vickrey", "provider", "--json", "--count", str(len(PORTS))]
    with Child(bench, "providers", argv, bench.testbed_core) as child:
        urls = child.wait_for(child.stdout, r'"urls":\[([^\]]+)\]')
        text = (deploy / "maps/audience.toml").read_text()
        for port, url in zip(PORTS, re.findall(r'"([^"]+)"', urls), strict=True):
            text = text.replace(f"http://127.0.0.1:{port}", url)
        maps = bench.folder / "audience.toml"
        maps.write_text(text)
        tables = (deploy / "enrichment.toml").read_text()
        yield Terms(exchange=tables + LOOKUP.format(maps=maps))


def enrichment(bench: Bench, deploy: Path, rounds: Rounds, say: Say) -> dict:
    """The loop, and both servers in turn. `deploy` has the examples of a map and of enrichments."""
    loops, rates, shares, is_void = [], {"without": [], "with": []}, [], False
    with providers(bench, deploy) as terms, fleet(bench, FleetOptions(DSPS)) as dsps:
        for number in range(1, rounds.count + 1):
            loops.append(lookup.tool(bench, "enrich")[0])
            for kind, of in (("without", NO_TERMS), ("with", terms)):
                with serving(bench, "vickrey", dsps, of) as server:
                    for load in (START, Load(WARM_UP_S, rate_per_s=RATE_PER_S)):
                        hammer(bench, server.url, load)
                    found = measure(bench, server, dsps, Load(rounds.seconds, rate_per_s=RATE_PER_S))
                    is_void |= found["void"]
                    rates[kind].append(found["auctions_per_cpu_s"])
                    if kind == "with":
                        shares.append(coverage(server.metrics()))
                say(f"  round {number} {kind:<8} {line({'program': kind} | found)}")
    return {
        "name": "enrichment",
        "kind": "enrichment",
        "title": "three enrichments of each auction, from memory",
        "loop": {key: statistics.median(each[key] for each in loops) for key in LOOP},
        "auctions_per_cpu_s": {kind: statistics.median(each) for kind, each in rates.items()},
        "coverage": min(shares),
        "void": is_void,
        "problems": [],
    }


def coverage(samples: list) -> float:
    """The share of enrichments with data, of those whose request has the value."""
    counts: dict[str, float] = {}
    for sample in samples:
        if sample.name == "vickrey_exchange_enrichments_total":
            outcome = sample.labels["outcome"]
            counts[outcome] = counts.get(outcome, 0.0) + sample.value
    asked = sum(counts.values()) - counts.get("no_value", 0.0)
    return (counts.get("added", 0.0) + counts.get("stale", 0.0)) / asked if asked else 0.0


def write(
    entry: dict,
    table: Callable[..., str],
    verdict: Callable[[bool, bool], str],
    void: Callable[[dict], str],
) -> str:
    """The loop's figures as shares of an auction, then what the server's CPU says."""
    loop, rates = entry["loop"], entry["auctions_per_cpu_s"]
    p99_us = loop["with_edits_ns_p99"] / 1_000
    share = loop["added_ns_mean"] * rates["without"] / 1e9
    rows = [
        [
            "p99 of finding the data and editing the request",
            f"{p99_us:.1f} µs",
            f"at most {P99_US_MAX:.0f} µs",
            verdict(p99_us <= P99_US_MAX, False),
        ],
        [
            "what they add on average, of an auction's CPU",
            f"{share:.2%}",
            f"at most {CPU_SHARE_MAX:.0%}",
            verdict(share <= CPU_SHARE_MAX, entry["void"]),
        ],
    ]
    ratio = rates["with"] / rates["without"]
    return "\n\n".join(
        [
            f"## {entry['name']}: {entry['title']}{void(entry)}",
            table(["three enrichments", "measured", "target", ""], rows),
            f"An auction with {DSPS} DSPs: {rates['without']:,.0f} per CPU-second without them, {rates['with']:,.0f} with "
            f"them, {ratio:.3f} of it, look-ups included. The share above is the loop's mean, {loop['added_ns_mean'] / 1_000:.1f} "
            f"µs, of the CPU of an auction without them: the difference of the two servers also has larger requests for "
            f"{DSPS} DSPs. {entry['coverage']:.1%} of requests with the value had data.",
        ]
    ) + "\n"
