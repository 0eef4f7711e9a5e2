#!/usr/bin/env python3
"""The page of look-ups in a real browser, at a running server that asks simulated providers.

    scripts/test_query_page.py path/to/vickrey

Without a browser it says so, and succeeds.
"""

import tempfile
from pathlib import Path

from browsers import PageTest, Program, main, until

CONFIGURATION = """
[admin]
listen = "127.0.0.1:0"
[lookup]
listen = "127.0.0.1:0"
maps = "*.map.toml"
"""


class QueryPage(PageTest):
    def setUp(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        (folder / "vickrey.toml").write_text(CONFIGURATION)
        self.start_driver(folder)

        def start(name: str, *command: str) -> Program:
            program = Program(folder, name, self.vickrey, *command)
            self.addCleanup(program.kill)
            return program

        farm = ["provider", "--count", "3", "--items", "120", "--map", "farm.map.toml"]
        # The first one never answers.
        farm = start("farm", *farm, "--fault", "hang", "--faulty", "1")
        farm.logged(r"listens at (\S+)")
        address = start("serve", "serve", "--config", "vickrey.toml").logged(r"look-ups are at ([^,]+)")
        self.page = self.browser("page")
        self.page.open(f"http://{address}/query")
        self.page.wait("#keys", "item", "group")

    def test_a_query_is_typed_with_completion_and_its_answer_paged(self) -> None:
        page = self.page
        field = page.element("#query")
        page.post(f"{field}/value", {"text": "it"})
        page.wait("#choices", "item")
        # Tab takes the choice; Enter asks.
        page.post(f"{field}/value", {"text": "\ue004 gr"})
        page.wait("#choices", "group")
        page.post(f"{field}/value", {"text": "\ue004=g system in [p1, p2] | sort item.si"})
        page.wait("#choices", "item.size")
        page.post(f"{field}/value", {"text": "\ue004- | limit 80\ue007"})
        page.wait("#status", "done")
        page.wait("#calls", "p1.items", "p2.items", "ok")
        self.assertEqual(
            page.script("return document.getElementById('query').value"),
            "item group=g system in [p1, p2] | sort item.size- | limit 80",
        )
        page.wait("#fields", "item.name", "item.p1", "item.size", "from")
        page.wait("#place", "1 to 50 of 80")
        sizes = "return [...document.querySelectorAll('#rows tr')].map((row) => +row.cells[3].textContent)"
        first = page.script(sizes)
        self.assertEqual(first, sorted(first, reverse=True))
        page.click("#after")
        page.wait("#place", "51 to 80 of 80")
        self.assertLessEqual(page.script(sizes)[0], first[-1])
        self.assertTrue(page.script("return document.getElementById('after').disabled"))
        self.assertEqual(page.errors(), [])

    def test_providers_are_watched_while_they_answer(self) -> None:
        page = self.page
        page.type("#query", "item group=h")
        page.wait("#status", "running")
        # The others have answered, one is waited for.
        page.wait("#calls", "p0.items\trunning", "p1.items\tok", "p2.items\tok")
        self.assertEqual(page.shown("#answer"), "")
        page.click("#cancel")
        page.wait("#status", "cancelled")
        page.wait("#reason", "it was cancelled")
        self.assertEqual(page.errors(), [])

    def test_what_is_wrong_is_shown_with_its_place(self) -> None:
        page = self.page
        page.type("#query", "itm group=<b>")
        page.wait("#error", "there is no key `itm`", "^^^", "did you mean `item`?")
        self.assertEqual(page.script("return document.getElementById('query').ariaInvalid"), "true")
        # The address has the query: it can be sent to others.
        page.script("location.hash = encodeURIComponent('item group=g system=p1')")
        page.script("location.reload()")
        until("it asks again", lambda: page.shown("#status") == "done")
        self.assertEqual(page.shown("#error"), "")


if __name__ == "__main__":
    main(__doc__, "look-ups")
