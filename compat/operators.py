"""The parts for operators: the admin API, its command line, reloads, and the API's document."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

from compat.commands import text_of
from compat.comparison import Case, Cases
from compat.dsps import Dsps
from compat.exchange import CORPUS, TOKEN, Binary, Broken, Request, run, serving, settle, until
from compat.market import MarketSession, of_answer, requests

# Sold before the operators' steps: each wins once and is billed.
SOLD = ("house", "house, film", "seat with money, billed")
OWNERS = ("campaigns/summer", "campaigns/film", "accounts/buyer")
# The account's money less what other campaigns held at the end of the last slot of 10 s.
CURVE_LIMIT = re.compile(r'("limit": ?)"[^"]*"')
EXPECTED = re.compile(r"\S+ [A-Z]{3}  (?:behind|ahead|on)\b")
METHODS = ("get", "put", "post", "delete", "patch")


def sell(market: MarketSession) -> None:
    """Waits for budgets, sells and bills one impression of each owner, and waits until all of them
    count."""
    cases = {case["name"]: case for case in requests()}
    held = 0
    for case in [case for case in cases.values() if "funds" in case or case["name"] in SOLD]:
        for path in market.auction(case)[1]:
            market.call(path)
        if "funds" in case:
            market.funded(case["funds"])
        held += 1

    def counts(owner: str) -> bool:
        hour = market.page(f"/v1/{owner}/why")["funnel"]["hour"]
        return hour["offered"] == held and hour["billed"] == 1

    for owner in OWNERS:
        until(f"spend of {owner}", lambda: spent(market, owner) > 0)
        if owner.startswith("campaigns"):
            until(f"the funnel of {owner}", lambda: counts(owner))


def spent(market: MarketSession, owner: str) -> float:
    return float(market.page(f"/v1/{owner}/spend")["life"])


def operations(binary: Binary) -> list[dict[str, Any]]:
    text = (CORPUS / "operators.jsonl").read_text()
    names = [json.loads(line)["name"] for line in text.splitlines()]
    steps = [json.loads(line) for line in binary.given(text).splitlines()]
    return [step | {"name": name} for name, step in zip(names, steps, strict=True)]


def operations_unasked(document: dict[str, Any], steps: list[dict[str, Any]]) -> list[str]:
    """Operations of the API's document that no step calls."""
    asked = {(step["method"], step["path"].split("?")[0]) for step in steps if "method" in step}
    asked.add(("GET", "/v1/openapi.json"))  # The part itself calls it.
    unasked = []
    for path, item in document["paths"].items():
        shape = re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + "$")
        for method in (method for method in METHODS if method in item):
            if not any(verb == method.upper() and shape.match(it) for verb, it in asked):
                unasked.append(f"{method.upper()} {path}")
    return unasked


def operate(market: MarketSession, step: dict[str, Any]) -> Case:
    """One step of the corpus: a request, a command, or a change of a file."""
    exchange = market.exchange
    if "command" in step:
        args = [*shlex.split(step["command"]), "--admin", f"http://{exchange.admin}"]
        output = run(exchange.binary, exchange.folder, *args, stdin=step.get("stdin", ""))
        # The expected spend grows with time, and so does its column's width.
        text = EXPECTED.sub("…", re.sub(r"  +", "  ", text_of(output)))
        return Case(market.plain(text))
    if "write" in step:
        (exchange.folder / step["write"]).write_text(step["text"])
        return Case("")
    if "edit" in step:
        path = exchange.folder / "vickrey.toml"
        text = path.read_text()
        for old, new in step["edit"]:
            text = text.replace(old, new)
        path.write_text(text)
        return Case("")
    if "json" in step:
        step = step | {"body": json.dumps(step["json"], separators=(",", ":"), ensure_ascii=False)}
    headers = {"authorization": f"Bearer {TOKEN}"} | step.get("headers", {})
    text = of_answer(Request.read(step | {"headers": headers}).send(exchange.admin))
    if step["path"].endswith("/curve"):
        text = CURVE_LIMIT.sub(r"\1…", text)
    if "only" in step:
        text = "\n".join(line for line in text.splitlines() if re.search(step["only"], line))
    return Case(market.plain(text), step.get("is_set", False))


def run_part(binary: Binary, folder: Path) -> dict[str, Cases]:
    """Part `operators`: the steps of the corpus, in order, after a few impressions were sold."""
    settle(binary, folder, "market")
    cases: Cases = {}
    with Dsps().running() as dsps, serving(binary, folder, dsps.address) as exchange:
        market = MarketSession(exchange, dsps)
        sell(market)
        for step in operations(binary):
            cases[step["name"]] = operate(market, step)
        document = json.loads(exchange.get("/v1/openapi.json").body)
        if unasked := operations_unasked(document, operations(binary)):
            raise Broken(f"the corpus asks for none of: {', '.join(unasked)}")
        cases["openapi"] = Case("\n".join(sorted(members(document))), is_set=True)
    cases["log"] = Case(log_lines(market))
    return {"operators": cases}


def log_lines(market: MarketSession) -> str:
    """The messages of the process without times; each message once, sorted."""
    lines = set()
    for line in market.exchange.log.read_text().splitlines():
        entry = json.loads(line)
        lines.add(market.plain(f"{entry['level']} {entry['target']}: {entry['message']}"))
    return "\n".join(sorted(lines))


def members(document: dict[str, Any]) -> set[str]:
    """The document as a set: operations with parameters and statuses, and the members of each
    body."""
    found = set()
    for path, item in document["paths"].items():
        for method in METHODS:
            if method not in item:
                continue
            operation = item[method]
            here = f"{method.upper()} {path}"
            for parameter in [*item.get("parameters", []), *operation.get("parameters", [])]:
                parameter = resolved(document, parameter)
                found.add(f"{here} takes {parameter['name']} in {parameter['in']}")
            bodies = {"body": operation.get("requestBody", {})} | operation["responses"]
            for status, body in bodies.items():
                body = resolved(document, body)
                found.add(f"{here} {status}")
                for name in body.get("headers", {}):
                    found.add(f"{here} {status} has {name}")
                for kind, content in body.get("content", {}).items():
                    schema = content.get("schema", {})
                    found |= {f"{here} {status} {kind} {it}" for it in keys(document, schema)}
    return found


def resolved(document: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in node:
        target: Any = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node


def keys(document: dict[str, Any], schema: Any, path: str = "", depth: int = 0) -> set[str]:
    """Members of a schema, each with its types; alternatives are merged."""
    if not isinstance(schema, dict) or depth > 12:
        return set()
    schema = resolved(document, schema)
    kinds = schema.get("type", [])
    found = {f"{path or '.'} {kind}" for kind in ([kinds] if isinstance(kinds, str) else kinds)}
    for name in schema.get("properties", {}):
        must = " required" if name in schema.get("required", []) else ""
        found.add(f"{path}.{name}{must}")
        found |= keys(document, schema["properties"][name], f"{path}.{name}", depth + 1)
    found |= keys(document, schema.get("items"), f"{path}[]", depth + 1)
    found |= keys(document, schema.get("additionalProperties"), f"{path}.*", depth + 1)
    for several in ("oneOf", "anyOf", "allOf"):
        for one in schema.get(several, []):
            found |= keys(document, one, path, depth + 1)
    return found
