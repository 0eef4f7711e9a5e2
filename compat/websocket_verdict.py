"""The verdict on a report of the Autobahn test suite: `websocket_verdict.py INDEX`."""

import json
import sys
from collections import Counter
from pathlib import Path

PASSED = {"OK", "INFORMATIONAL", "NON-STRICT"}


def behaviour(case: dict) -> str:
    """What the suite says of a case and of its end: the worse of the two."""
    parts = (case["behavior"], case["behaviorClose"])
    return next((part for part in parts if part not in PASSED), case["behavior"])


def main(index: Path) -> int:
    (cases,) = json.loads(index.read_text()).values()
    found = {name: behaviour(case) for name, case in cases.items()}
    for text, count in Counter(found.values()).most_common():
        print(f"{count:4} {text}")
    unusual = {name: text for name, text in found.items() if text not in ("OK", "INFORMATIONAL")}
    for name, text in sorted(unusual.items(), key=lambda item: [int(part) for part in item[0].split(".")]):
        print(f"{name}: {text}, close code {cases[name]['remoteCloseCode']}")
    failed = [name for name, text in found.items() if text not in PASSED]
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
