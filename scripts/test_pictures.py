#!/usr/bin/env python3
"""Tests of the drawings of scripts/pictures, without a run."""

import sys
import unittest
import xml.etree.ElementTree as ElementTree
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

loader = SourceFileLoader("pictures", str(Path(__file__).with_name("pictures")))
pictures = module_from_spec(spec_from_loader("pictures", loader))
sys.modules["pictures"] = pictures
sys.dont_write_bytecode = True
loader.exec_module(pictures)


def shown(text: str, columns: int = 8, rows: int = 3) -> list[str]:
    terminal = pictures.Terminal(columns, rows)
    rest = ""
    # The text arrives in pieces of any size.
    for character in text:
        rest = terminal.feed(rest + character)
    return ["".join(cell for cell, _ in line).rstrip() for line in terminal.cells]


class Screen(unittest.TestCase):
    def test_what_is_drawn_again_replaces_what_was_drawn(self) -> None:
        self.assertEqual(shown("one\r\ntwo\r\n\x1b[2F\x1b[Jthree"), ["three", "", ""])
        self.assertEqual(shown("\x1b[?1049hone\x1b[H\x1b[2Jx\x1b[3;2Hy"), ["x", "", " y"])
        self.assertEqual(shown("abcdef\r\x1b[3C\x1b[K"), ["abc", "", ""])
        self.assertEqual(shown("abcdef\x1b[2D\x1b[1KX"), ["    Xf", "", ""])
        self.assertEqual(shown("\x1b]0;title\x07\x1b[?25la"), ["a", "", ""])

    def test_lines_wrap_and_scroll(self) -> None:
        self.assertEqual(shown("0123456789\r\nb\r\nc\r\nd"), ["b", "c", "d"])

    def test_styles_and_places_are_in_the_picture(self) -> None:
        terminal = pictures.Terminal(20, 2)
        terminal.feed("\x1b[1;32ma<b\x1b[0m   \x1b[38;5;196mred\x1b[38;2;1;2;3mown\x1b[39m.")
        drawn = ElementTree.fromstring(pictures.drawn_screen(terminal, "a & b"))
        spans = [each for each in drawn.iter() if each.tag.endswith("tspan")]
        self.assertEqual([each.text for each in spans], ["a<b", "red", "own", "."])
        fills = [each.get("fill") for each in spans]
        self.assertEqual(fills, [pictures.ANSI[2], "#ff0000", "#010203", None])
        self.assertEqual(spans[0].get("class"), "b")
        self.assertAlmostEqual(float(spans[1].get("x")) - float(spans[0].get("x")), 6 * 8.4, 1)


class Panels(unittest.TestCase):
    def test_a_panel_is_drawn_to_its_scale(self) -> None:
        line = [(0.0, 0.0), (10.0, 40.0), (20.0, 10.0)]
        panel = pictures.Panel("Calls <by> outcome", "ops", [("won", line), ("lost", [(5.0, 1.0)])])
        drawn = ElementTree.fromstring(pictures.drawn_panels([panel] * 4))
        texts = [each.text for each in drawn.iter() if each.tag.endswith("text")]
        self.assertEqual(texts[:6], ["Calls <by> outcome", "0", "25", "50", "won", "lost"])
        self.assertEqual(texts.count("Calls <by> outcome"), 4)

    def test_scales_and_units(self) -> None:
        for value, want in [(0, 1), (0.3, 0.5), (1, 1), (1.1, 2), (3, 5), (61, 100), (2000, 2000)]:
            self.assertAlmostEqual(pictures.rounded_up(value), want, msg=str(value))
        for value, unit, want in [
            (0, "s", "0"),
            (0.25, "s", "250 ms"),
            (2, "s", "2 s"),
            (1500, "ops", "1.5 k"),
            (200_000, "Bps", "200 kB/s"),
            (5, "short", "5"),
        ]:
            self.assertEqual(pictures.amount(value, unit), want)

    def test_every_panel_is_of_the_dashboard(self) -> None:
        dashboard = (pictures.ROOT / "deploy/grafana/exchange.json").read_text()
        for title in pictures.PANELS:
            self.assertIn(f'"title": "{title}"', dashboard)


if __name__ == "__main__":
    unittest.main()
