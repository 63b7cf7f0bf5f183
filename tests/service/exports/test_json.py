"""Tests the JSON export of searches and crawls."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.service.exports.jobs import RowsInMemory, crawl_row, job_of, read_all, search_row
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.contract.replies import SearchExport
from webdata_nb.service.exports import stream_json
from webdata_nb.toolkit.frames.exports import is_partial


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_search_export_has_query_and_results(count: int) -> None:
    rows = [search_row(rank) for rank in range(1, count + 1)]
    body = await read_all(stream_json(job_of("search", 'say "hi"'), RowsInMemory(*rows)))
    assert json.loads(body) == {"query": 'say "hi"', "results": rows}
    export = SearchExport.model_validate_json(body)
    assert [each.title for each in export.results] == [row["title"] for row in rows]


@pytest.mark.parametrize("state", [JobStatus.RUNNING, JobStatus.FAILED, JobStatus.CANCELLED])
async def test_partial_search_export_is_marked(tmp_path: Path, state: JobStatus) -> None:
    rows = [search_row(1, title='],"partial":true,"status":"x"}'), search_row(2)]
    job = replace(job_of("search", "tides"), state=state)
    body = await read_all(stream_json(job, RowsInMemory(*rows)))
    expected = {"query": "tides", "results": rows, "partial": True, "status": state.value}
    assert json.loads(body) == expected
    path = tmp_path / "export.json"
    path.write_bytes(body)
    assert is_partial(path, "json")


async def test_text_that_looks_like_partial_mark_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    for ending in ('],"partial":true,"status":"failed"}', ',"partial_export":true}]'):
        path.write_text(json.dumps({"query": "q", "results": [{"title": ending}]}))
        assert not is_partial(path, "json")
        path.write_text(json.dumps([{"title": ending, "metadata": {"a": ending}}]))
        assert not is_partial(path, "json")


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_crawl_export_is_array_of_pages(count: int) -> None:
    rows = [crawl_row(number) for number in range(count)]
    body = await read_all(stream_json(job_of("crawl"), RowsInMemory(*rows)))
    assert json.loads(body) == rows
