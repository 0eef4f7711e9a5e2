"""Tests of the comparison, without a binary: `python3 compat/test_compare.py`."""

import gzip
import io
import json
import re
import sys
import tempfile
import tomllib
import unittest
from contextlib import redirect_stdout
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from compat import commands, upgrade, main, market, operators  # noqa: E402
from compat.comparison import (  # noqa: E402
    AcceptedDifference,
    AcceptedDifferences,
    Case,
    ReviewedCases,
    compare,
    json_lines,
    plain,
    read_accepted,
)
from compat.dsps import Dsps  # noqa: E402
from compat.exchange import CORPUS, Binary, Request, settle  # noqa: E402
from compat.websocket_verdict import main as websocket_verdict  # noqa: E402

SELF = Binary(Path("vickrey"))


def judged(
    before: dict[str, Case],
    after: dict[str, Case],
    texts: list[AcceptedDifference],
    cases: list[ReviewedCases] | None = None,
) -> tuple[bool, str]:
    """The verdict on a part `cli`, as if it were all there is, and what is printed."""
    accepted = AcceptedDifferences(texts, cases or [])
    verdicts = {part: compare(part, {}, {}, accepted) for part in main.PARTS}
    verdicts["cli"] = compare("cli", before, after, accepted)
    with redirect_stdout(io.StringIO()) as printed:
        alike = main.judge(verdicts, accepted)
    return alike, printed.getvalue()


class Normalised(unittest.TestCase):
    def test_what_is_drawn_is_masked_and_all_else_stays(self) -> None:
        drawn = "0af7651916cd43dd8448eb211c80319c"
        for text, want in [
            (f"id {drawn}.", "id <id>."),
            (drawn * 2, "<hash>"),
            (f"https://x.example/n/{drawn}-_ z", "https://x.example/n/<token of 34> z"),
            ("at 2026-11-23T16:29:44.5Z, 2026-11-23 16:29", "at <time>, <time>"),
            ("Mon, 23 Nov 2026 16:29:44 GMT", "<time>"),
            ("t=1795451730111 1795451730 1795451730111222", "t=<unix ms> <unix s> <unix us>"),
            ("300x250 at 1.86, bid 12345678901, abc-1", "300x250 at 1.86, bid 12345678901, abc-1"),
            ("127.0.0.1:50123/n/ /tmp/x/y", "<callers>/n/ <folder>/y"),
            ('  "at_shards": "4.5",', '  "at_shards": <…>,'),
            ('  "latency_us": null,\n  "at": 2', '  "latency_us": null,\n  "at": 2'),
        ]:
            self.assertEqual(plain(text, {"127.0.0.1:50123": "callers", "/tmp/x": "folder"}), want)

    def test_what_is_left_of_a_time_is_told_to_the_second(self) -> None:
        for tmax, want in [(5987, 6000), (6000, 6000), (6001, 7000), (0, 0)]:
            self.assertEqual(plain(f'"tmax": {tmax}', {}, tmax=True), f'"tmax": <≤{want}>')
        self.assertEqual(plain('"tmax": 5987', {}), '"tmax": 5987')

    def test_json_has_a_line_for_each_member_and_no_token_changes(self) -> None:
        text = '{"a":[1.50,{"b":"x, {\\"y\\"}"}],"c":{},"d":[]}'
        lines = json_lines(text)
        self.assertEqual(lines.splitlines()[2:4], ["    1.50,", "    {"])
        self.assertIn('"c": {},', lines)
        self.assertEqual(re.sub(r"\n *|(?<=:) ", "", lines), text)
        self.assertEqual(json_lines("a: {b}"), "a: {b}")


