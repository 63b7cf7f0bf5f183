"""A CSV export read back: what the pages had, not what protects a spreadsheet."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from tests.requirements import require
from tests.service.exports.jobs import Given, job_of, search_row, whole
from webdata_nb import read_csv_export
from webdata_nb.contract.states import JobStatus
from webdata_nb.service.exports import as_csv


async def test_every_hostile_cell_comes_back(tmp_path: Path) -> None:
    corpus = require("corpora") / "own" / "csv_formula_cells.json"
    cells = [each["cell"] for each in json.loads(corpus.read_text("utf-8"))]
    rows = [search_row(n, title=cell, snippet="") for n, cell in enumerate(cells, start=1)]
    path = tmp_path / "export.csv"
    path.write_bytes(await whole(as_csv.stream(job_of("search"), Given(*rows))))
    frame = read_csv_export(path)
    assert list(frame["title"]) == cells
    assert frame["snippet"].isna().all()
    assert list(frame["rank"]) == [str(n) for n in range(1, len(cells) + 1)]
    assert all(isinstance(kind, pd.StringDtype) for kind in frame.dtypes)


@pytest.mark.parametrize("state", [JobStatus.RUNNING, JobStatus.FAILED, JobStatus.CANCELLED])
async def test_a_partial_file_is_warned_of(tmp_path: Path, state: JobStatus) -> None:
    path = tmp_path / "export.csv"
    job = replace(job_of("search"), state=state)
    path.write_bytes(await whole(as_csv.stream(job, Given(search_row(1), search_row(2)))))
    with pytest.warns(UserWarning, match=r"export\.csv: a partial export"):
        frame = read_csv_export(path)
    assert list(frame["title"]) == ["Result 1", "Result 2"]
    assert list(frame["partial_export"]) == ["true", "true"]


async def test_a_file_without_rows_has_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_bytes(await whole(as_csv.stream(job_of("search", formats=[]), Given())))
    assert list(read_csv_export(path).columns) == list(as_csv.columns(job_of("search", formats=[])))
