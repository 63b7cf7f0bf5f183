"""Rows over HTTP are the same, however their pages are stored."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.conftest import Api
from tests.site.server import Site

TIMES = ("time_taken", "fetched_at")


@pytest.fixture
def pages(site: Site) -> list[str]:
    paths = ["/", *(f"/p{number}" for number in range(5))]
    links = "".join(f'<a href="{path}">{path}</a>' for path in paths)
    for number, path in enumerate(paths):
        text = " ".join(f"Wort{number}-{word}" for word in range(300))
        site.page(path, f"<h1>Seite {number}</h1><p>{text}</p>{links}")
    return paths


def without_times(row: dict[str, Any]) -> dict[str, Any]:
    metadata = {name: value for name, value in row["metadata"].items() if name not in TIMES}
    return {name: v for name, v in row.items() if name not in TIMES} | {"metadata": metadata}


@pytest.mark.both_stores
async def test_crawls_of_an_unchanged_site_have_the_same_rows(
    api: Api, site: Site, pages: list[str]
) -> None:
    options = [{}, {}, {"headers": {"X-Key": "k"}}, {"formats": ["markdown", "links", "html"]}]
    replies = [await api.run_job("crawl", url=site.url, scrape_options=each) for each in options]
    first, second, private, _ = replies
    for reply in replies:
        assert [row["url"] for row in reply["data"]] == [site.at(path) for path in pages]
        assert all(row["success"] and "Wort" in row["markdown"] for row in reply["data"])
    assert first["data"] != second["data"]
    for reply in (second, private):
        assert list(map(without_times, reply["data"])) == list(map(without_times, first["data"]))


@pytest.mark.both_stores
async def test_a_row_has_its_members_in_their_order(api: Api, site: Site, pages: list[str]) -> None:
    assert pages
    reply = await api.run_job("crawl", url=site.url, crawl_strategy="bff")
    row = reply["data"][0]
    assert list(row)[:11] == [
        "url",
        "title",
        "status",
        "status_code",
        "success",
        "error",
        "depth",
        "time_taken",
        "quality",
        "content_hash",
        "fetched_at",
    ]
    assert list(row)[-1] == "metadata"
    assert list(row["metadata"])[-1] == "crawl_score"
    assert row["fetched_at"] == row["metadata"]["fetched_at"]
    export = await api.get(f"/v1/crawl/{reply['job_id']}/export", params={"format": "json"})
    assert export[0] == row
