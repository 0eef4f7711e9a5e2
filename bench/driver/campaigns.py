"""A hundred thousand campaigns: their memory, and the effect of reloads on auctions.

One exchange without campaigns gives the baseline for memory and latency. Then one with all of them
runs under the same load, undisturbed and with several kinds of reloads. A reload is over when the
exchange says so: for unchanged files when they were read, for changed ones when auctions see them.
"""

import re
import signal
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from driver import definitions, figures, machine
from driver.definitions import Campaigns
from driver.budget_auction import OFF, TERMS
from driver.programs import (
    Bench,
    Failed,
    Fleet,
    FleetOptions,
    Load,
    Server,
    fleet,
    hammer,
    hammering,
    serving,
)
from driver.reload import UNWATCHED
from driver.scenarios import DSPS, TMAX_MS
from driver.throughput import PROBE_S, START, WARM_UP_S, Rounds, Say, line, measure, window_of

Table = Callable[..., str]

# Hundreds of accounts, a file each; one campaign in a thousand matches the reference request.
CAMPAIGNS = Campaigns(100_000, 500, 1000, "0.60")

# In addition to an exchange without budgets.
MEMORY_MIB_MAX = 300
RELOAD_S_MAX = 1.0
# Share of the closed loop without budgets.
SHARE = 0.5

RELOAD_EVERY_S = 2.0
# Timeout of a reload.
PATIENCE_S = 120.0
POLL_S = 0.005

READ = r"the files of accounts and campaigns were read created=(\d+) changed=(\d+) removed=(\d+)"
REFUSED = "the files of accounts and campaigns are refused"
TAKEN_OVER = "campaigns are taken over"

# Room in each shard, for more campaigns than are defined.
BUDGETS = "campaigns_max = 131072\n"