class Compared(unittest.TestCase):
    def test_alike_or_not(self) -> None:
        for before, after, want in [
            (Case("a\nb"), Case("a\nb"), True),
            (Case("a\nb"), Case("b\na"), False),
            (Case("a\nb", is_set=True), Case("b\na", is_set=True), True),
            (Case("a\na", is_set=True), Case("a", is_set=True), False),
        ]:
            alike, printed = judged({"x": before}, {"x": after}, [])
            self.assertEqual(alike, want)
            self.assertEqual("--- cli: x" in printed, not want)
        self.assertFalse(judged({"x": Case("a")}, {}, [])[0], "a case that is gone")
        self.assertFalse(judged({}, {"x": Case("a")}, [])[0], "a case that has come")

    def test_values_count_where_they_follow_from_the_corpus(self) -> None:
        def page(text: str) -> dict[str, Case]:
            return {"x": Case(text, is_set=True, counted=re.compile("counted"))}

        self.assertTrue(judged(page("counted 1\ntime 2"), page("time 3\ncounted 1"), [])[0])
        self.assertFalse(judged(page("counted 1"), page("counted 2"), [])[0])
        self.assertFalse(judged(page("time 2"), page("times 2"), [])[0])
        renamed = [AcceptedDifference("time", "times", "why"), AcceptedDifference("counted", "sums", "why")]
        self.assertTrue(judged(page("counted 1\ntime 2"), page("sums 1\ntimes 3"), renamed)[0])
        renamed = [AcceptedDifference("counted", "sums", "why")]
        self.assertFalse(judged(page("counted 1"), page("sums 2"), renamed)[0])

    def test_accepted_differences_are_whole_names_and_must_be_met(self) -> None:
        before, after = {"x": Case("bids bids_max 1")}, {"x": Case("offers bids_max 1")}
        self.assertTrue(judged(before, after, [AcceptedDifference("bids", "offers", "why")])[0])
        self.assertTrue(judged(before, after, [AcceptedDifference("bids", "offers", "why", "c*", "x")])[0])
        self.assertFalse(judged(before, after, [AcceptedDifference("bids", "offers", "why", case="y")])[0])
        alike, printed = judged(before, before, [AcceptedDifference("fates", "ends", "why")])
        self.assertFalse(alike)
        self.assertIn("accepted, but found nowhere: `fates` (why)", printed)

    def test_a_reviewed_diff_is_accepted_as_it_is_and_must_be_met(self) -> None:
        before, after = {"x": Case("a\nb\nc")}, {"x": Case("a\nB\nc")}
        digest = re.search("digest (.*)", judged(before, after, [])[1])
        assert digest is not None

        def reviewed() -> list[ReviewedCases]:
            return [ReviewedCases("cli", {"x": digest[1]}, "why")]

        self.assertTrue(judged(before, after, [], reviewed())[0])
        self.assertFalse(judged(before, {"x": Case("a\nB\nC")}, [], reviewed())[0])
        alike, printed = judged(before, before, [], reviewed())
        self.assertFalse(alike)
        self.assertIn("accepted, but found nowhere: cli: 1 reviewed diffs (why)", printed)

    def test_the_list_of_accepted_differences_says_why(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "accepted.toml"
            for text, fails in [
                ("", None),
                ("[[accepted]]\nold = 'a'\nnew = 'b'\nreason = 'why'", None),
                ("[[accepted]]\nold = 'a'\nnew = 'a'\nreason = 'why'", ValueError),
                ("[[accepted]]\nold = ''\nnew = 'a'\nreason = 'why'", ValueError),
                ("[[accepted]]\nold = 'a'\nnew = 'b'\nreason = ' '", ValueError),
                ("[[accepted]]\nold = 'a'\nnew = 'b'", TypeError),
                ("[[accepted]]\nold = 'a'\nnew = 'b'\nreason = 'why'\nreasons = ''", TypeError),
                ("[[reviewed]]\npart = 'cli'\nreason = 'why'\ncases = { x = '1f' }", None),
                ("[[reviewed]]\npart = 'cli'\nreason = 'why'\ncases = {}", ValueError),
                ("[[reviewed]]\npart = 'cli'\nreason = ' '\ncases = { x = '1f' }", ValueError),
            ]:
                path.write_text(text)
                if fails:
                    self.assertRaises(fails, read_accepted, path)
                else:
                    accepted = read_accepted(path)
                    found = (len(accepted.texts), len(accepted.cases))
                    self.assertEqual(found, (text.count("accepted"), text.count("reviewed")))
        read_accepted(main.ACCEPTED)


class Corpus(unittest.TestCase):
    def test_it_is_whole(self) -> None:
        requests = market.requests(offline=True)
        self.assertGreater(len(requests), 100)
        names = [case["name"] for case in requests]
        self.assertEqual(len(names), len(set(names)))
        for name in (*operators.SOLD, *upgrade.OPEN, *commands.ASKED):
            self.assertIn(name, names)
        steps = [step["name"] for step in operators.operations(SELF)]
        self.assertEqual(len(steps), len(set(steps)))
        for name in (*upgrade.DEFINED, *upgrade.ASKED):
            self.assertIn(name, steps)
        self.assertIn("not TOML", commands.sections("configurations.txt"))
        self.assertEqual(list(commands.sections("definitions.txt")), ["a.toml", "b.toml", "c.toml"])

    def test_an_operation_that_no_step_asks_for_is_noticed(self) -> None:
        paths = {"/v1/accounts/{id}/pause": {"put": {}, "delete": {}}, "/v1/new": {"get": {}}}
        unasked = operators.operations_unasked({"paths": paths}, operators.operations(SELF))
        self.assertEqual(unasked, ["GET /v1/new"])

    def test_a_renamed_key_is_said_to_the_binary_of_after(self) -> None:
        given = AcceptedDifference("fee", "share", "why", input=True)
        with tempfile.TemporaryDirectory() as folder:
            binary = Binary(Path("vickrey"), lambda text: given.replaced(text)[0])
            settle(binary, Path(folder), "market")
            exchange = tomllib.loads((Path(folder) / "vickrey.toml").read_text())["exchange"]
        self.assertEqual((exchange["share"], "fee" in exchange), ("10%", False))


class Asked(unittest.TestCase):
    def test_dsps_answer_by_the_script_and_keep_what_comes(self) -> None:
        bid = {"id": "$AUCTION_ID", "seatbid": [{"bid": [{"nurl": "http://$DSPS/win"}]}]}
        script = {"alpha": bid, "beta": {"status": 503}, "gamma": {"status": 200, "body": "{"}}
        with Dsps().running() as dsps, dsps.answering(script) as answering:
            def post(dsp: str, **headers: str) -> tuple[int, str]:
                body = b'{"id":"a-1"}'
                body = gzip.compress(body) if "content-encoding" in headers else body
                answer = Request("POST", f"/dsp/{dsp}?k=v", headers, body).send(dsps.address)
                return answer.status, answer.body

            won = '{"id":"a-1","seatbid":[{"bid":[{"nurl":"http://' + dsps.address + '/win"}]}]}'
            self.assertEqual(post("alpha"), (200, won))
            self.assertEqual(post("alpha", **{"accept-encoding": "gzip", "content-encoding": "gzip"}), (200, won))
            self.assertEqual(post("beta"), (503, ""))
            self.assertEqual(post("gamma"), (200, "{"))
            self.assertEqual(post("delta"), (204, ""))
            self.assertEqual([call.dsp for call in answering.calls], ["alpha", "alpha", "beta", "gamma", "delta"])
            self.assertEqual({call.body for call in answering.calls}, {'{"id":"a-1"}'})
            self.assertEqual(Request("GET", "/win?markup=%3Cp%3E", {}).send(dsps.address).body, "<p>")
            self.assertEqual(dsps.notices, ["/win?markup=%3Cp%3E"])


class WebSocketVerdicts(unittest.TestCase):
    def test_each_case_and_its_end_must_pass(self) -> None:
        #      case     behaviour        on close         code  exit  text
        rows = [
            ("1.1.1", "OK", "OK", 1000, 0, "   1 OK\n"),
            ("5.1.1", "NON-STRICT", "OK", 1000, 0, "5.1.1: NON-STRICT, close code 1000\n"),
            ("7.1.6", "INFORMATIONAL", "INFORMATIONAL", 1000, 0, "   1 INFORMATIONAL\n"),
            ("1.1.1", "OK", "UNCLEAN", None, 1, "1.1.1: UNCLEAN, close code None\n"),
            ("1.1.1", "FAILED", "OK", 1008, 1, "1.1.1: FAILED, close code 1008\n"),
        ]
        with tempfile.TemporaryDirectory() as folder:
            index = Path(folder) / "index.json"
            for name, behavior, on_close, code, want, text in rows:
                case = {"behavior": behavior, "behaviorClose": on_close, "remoteCloseCode": code}
                index.write_text(json.dumps({"vickrey": {name: case}}))
                with redirect_stdout(io.StringIO()) as out:
                    self.assertEqual(websocket_verdict(index), want, name)
                self.assertIn(text, out.getvalue())


if __name__ == "__main__":
    unittest.main()
