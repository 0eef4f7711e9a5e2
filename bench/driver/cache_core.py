"""The cache's directory as a library: its lock, its look-ups and its hit ratio, beside other locks and
other caches.

No sockets. Owns the figures of `bench-cache`; each comes from every round's median.
"""

import json
import os
import statistics
import subprocess
from collections.abc import Callable, Sequence

from driver.programs import Bench, Failed
from driver.throughput import Rounds, Say

# As one program alone: of linear from 1 to 2 threads, nanoseconds of a look-up, of the best crate.
SCALING_MIN, LOOKUP_NS_MAX, LOOKUP_SHARE_MAX = 0.95, 60.0, 1.2
# In points below the best crate.
HIT_RATIO_MAX = 2.0
THREADS_MAX = 16
MILLISECONDS = 120
TOOL_S = 600

OWN = "directory"
# A map that nothing protects: what the machine's cores allow for.
UNPROTECTED = "std-map"
CRATES = ("quick_cache", "moka", "tinyufo")


def cache_core(bench: Bench, rounds: Rounds, say: Say) -> dict:
    """All three tables, on every core of the machine."""
    cores = sorted(cores_of_machine())
    if len(cores) < 2:
        raise Failed("cache-core needs two cores")
    threads = max(count for count in (2, 4, 8, THREADS_MAX) if count <= len(cores))
    loops = ["--threads", threads, "--milliseconds", MILLISECONDS]
    found: dict[str, list[dict]] = {"locks": [], "lookup": [], "hit-ratio": []}
    for number in range(rounds.count):
        for command, lines in found.items():
            arguments = ["--seed", number] if command == "hit-ratio" else loops
            lines += tool(bench, cores, command, *arguments)
        say(f"  round {number + 1} of {rounds.count}")
    locks = medians(found["locks"], ("bytes", "reads_per_write", "kind", "threads"))
    lookups = medians(found["lookup"], ("keys", "bytes", "kind", "threads"))
    ratios = medians(found["hit-ratio"], ("sizes", "percent", "scans", "kind"))
    return {
        "name": "cache-core",
        "kind": "cache_core",
        "title": "the cache's directory beside other locks and caches, as library loops",
        "threads": threads,
        "locks": locks,
        "lookups": lookups,
        "hit_ratios": ratios,
        "figures": figures_of(lookups, ratios),
        "void": False,
        "problems": [],
    }


def cores_of_machine() -> set[int]:
    """The driver keeps to one core itself, so it may not be asked for its own."""
    return set(range(os.cpu_count() or 1))


