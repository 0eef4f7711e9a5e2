"""The parts that need no running exchange: commands with their help and errors, configuration
files, and explanations of the corpus' requests with responses from a file."""

import json
import re
import shlex
from pathlib import Path

from compat import market
from compat.comparison import Case, Cases, json_lines, plain
from compat.dsps import Dsps
from compat.exchange import CORPUS, Binary, Output, run

ANSWERS = {
    "empty.json": {},
    "wrong.json": {
        "alfa": "late", "beta": "never", "gamma": {"status": 9}, "tv": 5, "small": {"status": 200, "body": 1},
    },
}
# Requests with calls to the DSPs.
ASKED = ("second price", "final, two impressions", "final, video", "deals", "creatives", "statuses", "house", "user")
LATENCY = re.compile(r"\d+(\.\d+)? ms")
OTHER = [('fee = "10%"', 'fee = "12%"'), ('id = "gone"', 'id = "lost"'), ("priority = 3", "discount = \"1%\"")]


def sections(name: str) -> dict[str, str]:
    """The parts of a corpus file that begin with `=== NAME`."""
    found = re.split(r"^=== (.+)\n", (CORPUS / name).read_text(), flags=re.M)
    return dict(zip(found[1::2], found[2::2], strict=True))


def text_of(output: Output) -> str:
    """An output; its JSON lines are expanded to one member per line."""
    lines = [f"exit {output.code}"]
    for name, text in (("stdout", output.stdout), ("stderr", output.stderr)):
        if text:
            lines += [f"{name}:", *(json_lines(line) for line in text.splitlines())]
    return "\n".join(lines)


def case_of(output: Output, names: dict[str, str]) -> Case:
    return Case(plain(text_of(output), names))


def helps(binary: Binary, folder: Path, path: tuple[str, ...] = ()) -> Cases:
    """The help of every command, found through the help of its parents."""
    cases = {}
    long, short = (run(binary, folder, *path, flag) for flag in ("--help", "-h"))
    cases[" ".join([*path, "--help"])] = case_of(long, {})
    if short != long:
        cases[" ".join([*path, "-h"])] = case_of(short, {})
    commands = re.search(r"^Commands:\n((?:  .*\n|\n)+)", long.stdout, flags=re.M)
    names = re.findall(r"^  (\S+)", commands[1], flags=re.M) if commands else []
    for name in names:
        if name != "help":
            cases |= helps(binary, folder, (*path, name))
    return cases


def written(folder: Path) -> Cases:
    """The files that commands have written."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {f"file {path.relative_to(folder)}": Case(path.read_text()) for path in files}


def filled(binary: Binary, folder: Path, dsps: str = "127.0.0.1:9") -> dict[str, str]:
    """Writes the input files of commands into a new folder; returns this run's texts by
    placeholder."""
    folder.mkdir(parents=True)
    text = binary.given((CORPUS / "market/vickrey.toml").read_text())
    for name, value in (("$ADMIN", "127.0.0.1:9464"), ("$CALLERS", "127.0.0.1:8080"), ("$DSPS", dsps)):
        text = text.replace(name, value)
    (folder / "market.toml").write_text(text)
    for old, new in OTHER:
        text = text.replace(old, new)
    (folder / "other.toml").write_text(text)
    for name, source in (("campaigns.d", CORPUS / "market/campaigns.d"), ("bad.d", None)):
        (folder / name).mkdir(parents=True)
        files = {path.name: path.read_text() for path in source.iterdir()} if source else sections("definitions.txt")
        for file, body in files.items():
            (folder / name / file).write_text(binary.given(body))
    for name, answers in ANSWERS.items():
        (folder / name).write_text(json.dumps(answers))
    request = next(case for case in market.requests() if case["name"] == "second price")
    (folder / "request.json").write_text(request["body"])
    return {str(folder): "folder", dsps: "dsps"}


def commands(binary: Binary, folder: Path) -> dict[str, Cases]:
    """Part `cli`: help, the commands of the corpus, and checks of its configurations."""
    names = filled(binary, folder)
    cases = helps(binary, folder)
    for line in (CORPUS / "commands.txt").read_text().splitlines():
        if not line.startswith("#"):
            cases[f"$ {line}"] = case_of(run(binary, folder, *shlex.split(binary.given(line))), names)
    cases |= written(folder)
    for name, text in sections("configurations.txt").items():
        (folder / "check.toml").write_text(binary.given(text))
        cases[f"check: {name}"] = case_of(run(binary, folder, "config", "check", "check.toml"), names)
    return {"cli": cases}


def explanations(binary: Binary, folder: Path) -> dict[str, Cases]:
    """Part `explain`: the corpus' requests in both formats, with responses from a file; some of
    them also with calls to the DSPs."""
    cases: Cases = {}
    with Dsps().running() as dsps:
        names = filled(binary, folder, dsps.address)
        for case in [case for case in market.requests(offline=True) if "body" in case]:
            (folder / "request.json").write_text(case["body"])
            answers = json.dumps(case.get("answers", {})).replace("$DSPS", dsps.address)
            (folder / "answers.json").write_text(answers)
            given = ["explain", "request.json", "--config", "market.toml"]
            forms = [["--dsp-answers", "answers.json"], ["--dsp-answers", "answers.json", "--json"]]
            if case["name"] in ASKED:
                forms += [[], ["--json"]]
            for form in forms:
                with dsps.answering(case.get("answers", {})) as script:
                    output = run(binary, folder, *given, *form)
                name = " ".join([case["name"], *form])
                text = LATENCY.sub("… ms", text_of(output)) if script.calls else text_of(output)
                calls = [market.of_call(call) for call in sorted(script.calls, key=lambda it: it.dsp)]
                cases[name] = Case(plain("\n\n".join([text, *calls]), names, tmax=bool(script.calls)))
    return {"explain": cases}
