"""The verdict on a report of the Autobahn test suite: `websocket_verdict.py INDEX`."""

import json
import sys
from collections import Counter
from pathlib import Path

PASSED = {"OK", "INFORMATIONAL", "NON-STRICT"}
# Messages of 4 MiB in 65,537, 16,385, 4,097 and 1,025 fragments, of which the last is empty. A reader
# takes 1,024 fragments of a message, so these must end with a close frame that says so.
TOO_MANY_FRAGMENTS = {f"9.{group}.{case}" for group in (3, 4) for case in (1, 2, 3, 4)}
POLICY_VIOLATION = 1008
LIMITED = "over the limit of fragments, as intended"


def behaviour(name: str, case: dict) -> str:
    """What the suite says of a case, or that it met the limit of fragments as it must."""
    if name in TOO_MANY_FRAGMENTS:
        is_refused = case["remoteCloseCode"] == POLICY_VIOLATION
        return LIMITED if is_refused else "limit of fragments not met"
    parts = (case["behavior"], case["behaviorClose"])
    return next((part for part in parts if part not in PASSED), case["behavior"])


def main(index: Path) -> int:
    (cases,) = json.loads(index.read_text()).values()
    found = {name: behaviour(name, case) for name, case in cases.items()}
    for text, count in Counter(found.values()).most_common():
        print(f"{count:4} {text}")
    unusual = {name: text for name, text in found.items() if text not in ("OK", "INFORMATIONAL")}
    for name, text in sorted(unusual.items(), key=lambda item: [int(part) for part in item[0].split(".")]):
        print(f"{name}: {text}, close code {cases[name]['remoteCloseCode']}")
    failed = [name for name, text in found.items() if text not in PASSED | {LIMITED}]
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
