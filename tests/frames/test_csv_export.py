"""Tests reading CSV exports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from tests.requirements import require
from tests.service.exports.jobs import RowsInMemory, job_of, read_all, search_row
from webdata_nb import read_csv_export
from webdata_nb.contract.states import JobStatus
from webdata_nb.service.exports import csv_export


async def test_hostile_cells_round_trip(tmp_path: Path) -> None:
    corpus = require("corpora") / "own" / "csv_formula_cells.json"
    cells = [each["cell"] for each in json.loads(corpus.read_text("utf-8"))]
    rows = [search_row(n, title=cell, snippet="") for n, cell in enumerate(cells, start=1)]
    path = tmp_path / "export.csv"
    path.write_bytes(await read_all(csv_export.stream(job_of("search"), RowsInMemory(*rows))))
    frame = read_csv_export(path)
    assert list(frame["title"]) == cells
    assert frame["snippet"].isna().all()
    assert list(frame["rank"]) == [str(n) for n in range(1, len(cells) + 1)]
    assert all(isinstance(kind, pd.StringDtype) for kind in frame.dtypes)


@pytest.mark.parametrize("state", [JobStatus.RUNNING, JobStatus.FAILED, JobStatus.CANCELLED])
async def test_partial_export_warns(tmp_path: Path, state: JobStatus) -> None:
    path = tmp_path / "export.csv"
    job = replace(job_of("search"), state=state)
    path.write_bytes(
        await read_all(csv_export.stream(job, RowsInMemory(search_row(1), search_row(2))))
    )
    with pytest.warns(UserWarning, match=r"export\.csv: a partial export"):
        frame = read_csv_export(path)
    assert list(frame["title"]) == ["Result 1", "Result 2"]
    assert list(frame["partial_export"]) == ["true", "true"]


async def test_export_without_rows_has_columns(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_bytes(
        await read_all(csv_export.stream(job_of("search", formats=[]), RowsInMemory()))
    )
    assert list(read_csv_export(path).columns) == list(
        csv_export.columns(job_of("search", formats=[]))
    )
