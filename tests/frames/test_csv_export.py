"""Tests reading CSV exports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from tests.requirements import require
from tests.service.exports.jobs import RowsInMemory, crawl_row, job_of, read_all, search_row
from webdata_nb import read_csv_export
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.exports import csv_columns, stream_csv
from webdata_nb.toolkit.frames import frame, rows, schemas


async def test_hostile_cells_round_trip(tmp_path: Path) -> None:
    corpus = require("corpora") / "own" / "csv_formula_cells.json"
    cells = [each["cell"] for each in json.loads(corpus.read_text("utf-8"))]
    rows = [search_row(n, title=cell, snippet="") for n, cell in enumerate(cells, start=1)]
    path = tmp_path / "export.csv"
    path.write_bytes(await read_all(stream_csv(job_of("search"), RowsInMemory(*rows))))
    frame = read_csv_export(path)
    assert list(frame["title"]) == cells
    assert frame["snippet"].isna().all()
    assert list(frame["rank"]) == list(range(1, len(cells) + 1))


@pytest.mark.parametrize("state", [JobStatus.RUNNING, JobStatus.FAILED, JobStatus.CANCELLED])
async def test_partial_export_warns(tmp_path: Path, state: JobStatus) -> None:
    path = tmp_path / "export.csv"
    job = replace(job_of("search"), state=state)
    path.write_bytes(await read_all(stream_csv(job, RowsInMemory(search_row(1), search_row(2)))))
    with pytest.warns(UserWarning, match=r"export\.csv: a partial export"):
        frame = read_csv_export(path)
    assert list(frame["title"]) == ["Result 1", "Result 2"]
    assert list(frame["partial_export"]) == ["true", "true"]


async def test_export_has_the_types_of_a_frame(tmp_path: Path) -> None:
    formats = ["markdown", "links", "headings"]
    job = job_of("crawl", scrape_options={"formats": formats})
    page = crawl_row(
        1,
        title="0012",
        depth=2,
        success=True,
        time_taken=1.5,
        fetched_at="2026-11-20T10:00:00Z",
        links=["https://a.test/"],
        headings=[{"level": 1, "text": "One", "anchor": None}],
        metadata={"language": "en"},
    )
    path = tmp_path / "export.csv"
    path.write_bytes(await read_all(stream_csv(job, RowsInMemory(page))))
    df = read_csv_export(path)
    columns = schemas.frame_columns("crawl", formats=formats, metadata=True)
    fresh = frame.build(rows.to_table("crawl", [page]), columns=columns)
    assert df.dtypes.to_dict() == fresh[list(df.columns)].dtypes.to_dict()
    for name in ("title", "depth", "success", "time_taken", "fetched_at", "links", "headings"):
        assert df[name].tolist() == fresh[name].tolist()
    assert df["metadata"].tolist() == [{"language": "en"}]


def test_cells_of_another_type_are_in_extra(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_bytes(b"rank,url,snippet,success,mine\r\nfirst,u,s,maybe,=x\r\n2,v,,true,\r\n")
    df = read_csv_export(path)
    assert list(df.columns) == ["rank", "url", "snippet", "success", "mine", "extra"]
    assert df["extra"].tolist() == [{"rank": "first", "success": "maybe"}, None]
    assert df["rank"].tolist() == [pd.NA, 2]
    assert df["mine"].tolist()[0] == "=x"


def test_file_of_another_kind_is_text(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_bytes(b"url,count\r\nu,5\r\n")
    assert read_csv_export(path)["count"].tolist() == ["5"]


async def test_export_without_rows_has_columns(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_bytes(await read_all(stream_csv(job_of("search", formats=[]), RowsInMemory())))
    assert list(read_csv_export(path).columns) == list(csv_columns(job_of("search", formats=[])))


def test_cells_with_a_nul_are_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_bytes(
        b"rank,url,title,snippet\r\n1,http://a.test/,a\0b,\r\n2,http://b.test/,\0,c\r\n"
    )
    assert read_csv_export(path)["title"].tolist() == ["a\0b", "\0"]
