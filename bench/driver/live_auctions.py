"""What the feed costs the auctions beside it: the exchange without a live floor, with one subscriber of
all auctions, and with a hundred.

All three write a record. Each message is made, and copied to its shard, once, however many receive it;
so one subscriber shows what publishing costs, its own deliveries included, and the rest of the
hundred is delivery. Owns these figures and their table.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

from driver import figures, variants
from driver.programs import Bench, FleetOptions, Terms
from driver.record import LOG_THREAD, shards_us, thread_us
from driver.scenarios import DSPS
from driver.throughput import PROBE_S, Rounds, Say, line
from driver.variants import Variant, one_round

# Share of the closed loop without a feed.
SHARE = 0.5

# Limit of publishing, as a share of the shards' CPU time.
COST_MAX = 0.03

SUBSCRIBERS = 100
LIVE_THREAD = "live"

OFF = Variant("off", "off", FleetOptions(DSPS), terms=Terms(record=True))
ONE = replace(OFF, name="one subscriber", terms=Terms(record=True, live=True), subscribers=1)
ALL = replace(ONE, name=f"{SUBSCRIBERS} subscribers", subscribers=SUBSCRIBERS)


def live_auctions(bench: Bench, rounds: Rounds, say: Say) -> dict:
    """All three in turn, at one rate, there and back, so that a drift of the machine is in all."""
    closed = one_round(bench, OFF, (rounds.latency_ms, PROBE_S, None), 0)
    say(f"  closed loop       {line(closed)}")
    pace = max(1, int(SHARE * closed["answers_per_s"]))
    measured = []
    for number in range(1, rounds.count + 1):
        for variant in (OFF, ONE, ALL, ALL, ONE, OFF):
            terms = (rounds.latency_ms, rounds.seconds, pace)
            measured.append(one_round(bench, variant, terms, number))
            say(f"  round {number}  {line(measured[-1])}")
    return conclude(pace, measured)


def conclude(pace: int, measured: list[dict]) -> dict:
    """The medians of the rounds' costs, each over its neighbour of the same pass."""
    publishing = cost(measured, ONE.name)
    return {
        "name": "live-auctions",
        "kind": "live_auctions",
        "title": f"auctions among {DSPS} DSPs with a feed and without",
        "rate_per_s": pace,
        "share": SHARE,
        "target": COST_MAX,
        "publishing": publishing,
        "publishing_met": publishing <= COST_MAX,
        "all": cost(measured, ALL.name),
        "rows": [row_of(variant.name, measured) for variant in (OFF, ONE, ALL)],
        "rounds": measured,
        "void": any(each["void"] for each in measured),
        "problems": [problem for each in measured for problem in variants.problems(each)]
        + missed(measured),
    }


def cost(measured: Sequence[dict], name: str) -> float:
    """The median of what the shards used more per auction than without a feed."""
    shares = []
    # A pass has each variant once.
    for start in range(0, len(measured), 3):
        of = {each["program"]: each for each in measured[start : start + 3]}
        shares.append((figures.ratio(shards_us(of[name]), shards_us(of[OFF.name])) or 0.0) - 1)
    return statistics.median(shares)


def row_of(name: str, measured: Sequence[dict]) -> dict:
    """Medians of one variant, in microseconds per auction."""
    own = [each for each in measured if each["program"] == name]
    median = statistics.median
    return {
        "name": name,
        "shards_us": median(map(shards_us, own)),
        "live_us": median(thread_us(each, LIVE_THREAD) for each in own),
        "log_us": median(thread_us(each, LOG_THREAD) for each in own),
        "delivered_per_auction": median(each["delivered"] / each["auctions"] for each in own),
    }


def missed(measured: Sequence[dict]) -> list[str]:
    """Rounds in which auctions did not reach the subscribers: their figures say nothing."""
    found = []
    for each in measured:
        want = each["subscribers"] * each["auctions"]
        if each["delivered"] < 0.99 * want:
            name = f"{each['program']}, round {each['round']}"
            found.append(f"{name}: {each['delivered']} of {want} messages were delivered")
    return found


def write(entry: dict, table: Callable[..., str], verdict: Callable[[bool, bool], str]) -> str:
    """Each variant's row, then what the two with a feed cost."""
    head = ["feed", "shards, us per auction", "live thread", "log thread", "deliveries per auction"]
    rows = [
        [
            row["name"],
            f"{row['shards_us']:.1f}",
            f"{row['live_us']:.1f}",
            f"{row['log_us']:.1f}",
            f"{row['delivered_per_auction']:.2f}",
        ]
        for row in entry["rows"]
    ]
    publishing = verdict(entry["publishing_met"], entry["void"])
    text = (
        f"An open loop at {entry['rate_per_s']}/s, {entry['share']:.0%} of the closed loop's; all three write a "
        f"record. The subscribers' sockets are served by the auctions' shard. Publishing, measured with one "
        f"subscriber and its deliveries: {entry['publishing']:+.1%} of the shards' CPU time per auction, at "
        f"most {entry['target']:.0%}: {publishing}. With {SUBSCRIBERS} subscribers of every auction "
        f"{entry['all']:+.1%}: the difference is delivery."
    )
    return "\n\n".join([f"## {entry['name']}: {entry['title']}", table(head, rows), text]) + "\n"
