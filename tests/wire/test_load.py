"""Many crawls at once in one service: the short version of `python -m benchmarks.ten_crawls`."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.ten_crawls import load
from tests.site.process import SiteProcess
from tests.wire.waiting import processes_on, until

pytestmark = pytest.mark.slow

CRAWLS, PAGES = 4, 120


async def test_every_row_of_crawls_at_once_arrives_and_none_twice(tmp_path: Path) -> None:
    with SiteProcess("benchmarks.ten_crawls:forest") as site:
        done = await load(tmp_path, site.url, crawls=CRAWLS, pages=PAGES, settled=PAGES)
    for number, urls in enumerate(done.urls):
        assert len(urls) == len(set(urls)) == PAGES
        assert all(url.startswith(f"{site.url}tree{number}") for url in urls)
    assert 0 < done.settled_mb <= done.peak_mb
    await until(lambda: not processes_on(tmp_path))
