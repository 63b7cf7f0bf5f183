"""CSV cells: nothing computes, and nothing is lost."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.requirements import require
from webdata_nb.contract.cells import escape_formula, unescape_formula


@given(st.text())
def test_unescape_reverses_escape(text: str) -> None:
    assert unescape_formula(escape_formula(text)) == text


@given(
    st.sampled_from("=+-@\uff1d\uff0b\uff0d\uff20"),
    st.text(alphabet=' \t\r\n\0"\u200b\ufeff\xa0'),
    st.text(),
)
def test_no_cell_begins_with_an_operator(operator: str, unseen: str, rest: str) -> None:
    assert escape_formula(unseen + operator + rest).startswith("'")


def test_formula_corpus_is_escaped() -> None:
    cells = json.loads((require("corpora") / "own" / "csv_formula_cells.json").read_text("utf-8"))
    for each in cells:
        cell = escape_formula(each["cell"])
        assert cell.startswith("'") == each["must_neutralise"], each
        assert unescape_formula(cell) == each["cell"]
    assert len(cells) == 45


@pytest.mark.parametrize("text", ["", "plain", "a=b", "1", "{}", "é", "DDE (1)"])
def test_harmless_cell_is_unchanged(text: str) -> None:
    assert escape_formula(text) == text
