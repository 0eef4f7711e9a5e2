"""A configuration of a thousand DSPs that changes every second under load.

Each request goes to fifty of them; the others buy from publishers that do not occur. Owns both
configurations and their exchange; the measurement is that a reload costs no auction.
"""

import re
import signal
import time
from pathlib import Path

from driver import figures
from driver.programs import (
    CONFIG,
    PATIENT,
    Bench,
    Fleet,
    FleetOptions,
    Load,
    Server,
    Terms,
    fleet,
    hammer,
    hammering,
    serving,
)
from driver.scenarios import DSPS, TMAX_MS
from driver.throughput import START, WARM_UP_S, Say, line, measure, not_asked, window_of

CONFIGURED = 1000
RELOAD_EVERY_S = 1.0

# No watching: a change of the file would trigger a second reload, which would count twice.
UNWATCHED = "[runtime]\nwatch = \"0s\"\n\n"

TAKEN_OVER, REFUSED = "the configuration is taken over", "is refused"


def configurations(tables: str, configured: int = CONFIGURED) -> tuple[str, str]:
    """Two files with this number of DSPs, of which those in `tables` are called. The second file
    changes a header of every tenth of the called ones, so that their connections are reopened;
    replaces a hundred of the others; and changes the timeout of the rest."""
    asked = re.split(r"(?m)^(?=\[\[dsp\]\])", tables)[1:]
    urls = re.findall(r'(?m)^url = "(.+)"$', tables)
    files = []
    for number in (0, 1):
        own = [
            table.rstrip() + f'\nheaders = {{ x-generation = "{number}" }}\n\n'
            if place % 10 == 0
            else table
            for place, table in enumerate(asked)
        ]
        others = []
        for place in range(configured - len(asked)):
            name = f"idle-{place}-{number}" if place < 100 else f"idle-{place}"
            others.append(
                f'[[dsp]]\nid = "{name}"\nurl = "{urls[place % len(urls)]}"\n'
                f'publishers_allowed = ["nobody-{place}"]\ntimeout = "{100 + number}ms"\n\n'
            )
        files.append(PATIENT + CONFIG + UNWATCHED + "".join(own + others))
    return files[0], files[1]


class Reloads:
    """Swaps the file of a running exchange, triggers a reload, and counts the results."""

    def __init__(self, server: Server, files: tuple[str, str]) -> None:
        if server.configuration is None:
            raise ValueError("only the exchange has a configuration")
        self.server, self.files, self.sent = server, files, 0
        self.file: Path = server.configuration

    def reload(self) -> None:
        """Replaces the file atomically by the other one, and triggers a reload."""
        self.sent += 1
        fresh = self.file.with_suffix(".fresh")
        fresh.write_text(self.files[self.sent % 2])
        fresh.replace(self.file)
        self.server.child.process.send_signal(signal.SIGHUP)

    def is_done(self) -> bool:
        """Whether the last one has ended: signals that come meanwhile are merged."""
        said = self.said()
        return said["taken_over"] + said["refused"] >= said["asked"]

    def said(self) -> dict[str, int]:
        """Reloads that were requested, applied and refused."""
        text = self.server.child.stderr.read_text(errors="replace")
        counts = {"taken_over": text.count(TAKEN_OVER), "refused": text.count(REFUSED)}
        return {"asked": self.sent} | counts


def reload(bench: Bench, seconds: int, share: float, say: Say) -> dict:
    """The closed-loop maximum, then an open loop at a share of it, without and with reloads."""
    with fleet(bench, FleetOptions(DSPS)) as dsps:
        files = configurations(dsps.configuration(Terms()))
        # Calls that breakers prevent in an overload would look like capacity.
        tireless = configurations(dsps.configuration(Terms(dsp="breaker = false\n")))[0]
        with serving(bench, "vickrey", dsps, file_text=tireless) as server:
            hammer(bench, server.url, START)
            hammer(bench, server.url, Load(WARM_UP_S))
            load = Load(min(seconds, 8))
            closed = {"program": "vickrey"} | measure(bench, server, dsps, load)
        say(f"  closed loop       {line(closed)}")
        rate_per_s = max(1, int(share * closed["answers_per_s"]))
        load = Load(seconds, rate_per_s, TMAX_MS)
        runs = []
        for name, is_reloaded in (("without", False), ("with", True)):
            runs.append({"name": name} | open_loop(bench, dsps, files, load, is_reloaded))
            say(f"  {run_line(rate_per_s, runs[-1])}")
    return conclude(closed, load, runs)


