"""The log by itself, compared with the disk: group commit, reading back, and a start after a crash.

Every figure has a baseline: the same disk's time for the same bytes in the same run. Rounds go log,
raw, raw, log, and each is reported as a share of its neighbour. Owns these pairs; `record` measures
the cost per auction.
"""

import json
import shutil
import statistics
import subprocess
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from driver import figures
from driver.programs import (
    Argv,
    Bench,
    Child,
    Failed,
    FleetOptions,
    Load,
    Terms,
    configuration,
    fleet,
    hammer,
    insecure_requests,
    serving,
)
from driver.scenarios import DSPS
from driver.throughput import Say

# Minimum shares of the baselines.
COMMIT_MIN, VERIFY_MIN, REPLAY_MIN = 0.8, 0.8, 0.5
START_S_MAX = 2.0

RECORDS = 300_000
RECORD_BYTES = 1024
READ_MEBIBYTES = 2048
START_MEBIBYTES = 10 << 10
TOOL_S = 600

# Length of the run whose recorded auctions are read back: two programs on two cores.
RECORD_S = 8


@dataclass(frozen=True)
class Waiting:
    """Threads that wait for their records, and the number of each thread's records in flight."""

    producers: int
    in_flight: int
    # Whether more records always wait than are in flight to the disk.
    is_busy: bool = False

    def label(self) -> str:
        return f"{self.producers} × {self.in_flight}"


WAITING = (Waiting(2, 4096, True), Waiting(2, 1024, True), Waiting(2, 128), Waiting(2, 16))

SET_ASIDE, WRITTEN = "raw, set aside", "raw, written before"


def on_both_cores(bench: Bench, program: str, *arguments: object) -> list[str]:
    """A program that may use both cores, because nothing else runs. The driver itself has one."""
    cores = f"{bench.server_core},{bench.testbed_core}"
    return ["taskset", "-c", cores, str(bench.programs / program), *map(str, arguments)]


