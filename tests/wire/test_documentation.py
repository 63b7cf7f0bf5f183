"""The main job on real pages: Debian's Python documentation, against a second reading of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import urldefrag

import pytest

from tests.site.fixtures import Docs
from tests.site.reading import Folder, Visit, markdown_words, recall
from webdata_nb import connect, crawl_df
from webdata_nb.settings import current
from webdata_nb.toolkit import local
from webdata_nb.toolkit.bridge import PORTAL

if TYPE_CHECKING:
    import pandas as pd

pytestmark = pytest.mark.slow

PAGES = 200
# Words of the main content found again in the Markdown. What is missing is marks that both
# readings leave out differently (soft hyphens, anchors), never a paragraph.
RECALL = 0.98
# The symbol index, a page of links alone: its entries are code, which Markdown marks.
SPECIAL = {"genindex"}


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A local service of this module's own, gone afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEBDATA_HOME", str(tmp_path_factory.mktemp("home")))
        connect()
        yield
        PORTAL.run(local.stop(current()))


@pytest.fixture(scope="module")
def crawled(python_docs: Docs) -> tuple[pd.DataFrame, tuple[Visit, ...]]:
    """The crawl, and what an independent reading of the files says it must be."""
    frame = crawl_df(
        python_docs.url,
        max_pages=PAGES,
        concurrency=10,
        cache=False,
        scrape_options={"formats": ["markdown", "links"], "only_main_content": False},
    )
    return frame, Folder(python_docs.root, python_docs.url).crawl(python_docs.url, PAGES)


def test_the_pages_are_the_right_ones_in_the_right_order(
    crawled: tuple[pd.DataFrame, tuple[Visit, ...]],
) -> None:
    frame, visits = crawled
    assert len(frame) == PAGES
    assert frame["url"].tolist() == [visit.url for visit in visits]
    assert frame["depth"].tolist() == [visit.depth for visit in visits]
    assert frame["status_code"].tolist() == [visit.status for visit in visits]


def test_titles_are_those_of_the_files(
    crawled: tuple[pd.DataFrame, tuple[Visit, ...]],
) -> None:
    frame, visits = crawled
    expected = {visit.url: visit.page.title for visit in visits if visit.page}
    got = dict(zip(frame["url"], frame["title"], strict=True))
    assert {url: got[url] for url in expected} == expected


def test_links_are_those_of_the_files(
    crawled: tuple[pd.DataFrame, tuple[Visit, ...]],
) -> None:
    frame, visits = crawled
    rows = zip(frame["url"], frame["links"], frame["markdown"], strict=True)
    got = {url: (links, markdown) for url, links, markdown in rows}
    for visit in visits:
        if visit.page is not None:
            links, markdown = got[visit.url]
            pages, expected = _pages(links, visit.url), _pages(visit.page.links, visit.url)
            if "[^1]:" in markdown:  # the links of footnotes come last
                pages, expected = sorted(pages), sorted(expected)
            assert pages == expected


def _pages(links: Iterable[str], own: str) -> list[str]:
    """The other pages that links lead to, each once, in order of their first mention.

    Permalinks of headings are not part of the `links` format.
    """
    pages = dict.fromkeys(urldefrag(link).url for link in links)
    return [page for page in pages if page.startswith("http") and page != own]


def test_markdown_has_the_words_of_the_main_content(
    crawled: tuple[pd.DataFrame, tuple[Visit, ...]],
) -> None:
    frame, visits = crawled
    got = dict(zip(frame["url"], frame["markdown"], strict=True))
    poor = {}
    for visit in visits:
        if visit.page is None or any(name in visit.url for name in SPECIAL):
            continue
        found = recall(visit.page.main_words, markdown_words(got[visit.url]))
        if found < RECALL:
            poor[visit.url] = round(found, 3)
    assert poor == {}


def test_the_receipt_accounts_for_every_row(
    crawled: tuple[pd.DataFrame, tuple[Visit, ...]],
) -> None:
    frame, visits = crawled
    counts = frame.attrs["webdata"]["receipt"]["counts"]
    failed = sum(visit.status >= 400 for visit in visits)
    assert counts["fetched"] == PAGES - failed == int(frame["success"].sum())
    assert counts.get("failed:http_404", 0) == failed
    assert counts["over_max_pages"] > 0
