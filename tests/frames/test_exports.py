"""Rows as a file of the user's own."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pandas as pd
import pytest

from tests.frames.test_rows import CRAWLED, PNG
from webdata_nb.toolkit.frames import exports, rows, schemas

SHOWN = list(
    schemas.frame_columns("crawl", formats=["markdown", "links", "screenshot"], metadata=True)
)
TABLE = rows.to_table("crawl", [CRAWLED, {"url": "x", "new": {"a": 1}}]).select(SHOWN)
ATTRS = {"job_id": "j"}


def test_parquet_carries_the_rows_and_the_receipt(tmp_path: Path) -> None:
    path = tmp_path / "pages.parquet"
    exports.write(path, TABLE, ATTRS)
    df = pd.read_parquet(path)
    assert list(df.columns) == SHOWN
    assert df.attrs == {"webdata": ATTRS}
    assert df["screenshot"][0] == PNG


def test_json_lines_hold_every_column_as_json(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl"
    exports.write(path, TABLE, ATTRS)
    text = path.read_text(encoding="utf-8")
    first, second = (json.loads(line) for line in text.splitlines())
    assert list(first) == list(second) == SHOWN
    assert first["metadata"] == CRAWLED["metadata"]
    assert first["links"] == CRAWLED["links"]
    assert base64.b64decode(first["screenshot"]) == PNG
    assert first["fetched_at"] == "2026-11-20T10:00:00.250000Z"
    assert second["extra"] == {"new": {"a": 1}}
    assert second["links"] is None


def test_no_rows_are_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "none.jsonl"
    exports.write(path, TABLE.slice(0, 0), ATTRS)
    assert path.read_bytes() == b""


@pytest.mark.parametrize("name", ["pages.parquet", "pages.jsonl"])
def test_an_earlier_file_is_replaced_as_a_whole(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"earlier")
    exports.write(path, TABLE, ATTRS)
    assert not path.read_bytes().startswith(b"earlier")
    assert [each.name for each in tmp_path.iterdir()] == [name]
