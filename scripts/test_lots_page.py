#!/usr/bin/env python3
"""The page of lots in real browsers: two bidders and an operator at a running server.

    scripts/test_lots_page.py path/to/vickrey

Without a browser it says so, and succeeds.
"""

import signal
import subprocess
import tempfile
import time
from pathlib import Path

from browsers import Browser, PageTest, Program, ask, main, until

CONFIGURATION = """
[admin]
listen = "127.0.0.1:0"
[record]
directory = "record"
[budgets]
directory = "ledger"
campaigns = "accounts.toml"
[live]
listen = "{listen}"
heartbeat = "500ms"
[[live.key]]
id = "k"
secret = "0123456789abcdef0123456789abcdef"
[live.lots]
"""
ACCOUNTS = "".join(
    f'[[account]]\nid = "{name}"\ncurrency = "USD"\nbudget = "100.00"\n' for name in ("acme", "globex")
)


class Floor:
    """A running server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "accounts.toml").write_text(ACCOUNTS)
        self.configure("127.0.0.1:0")
        self.start()
        # After a restart the pages look for it at the same address.
        self.configure(self.address)

    def configure(self, listen: str) -> None:
        (self.folder / "lots.toml").write_text(CONFIGURATION.format(listen=listen))

    def start(self) -> None:
        self.program = Program(self.folder, "serve", PageTest.vickrey, "serve", "--config", "lots.toml")
        self.address = self.program.logged(r"the live floor is at (\S+)")
        self.admin = self.program.logged(r"metrics and health at (http://[^/]+)")

    def token(self, *claims: str) -> str:
        command = [PageTest.vickrey, "live", "token", "--config", "lots.toml", *claims]
        return subprocess.check_output(command, cwd=self.folder, text=True).strip()

    def create(self, lot: str, **changes: object) -> None:
        """A lot that ends in ten minutes, and in twenty after any bid. A change to None leaves a term out."""
        now, minute = time.time_ns() // 1_000_000, 60_000
        terms = {
            "id": lot, "title": "Home page <b>", "currency": "USD", "impressions": 1000,
            "start_price": "2", "increments": [{"from": "0", "increment": "0.10"}],
            "opens_ms": now, "closes_ms": now + 10 * minute,
            "soft_close": {"window_ms": 20 * minute, "extension_ms": 20 * minute,
                           "total_max_ms": 600 * minute},
            "deal": {"id": lot, "starts_ms": now + minute, "ends_ms": now + 9000 * minute},
        } | changes  # fmt: skip
        terms = {key: value for key, value in terms.items() if value is not None}
        ask("POST", f"{self.admin}/v1/lots", terms)


def sign_in(browser: Browser, address: str, token: str) -> None:
    browser.open(f"http://{address}/lots")
    until("it asks for a token", lambda: browser.shown("#gate"))
    browser.type("#token", token)
    browser.wait("#link", "Live")


class LotsPage(PageTest):
    def setUp(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        self.floor = Floor(folder)
        self.addCleanup(lambda: self.floor.program.kill())
        self.start_driver(folder)

        def bidder(name: str, *claims: str) -> Browser:
            browser = self.browser(name)
            sign_in(browser, self.floor.address, self.floor.token("--subject", name, *claims))
            return browser

        self.ann = bidder("ann", "--bidder", "dsp-1/ann", "--account", "acme")
        self.bob = bidder("bob", "--bidder", "dsp-1/bob", "--account", "globex")
        self.desk = bidder("desk", "--operator")
        self.everyone = (self.ann, self.bob, self.desk)

    def choose(self, lot: str) -> None:
        for browser in self.everyone:
            # The lot was created after the page was opened.
            browser.wait("#rows", "Home page <b>")
            browser.click(f"a[href='#{lot}']")
            browser.wait("#title", "Home page <b>")

    def test_two_bidders_fight_until_the_operator_closes(self) -> None:
        ann, bob, desk, everyone = self.ann, self.bob, self.desk, self.everyone
        self.floor.create("home-1")
        self.choose("home-1")
        for browser in everyone:
            browser.wait("#left", "9:")
            self.assertEqual(browser.shown("#extended"), "")
        self.assertEqual(desk.shown("#bid"), "", "an operator does not bid")
        self.assertEqual(ann.shown("#desk"), "", "a bidder does not operate")

        ann.type("#maximum", "1.99")
        ann.wait("#bid-error", "at least the start price, 2")
        self.assertEqual(ann.script("return document.activeElement.id"), "maximum")
        ann.type("#maximum", "2.50")
        ann.wait("#standing", "You lead, with a maximum of 2.50")
        ann.wait("#bid-error", "Bid 1 is accepted")
        bob.wait("#leader", "Bidder 1 leads")
        for browser in everyone:
            browser.wait("#price", "2.00")
            # A late bid moves the end.
            browser.wait("#extended", "Extended by 1")
            browser.wait("#left", "19:")

        bob.type("#maximum", "2.05")
        bob.wait("#bid-error", "Bid at least 2.1")
        self.assertEqual(bob.script("return document.getElementById('maximum').ariaInvalid"), "true")
        bob.type("#maximum", "30")
        bob.wait("#bid-error", "Press Bid again")
        self.assertEqual(ann.shown("#bids"), "1", "an unlikely bid waits for a second look")
        bob.type("#maximum", "4")
        bob.wait("#leader", "You lead")
        ann.wait("#standing", "Outbid")
        ann.wait("#leader", "Bidder 2 leads")
        bob.type("#maximum", "200")
        bob.click("#send")
        bob.wait("#bid-error", "account")
        for browser in everyone:
            browser.wait("#price", "2.60")
            browser.wait("#bids", "2")
            browser.wait("#history", "bidder 2\t2.60" if browser is not bob else "you\t2.60")
            self.assertNotIn("4.00", browser.shown("#history"), "maxima are secret")

        desk.click("#extend")
        desk.wait("#desk-error", "Done")
        ann.wait("#left", "24:")
        desk.click("#close")
        desk.click("#close")
        ann.wait("#banner", "Sold to bidder 2 at 2.60 USD: 2.60 USD for all impressions")
        ann.wait("#rows", "You did not win")
        bob.wait("#banner", "Sold to you at 2.60 USD")
        desk.wait("#banner", "Sold to bidder 2")
        for browser in everyone:
            self.assertEqual(browser.shown("#bid"), "")
            # No exchange runs here.
            browser.wait("#banner", "cannot offer the deal")
            self.assertEqual(browser.errors(), [])

    def test_a_bid_without_an_answer_is_sent_again(self) -> None:
        self.floor.create("home-1")
        self.choose("home-1")
        self.ann.type("#maximum", "3")
        self.ann.wait("#standing", "You lead")
        # It reads nothing more, and then it dies.
        self.floor.program.process.send_signal(signal.SIGSTOP)
        self.bob.type("#maximum", "4")
        self.bob.wait("#send", "Sending")
        self.floor.program.kill()
        self.bob.wait("#bid-error", "No answer yet")
        self.ann.wait("#link", "Reconnecting")
        self.floor.start()
        self.bob.wait("#standing", "You lead, with a maximum of 4.00")
        for browser in self.everyone:
            browser.wait("#link", "Live")
            browser.wait("#price", "3.10")
            browser.wait("#bids", "2")

    def test_a_sealed_lot_that_waits_for_the_operator(self) -> None:
        ann, bob, desk, everyone = self.ann, self.bob, self.desk, self.everyone
        later = time.time_ns() // 1_000_000 + 300_000
        sealed = {"rules": "sealed_second_price", "increments": None, "soft_close": None}
        self.floor.create("sealed-1", **sealed, opens_ms=later)
        self.choose("sealed-1")
        for browser in everyone:
            browser.wait("#left-name", "Opens in")
        self.assertTrue(ann.script("return document.getElementById('send').disabled"))
        desk.click("#open")
        ann.wait("#left-name", "Time left")
        ann.type("#maximum", "5")
        ann.wait("#bid-error", "Bid 1 is accepted")
        bob.wait("#bidders", "1")
        bob.type("#maximum", "3")
        bob.wait("#bid-error", "Bid 2 is accepted")
        for browser in everyone:
            browser.wait("#bidders", "2")
            browser.wait("#price", "Secret")
            browser.wait("#no-history", "Bids are secret until the close.")
        for browser in (bob, desk):
            self.assertNotIn("5.00", browser.shown("body"), "bids are sealed")
        desk.click("#close")
        desk.click("#close")
        ann.wait("#banner", "Sold to you at 3.00 USD")
        bob.wait("#banner", "Sold to bidder 1 at 3.00 USD")
        for browser in everyone:
            browser.wait("#history", "bidder 1" if browser is not ann else "you")
            self.assertEqual(browser.errors(), [])

    def test_an_operator_cancels_and_a_wrong_token_is_refused(self) -> None:
        self.floor.create("home-1")
        self.choose("home-1")
        self.ann.type("#maximum", "3")
        self.ann.wait("#standing", "You lead")
        self.desk.type("#reason", "no stock")
        self.desk.click("#cancel")
        self.desk.click("#cancel")
        for browser in self.everyone:
            browser.wait("#banner", "Cancelled: no stock")
            self.assertEqual(browser.shown("#bid"), "")
        self.ann.click("#leave")
        until("it asks for a token", lambda: self.ann.shown("#gate"))
        self.ann.type("#token", "a.b.c")
        self.ann.wait("#token-error", "token")
        self.assertEqual(self.ann.shown("#floor"), "")


if __name__ == "__main__":
    main(__doc__, "lots")
