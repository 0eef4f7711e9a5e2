"""The parts that need an exchange with bid requests: requests, notices and metrics."""

import json
import re
from pathlib import Path
from typing import Any

from compat.comparison import Case, Cases, json_lines, plain
from compat.dsps import Call, Dsps
from compat.exchange import CORPUS, ROOT, Answer, Binary, Exchange, Request, serving, settle, until

BEACON = re.compile(r"https://exchange\.example(/n/[A-Za-z0-9_-]+)")
# Cost of the corpus' dearest impression with an account: 4.00 CPM.
IMPRESSION = 0.004
# Metrics whose values follow from the corpus alone; only names, types and labels of the others
# count.
COUNTED = re.compile(
    r"#|content-type|vickrey_ledger_stray"
    r"|vickrey_exchange_(auctions|bids|dsp_calls|dsp_not_asked|invalid_requests|impressions|seat_revenue"
    r"|beacons|dsp_surplus_bids|upstream_prices|upstream_payments|request_fields_dropped|reservations"
    r"|reservations_rejected|wins_refused|house_matches_left_out|ads_unmarked|notices)(_total)?[{ ]"
)


def requests(offline: bool = False) -> list[dict[str, Any]]:
    """The bid requests of the corpus; `body` is posted. The winner of equal bids depends on the
    auction's id, so such requests are `offline`: only for explanations."""
    found = []
    for line in (CORPUS / "requests.jsonl").read_text().splitlines():
        case = json.loads(line)
        if "file" in case:
            case["body"] = (ROOT / case["file"]).read_text()
        elif "request" in case:
            case["body"] = json.dumps(case["request"], separators=(",", ":"), ensure_ascii=False)
        if offline or not case.get("offline"):
            found.append(case)
    return found


def of_answer(answer: Answer) -> str:
    """The response, without its length, which may differ from run to run."""
    head = [f"{answer.status}", *(f"{name.lower()}: {value}" for name, value in answer.headers)]
    head = [re.sub(r"^(content-length): [1-9].*", r"\1: …", line) for line in head]
    return "\n".join([*head, "", json_lines(answer.body)])


def of_call(call: Call) -> str:
    head = [re.sub(r"^(content-length): .*", r"\1: …", line, flags=re.I) for line in call.head]
    return "\n".join([f"DSP {call.dsp} receives", *head, "", json_lines(call.body)])


class MarketSession:
    """An exchange with the configuration `market`, and its DSPs."""

    def __init__(self, exchange: Exchange, dsps: Dsps) -> None:
        self.exchange, self.dsps = exchange, dsps
        self.names = {
            str(exchange.folder): "folder", exchange.callers: "callers", exchange.admin: "admin",
            dsps.address: "dsps",
        }

    def plain(self, text: str, tmax: bool = False) -> str:
        return plain(text, self.names, tmax)

    def auction(self, case: dict[str, Any]) -> tuple[str, list[str]]:
        """The results of a bid request of the corpus, and the paths of the beacons in its
        response."""
        with self.dsps.answering(case.get("answers", {})) as script:
            if "raw" in case:
                answer = Request.read(case["raw"]).send(self.exchange.callers)
            else:
                answer = self.exchange.post(case["body"].encode(), case.get("headers", {}))
        parts = [of_answer(answer)]
        parts += [of_call(call) for call in sorted(script.calls, key=lambda call: call.dsp)]
        beacons = list(dict.fromkeys(BEACON.findall(answer.body)))
        return self.plain("\n\n".join(parts), tmax=True), beacons

    def call(self, path: str) -> Answer:
        """Calls a beacon as a browser behind a proxy does."""
        headers = {"x-forwarded-for": "198.51.100.9", "user-agent": "corpus"}
        return Request("GET", path, headers).send(self.exchange.callers)

    def page(self, path: str) -> dict[str, Any]:
        return json.loads(self.exchange.get(path).body)

    def funded(self, owner: str) -> None:
        """Waits until the shard has enough budget for an impression of a campaign or an account,
        after an auction has requested it."""
        path = f"/v1/{owner}/why"
        until(f"money of {owner}", lambda: float(self.page(path)["at_shards"]) >= IMPRESSION)

    def at_rest(self) -> None:
        """Waits until no notice is owed or waiting."""

        def rests() -> bool:
            counts = self.page("/v1/notices")["counts"]
            waiting = counts["best_effort"]["waiting"], counts["billing"]["owed"], counts["in_flight"]
            return not any(waiting)

        until("no notice waiting", rests)


def run(binary: Binary, folder: Path) -> dict[str, Cases]:
    """All requests of the corpus, one at a time; then their beacons, twice each."""
    settle(binary, folder, "market")
    found: dict[str, Cases] = {"requests": {}, "metrics": {}}
    with Dsps().running() as dsps, serving(binary, folder, dsps.address) as exchange:
        market = MarketSession(exchange, dsps)
        for case in requests():
            text, beacons = market.auction(case)
            for at, path in enumerate(beacons):
                for _ in range(2):
                    text += f"\n\nbeacon {at}\n" + market.plain(of_answer(market.call(path)))
            found["requests"][case["name"]] = Case(text)
            if "funds" in case:
                market.funded(case["funds"])
        market.at_rest()
        found["requests"]["notices"] = Case(market.plain("\n".join(sorted(set(dsps.notices)))))
        found["metrics"] = metrics(market)
    return found


def metrics(market: MarketSession) -> Cases:
    cases = {}
    for name, accept in (("text", "text/plain"), ("OpenMetrics", "application/openmetrics-text")):
        answer = market.exchange.get("/metrics", accept=accept)
        kind = [f"{key.lower()}: {value}" for key, value in answer.headers if key.lower() == "content-type"]
        text = market.plain("\n".join([*kind, answer.body]))
        cases[name] = Case(text, is_set=True, counted=COUNTED)
    return cases
