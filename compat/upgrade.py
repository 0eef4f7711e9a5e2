"""Data of one binary read by another: a record, a ledger, and beacons that were sealed but not
called. Both read copies of what BEFORE wrote, so that times and ids are the same."""

import hashlib
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from compat.commands import text_of
from compat.comparison import Case, Cases, plain
from compat.dsps import Dsps
from compat.exchange import CORPUS, Binary, run, serving, settle, until
from compat.market import MarketSession, metrics, of_answer, requests
from compat.operators import OWNERS, operate, operations, spent

# Cases whose beacons are called only after the restart: all modes, campaigns and seats.
OPEN = (
    "final, second price", "final, two impressions", "final, video", "upstream, all bids",
    "upstream, second price", "house outbid", "house, film",
)
TOOK = re.compile(r"in \d+\.\d s, [\d.]+ \w+/s|(?<=\"took_ms\": )\d+")
SEQUENCE = re.compile(r'("sequence": ?)\d+')
SIZE = re.compile(r'[\d.]+ [KM]iB|(?<="bytes": )\d+')
# Steps of operators before the restart, and the queries after it.
DEFINED = ("account created", "campaign created", "patched", "PUT /v1/campaigns/autumn/pause")
ASKED = (
    "account created, same key", "key of another body", "GET /v1/accounts", "GET /v1/campaigns",
    "GET /v1/campaigns/autumn", "GET /v1/audit", "$ campaign list", "$ campaign spend film", "$ account why api",
    "$ campaign audit", "$ account spend buyer", "$ audit --limit 100",
    "GET /v1/campaigns/summer/why", "GET /v1/campaigns/film/why",
)


def steps(binary: Binary, names: tuple[str, ...]) -> list[dict]:
    found = {step["name"]: step for step in operations(binary)}
    return [found[name] for name in names]


@dataclass(frozen=True)
class StoredRun:
    """The stored data of a binary."""

    folder: Path
    # Paths of beacons not called yet, by case.
    beacons: dict[str, list[str]]
    # The DSPs' port for notices, which is in beacons.
    port: int


def write(binary: Binary, folder: Path) -> StoredRun:
    """Records all auctions of the corpus, and their spend."""
    settle(binary, folder, "market")
    beacons: dict[str, list[str]] = {}
    with Dsps().running() as dsps, serving(binary, folder, dsps.address) as exchange:
        market = MarketSession(exchange, dsps)
        for step in steps(binary, DEFINED):
            operate(market, step)
        for case in requests():
            _, paths = market.auction(case)
            if case["name"] in OPEN:
                beacons[case["name"]] = paths
            else:
                for path in paths:
                    market.call(path)
            if "funds" in case:
                market.funded(case["funds"])
        market.at_rest()
        for owner in ("campaigns/summer", "accounts/buyer"):
            until(f"spend of {owner}", lambda: spent(market, owner) > 0)
    if missing := [name for name in OPEN if not beacons.get(name)]:
        raise ValueError(f"no beacon came of {missing}")
    return StoredRun(folder, beacons, dsps.port)


def of_record(binary: Binary, folder: Path, when: str, same: bool) -> Cases:
    """The output of commands on the record, and the files that they write. For the `same` record
    even times are equal, except for the duration of a command."""

    def shown(text: str) -> str:
        text = TOOK.sub("…", text)
        # Records of delivered notices lie between settlements, in the order of delivery; their
        # times compress to different sizes.
        return text if same else plain(SIZE.sub("<size>", SEQUENCE.sub(r"\1…", text)), {str(folder): "folder"})

    cases = {}
    for at, line in enumerate((CORPUS / "record.txt").read_text().splitlines()):
        if not line.startswith("#"):
            text = text_of(run(binary, folder, *shlex.split(binary.given(line))))
            cases[f"{when}: {at} $ {line}"] = Case(shown(text))
    for path in sorted(folder.glob("out-*/**/*.*")):
        name = plain(f"{when}: {path.relative_to(folder)}", {})
        if path.suffix == ".jsonl":
            cases[name] = Case(shown(path.read_text()))
        elif path.is_file():
            cases[name] = Case(hashlib.sha256(path.read_bytes()).hexdigest() if same else "")
    for path in folder.glob("out-*"):
        shutil.rmtree(path)
    return cases


def spends(market: MarketSession, when: str) -> Cases:
    """The spend of each owner, in total and by hours of today."""
    pages = {owner: market.exchange.get(f"/v1/{owner}/spend") for owner in OWNERS}
    return {f"spend of {owner}, {when}": Case(market.plain(of_answer(page))) for owner, page in pages.items()}


def read(binary: Binary, stored: StoredRun, folder: Path) -> dict[str, Cases]:
    """Part `upgrade`: the record; the ledger after a start; beacons, called twice; the results, and
    whether they are the same after another start."""
    shutil.copytree(stored.folder, folder)
    settle(binary, folder, "market")
    cases = of_record(binary, folder, "as it was", same=True)
    with Dsps(stored.port).running() as dsps:
        with serving(binary, folder, dsps.address) as exchange:
            market = MarketSession(exchange, dsps)
            for step in steps(binary, ASKED):
                cases[step["name"]] = operate(market, step)
            cases |= spends(market, "resumed")
            cases |= beacons(market, stored)
            market.at_rest()
            until("spend of film", lambda: spent(market, "campaigns/film") > 0)
            cases["notices"] = Case("\n".join(sorted(set(dsps.notices))))
            cases |= spends(market, "billed")
            cases |= {f"metrics: {name}": case for name, case in metrics(market).items()}
        settle(binary, folder, "market")
        with serving(binary, folder, dsps.address) as exchange:
            cases |= spends(MarketSession(exchange, dsps), "billed and resumed")
    cases |= of_record(binary, folder, "billed", same=False)
    return {"upgrade": cases}


def beacons(market: MarketSession, stored: StoredRun) -> Cases:
    """Each beacon sealed before, called twice; and an altered one."""
    cases = {}
    for name, paths in stored.beacons.items():
        for at, path in enumerate(paths):
            for turn in ("first", "again"):
                text = of_answer(market.call(path))
                cases[f"beacon {at} of {name}, {turn}"] = Case(market.plain(text))
        altered = paths[0][:-5] + ("AAAAA" if paths[0][-5:] != "AAAAA" else "BBBBB")
        cases[f"beacon of {name}, altered"] = Case(market.plain(of_answer(market.call(altered))))
    return cases
