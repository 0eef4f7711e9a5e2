#!/usr/bin/env python3
"""The page of lots in real browsers: two bidders and an operator at a running server.

    scripts/test_lots_page.py path/to/vickrey

Speaks WebDriver (https://www.w3.org/TR/webdriver2/) to chromedriver, without other packages. Without a
browser it says so, and succeeds.
"""

import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

# Longest wait for a condition, in seconds.
PATIENCE_S = 30
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
FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--window-size=1200,900",
]  # fmt: skip
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
DRIVER = shutil.which("chromedriver")
VICKREY = ""


def until(what: str, condition: Callable[[], Any]) -> Any:
    """Waits until a condition holds."""
    end = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {PATIENCE_S} s: {what}")
        time.sleep(0.02)
    return found


def ask(method: str, url: str, body: object = None) -> dict:
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urlopen(request, timeout=PATIENCE_S) as response:
            return json.load(response)
    except HTTPError as error:
        raise AssertionError(f"{method} {url}: {error.read().decode()}") from error


class Program:
    """A process that logs to a file."""

    def __init__(self, folder: Path, name: str, *command: str) -> None:
        self.log = folder / f"{name}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)

    def logged(self, pattern: str) -> str:
        """The group of a pattern, once it is logged."""

        def found() -> re.Match | None:
            text = self.log.read_text()
            if self.process.poll() is not None:
                raise AssertionError(f"it ended: {text}")
            return re.search(pattern, text)

        return until(pattern, found)[1]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


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
        self.program = Program(self.folder, "serve", VICKREY, "serve", "--config", "lots.toml")
        self.address = self.program.logged(r"the live floor is at (\S+)")
        self.admin = self.program.logged(r"metrics and health at (http://[^/]+)")

    def token(self, *claims: str) -> str:
        command = [VICKREY, "live", "token", "--config", "lots.toml", *claims]
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


class Browser:
    """A browser with a session of its own."""

    def __init__(self, driver: str, folder: Path) -> None:
        options = {"binary": BROWSER, "args": [*FLAGS, f"--user-data-dir={folder}"]}
        always = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        session = ask("POST", f"{driver}/session", {"capabilities": {"alwaysMatch": always}})
        self.session = f"{driver}/session/{session['value']['sessionId']}"

    def post(self, path: str, body: object) -> object:
        return ask("POST", f"{self.session}{path}", body)["value"]

    def sign_in(self, address: str, token: str) -> None:
        self.post("/url", {"url": f"http://{address}/lots"})
        until("it asks for a token", lambda: self.shown("#gate"))
        self.type("#token", token)
        self.wait("#link", "Live")

    def element(self, selector: str) -> str:
        found = self.post("/element", {"using": "css selector", "value": selector})
        return f"/element/{found[ELEMENT]}"

    def click(self, selector: str) -> None:
        self.post(f"{self.element(selector)}/click", {})

    def type(self, selector: str, text: str) -> None:
        """Replaces the text of a field, and presses Enter."""
        element = self.element(selector)
        self.post(f"{element}/clear", {})
        self.post(f"{element}/value", {"text": f"{text}\ue007"})

    def script(self, script: str, *arguments: str) -> object:
        return self.post("/execute/sync", {"script": script, "args": arguments})

    def shown(self, selector: str) -> str:
        """The visible text, empty if there is none."""
        script = "const node = document.querySelector(arguments[0]);" \
            "return node?.checkVisibility() ? node.innerText : '';"
        return self.script(script, selector)

    def wait(self, selector: str, *texts: str) -> None:
        """Waits until an element shows all these texts."""
        shown = ""

        def holds() -> bool:
            nonlocal shown
            shown = self.shown(selector)
            return all(text in shown for text in texts)

        try:
            until(f"{selector} shows {texts}", holds)
        except AssertionError as error:
            raise AssertionError(f"{error}, but {shown!r}; {self.shown('body')}") from None

    def errors(self) -> list[str]:
        """What the page did wrong since the last call, such as breaking its security policy."""
        entries = self.post("/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def quit(self) -> None:
        ask("DELETE", self.session)


class Page(unittest.TestCase):
    def setUp(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        self.floor = Floor(folder)
        self.addCleanup(lambda: self.floor.program.kill())
        driver = Program(folder, "driver", DRIVER, "--port=0")
        self.addCleanup(driver.kill)
        port = driver.logged(r"started successfully on port (\d+)")

        def sign_in(name: str, *claims: str) -> Browser:
            browser = Browser(f"http://127.0.0.1:{port}", folder / name)
            self.addCleanup(browser.quit)
            browser.sign_in(self.floor.address, self.floor.token("--subject", name, *claims))
            return browser

        self.ann = sign_in("ann", "--bidder", "dsp-1/ann", "--account", "acme")
        self.bob = sign_in("bob", "--bidder", "dsp-1/bob", "--account", "globex")
        self.desk = sign_in("desk", "--operator")
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
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if not (BROWSER and DRIVER):
        print("SKIPPED: the page of lots needs Chromium and chromedriver on the PATH")
        sys.exit()
    VICKREY = str(Path(sys.argv.pop()).resolve())
    unittest.main()
