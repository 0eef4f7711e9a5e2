"""Real browsers, for tests of pages: WebDriver (https://www.w3.org/TR/webdriver2/) to chromedriver,
without other packages."""

import json
import re
import shutil
import subprocess
import sys
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

# Longest wait for a condition, in seconds.
PATIENCE_S = 30
FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--window-size=1200,900",
]  # fmt: skip
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
DRIVER = shutil.which("chromedriver")


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


class Browser:
    """A browser with a session of its own."""

    def __init__(self, driver: str, folder: Path) -> None:
        options = {"binary": BROWSER, "args": [*FLAGS, f"--user-data-dir={folder}"]}
        always = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        session = ask("POST", f"{driver}/session", {"capabilities": {"alwaysMatch": always}})
        self.session = f"{driver}/session/{session['value']['sessionId']}"

    def post(self, path: str, body: object) -> object:
        return ask("POST", f"{self.session}{path}", body)["value"]

    def open(self, url: str) -> None:
        self.post("/url", {"url": url})

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


class PageTest(unittest.TestCase):
    """A folder, and browsers."""

    # The program under test.
    vickrey = ""

    def start_driver(self, folder: Path) -> None:
        self.folder = folder
        driver = Program(folder, "driver", DRIVER, "--port=0")
        self.addCleanup(driver.kill)
        port = driver.logged(r"started successfully on port (\d+)")
        self.driver = f"http://127.0.0.1:{port}"

    def browser(self, name: str) -> Browser:
        browser = Browser(self.driver, self.folder / name)
        self.addCleanup(browser.quit)
        return browser


def main(usage: str, page: str) -> None:
    """Runs the tests of a page, or says that they are skipped without a browser."""
    if len(sys.argv) != 2:
        sys.exit(usage)
    if not (BROWSER and DRIVER):
        print(f"SKIPPED: the page of {page} needs Chromium and chromedriver on the PATH")
        sys.exit()
    PageTest.vickrey = str(Path(sys.argv.pop()).resolve())
    unittest.main(module="__main__")
