"""The local search of two processes on PostgreSQL: either finds what the other one crawled."""

from __future__ import annotations

import pytest

from tests.service.conftest import Api
from tests.service.replicas.test_two_replicas import replicas, team
from tests.site.server import Site

__all__ = ["replicas", "team"]

pytestmark = pytest.mark.slow


async def test_a_page_is_found_by_the_other_replica(replicas: list[Api], site: Site) -> None:
    site.page("/", "<title>Birds</title><p>Petrels are birds of the open sea.</p>")
    for crawler, searcher in (replicas, reversed(replicas)):
        await crawler.run_job("crawl", url=site.url, max_pages=1)
        reply = await searcher.run_job("search", query="petrels", formats=[])
        assert [row["url"] for row in reply["data"]] == [site.url]
        assert "open sea" in reply["data"][0]["snippet"]
