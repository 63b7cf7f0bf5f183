"""The JSON export: the contract's two shapes, of the rows as stored."""

from __future__ import annotations

import json

import pytest

from tests.service.exports.jobs import Given, crawl_row, job_of, search_row, whole
from webdata_nb.contract.replies import SearchExport
from webdata_nb.service.exports import as_json


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_a_search_is_its_query_and_its_results(count: int) -> None:
    rows = [search_row(rank) for rank in range(1, count + 1)]
    body = await whole(as_json.stream(job_of("search", 'say "hi"'), Given(*rows)))
    assert json.loads(body) == {"query": 'say "hi"', "results": rows}
    export = SearchExport.model_validate_json(body)
    assert [each.title for each in export.results] == [row["title"] for row in rows]


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_a_crawl_is_an_array_of_its_pages(count: int) -> None:
    rows = [crawl_row(number) for number in range(count)]
    body = await whole(as_json.stream(job_of("crawl"), Given(*rows)))
    assert json.loads(body) == rows