def tool(bench: Bench, *arguments: object) -> list[dict]:
    """The output of the log's own tool, one line per measurement."""
    argv = on_both_cores(bench, "bench-log", *arguments)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=TOOL_S, check=False)
    if done.returncode != 0:
        raise Failed(f"bench-log {arguments[0]}: {done.stderr.strip()[-400:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def pairs(lines: Sequence[dict], of: str, base: str) -> list[dict]:
    """Each round of `of` with the adjacent round of `base`."""
    own, others = ([each for each in lines if each["who"] == who] for who in (of, base))
    return [
        {"of": mine, "base": other, "ratio": figures.ratio(other["seconds"], mine["seconds"])}
        for mine, other in zip(own, others, strict=True)
    ]


def median_ratio(found: Sequence[dict]) -> float:
    """The median of all pairs. None without pairs."""
    return statistics.median(each["ratio"] or 0.0 for each in found) if found else 0.0


def commit(bench: Bench, rounds: int, say: Say) -> dict:
    """Acknowledged records per second, and the same bytes in the same groups, written and synced
    raw."""
    rows = []
    for waiting in WAITING:
        # Threads that wait every few records would take all day for as many.
        records = min(RECORDS, waiting.producers * waiting.in_flight * 150)
        arguments = ["commit", bench.folder / "commit", "--rounds", rounds]
        arguments += ["--producers", waiting.producers, "--in-flight", waiting.in_flight]
        lines = tool(bench, *arguments, "--records", records, "--payload", RECORD_BYTES)
        row = commit_row(waiting.label(), lines) | {"fio": fio(bench, lines)}
        rows.append(row | {"target": COMMIT_MIN if waiting.is_busy else None})
        say(f"  {commit_line(rows[-1])}")
    return {
        "name": "log-commit",
        "kind": "log_commit",
        "title": f"durable records of {RECORD_BYTES} bytes, group commit",
        "rows": rows,
        "problems": [],
    }


def commit_row(name: str, lines: Sequence[dict]) -> dict:
    """Rounds of one load, with their baselines."""
    set_aside, written = (pairs(lines, "log", base) for base in (SET_ASIDE, WRITTEN))
    return {
        "name": name,
        "pairs": set_aside,
        "of_set_aside": median_ratio(set_aside),
        "of_written": median_ratio(written),
        "rounds": list(lines),
    }


def commit_line(row: dict) -> str:
    """A load, as a line of progress."""
    rates = [round(pair["of"]["records_per_s"]) for pair in row["pairs"]]
    ratios = [f"{pair['ratio']:.2f}" for pair in row["pairs"]]
    return f"{row['name']:<9} {rates} records/s, of raw {', '.join(ratios)}"


def fio(bench: Bench, lines: Sequence[dict]) -> dict | None:
    """The rate of another program for such groups on that disk. None if it is not installed."""
    if shutil.which("fio") is None:
        return None
    (first, *_) = [line for line in lines if line["who"] == SET_ASIDE]
    group, groups = first["bytes"] // first["groups"], first["groups"]
    argv: Argv = ["fio", "--name=groups", f"--directory={bench.folder}", "--rw=write"]
    argv += ["--ioengine=psync", "--fdatasync=1", "--fallocate=keep", "--output-format=json"]
    argv += [f"--bs={group}", f"--size={group * groups}"]
    done = subprocess.run(
        list(map(str, argv)), capture_output=True, text=True, timeout=TOOL_S, check=False
    )
    for file in bench.folder.glob("groups.*"):
        file.unlink()
    if done.returncode != 0:
        return None
    job = json.loads(done.stdout)["jobs"][0]
    # The runtime is in milliseconds and includes the syncs.
    seconds = job["job_runtime"] / 1000
    return {"seconds": seconds, "records_per_s": first["records"] / seconds, "group_bytes": group}


def read_back(bench: Bench, rounds: int, say: Say) -> dict:
    """`verify` compared with reading the same files, `replay` compared with `verify`, and the log's
    reader alone, over recorded auctions; with a cold and with a warm page cache."""
    rows, skipped, problems = [], [], []
    directory = bench.folder / "read-back"
    recorded = record_some(bench)
    if isinstance(recorded, str):
        skipped.append(recorded)
    arguments = ["fill", directory, "--mebibytes", READ_MEBIBYTES]
    arguments += [] if isinstance(recorded, str) else ["--from", recorded]
    size = sum(line["bytes"] for line in tool(bench, *arguments))
    try:
        for cache in ("cold", "warm"):
            lines = tool(bench, "scan", directory, "--rounds", rounds, "--cache", cache)
            rows.append(read_row("reader", cache, pairs(lines, "log", "raw"), VERIFY_MIN))
            say(f"  {read_line(rows[-1])}")
            if isinstance(recorded, Path):
                found, wrong = commands(bench, directory, cache, rounds)
                rows += found
                problems += wrong
                for row in found:
                    say(f"  {read_line(row)}")
    finally:
        shutil.rmtree(directory)
    return {
        "name": "log-read",
        "kind": "log_read",
        "title": f"{size / 2**30:.1f} GiB of the log read back",
        "rows": rows,
        "skipped": skipped,
        "problems": problems,
    }


def read_row(name: str, cache: str, found: list[dict], target: float) -> dict:
    """Rounds of one reader."""
    return {
        "name": name,
        "cache": cache,
        "pairs": found,
        "ratio": median_ratio(found),
        # With a warm cache there is no disk to compare with.
        "target": target if cache == "cold" else None,
    }


def read_line(row: dict) -> str:
    """A reader, as a line of progress."""
    ratios = [f"{pair['ratio']:.2f}" for pair in row["pairs"]]
    times = [f"{pair['of']['seconds']:.2f}" for pair in row["pairs"]]
    return f"{row['name']:<7} {row['cache']}: {', '.join(times)} s, {', '.join(ratios)} of its base"


def has_log(bench: Bench) -> bool:
    """Whether this vickrey can read logs."""
    argv = [str(bench.programs / "vickrey"), "log", "--help"]
    return subprocess.run(argv, capture_output=True, timeout=30, check=False).returncode == 0


def record_some(bench: Bench) -> Path | str:
    """A directory of recorded auctions, or the reason why there is none."""
    if not has_log(bench):
        return "this vickrey has no `log`: the log's reader stands alone"
    directory = bench.folder / "recorded"
    terms = Terms(exchange=record_at(directory))
    with fleet(bench, FleetOptions(DSPS)) as dsps, serving(bench, "vickrey", dsps, terms) as server:
        hammer(bench, server.url, Load(RECORD_S))
    return directory


def record_at(directory: Path) -> str:
    """The configuration that records to this directory."""
    return f"[record]\ndirectory = {json.dumps(str(directory))}\n"


def commands(
    bench: Bench, directory: Path, cache: str, rounds: int
) -> tuple[list[dict], list[str]]:
    """Repeats verify, raw, replay, replay, raw, verify. Returns each command's baseline and all
    problems."""
    lines: list[dict] = []
    problems: list[str] = []
    for _ in range(rounds):
        for who in ("verify", "raw", "replay", "replay", "raw", "verify"):
            if cache == "cold":
                tool(bench, "forget", directory)
            if who == "raw":
                lines += tool(bench, "read", directory)
                continue
            began = time.monotonic()
            argv = on_both_cores(bench, "vickrey", "log", who, "--dir", directory)
            done = subprocess.run(argv, capture_output=True, text=True, timeout=TOOL_S, check=False)
            lines.append({"who": who, "seconds": time.monotonic() - began})
            if done.returncode != 0:
                said = (done.stderr or done.stdout).strip()[-200:]
                problems.append(f"log {who} ended with {done.returncode}: {said}")
    rows = [
        read_row("verify", cache, pairs(lines, "verify", "raw"), VERIFY_MIN),
        read_row("replay", cache, pairs(lines, "replay", "verify"), REPLAY_MIN),
    ]
    return rows, problems


def start(bench: Bench, rounds: int, say: Say) -> dict:
    """The time of an exchange to its first auction with a long log whose end is torn, and the part
    of it that opens the log."""
    directory = bench.folder / "long"
    filled = tool(bench, "fill", directory, "--mebibytes", START_MEBIBYTES)
    say(f"  {sum(line['segments'] for line in filled)} segments")
    starts: list[dict] = []
    try:
        for number in range(1, rounds + 1):
            for cache in ("cold", "warm"):
                opened = torn(bench, directory, cache, lambda: tool(bench, "open", directory)[0])
                # Tears the end again before each start; otherwise only the first start would find
                # it torn.
                served = torn(bench, directory, cache, lambda: first_auction(bench, directory))
                starts.append(
                    {
                        "round": number,
                        "cache": cache,
                        "open_s": opened["seconds"],
                        "was_torn": opened["is_torn"],
                    }
                    | served
                )
                say(f"  {start_line(starts[-1])}")
    finally:
        shutil.rmtree(directory)
    return {
        "name": "log-start",
        "kind": "log_start",
        "title": f"a start over {sum(line['bytes'] for line in filled) / 2**30:.1f} GiB, torn",
        "segments": {line["who"]: line["segments"] for line in filled},
        "target_s": START_S_MAX,
        "starts": starts,
        "skipped": sorted({each["skipped"] for each in starts if each["skipped"]}),
        "problems": [
            f"round {each['round']}, {each['cache']}: the end was not torn"
            for each in starts
            if not each["was_torn"]
        ],
    }


def torn(bench: Bench, directory: Path, cache: str, then: Callable[[], dict]) -> dict:
    """The result of `then` with a log whose end was just torn."""
    tool(bench, "tear", directory)
    tool(bench, "forget" if cache == "cold" else "read", directory)
    return then()


def first_auction(bench: Bench, directory: Path) -> dict:
    """Seconds from the start of the process to the first answered auction."""
    body = insecure_requests(bench).read_bytes()
    file = bench.folder / "start.toml"
    with fleet(bench, FleetOptions(DSPS)) as dsps:
        file.write_text(configuration(bench, [dsps], Terms(exchange=record_at(directory))))
        checked = [str(bench.programs / "vickrey"), "config", "check", str(file)]
        if subprocess.run(checked, capture_output=True, timeout=30, check=False).returncode:
            return {"first_auction_s": None, "skipped": "this vickrey does not record"}
        argv: Argv = [bench.programs / "vickrey", "serve", "--shards", "1", "--config", file]
        began = time.monotonic()
        with Child(bench, "vickrey", argv, bench.server_core) as child:
            url = child.wait_for(child.stderr, r"taking bid requests at (http://[^\s,]+)")
            answered_s = answered_at(url, body) - began
    return {"first_auction_s": round(answered_s, 3), "skipped": None}


def answered_at(url: str, body: bytes) -> float:
    """The time of the first answered bid request, by `time.monotonic`."""
    deadline = time.monotonic() + 60
    headers = {"Content-Type": "application/json", "x-openrtb-version": "2.6"}
    while time.monotonic() < deadline:
        request = urllib.request.Request(url, body, headers)
        try:
            # urlopen raises an error for anything but a response.
            with urllib.request.urlopen(request, timeout=10):
                return time.monotonic()
        except OSError:
            time.sleep(0.005)
    raise Failed("no auction was answered within a minute")


def start_line(each: dict) -> str:
    """A start, as a line of progress."""
    first = each["first_auction_s"]
    said = each["skipped"] or f"first auction after {first:.3f} s"
    return f"round {each['round']}, {each['cache']}: opened in {each['open_s']:.3f} s; {said}"
