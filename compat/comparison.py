"""The comparison: texts by part and case. Removes what must vary, applies accepted differences to
the texts of BEFORE, and shows the rest as a diff."""

import difflib
import hashlib
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

# Most lines of a case's diff that are shown.
SHOWN_MAX = 60

# Random ids and tokens, hashes, and times.
DRAWN = [
    (re.compile(r"/n/[A-Za-z0-9_-]{24,}"), lambda it: f"/n/<token of {len(it[0]) - 3}>"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<hash>"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "<id>"),
    (re.compile(r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?"), "<time>"),
    (re.compile(r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT"), "<time>"),
    (re.compile(r"\b1[789]\d{14}\b"), "<unix us>"),
    (re.compile(r"\b1[789]\d{11}\b"), "<unix ms>"),
    (re.compile(r"\b1[789]\d{8}\b"), "<unix s>"),
]
# The `tmax` sent to DSPs is the remaining time, rounded up to a second.
TMAX = (re.compile(r'"(tmax|tmax_ms)": ?(\d+)'), lambda it: f'"{it[1]}": <≤{-(-int(it[2]) // 1000) * 1000}>')
# JSON members, one per line, that contain times and durations, or follow from them.
MEMBERS = re.compile(
    r'("(?:[a-z_]*_us|since|until|timestamp|epoch|hash|tie|at_shards|ready|held|exposure|headroom|target|expected|generation|good|p\d+(?:_\d)?)": )'
    r'(-?[\d.]+|"[^"]*")(,?)$'
)
TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def json_lines(text: str) -> str:
    """JSON with one line per member and item, tokens unchanged. Other text stays unchanged."""
    if not text.startswith(("{", "[")):
        return text
    lines, depth, line, before = [], 0, "", ""
    for token in TOKENS.findall(text):
        if token in "}]":
            depth -= 1
            if before not in "{[":
                lines.append(line)
                line = "  " * depth
        elif before in ("{", "[", ",") and before:
            lines.append(line)
            line = "  " * depth
        line += token + (" " if token == ":" else "")
        depth += token in "{["
        before = token
    return "\n".join([*lines, line])


def plain(text: str, names: dict[str, str], tmax: bool = False) -> str:
    """The text without what must vary; `names` maps placeholders to this run's texts."""
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, f"<{names[name]}>")
    for pattern, instead in DRAWN + ([TMAX] if tmax else []):
        text = pattern.sub(instead, text)
    return "\n".join(MEMBERS.sub(r"\1<…>\3", line.rstrip()) for line in text.splitlines())


@dataclass
class Case:
    """The output of one case."""

    text: str
    # In a set, order does not matter.
    is_set: bool = False
    # Lines of a set whose last word, a value, counts. None if all values count.
    counted: re.Pattern[str] | None = None

    def lines(self) -> list[str]:
        """The lines to compare; a value that does not count is `…`."""
        lines = self.text.splitlines()
        if self.counted:
            lines = [line if self.counted.match(line) else without_value(line) for line in lines]
        return sorted(lines) if self.is_set else lines

    def lines_like(self, others: list[str]) -> list[str]:
        """Its lines, without the values that the other side lacks: it may have other names."""
        if not self.counted:
            return self.lines()
        known = set(others)
        lines = self.text.splitlines()
        return sorted(without_value(line) if without_value(line) in known else line for line in lines)


def without_value(line: str) -> str:
    return line.rsplit(" ", 1)[0] + " …"


# Cases by name, in the order in which they ran.
Cases = dict[str, Case]


@dataclass
class AcceptedDifference:
    """A reviewed difference: in matching cases, `old` of BEFORE is `new` of AFTER."""

    old: str
    new: str
    reason: str
    part: str = "*"
    case: str = "*"
    # Whether the input of AFTER also uses `new`: for a key of a file, or a flag.
    input: bool = False
    used: int = field(default=0, compare=False)

    def replaced(self, text: str) -> tuple[str, int]:
        """The text with `new`, and the number of replacements; whole names only: `bids` is not in
        `bids_max`."""
        start = r"(?<![A-Za-z0-9_])" if re.match(r"\w", self.old) else ""
        end = r"(?![A-Za-z0-9_])" if re.search(r"\w$", self.old) else ""
        return re.subn(start + re.escape(self.old) + end, lambda _: self.new, text)

    def apply(self, part: str, name: str, text: str) -> str:
        if not (fnmatchcase(part, self.part) and fnmatchcase(name, self.case)):
            return text
        text, count = self.replaced(text)
        self.used += count
        return text


@dataclass
class ReviewedCases:
    """Cases of one part whose whole diffs were reviewed, each by the digest of its diff."""

    part: str
    cases: dict[str, str]
    reason: str
    used: int = field(default=0, compare=False)

    def apply(self, part: str, verdict: "Verdict") -> None:
        if part != self.part:
            return
        for name, digest in self.cases.items():
            if verdict.digest(name) == digest:
                verdict.reviewed.add(name)
        self.used = sum(name in verdict.reviewed for name in self.cases)


@dataclass
class AcceptedDifferences:
    """All of `accepted.toml`."""

    texts: list[AcceptedDifference] = field(default_factory=list)
    cases: list[ReviewedCases] = field(default_factory=list)

    def idle(self) -> Iterator[str]:
        """Entries that were found nowhere."""
        for each in self.texts:
            if not each.used:
                yield f"`{each.old}` ({each.reason})"
        for each in self.cases:
            if each.used < len(each.cases):
                yield f"{each.part}: {len(each.cases) - each.used} reviewed diffs ({each.reason})"


def read_accepted(path: Path) -> AcceptedDifferences:
    """The accepted differences. A `ValueError` or `TypeError` names what is wrong with the file."""
    file = tomllib.loads(path.read_text())
    texts = [AcceptedDifference(**entry) for entry in file.get("accepted", [])]
    for each in texts:
        if not each.reason.strip() or not each.old or each.old == each.new:
            raise ValueError(f"{path.name}: `{each.old}` needs a reason, and a `new` that differs")
    cases = [ReviewedCases(**entry) for entry in file.get("reviewed", [])]
    for each in cases:
        if not each.reason.strip() or not each.cases:
            raise ValueError(f"{path.name}: reviewed cases of {each.part} need a reason and a digest each")
    return AcceptedDifferences(texts, cases)


@dataclass
class Verdict:
    """The lines of before and of after by case, accepted texts replaced."""

    lines: dict[str, tuple[list[str], list[str]]] = field(default_factory=dict)
    reviewed: set[str] = field(default_factory=set)

    def differing(self) -> list[str]:
        different = (name for name, (old, new) in self.lines.items() if old != new)
        return [name for name in different if name not in self.reviewed]

    def digest(self, name: str) -> str:
        """Identifies the diff of a case, whose line numbers do not count."""
        old, new = self.lines.get(name, ([], []))
        lines = (line for line in changes(old, new) if not line.startswith("@@"))
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def compare(part: str, before: Cases, after: Cases, accepted: AcceptedDifferences) -> Verdict:
    """Holds the cases of a part against each other."""
    verdict = Verdict()
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name, Case("")), after.get(name, Case(""))
        text = "\n".join(old.lines())
        for each in accepted.texts:
            text = each.apply(part, name, text)
        lines = Case(text, old.is_set).lines()
        verdict.lines[name] = lines, new.lines_like(lines)
    for each in accepted.cases:
        each.apply(part, verdict)
    return verdict


def changes(old: list[str], new: list[str]) -> list[str]:
    return list(difflib.unified_diff(old, new, "before", "after", n=2, lineterm=""))[2:]


def diff(title: str, old: list[str], new: list[str]) -> Iterator[str]:
    lines = changes(old, new)
    yield f"--- {title}"
    yield from lines[:SHOWN_MAX]
    if len(lines) > SHOWN_MAX:
        yield f"… {len(lines) - SHOWN_MAX} lines more: see --keep"