def tool(bench: Bench, cores: Sequence[int], *arguments: object) -> list[dict]:
    """Its lines. The driver sleeps meanwhile."""
    argv = ["taskset", "-c", ",".join(map(str, cores)), bench.programs / "bench-cache", *arguments]
    done = subprocess.run(
        list(map(str, argv)), capture_output=True, text=True, timeout=TOOL_S, check=False
    )
    if done.returncode != 0:
        raise Failed(f"bench-cache {arguments[0]}: {done.stderr.strip()[-400:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def medians(lines: Sequence[dict], keys: Sequence[str]) -> list[dict]:
    """One line for all rounds of the same kind: each figure's median."""
    groups: dict[tuple, list[dict]] = {}
    for line in lines:
        groups.setdefault(tuple(line[key] for key in keys), []).append(line)
    return [
        {
            name: value if name in keys else median([line[name] for line in group])
            for name, value in group[0].items()
        }
        for group in groups.values()
    ]


def median(values: Sequence[float | None]) -> float | None:
    """Of those there are."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def figures_of(lookups: Sequence[dict], ratios: Sequence[dict]) -> dict:
    """What the targets are about."""

    def rate(kind: str, keys: int, threads: int, copied: int) -> float:
        fits = {"kind": kind, "keys": keys, "threads": threads, "bytes": copied}
        return next(line["reads_per_second"] for line in lookups if line.items() >= fits.items())

    lookup_ns = {kind: 1e9 / rate(kind, 10_000, 1, 0) for kind in (OWN, *CRATES)}
    best_ns = min(lookup_ns[kind] for kind in CRATES)
    widest = max(line["threads"] for line in lookups)
    behind = max(
        (best_of(ratios, own) - own["hit_ratio"]) * 100
        for own in ratios
        if own["kind"] == OWN and not own["sizes"]
    )

    def scaling(kind: str, threads: int) -> float:
        return rate(kind, 1, threads, 1024) / rate(kind, 1, 1, 1024) / threads

    return {
        "scaling": {threads: [scaling(OWN, threads), scaling(UNPROTECTED, threads)] for threads in (2, widest)},
        "lookup_ns": lookup_ns[OWN],
        "best_lookup_ns": best_ns,
        "hit_ratio_behind": behind,
    }


def best_of(ratios: Sequence[dict], own: dict) -> float:
    """The best crate's ratio in the same trace."""
    trace = {key: own[key] for key in ("sizes", "percent", "scans")}
    return max(
        line["hit_ratio"]
        for line in ratios
        if line["kind"] in CRATES and line.items() >= trace.items()
    )


def write(entry: dict, table: Callable[..., str], verdict: Callable[[bool, bool], str]) -> str:
    """A table of each kind, then the targets."""
    parts = [f"## {entry['name']}: {entry['title']}"]
    counts = [count for count in (1, 2, 4, 8, 16) if count <= entry["threads"]]
    heads = [f"{count} threads" if count > 1 else "1 thread" for count in counts]
    for copied, reads in unique(entry["locks"], "bytes", "reads_per_write"):
        of = [line for line in entry["locks"] if (line["bytes"], line["reads_per_write"]) == (copied, reads)]
        writes = f"a write per {reads} reads of a thread" if reads else "no writes"
        parts += [
            f"One value under each lock, {what_is_read(copied)}, {writes}: millions of reads per second.",
            table(["lock", *heads, "write, p99 us"], [lock_row(kind, of, counts) for kind in kinds(of)]),
        ]
    for keys, copied in unique(entry["lookups"], "keys", "bytes"):
        of = [line for line in entry["lookups"] if (line["keys"], line["bytes"]) == (keys, copied)]
        what = "One hot key" if keys == 1 else f"{keys} keys by Zipf's law"
        parts += [
            f"{what}, {what_is_read(copied)}: millions of look-ups per second.",
            table(["cache", *heads], [[kind, *rates(kind, of, counts)] for kind in kinds(of)]),
        ]
    parts += ["Hit ratio, and by bytes, in percent, of 10,000 keys by Zipf's law.", ratios_table(entry, table)]
    return "\n\n".join([*parts, sentence(entry["figures"], verdict)]) + "\n"


def unique(lines: Sequence[dict], *keys: str) -> list[tuple]:
    """In their order."""
    return list(dict.fromkeys(tuple(line[key] for key in keys) for line in lines))


def kinds(lines: Sequence[dict]) -> list[str]:
    """In their order."""
    return [kind for (kind,) in unique(lines, "kind")]


def what_is_read(copied: int) -> str:
    return f"{copied} bytes copied" if copied else "one word read"


def rates(kind: str, lines: Sequence[dict], counts: Sequence[int]) -> list[str]:
    by_threads = {line["threads"]: line for line in lines if line["kind"] == kind}
    return [f"{by_threads[count]['reads_per_second'] / 1e6:.1f}" for count in counts]


def lock_row(kind: str, lines: Sequence[dict], counts: Sequence[int]) -> list[str]:
    """Its rates, and the writes' latency at the most threads."""
    write_ns = next(
        line["write_ns_p99"]
        for line in lines
        if line["kind"] == kind and line["threads"] == counts[-1]
    )
    return [kind, *rates(kind, lines, counts), f"{write_ns / 1e3:.1f}" if write_ns else "–"]


def ratios_table(entry: dict, table: Callable[..., str]) -> str:
    traces = unique(entry["hit_ratios"], "sizes", "percent", "scans")
    head = ["cache"]
    for sizes, percent, scans in traces:
        head.append(f"{percent} %{', scans' if scans else ''}{', sizes' if sizes else ''}")
    rows = []
    for kind in kinds(entry["hit_ratios"]):
        of = [line for line in entry["hit_ratios"] if line["kind"] == kind]
        rows.append(
            [kind, *(f"{100 * line['hit_ratio']:.1f} / {100 * line['hit_ratio_bytes']:.1f}" for line in of)]
        )
    return table(head, rows)


def sentence(found: dict, verdict: Callable[[bool, bool], str]) -> str:
    """The targets."""
    texts = []
    for threads, (own, unprotected) in found["scaling"].items():
        text = f"to {threads} threads {own:.2f} of linear (a map that nothing protects {unprotected:.2f})"
        if int(threads) == 2:
            text += f", at least {SCALING_MIN}: {verdict(own >= SCALING_MIN, False)}"
        texts.append(text)
    scaling = f"One hot key, 1,024 bytes copied, from 1 thread {'; '.join(texts)}. "
    share = found["lookup_ns"] / found["best_lookup_ns"]
    is_fast = found["lookup_ns"] <= LOOKUP_NS_MAX and share <= LOOKUP_SHARE_MAX
    is_close = found["hit_ratio_behind"] <= HIT_RATIO_MAX
    return scaling + (
        f"A look-up of a 75-byte key: {found['lookup_ns']:.1f} ns, the best crate "
        f"{found['best_lookup_ns']:.1f} ns; at most {LOOKUP_NS_MAX:.0f} ns and {LOOKUP_SHARE_MAX} of the "
        f"best: {verdict(is_fast, False)}. Hit ratio: at most {found['hit_ratio_behind']:.1f} points below "
        f"the best crate in the same trace, where values have one size; at most {HIT_RATIO_MAX:.0f}: "
        f"{verdict(is_close, False)}."
    )
