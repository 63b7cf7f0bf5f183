"""Nothing is invented on generated pages whose tables, lists and structured data are known.

`python -m benchmarks.extraction_truth` goes through 1,000 pages.
"""

from __future__ import annotations

import pytest

from benchmarks.extraction_truth import LEAST_CORRECT, count, main
from tests.quality.truth_pages import truth_page

PAGES = 250


def test_every_value_is_the_one_at_its_place_or_null() -> None:
    counts = count(map(truth_page, range(PAGES)))
    assert counts.pages == PAGES
    assert counts.invented == 0, "\n".join(counts.examples[:20])
    assert counts.correct >= LEAST_CORRECT * counts.values


def test_a_wrong_value_would_be_counted() -> None:
    page = truth_page(3)
    # The truth of another page: whatever is read then stands nowhere on this one.
    other = type(page)(page.number, truth_page(4).html, page.schema, page.truth, page.blocks)
    assert count([other]).correct == 0


def test_the_command_prints_its_counts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["extraction_truth", "--pages", "5", "--first", "900"])
    assert main() == 0
    lines = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert list(lines) == ["pages", "values", "correct", "null", "invented"]
    assert (lines["pages"], lines["invented"]) == ("5", "0")
