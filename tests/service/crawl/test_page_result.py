"""Rows of crawls, and which of their parts belong to one visit."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from webdata_nb.service.pages.page_pipeline import end_of_row

TIME = {"fetched_at": "2026-11-25T12:00:00+00:00"}


@pytest.mark.parametrize(
    "content",
    [
        {"metadata": {}},
        {"metadata": TIME},
        {"metadata": {"title": "Ä", **TIME}},
        {"metadata": {**TIME, "rung": "main", "extract": {"fetched_at": 1}}},
        {"markdown": '"fetched_at":"1"', "metadata": {"a": [1], **TIME, "crawl_score": 0.5}},
        {"success": True, "markdown": "x", "metadata": {"final_url": "http://x/", "b": None}},
        {"success": False, "error": "no reply"},
    ],
)
def test_the_end_of_a_row_is_that_of_its_json(content: dict[str, Any]) -> None:
    parts = end_of_row(content)
    assert b"{" + parts.json == orjson.dumps(content)
    has_time = "fetched_at" in content.get("metadata", {})
    assert parts.own == ((orjson.dumps(TIME["fetched_at"]),) if has_time else ())