@dataclass(frozen=True)
class Change:
    """What changes before a reload: the number of accounts' files, and one campaign of each or all
    of them."""

    name: str
    files: int
    whole: bool
    is_all: bool = False

    def campaigns(self, of: Campaigns) -> int:
        """The number of campaigns that change."""
        return self.files * (of.count // of.accounts if self.whole else 1)


CHANGES = (
    Change("nothing changed", 0, False),
    Change("one campaign changed", 1, False),
    Change("one file changed", 1, True),
    Change("all changed", CAMPAIGNS.accounts, True, is_all=True),
)


class Reloads:
    """Changes the files of a running exchange, triggers reloads, and measures their duration."""

    def __init__(self, server: Server, folder: Path, of: Campaigns) -> None:
        self.server, self.folder, self.of = server, folder, of
        self.generation = 0
        self.done: list[dict] = []
        self.began = datetime.now(UTC).replace(hour=0, minute=0, second=0)

    def prepare(self, change: Change) -> list[Path]:
        """Writes the new files next to the old ones."""
        self.generation += 1
        prepared = []
        for number in range(change.files):
            file = self.folder / f"account-{number}.toml"
            if change.whole:
                text = definitions.file_text(self.of, number, self.began, self.generation)
            else:
                daily = f'daily_budget = "{5000 + self.generation}.00"'
                text = re.sub(r'daily_budget = ".*"', daily, file.read_text(), count=1)
            prepared.append(file.with_suffix(".fresh"))
            prepared[-1].write_text(text)
        return prepared

    def reload(self, change: Change, prepared: list[Path] | None = None) -> None:
        """Moves the prepared files into place, sends SIGHUP, and waits until they are in force."""
        for fresh in self.prepare(change) if prepared is None else prepared:
            fresh.replace(fresh.with_suffix(".toml"))
        log = self.server.child.stderr
        behind = log.stat().st_size
        sent = time.monotonic()
        self.server.child.process.send_signal(signal.SIGHUP)
        read = self.said(log, behind, READ)
        read_s = time.monotonic() - sent
        if change.files:
            self.said(log, behind, TAKEN_OVER)
        seconds = time.monotonic() - sent
        one = {"change": change.name, "read_s": read_s, "seconds": seconds, "changed": int(read[2])}
        self.done.append(one)

    def said(self, log: Path, behind: int, pattern: str) -> re.Match[str]:
        """The first line of the log after a position that contains this text."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with log.open(errors="replace") as file:
                file.seek(behind)
                text = file.read()
            if REFUSED in text:
                raise Failed(f"the files of campaigns were refused: {text[-400:]}")
            match = re.search(pattern, text)
            if match:
                return match
            if self.server.child.process.poll() is not None:
                raise Failed(f"the exchange has ended: {self.server.child.said()}")
            time.sleep(POLL_S)
        raise Failed(f"within {PATIENCE_S:.0f} s the exchange did not say: {pattern}")


def campaigns(bench: Bench, rounds: Rounds, seconds: int, say: Say) -> dict:
    """The exchange without campaigns, then the one with them; `seconds` per run."""
    folder = bench.folder / "campaigns.d"
    definitions.write(folder, CAMPAIGNS)
    with fleet(bench, FleetOptions(DSPS, latency_ms=rounds.latency_ms)) as dsps:
        with started(bench, dsps, None) as server:
            warm(bench, server)
            closed = {"program": OFF} | measure(bench, server, dsps, Load(PROBE_S))
            say(f"  closed loop       {line(closed)}")
            load = Load(seconds, max(1, int(SHARE * closed["answers_per_s"])), TMAX_MS)
            runs = [one_run(bench, (server, dsps), load, None)]
            without_kib = machine.resident_kib(server.child.pid)
            say(f"  {run_line(runs[-1])}; {without_kib / 1024:.0f} MiB")
        begun = time.monotonic()
        with started(bench, dsps, f"{folder.name}/*.toml") as server:
            start_s = time.monotonic() - begun
            warm(bench, server)
            memory = {"without": without_kib, "started": machine.resident_kib(server.child.pid)}
            reloads = Reloads(server, folder, CAMPAIGNS)
            for change in CHANGES[:-1]:
                for _ in range(rounds.count):
                    reloads.reload(change)
                say(f"  idle: {reload_line(reloads.done[-1])}")
            idle = list(reloads.done)
            memory["reloaded"] = machine.resident_kib(server.child.pid)
            for change in (None, *CHANGES):
                reloads.done = []
                left_alone = one_run(bench, (server, dsps), load, reloads, change)
                runs.append(left_alone)
                say(f"  {run_line(runs[-1])}")
                name = "loaded" if change is None else change.name
                memory[name] = machine.resident_kib(server.child.pid)
            memory["peak"] = peak_kib(server.child.pid)
    return conclude(load, runs, idle, (start_s, memory))


def started(
    bench: Bench, dsps: Fleet, campaigns: str | None
) -> AbstractContextManager[Server]:
    """An exchange, with campaigns or without budgets, that reloads its files on demand."""
    terms = replace(TERMS, exchange=TERMS.exchange + UNWATCHED)
    if campaigns:
        terms = replace(terms, campaigns=campaigns, budgets=BUDGETS)
    return serving(bench, "vickrey", dsps, terms)


def warm(bench: Bench, server: Server) -> None:
    """The warm-up before every window."""
    hammer(bench, server.url, START)
    hammer(bench, server.url, Load(WARM_UP_S))


def one_run(
    bench: Bench,
    of: tuple[Server, Fleet],
    load: Load,
    reloads: Reloads | None,
    change: Change | None = None,
) -> dict:
    """A constant rate, with or without consecutive reloads."""
    server, dsps = of
    before = server.metrics()

    # Writing all files takes the load's core a second, so it is done once, before the measurement.
    prepared = reloads.prepare(change) if reloads and change and change.is_all else None

    def load_it() -> dict:
        with hammering(bench, server.url, load) as running:
            while change and reloads and not running.is_over(RELOAD_EVERY_S):
                reloads.reload(change, prepared)
                if change.is_all:
                    break
            return running.report()

    measured = window_of(bench, server, [dsps], load_it)
    counts = figures.since(before, server.metrics())
    auctions = int(figures.total(counts, "vickrey_exchange_auctions_total"))
    name = "without budgets" if reloads is None else change.name if change else "left alone"
    return measured | {
        "name": name,
        "reloads": list(reloads.done) if reloads else [],
        "overshoot_exchange_us": figures.overshoot_us(counts, auctions),
        "lost": measured["counts"]["sent"] - auctions,
    }


def peak_kib(pid: int) -> int:
    """The peak resident set of a process, in KiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    match = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    if match is None:
        raise ProcessLookupError(f"process {pid} has ended")
    return int(match[1])


def conclude(
    load: Load, runs: list[dict], idle: list[dict], start: tuple[float, dict[str, int]]
) -> dict:
    """Each of the three figures, and whether it meets its target."""
    start_s, memory = start
    times = [times_of("idle", change, idle) for change in CHANGES]
    for run in runs:
        times += [times_of("under load", change, run["reloads"]) for change in CHANGES]
    times = [each for each in times if each]
    late = {run["name"]: figures.past_deadline(run) for run in runs}
    return {
        "name": "budget-campaigns",
        "kind": "budget_campaigns",
        "title": f"{CAMPAIGNS.count} campaigns of {CAMPAIGNS.accounts} accounts, read anew under load",
        "campaigns": CAMPAIGNS.count,
        "rate_per_s": load.rate_per_s,
        "share": SHARE,
        "seconds": load.seconds,
        "tmax_ms": load.tmax_ms,
        "start_s": start_s,
        "memory_kib": memory,
        "memory_mib": memory_mib(memory),
        "memory_met": memory_mib(memory) <= MEMORY_MIB_MAX,
        "reload_times": times,
        "runs": runs,
        "late": late,
        "late_met": all(count == 0 for each in late.values() for count in each.values()),
        "void": any(run["void"] for run in runs),
        "problems": [problem for run in runs for problem in problems(run)],
    }


def memory_mib(memory: dict[str, int]) -> float:
    """Memory of the campaigns after the start or after reloads, whichever is more, above the
    exchange without budgets. The temporary memory of a full reload is reported beside it."""
    most = max(memory[name] for name in ("started", "reloaded", "loaded"))
    return (most - memory["without"]) / 1024


def times_of(when: str, change: Change, reloads: Sequence[dict]) -> dict | None:
    """The median and the maximum of one kind of reload, in seconds."""
    own = [each for each in reloads if each["change"] == change.name]
    if not own:
        return None
    seconds = [each["seconds"] for each in own]
    return {
        "when": when,
        "change": change.name,
        "changed": own[-1]["changed"],
        "count": len(own),
        "read_s": statistics.median(each["read_s"] for each in own),
        "median_s": statistics.median(seconds),
        "max_s": max(seconds),
        "is_met": max(seconds) < RELOAD_S_MAX,
    }


def problems(run: dict) -> list[str]:
    """Failures, regardless of the times."""
    found = []
    for each in run["reloads"]:
        wanted = next(change for change in CHANGES if change.name == each["change"])
        if each["changed"] != wanted.campaigns(CAMPAIGNS):
            found.append(f"{run['name']}: {each['changed']} campaigns were changed")
    if run["void"]:
        return found
    found += [f"{run['name']}: {run['errors']} requests went wrong"] if run["errors"] else []
    found += [f"{run['name']}: {run['lost']} are missing from the books"] if run["lost"] else []
    return found


def reload_line(reload: dict) -> str:
    """A reload, as a line of progress."""
    return (
        f"{reload['change']:<22} read in {reload['read_s']:.2f} s, in force in "
        f"{reload['seconds']:.2f} s; {reload['changed']} changed"
    )


def run_line(run: dict) -> str:
    """A run, as a line of progress."""
    times, late = run["latency_us"], figures.past_deadline(run)
    void = ", VOID" if run["void"] else ""
    slowest = max((each["seconds"] for each in run["reloads"]), default=0.0)
    return (
        f"{run['name']:<22} p50 {times['p50']} µs, p99.9 {times['p999']} µs, most {times['max']} µs; "
        f"late {late['exchange']} and {late['hammer']}; {len(run['reloads'])} reloads, the slowest "
        f"{slowest:.2f} s; server core {run['server_core_busy']:.0%}{void}"
    )


def write_campaigns(entry: dict, table: Table, verdict: Callable[[bool, bool], str]) -> str:
    """Memory, reloads and latency, each beside the case without."""
    memory = entry["memory_kib"]
    about = (
        f"Started in {entry['start_s']:.1f} s, of which most is reading and keeping the campaigns for "
        f"the first time. Open loop at {entry['rate_per_s']}/s, {entry['share']:.0%} of the closed "
        f"loop without budgets, {entry['seconds']} s a run, `tmax` {entry['tmax_ms']} ms. The server "
        "has one core for all its threads; those that read files and build catalogues stand back.\n"
    )
    target = f"≤ {MEMORY_MIB_MAX} MiB: {verdict(entry['memory_met'], False)}"
    taken = [[name, f"{kib / 1024:.0f}", ""] for name, kib in memory.items()]
    taken.append(["of campaigns", f"{entry['memory_mib']:.0f}", target])
    times = [
        [
            each["change"],
            each["when"],
            each["count"],
            each["changed"],
            f"{each['read_s']:.2f}",
            f"{each['median_s']:.2f}",
            f"{each['max_s']:.2f}",
            f"< {RELOAD_S_MAX:.0f} s: {verdict(each['is_met'], False)}",
        ]
        for each in entry["reload_times"]
    ]
    head = ["files", "auctions", "reloads", "campaigns changed", "read, s", "in force, s"]
    head += ["most, s", "target"]
    runs = []
    for run in entry["runs"]:
        late, quantiles = entry["late"][run["name"]], run["latency_us"]
        none_late = not any(late.values()) and not run["errors"] and not run["lost"]
        runs.append(
            [
                run["name"],
                len(run["reloads"]),
                *(f"{quantiles[name] / 1000:.3f}" for name in ("p50", "p99", "p999", "max")),
                late["exchange"],
                late["hammer"],
                run["errors"],
                run["lost"],
                f"{1e6 * run['cpu_s'] / run['auctions']:.0f}",
                f"{run['server_core_busy']:.0%}",
                verdict(none_late, run["void"]),
            ]
        )
    columns = ["run", "reloads", "p50 ms", "p99 ms", "p99.9 ms", "max ms"]
    columns += ["past tmax, by the exchange", "past tmax, by the hammer", "failed", "lost"]
    columns += ["µs of CPU by auction", "server core", "none late"]
    title = f"## {entry['name']}: {entry['title']}\n"
    parts = [title, about, "Resident set, MiB.\n", table(["when", "MiB", "target"], taken)]
    parts += [table(head, times), table(columns, runs)]
    return "\n".join(parts)
