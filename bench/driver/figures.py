"""The arithmetic behind every figure: medians, shares of a core, the rule that voids a run, and the
parsing of programs' output.

Pure: it must not know files, processes or clocks.
"""

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

# Above this share of its core, the testbed may be the bottleneck.
TESTBED_BUSY_MAX = 0.80

# Below this share, breakers throttled healthy DSPs, and a run did less than it seems.
ASKED_MIN = 0.999

# Target of raising the latency, so that rounds stay below the maximum.
TESTBED_BUSY_AIM = 0.72

# The first latency of DSPs to try, as a share of the auction time required by Little's law; the
# rest is the server's own time, and the search goes up from below.
LATENCY_SHARE = 0.6


@dataclass(frozen=True)
class CoreTimes:
    """The counters of one core in /proc/stat since boot, in clock ticks."""

    busy: int
    steal: int
    total: int


@dataclass(frozen=True)
class Sample:
    """One line of a metrics page."""

    name: str
    labels: Mapping[str, str]
    value: float


def core_times(proc_stat: str, core: int) -> CoreTimes:
    """The counters of `core`. Busy time excludes idle and disk wait, but includes stolen time,
    which no program here could use."""
    for line in proc_stat.splitlines():
        name, _, rest = line.partition(" ")
        if name == f"cpu{core}":
            # User time already includes guest time, which follows the first eight.
            ticks = [int(field) for field in rest.split()[:8]]
            total, idle = sum(ticks), ticks[3] + ticks[4]
            return CoreTimes(busy=total - idle, steal=ticks[7], total=total)
    raise ValueError(
        f"/proc/stat has no core {core}; choose another with --server-core or --testbed-core"
    )


def busy_share(before: CoreTimes, after: CoreTimes) -> float:
    """The busy share of the time between two readings, from 0 to 1."""
    total = after.total - before.total
    return (after.busy - before.busy) / total if total > 0 else 0.0


def steal_share(before: CoreTimes, after: CoreTimes) -> float:
    """The share of the time between two readings that the hypervisor took, from 0 to 1."""
    total = after.total - before.total
    return (after.steal - before.steal) / total if total > 0 else 0.0


def schedstat_ns(texts: Sequence[str]) -> int:
    """Total run time of the threads with these `schedstat` files, in nanoseconds."""
    return sum(int(text.split()[0]) for text in texts)


def user_system_ticks(stat: str) -> tuple[int, int]:
    """User and system time of /proc/PID/stat, in clock ticks."""
    # The name, in parentheses, may hold spaces and parentheses of its own.
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]), int(fields[12])


def is_void(testbed_busy: float) -> bool:
    """Whether a round is void because the testbed's core was too busy."""
    return testbed_busy > TESTBED_BUSY_MAX


def next_latency_ms(latency_ms: int, in_flight: int, answers_per_s: float, own_busy: float) -> int:
    """The latency of DSPs to try after a void round at `latency_ms`: a closed loop then sends less.
    Jumps to a share of what Little's law requires, then rises by a tenth. `own_busy` is the
    testbed's share of its core; if that is low enough, other processes voided the round, no latency
    helps, and the same is tried again."""
    if own_busy <= TESTBED_BUSY_AIM or answers_per_s <= 0:
        return latency_ms
    wanted_per_s = answers_per_s * TESTBED_BUSY_AIM / own_busy
    auction_ms = 1000 * in_flight / wanted_per_s
    return max(latency_ms + max(1, latency_ms // 10), int(LATENCY_SHARE * auction_ms))


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, minimum, maximum, and their distance relative to the median."""
    median = statistics.median(values)
    low, high = min(values), max(values)
    relative = (high - low) / median if median else 0.0
    return {"median": median, "min": low, "max": high, "spread": relative}


def ratio(value: float, base: float) -> float | None:
    """`value` over `base`. None without a base."""
    return value / base if base > 0 else None


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Least-squares slope of y over x; 0 with too few points."""
    if len({x for x, _ in points}) < 2:
        return 0.0
    return statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope


def metrics(page: str) -> list[Sample]:
    """The samples of a metrics page."""
    samples = []
    for line in page.splitlines():
        match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        if match and not line.startswith("#"):
            labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or ""))
            samples.append(Sample(match[1], labels, float(match[3])))
    return samples


def since(before: Sequence[Sample], after: Sequence[Sample]) -> list[Sample]:
    """The increases of counters and histograms between two readings of a page."""
    base = {(s.name, *sorted(s.labels.items())): s.value for s in before}
    return [
        Sample(s.name, s.labels, s.value - base.get((s.name, *sorted(s.labels.items())), 0.0))
        for s in after
    ]


def total(samples: Sequence[Sample], name: str, **labels: str) -> float:
    """Sum of the samples of this name that have these labels."""
    wanted = labels.items()
    return sum(s.value for s in samples if s.name == name and wanted <= s.labels.items())


def total_of(samples: Sequence[Sample], name: str, dsps: str, **labels: str) -> int:
    """Sum of the samples of this name and these labels over the DSPs with this prefix."""
    chosen = [s for s in samples if s.labels.get("dsp", "").startswith(dsps)]
    return int(total(chosen, name, **labels))


