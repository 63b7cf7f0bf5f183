"""The painters: what they draw, and what they must never let through."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from html.parser import HTMLParser
from typing import Any, Final

import pytest

from tests.requirements import require, require_module
from webdata_nb.toolkit.display import bars
from webdata_nb.toolkit.display.bars import View

HALF: Final = View("crawl https://site.test/", 10, completed=5, failed=1, status="running")
DONE: Final = View("crawl https://site.test/", 10, completed=10, ending="done", elapsed=3)


class Tags(HTMLParser):
    """Collects every element with its attributes, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, list[str]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, [name for name, _ in attrs]))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_terminal_bar_moves_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    threads = set(threading.enumerate())
    bar = bars.Bar(HALF)
    bar.paint(HALF)
    bar.close(DONE)
    assert set(threading.enumerate()) <= threads
    drawn = screen.getvalue()
    assert "crawl https://site.test/" in drawn
    assert "5/10" in drawn
    assert "1 failed" in drawn
    last = drawn.rstrip("\n").split("\r")[-1]
    assert "✓ crawl https://site.test/: 10/10" in last


def test_a_bar_takes_a_total_that_is_known_later(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    bar = bars.Bar(View("search", None))
    bar.paint(HALF)
    bar.close(DONE)
    assert "10/10" in screen.getvalue()


def test_the_log_tells_start_and_end(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "webdata_nb"):
        line = bars.Log(HALF)
        line.paint(HALF)
        line.close(DONE)
    assert [record.getMessage() for record in caplog.records] == [
        "crawl https://site.test/: started",
        "crawl https://site.test/: done, 10/10 rows",
    ]


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (HALF, "… crawl https://site.test/5/10 rows, 1 failed, 0 s"),
        (DONE, "✓ crawl https://site.test/:10/10 rows, 3 s"),
        (View("search q", None, completed=2), "… search q2 rows, 0 s"),
        (View("search q", 0, ending="failed"), "✗ search q:0/0 rows, 0 s, failed"),
        (View("search q", 5, ending="cancelled"), "■ search q:0/5 rows, 0 s, cancelled"),
    ],
)
def test_the_notebook_bar_says_it_in_words_too(view: View, words: str) -> None:
    assert Tags(bars.render_html(view)).text == words


@pytest.mark.parametrize("completed", [0, 5, 10, 50])
def test_the_bar_never_leaves_its_track(completed: int) -> None:
    drawn = bars.render_html(View("x", 10, completed=completed))
    assert f"width:{min(100, completed * 10)}%" in drawn


def hostile() -> list[str]:
    corpora = require("corpora")
    payloads = json.loads((corpora / "html_xss" / "dompurify_expect.json").read_text())
    strings = json.loads((corpora / "strings" / "blns.json").read_text())
    return [*(case["payload"] for case in payloads), *strings]


def test_nothing_of_a_description_becomes_markup() -> None:
    for text in hostile():
        tags = Tags(bars.render_html(View(text, 10, completed=5)))
        assert tags.found == [("div", ["style"])] + [("span", ["style"])] * 3 + [("span", [])]


def test_in_a_kernel_the_bar_is_one_output_that_ends_as_static_html() -> None:
    code = """
        import time
        from webdata_nb.toolkit.display import progress
        from webdata_nb.toolkit.display.bars import Html
        from webdata_nb.toolkit.display.bars import View
        assert progress.choose(None) is Html
        bar = Html(View("crawl <b>", 10))
        bar.paint(View("crawl <b>", 10, completed=1))
        time.sleep(0.25)
        bar.paint(View("crawl <b>", 10, completed=5))
        bar.close(View("crawl <b>", 10, completed=10, ending="done"))
    """
    [output] = outputs_of_cell(code)
    assert output.output_type == "display_data"
    assert Tags(output.data["text/html"]).text == "✓ crawl <b>:10/10 rows, 0 s"
    assert "<script" not in output.data["text/html"]


@pytest.mark.parametrize(
    ("line", "left"),
    [
        # The table has the receipt of the bar, whose time began and ended elsewhere.
        ("crawl https://site.test/: 3 rows; 2 credits; 10.0 s", "3/3 pages, 0 s"),
        ("crawl https://site.test/: 2 rows; 2 credits; 9.9 s", "3 rows; 2 credits; 9.9 s"),
        ("", "3 rows; 2 credits; 9.9 s"),
    ],
)
def test_a_receipt_that_a_table_shows_leaves_the_bar(line: str, left: str) -> None:
    code = f"""
        from webdata_nb.toolkit.display.bars import Html, View, leave_receipt_to_table
        summary = "3 rows; 2 credits; 9.9 s"
        view = View("crawl", 3, completed=3, unit="pages", ending="done", summary=summary)
        Html(view).close(view)
        leave_receipt_to_table({line!r})
    """
    [output] = outputs_of_cell(code)
    assert Tags(output.data["text/html"]).text == f"✓ crawl:{left}"


def outputs_of_cell(code: str) -> Any:
    """Return the outputs of a cell that a real kernel runs."""
    lines = "\n".join(line.strip() for line in code.splitlines())
    cell = {"cell_type": "code", "source": lines, "metadata": {}, "outputs": [], "id": "c1"}
    content = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    notebook = require_module("nbformat").reads(json.dumps(content), as_version=4)
    require_module("nbclient").NotebookClient(notebook, timeout=120).execute()
    return notebook.cells[0].outputs
