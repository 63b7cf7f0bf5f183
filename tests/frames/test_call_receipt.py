"""Receipts: plain values in attrs that print as lines, and are plain dicts elsewhere."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import pandas as pd
from turbohtml import parse

from tests.frames.test_rows import CRAWLED
from webdata_nb.toolkit.api import Estimate, Why
from webdata_nb.toolkit.frames import frame, rows
from webdata_nb.toolkit.frames.frame import CallReceipt

RECEIPT = {
    "kind": "crawl",
    "job_id": None,
    "line": "crawl <b>x</b>: 3 rows",
    "counts": {"rows": 3, "failed": 0},
    "receipt": {"examples": {"robots": ["https://a.test/" + "x" * 200]}},
    "fallback_chain": [{"provider": "p"}],
}


def test_a_receipt_prints_its_line_first_and_what_it_has() -> None:
    lines = repr(CallReceipt(RECEIPT)).splitlines()
    assert lines[0] == "line            crawl <b>x</b>: 3 rows"
    assert "counts          rows 3, failed 0" in lines
    assert not any(line.startswith("job_id") for line in lines)
    assert max(map(len, lines)) <= 180
    assert repr(CallReceipt()) == ""


def test_a_notebook_shows_it_as_text() -> None:
    markup = CallReceipt(RECEIPT)._repr_html_()
    assert "<b>" not in markup
    assert "crawl <b>x</b>: 3 rows" in parse(markup).text


def test_slices_keep_it_and_files_hold_a_plain_dict(tmp_path: Path) -> None:
    df = frame.build(rows.to_table("crawl", [CRAWLED]), attrs=RECEIPT)
    for attrs in (df.attrs, df.head().attrs, copy.deepcopy(df.attrs)):
        assert type(attrs["webdata"]) is CallReceipt
        assert attrs == {"webdata": RECEIPT}
    assert json.loads(json.dumps(df.attrs)) == {"webdata": RECEIPT}
    plain = pickle.loads(pickle.dumps(df.attrs["webdata"]))
    assert type(plain) is dict
    df[["url"]].to_parquet(tmp_path / "pages.parquet")
    assert pd.read_parquet(tmp_path / "pages.parquet").attrs == {"webdata": RECEIPT}


def test_answers_echo_as_they_print() -> None:
    for answer in (
        Why("https://a.test/<i>", "robots"),
        Estimate(50.0, {"crawl/page": 50.0}, inputs=1, cached=0),
    ):
        assert repr(answer) == f"{type(answer).__name__}({answer})"
        bundle = answer._repr_mimebundle_()
        assert bundle["text/plain"] == repr(answer)
        assert "<i>" not in bundle["text/html"]
