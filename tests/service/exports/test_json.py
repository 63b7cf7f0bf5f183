"""The JSON export: the contract's two shapes, of the rows as stored."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.service.exports.jobs import Given, crawl_row, job_of, search_row, whole
from webdata_nb.contract.replies import SearchExport
from webdata_nb.contract.states import JobStatus
from webdata_nb.frames.exports import is_partial
from webdata_nb.service.exports import as_json


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_a_search_is_its_query_and_its_results(count: int) -> None:
    rows = [search_row(rank) for rank in range(1, count + 1)]
    body = await whole(as_json.stream(job_of("search", 'say "hi"'), Given(*rows)))
    assert json.loads(body) == {"query": 'say "hi"', "results": rows}
    export = SearchExport.model_validate_json(body)
    assert [each.title for each in export.results] == [row["title"] for row in rows]


@pytest.mark.parametrize("state", [JobStatus.RUNNING, JobStatus.FAILED, JobStatus.CANCELLED])
async def test_a_partial_search_says_so_beside_its_results(
    tmp_path: Path, state: JobStatus
) -> None:
    rows = [search_row(1, title='],"partial":true,"status":"x"}'), search_row(2)]
    job = replace(job_of("search", "tides"), state=state)
    body = await whole(as_json.stream(job, Given(*rows)))
    told = {"query": "tides", "results": rows, "partial": True, "status": state.value}
    assert json.loads(body) == told
    path = tmp_path / "export.json"
    path.write_bytes(body)
    assert is_partial(path, "json")


async def test_a_text_that_looks_like_the_end_of_a_partial_export(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    for ending in ('],"partial":true,"status":"failed"}', ',"partial_export":true}]'):
        path.write_text(json.dumps({"query": "q", "results": [{"title": ending}]}))
        assert not is_partial(path, "json")
        path.write_text(json.dumps([{"title": ending, "metadata": {"a": ending}}]))
        assert not is_partial(path, "json")


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_a_crawl_is_an_array_of_its_pages(count: int) -> None:
    rows = [crawl_row(number) for number in range(count)]
    body = await whole(as_json.stream(job_of("crawl"), Given(*rows)))
    assert json.loads(body) == rows
