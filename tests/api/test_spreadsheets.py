"""CSV files and Excel workbooks of `out=`."""

from __future__ import annotations

import base64
import sys
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.api.receipts import SITE, receipt_of
from tests.requirements import require_module
from tests.wire_service import JobScript, WireService, crawl_rows
from webdata_nb import read_csv_export
from webdata_nb.errors import InvalidArgument, MissingExtra
from webdata_nb.toolkit.api import crawl_df
from webdata_nb.toolkit.frames import exports, frame, rows, schemas

PAGE: dict[str, Any] = {
    "url": "https://a.test/",
    "title": "=1+1",
    "status_code": 200,
    "success": True,
    "time_taken": 1.5,
    "fetched_at": "2026-11-20T10:00:00.25Z",
    "links": ["https://b.test/"],
    "headings": [{"level": 1, "text": "One", "anchor": None}],
    "metadata": {"language": "en"},
    "screenshot": base64.b64encode(b"\x89PNG").decode(),
    "markdown": "line one\nline \x01 two",
}
TABLE = rows.to_table("crawl", [PAGE, {"url": "u", "fetched_at": "1601-01-01T00:00:00Z"}])


@pytest.fixture(autouse=True)
def shown_losses(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Forget which losses were shown."""
    texts: set[str] = set()
    monkeypatch.setattr(exports, "_shown_losses", texts)
    return texts


def test_csv_is_read_back_with_types(tmp_path: Path) -> None:
    path = tmp_path / "pages.csv"
    with pytest.warns(UserWarning, match=r"pages\.csv: a CSV file has no types and no receipt"):
        exports.write(path, TABLE, {})
    df, fresh = read_csv_export(path), frame.build(TABLE)
    for name in (*PAGE, "error"):
        assert df[name].tolist()[0] == fresh[name].tolist()[0] or pd.isna(df[name][0])
        assert df[name].dtype == fresh[name].dtype
    assert path.read_text("utf-8").count("'=1+1") == 1


def test_losses_are_shown_once(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="loses nothing"):
        exports.write(tmp_path / "a.csv", TABLE, {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exports.write(tmp_path / "b.csv", TABLE, {})


def test_workbook(tmp_path: Path) -> None:
    require_module("xlsxwriter")
    require_module("openpyxl")
    path = tmp_path / "pages.xlsx"
    with pytest.warns(UserWarning, match=r"pages\.xlsx: a workbook has lists and dicts as JSON"):
        exports.write(path, TABLE, {"kind": "crawl", "line": "two pages"})
    df: Any = pd.read_excel(path, sheet_name="rows", engine="openpyxl")
    assert list(df.columns) == schemas.SCHEMAS["crawl"].names
    assert df["title"][0] == "=1+1"
    assert df["status_code"][0] == 200
    assert bool(df["success"][0]) is True
    assert df["links"][0] == '["https://b.test/"]'
    assert df["metadata"][0] == '{"language":"en"}'
    assert df["fetched_at"].tolist()[0] == pd.Timestamp("2026-11-20T10:00:00.25")
    assert df["fetched_at"].tolist()[1] == "1601-01-01T00:00:00.000000Z"  # before any in Excel
    assert df["screenshot"].isna().all()
    assert df["markdown"][0].startswith("line one\nline ")
    receipt: Any = pd.read_excel(path, sheet_name="receipt", header=None, index_col=0)
    assert receipt.loc["line"].tolist() == ["two pages"]


def test_long_texts_are_cut_and_counted(tmp_path: Path, shown_losses: set[str]) -> None:
    require_module("xlsxwriter")
    shown_losses.add("xlsx")
    table = rows.to_table("crawl", [{"markdown": "x" * 40_000, "title": "y" * 32_767}])
    with pytest.warns(UserWarning, match="1 texts were cut at 32,767 characters"):
        exports.write(tmp_path / "long.xlsx", table, {})


def test_workbook_without_rows(tmp_path: Path, shown_losses: set[str]) -> None:
    require_module("xlsxwriter")
    require_module("openpyxl")
    shown_losses.add("xlsx")
    exports.write(tmp_path / "none.xlsx", rows.to_table("search", []), {})
    assert list(pd.read_excel(tmp_path / "none.xlsx").columns) == schemas.SCHEMAS["search"].names


@pytest.mark.usefixtures("connected")
def test_call_writes_csv_and_warns_at_its_line(service: WireService, tmp_path: Path) -> None:
    service.crawl = JobScript(crawl_rows(3))
    with pytest.warns(UserWarning, match="CSV") as warned:
        df = crawl_df(SITE, out=tmp_path / "pages.csv")
    assert [each.filename for each in warned] == [__file__]
    again = read_csv_export(tmp_path / "pages.csv")
    assert list(again.columns) == list(df.columns)
    assert again["url"].tolist() == df["url"].tolist()
    assert receipt_of(df)["status"] == "completed"


@pytest.mark.usefixtures("connected")
def test_missing_library_is_an_error_before_anything_is_sent(
    service: WireService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    for target in (tmp_path / "pages.xlsx", "memory://pages.xlsx"):
        with pytest.raises(MissingExtra, match=r"webdata_nb\[excel\]"):
            crawl_df(SITE, out=target)
    with pytest.raises(InvalidArgument, match=r"\.parquet, \.jsonl, \.csv or \.xlsx"):
        crawl_df(SITE, out=tmp_path / "pages.xls")
    assert service.requests == []


def test_infinite_numbers_do_not_break_a_workbook() -> None:
    require_module("xlsxwriter")
    table = rows.to_table("crawl", [{"time_taken": 1.5}])
    infinite = table.set_column(
        table.column_names.index("time_taken"), "time_taken", [[float("inf")]]
    )
    data, cuts = exports.xlsx_bytes(infinite, {})
    assert data.startswith(b"PK")
    assert cuts == ""
