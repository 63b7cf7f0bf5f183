"""A long crawl of a service and a caller that are killed: the short form of the benchmark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.site.graphs import large_tree
from tests.site.process import SiteProcess
from tests.site.server import Site
from tests.wire.long_crawl_kills import long_crawl_under_kills

PAGES = 2100


def recipe(site: Site) -> None:
    """Recipe: a tree of pages."""
    large_tree(site)


@pytest.mark.slow
def test_rows_are_exact_when_service_and_caller_are_killed(tmp_path: Path) -> None:
    with SiteProcess("tests.wire.test_long_crawl_kills:recipe") as site:
        root = site.url.rstrip("/") + "/page/"
        done = long_crawl_under_kills(tmp_path, f"{root}0", pages=PAGES, kills=4, seed=5)
    assert done.urls == [f"{root}{number}" for number in range(PAGES)]
    assert done.jobs == 1
    assert sum(done.kills.values()) > 0