def conclude(closed: dict, load: Load, runs: list[dict]) -> dict:
    """The targets that each run met, and that all met."""
    runs = [run | {"met": verdicts(run)} for run in runs]
    return {
        "name": "reload",
        "kind": "reload",
        "title": f"{CONFIGURED} DSPs, {DSPS} asked, reloaded every {RELOAD_EVERY_S:.0f} s",
        "closed_loop": closed,
        "rate_per_s": load.rate_per_s,
        "seconds": load.seconds,
        "tmax_ms": load.tmax_ms,
        "runs": runs,
        # If the load is too high without reloads, the run says nothing about reloads.
        "met": all(is_met for run in runs for is_met in run["met"].values()),
        "void": any(run["void"] for run in runs),
        "problems": [problem for run in runs for problem in problems(run)],
    }


def open_loop(
    bench: Bench, dsps: Fleet, files: tuple[str, str], load: Load, is_reloaded: bool
) -> dict:
    """A constant rate, with reloads from its first second to its last."""
    with serving(bench, "vickrey", dsps, file_text=files[0]) as server:
        hammer(bench, server.url, START)
        hammer(bench, server.url, Load(WARM_UP_S))
        before, reloads = server.metrics(), Reloads(server, files)

        def load_it() -> dict:
            with hammering(bench, server.url, load) as running:
                while is_reloaded and not running.is_over(RELOAD_EVERY_S):
                    if reloads.sent < load.seconds - 1 and reloads.is_done():
                        reloads.reload()
                return running.report()

        measured = window_of(bench, server, [dsps], load_it)
        said = wait_for_reloads(reloads)
        counts = figures.since(before, server.metrics())
    auctions = int(figures.total(counts, "vickrey_exchange_auctions_total"))
    calls = figures.sums_by(counts, "vickrey_exchange_dsp_calls_total", "outcome")
    return measured | {
        "is_reloaded": is_reloaded,
        "reloads": said,
        "overshoot_exchange_us": figures.overshoot_us(counts, auctions),
        "asked": figures.asked_share(counts, auctions, DSPS),
        "lost": measured["counts"]["sent"] - auctions,
        "calls_lost": {
            name: n for name, n in calls.items() if n > 0 and name not in ("answered", "no_bid")
        },
    }


def wait_for_reloads(reloads: Reloads) -> dict[str, int]:
    """The results of the reloads, once the last has ended or a while has passed."""
    deadline = time.monotonic() + 5
    while not reloads.is_done() and time.monotonic() < deadline:
        time.sleep(0.05)
    return reloads.said()


def verdicts(run: dict) -> dict[str, bool]:
    """The targets that a run met. The exchange knows an auction only between reading its request
    and having its answer, so the caller's clock counts as well."""
    late, said = figures.past_deadline(run), run["reloads"]
    return {
        "late_by_exchange": late["exchange"] == 0,
        "late_by_hammer": late["hammer"] == 0,
        "failed": run["errors"] == 0,
        "lost": run["lost"] == 0,
        "reloads": said["taken_over"] == said["asked"] and said["refused"] == 0,
        # A run that should have reloaded, and ended before, proves nothing.
        "reloaded": said["asked"] > 0 or not run["is_reloaded"],
    }


def problems(run: dict) -> list[str]:
    """Failures: a void run proves nothing about times, but reloads must work at any load."""
    said, name = run["reloads"], run["name"]
    found = []
    if said["taken_over"] < said["asked"] or said["refused"]:
        found.append(
            f"{name}: of {said['asked']} reloads {said['taken_over']} were taken over and "
            f"{said['refused']} refused"
        )
    found += not_asked(name, run)
    if run["void"]:
        return found
    found += [
        f"{name}: {late} auctions were past their deadline by the {clock}"
        for clock, late in figures.past_deadline(run).items()
        if late
    ]
    found += [f"{name}: {run['errors']} requests went wrong"] if run["errors"] else []
    found += [f"{name}: {run['lost']} requests are missing from the books"] if run["lost"] else []
    return found


def run_line(rate_per_s: int, run: dict) -> str:
    """A run, as a line of progress."""
    times, said, late = run["latency_us"], run["reloads"], figures.past_deadline(run)
    void = ", VOID" if run["void"] else ""
    return (
        f"{run['name']:<8} {rate_per_s}/s, {said['taken_over']} of {said['asked']} reloads taken "
        f"over, p50 {times['p50']} µs, p99.9 {times['p999']} µs, most {times['max']} µs; past "
        f"the deadline {late['exchange']} by the exchange, {late['hammer']} by the hammer; failed "
        f"{run['errors']}, lost {run['lost']}; testbed core {run['testbed_core_busy']:.0%}{void}"
    )