def asked_share(samples: Sequence[Sample], auctions: int, dsps: int) -> float | None:
    """Calls to DSPs as a share of those that these auctions could make. None without counters."""
    calls = total(samples, "vickrey_exchange_dsp_calls_total")
    return ratio(calls, auctions * dsps) if calls else None


def sums_by(samples: Sequence[Sample], name: str, label: str) -> dict[str, int]:
    """Sums of the samples of this name by the values of one label."""
    sums: dict[str, int] = {}
    for sample in samples:
        if sample.name == name:
            value = sample.labels[label]
            sums[value] = sums.get(value, 0) + int(sample.value)
    return sums


def overshoot_us(samples: Sequence[Sample], auctions: int) -> dict[str, float]:
    """Quantiles, over all auctions, of the time past the deadline, in microseconds; each is the end
    of its bucket. The exchange records only misses, so all other auctions count as 0."""
    name = "vickrey_exchange_overshoot_seconds"
    buckets = sorted(
        (float(s.labels["le"].replace("+Inf", "inf")), s.value)
        for s in samples
        if s.name == f"{name}_bucket"
    )
    misses = total(samples, f"{name}_count")

    def quantile(share: float) -> float:
        rank = math.ceil(share * auctions) - (auctions - misses)
        if rank <= 0:
            return 0.0
        return next((1e6 * end for end, count in buckets if count >= rank), math.inf)

    shares = {"p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1.0}
    return {"missed": misses} | {key: quantile(share) for key, share in shares.items()}


def past_deadline(run: Mapping) -> dict[str, int]:
    """Numbers of auctions of a run with a `tmax` that were past it, by two clocks. The exchange's
    runs from the arrival of the request to its response; the hammer's, which is the caller's, from
    the intended time of the request to the arrival of the answer."""
    if run["overshoot_hammer_us"] is None:
        raise ValueError("the hammer was told of no deadline")
    return {
        "exchange": int(run["overshoot_exchange_us"]["missed"]),
        "hammer": run["counts"]["after_tmax"],
    }


def worst_overshoot_us(run: Mapping, quantile: str) -> float:
    """A quantile of the time past the deadline, by the worse of both clocks."""
    return max(run[f"overshoot_{clock}_us"][quantile] for clock in ("exchange", "hammer"))


def fleet_totals(stdout: str) -> dict[str, int]:
    """The final counts of `vickrey dsp`, except for notices."""
    names = ("requests", "bid_answers", "bids", "no_bids", "late", "malformed")
    match = re.search(
        r"(\d+) requests: (\d+) answered with (\d+) bids, (\d+) without, (\d+) late, "
        r"(\d+) malformed",
        stdout,
    )
    if match is None:
        raise ValueError(f"the DSPs ended without their totals: {stdout[-200:]!r}")
    return dict(zip(names, map(int, match.groups()), strict=True))


def fleet_notices(stdout: str) -> dict[str, dict[str, int]]:
    """The final counts of notices of `vickrey dsp`, by kind; kinds without calls are absent."""
    names = ("counted", "failed", "malformed", "repeated", "overpriced")
    line = r"\d+ calls of (\w+): " + ", ".join(rf"(\d+) {name}" for name in names)
    return {
        found[1]: dict(zip(names, map(int, found.groups()[1:]), strict=True))
        for found in re.finditer(line, stdout)
    }


def kind_of_thread(name: str) -> str:
    """The kind of a thread: `shard-0` and `shard-1` are `shard`."""
    return re.sub(r"-\d+$", "", name)


def http_body(reader: BinaryIO) -> bytes:
    """The body of one HTTP/1.1 message with a content length."""
    length = 0
    for line in iter(reader.readline, b"\r\n"):
        if not line:
            raise ValueError("the message ended in its head")
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return reader.read(length)


def name_value_pairs(stderr: str) -> dict[str, float]:
    """The last line of the floor or a peer, which begins with `auctions`."""
    lines = [line for line in stderr.splitlines() if line.startswith("auctions ")]
    words = lines[-1].split() if lines else []
    return {name: float(value) for name, value in zip(words[::2], words[1::2], strict=True)}


def strace_calls(summary: str) -> dict[str, int]:
    """Calls by name, from the table of `strace -c`."""
    calls = {}
    for line in summary.splitlines():
        # % time, seconds, usecs/call, calls, errors (may be absent), name
        fields = line.split()
        if len(fields) in (5, 6) and fields[3].isdigit() and fields[-1] != "total":
            calls[fields[-1]] = int(fields[3])
    return calls


def perf_counts(csv: str) -> dict[str, float]:
    """Counts by event, from `perf stat -x,`; events that could not be counted are absent."""
    counts = {}
    for line in csv.splitlines():
        fields = line.split(",")
        if len(fields) > 2 and re.fullmatch(r"\d+(\.\d+)?", fields[0]):
            counts[fields[2]] = float(fields[0])
    return counts
