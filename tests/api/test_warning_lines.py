"""Warnings point to the user's line, whichever thread or task they come from."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import warnings
from collections.abc import Callable
from inspect import currentframe
from pathlib import Path

import pytest

from tests.api.receipts import SITE
from tests.wire_service import KEY, JobScript, WireService, crawl_rows
from webdata_nb.toolkit.api import acrawl_df, crawl_df, scrape_df, search_df

BROKEN = {"success": False, "status": "failed", "error": "HTTP 404 Not Found", "markdown": None}


@pytest.fixture
def missing(service: WireService) -> WireService:
    """Give a service whose crawls find no good page."""
    service.crawl = JobScript([{**crawl_rows(1)[0], **BROKEN}])
    return service


def this_line() -> int:
    frame = currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def blocking() -> int:
    crawl_df(SITE, max_pages=1)
    return this_line() - 1


def several() -> int:
    crawl_df([SITE, f"{SITE}a"], max_pages=1)
    return this_line() - 1


def pages() -> int:
    scrape_df([SITE, None])  # type: ignore[list-item]
    return this_line() - 1


def stream() -> int:
    line = this_line() + 1
    for _ in crawl_df(SITE, max_pages=1, stream=True):
        pass
    return line


def awaited() -> int:
    async def main() -> int:
        await acrawl_df([SITE, f"{SITE}a"], max_pages=1)
        return this_line() - 1

    return asyncio.run(main())


def without_effect() -> int:
    search_df("moss", formats=[], mobile=True)
    return this_line() - 1


@pytest.mark.usefixtures("connected", "missing")
@pytest.mark.parametrize("call", [blocking, several, pages, stream, awaited, without_effect])
def test_a_warning_points_to_the_line_of_the_call(call: Callable[[], int]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        line = call()
    assert {(each.filename, each.lineno) for each in caught} == {(__file__, line)}


@pytest.mark.usefixtures("connected", "missing")
def test_a_crawl_without_a_good_row_says_why_at_each_call() -> None:
    for _ in range(2):
        with pytest.warns(UserWarning, match="no page could be read"):
            crawl_df(SITE, max_pages=1, cache=False)
    with pytest.warns(UserWarning, match=r"2 inputs: no row succeeded, .*HTTP 404 Not Found"):
        crawl_df([SITE, f"{SITE}a"], cache=False)
    with pytest.warns(UserWarning, match="HTTP 404 Not Found"):
        scrape_df(SITE, cache=False)


def test_a_script_shows_its_own_line(missing: WireService, tmp_path: Path) -> None:
    script = tmp_path / "analysis.py"
    script.write_text(
        "from webdata_nb import connect, crawl_df\n"
        f"connect(base_url={missing.url!r}, api_key={KEY!r})\n"
        "def pages():\n"
        f"    return crawl_df({SITE!r}, max_pages=1, cache=False)\n"
        "pages()\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert f"{script}:4: WebdataWarning: crawl {SITE}: no page could be read" in done.stderr
    assert "return crawl_df(" in done.stderr
