"""Ping-pong on lots: accepted bids per second, beside what the log's group commit allows for as many
records in flight.

A lot takes one bid after the other, and each waits for two durable writes: the hold of its money in the
ledger, then its record in the log. Owns these figures and their line.
"""

import json
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from driver.log import tool
from driver.programs import Bench, Child, Failed
from driver.throughput import Say

BIDDERS = 1_000
LOTS = 100
# About the length of a bid's record.
RECORD_BYTES = 256

CONFIG = """\
[admin]
listen = "127.0.0.1:0"

[runtime]
shards = 1
connections_max = 2000
connections_per_caller_max = 2000

[record]
directory = "{folder}/record"

[budgets]
directory = "{folder}/ledger"
campaigns = "{folder}/accounts.toml"

[live]
listen = "127.0.0.1:0"
trust_loopback = true

[[live.key]]
id = "bench"
secret = "0123456789abcdef0123456789abcdef"

[live.lots]
"""

ACCOUNT = '[[account]]\nid = "bench-{number}"\ncurrency = "USD"\nbudget = "1000000.00"\n\n'
ACCOUNTS = 10


def ping_pong(bench: Bench, seconds: int, say: Say) -> dict:
    """The report of the bidders, and the group commits of the same disk."""
    with tempfile.TemporaryDirectory(prefix="lots-", dir=bench.folder) as folder:
        config = Path(folder) / "vickrey.toml"
        config.write_text(CONFIG.format(folder=folder))
        accounts = "".join(ACCOUNT.format(number=number) for number in range(ACCOUNTS))
        (Path(folder) / "accounts.toml").write_text(accounts)
        argv = [bench.programs / "vickrey", "serve", "--config", config]
        with Child(bench, "lots", argv, bench.server_core) as child:
            address = child.wait_for(child.stderr, r"the live floor is at (\S+)\n", 60.0)
            report = hammer(bench, config, child, address, seconds)
    arguments = ["commit", bench.folder / "lots-commit", "--rounds", 1, "--producers", 1]
    arguments += ["--in-flight", LOTS, "--records", LOTS * 200, "--payload", RECORD_BYTES]
    lines = [line for line in tool(bench, *arguments) if line["who"] == "log"]
    limit = statistics.median(line["records"] / line["seconds"] for line in lines)
    say(f"  {BIDDERS} bidders on {LOTS} lots: {report['accepted_per_s']} bids/s, group commit {limit:.0f}/s")
    return {"report": report, "group_commit_per_s": limit}


def hammer(bench: Bench, config: Path, child: Child, address: str, seconds: int) -> dict:
    """The report of the bidders."""
    report = bench.folder / "lots-load.json"
    argv = ["taskset", "-c", bench.testbed_core, bench.programs / "vickrey", "hammer", "lots"]
    argv += ["--config", config, "--address", address, "--server", child.pid, "--json", report]
    argv += ["--bidders", BIDDERS, "--lots", LOTS, "--duration", f"{seconds}s"]
    argv += [flag for number in range(ACCOUNTS) for flag in ("--account", f"bench-{number}")]
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, check=False)
    # 1: it ran, and found something wrong, which the report tells.
    if done.returncode not in (0, 1):
        raise Failed(f"hammer lots: {(done.stderr + done.stdout).strip()[-400:]}")
    return json.loads(report.read_text())


def line(found: dict, verdict: Callable[[bool, bool], str]) -> str:
    """One sentence. The hammer has compared every price with a model."""
    report, limit = found["report"], found["group_commit_per_s"]
    latency, problems = report["latency_us"], len(report["problems"])
    return (
        f"Ping-pong, {report['bidders']} bidders on {report['lots']} lots: {report['accepted_per_s']} durable "
        f"bids/s ({report['outrun']} bids came too late), accepted after p50 {latency['p50']} us, p99 "
        f"{latency['p99']} us; {problems} wrong prices, numbers or winners: {verdict(problems == 0, False)}. The "
        f"log alone, with {LOTS} records of {RECORD_BYTES} bytes in flight: {limit:.0f} records/s. A bid waits "
        f"for the ledger and then for the log, so about half of that is the most it can reach."
    )
