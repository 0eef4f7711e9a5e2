"""`scripts/compare`: compares two binaries over the corpus."""

import argparse
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from compat import commands, market, operators, upgrade
from compat.comparison import AcceptedDifferences, Cases, Verdict, compare, diff, read_accepted
from compat.exchange import Binary, Broken

ACCEPTED = Path(__file__).parent / "accepted.toml"
Run = Callable[[Binary, Path], dict[str, Cases]]
# Parts that run on one binary alone; a runner may return several.
ALONE: dict[str, Run] = {
    "cli": commands.commands,
    "explain": commands.explanations,
    "requests": market.run,
    "operators": operators.run_part,
}
# `requests` also returns `metrics`; `upgrade` needs both binaries.
PARTS = (*ALONE, "metrics", "upgrade")
SIDES = ("before", "after")


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/compare", description="Compares two binaries of vickrey over the corpus in compat/corpus."
    )
    parser.add_argument("before", type=Path, help="the binary of before")
    parser.add_argument("after", type=Path, help="the binary of after")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep all answers of both in this directory")
    parser.add_argument("--only", choices=PARTS, action="append", help="compare this part; may be repeated")
    parser.add_argument("--accepted", type=Path, default=ACCEPTED, help="the list of accepted differences")
    options = parser.parse_args(argv)
    options.binaries = [options.before, options.after]
    return options


def answers(binaries: list[Binary], folder: Path, parts: list[str]) -> list[dict[str, Cases]]:
    """The outputs of each binary, by part."""
    found: list[dict[str, Cases]] = [{}, {}]
    for name, run in ALONE.items():
        if name in parts or (name == "requests" and "metrics" in parts):
            for side, binary, of_side in zip(SIDES, binaries, found, strict=True):
                started = time.monotonic()
                of_side |= run(binary, folder / side / name)
                print(f"{side}: {name} in {time.monotonic() - started:.1f} s", file=sys.stderr)
    if "upgrade" in parts:
        written = upgrade.write(binaries[0], folder / "upgrade")
        for side, binary, of_side in zip(SIDES, binaries, found, strict=True):
            started = time.monotonic()
            of_side |= upgrade.read(binary, written, folder / side / "upgrade")
            print(f"{side}: upgrade in {time.monotonic() - started:.1f} s", file=sys.stderr)
    return found


def named(folder: Path, binary: Path) -> Path:
    """The binary, under the user-visible name in its help."""
    folder.mkdir()
    (folder / "vickrey").symlink_to(binary.resolve(strict=True))
    return folder / "vickrey"


def keep(folder: Path, verdicts: dict[str, Verdict]) -> None:
    """Writes all lines, so that `diff -r DIR/before DIR/after` shows what differs."""
    for part, verdict in verdicts.items():
        for index, side in enumerate(SIDES):
            target = folder / side / part
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(parents=True)
            for at, (name, lines) in enumerate(verdict.lines.items()):
                file = re.sub(r"[^\w .=-]", "_", name)[:100]
                (target / f"{at:03} {file}.txt").write_text("\n".join([*lines[index], ""]))


def judge(verdicts: dict[str, Verdict], accepted: AcceptedDifferences) -> bool:
    """Prints what differs; whether nothing does, and every accepted difference was met."""
    for part, verdict in verdicts.items():
        for name in verdict.differing():
            print(*diff(f"{part}: {name}", *verdict.lines[name]), f"digest {verdict.digest(name)}", sep="\n")
    for part, verdict in verdicts.items():
        print(f"{part}: {len(verdict.lines)} cases, {len(verdict.differing())} differ, {len(verdict.reviewed)} reviewed")
    idle = list(accepted.idle()) if len(verdicts) == len(PARTS) else []
    for each in idle:
        print(f"accepted, but found nowhere: {each}")
    return not idle and not any(verdict.differing() for verdict in verdicts.values())


def main(argv: list[str]) -> int:
    options = arguments(argv)
    parts = options.only or list(PARTS)
    try:
        accepted = read_accepted(options.accepted)

        def given(text: str) -> str:
            for each in accepted.texts:
                text = each.replaced(text)[0] if each.input else text
            return text

        with tempfile.TemporaryDirectory(prefix="vickrey-compare-") as name:
            folder = Path(name)
            before, after = (named(folder / side, path) for side, path in zip(SIDES, options.binaries, strict=True))
            found = answers([Binary(before), Binary(after, given)], folder, parts)
    except (Broken, OSError, ValueError, TypeError, KeyError) as error:
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    ours, theirs = found
    verdicts = {
        part: compare(part, ours.get(part, {}), theirs.get(part, {}), accepted)
        for part in PARTS
        if part in parts
    }
    if options.keep:
        keep(options.keep, verdicts)
    return 0 if judge(verdicts, accepted) else 1
