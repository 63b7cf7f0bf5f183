"""Requests beyond a limit are refused by name, before anything is compiled or stored."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.service.conftest import Api
from webdata_nb.contract import limits

URL = "http://93.184.216.34/"
# Few enough bytes for a body: the number of values is what refuses it.
ENUMS = {
    "type": "object",
    "properties": {f"p{i}": {"enum": list(range(300))} for i in range(100)},
}
CHOICES = {"type": "object", "properties": {f"p{i}": {"enum": list(range(900))} for i in range(6)}}


@pytest.mark.parametrize(
    ("body", "loc", "limit"),
    [
        ({"include_paths": ["/a"] * 201}, "include_paths", limits.PATTERNS),
        ({"include_paths": ["/" + "*a" * 900] * 20}, "include_paths", limits.PATTERN_WILDCARDS),
        (
            {"scrape_options": {"include_tags": ["a" + ",a" * 50_000]}},
            "include_tags",
            limits.SELECTOR_LENGTH,
        ),
        (
            {"scrape_options": {"wait_for": "a" + ",a" * 50_000}},
            "wait_for",
            limits.SELECTOR_LENGTH,
        ),
        (
            {"scrape_options": {"extract": {"schema": ENUMS}}},
            "body",
            limits.BODY_VALUES,
        ),
        (
            {"scrape_options": {"extract": {"schema": CHOICES}}},
            "enum",
            limits.SCHEMA_CHOICES_TOTAL,
        ),
        (
            {"scrape_options": {"extract": {"schema": {"type": "object", "title": "x" * 70_000}}}},
            "schema",
            limits.SCHEMA_SIZE,
        ),
    ],
)
async def test_the_limit_is_named(api: Api, body: dict[str, Any], loc: str, limit: int) -> None:
    raw = orjson.dumps({"url": URL, **body})
    headers = {"Content-Type": "application/json"}
    response = await api.http.post("/v1/crawl", content=raw, headers=headers)
    assert response.status_code == 422, response.text
    [problem] = response.json()["detail"]
    assert loc in problem["loc"]
    assert str(limit) in problem["msg"]
    assert (await api.http.get("/v1/jobs")).json()["jobs"] == []


async def test_a_larger_body_is_413(api: Api) -> None:
    raw = orjson.dumps({"url": URL, "webhook_secret": "x" * limits.BODY_BYTES})
    headers = {"Content-Type": "application/json"}
    response = await api.http.post("/v1/crawl", content=raw, headers=headers)
    assert response.status_code == 413
    assert str(limits.BODY_BYTES) in response.json()["detail"]


@pytest.mark.parametrize(("wrong", "listed"), [(1, 1), (100, 100), (101, 101), (9000, 101)])
async def test_a_refusal_lists_a_hundred_problems_and_counts_the_others(
    api: Api, wrong: int, listed: int
) -> None:
    fields = {f"field{n}": n for n in range(wrong)}
    for path, body in (("crawl", {"url": "http://a.test/"}), ("search", {"query": "q"})):
        problems = (await api.post(f"/v1/{path}", body | fields, 422))["detail"]
        assert len(problems) == listed
        assert problems[0]["loc"] == ["body", "field0"]
        if wrong > 100:
            assert problems[-1] == {
                "loc": ["body"],
                "msg": f"has {wrong - 100} more problems",
                "type": "too_many_problems",
            }
