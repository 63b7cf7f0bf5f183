"""Crawler traps are detected, and large sites are none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.service.crawl.page_reading import page_reader
from tests.service.crawl.simulated_crawl import simulate_crawl
from tests.site.document import document
from webdata_nb.service.crawl.discovery import (
    MAX_LINKS_PER_PAGE,
    MAX_SIMILAR_PAGES,
    TrapDetector,
    url_pattern,
    without_session,
)
from webdata_nb.service.crawl.facets import FacetDetector
from webdata_nb.service.crawl.frontier import BestFirst, BreadthFirst, DepthFirst, Frontier
from webdata_nb.service.crawl.journal import CrawlResult
from webdata_nb.service.crawl.plan import CrawlLimits

START = "http://x.test/"
STRATEGIES = [BreadthFirst, DepthFirst, BestFirst]


def verdict(url: str) -> str | None:
    return TrapDetector().trap_of_url(url, lambda _: False)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://x.test/a/a/a/a/", "a 4 times in one path"),
        ("http://x.test/s/en/de/en/de/en/de/", "en/de 3 times in one path"),
        ("http://x.test/" + "x" * 2000, "a URL of 2014 characters"),
        ("http://x.test/" + "/".join(map(str, range(40))), "a path of 40 segments"),
        ("http://x.test/?" + "&".join(f"a{n}" for n in range(31)), "a query of 31 parameters"),
        ("http://x.test/a/b/a/b/c", None),
        ("http://x.test/2001/01/01/01/a-b-c/", None),
        ("http://x.test/a?b=c&d=e", None),
        ("http://x.test/wiki/Mercury_(planet)", None),
    ],
)
def test_traps_in_urls(url: str, says: str | None) -> None:
    assert verdict(url) == says


def test_url_patterns() -> None:
    assert (
        url_pattern("http://x.test:8080/a/2026/11/x12?b=2&a=1&b=3")
        == "http://x.test:8080/a/#/x#?a&b"
    )
    assert url_pattern("http://x.test/f/1/2/3") == url_pattern("http://x.test/f/1")
    assert url_pattern("http://x.test/o/1f0e3dad99908345f7439f8ffabdffc4") == "http://x.test/o/#"


@pytest.mark.parametrize(
    ("url", "bare"),
    [
        ("http://x.test/a;jsessionid=A1?b=2", "http://x.test/a?b=2"),
        ("http://x.test/(S(abc123))/a", "http://x.test/a"),
        ("http://x.test/a?PHPSESSID=1f&b=2", "http://x.test/a?b=2"),
        ("http://x.test/a?b=2&phpsessid=1f", "http://x.test/a?b=2"),
        ("http://x.test/a?side=1", "http://x.test/a?side=1"),
    ],
)  # fmt: skip
def test_session_ids_are_removed(url: str, bare: str) -> None:
    assert without_session(url) == bare


def test_page_is_fetched_under_one_session_only() -> None:
    links = ["/a;jsessionid=1", "/a;jsessionid=2", "/a", "/b", "/b;jsessionid=3"]
    site = {START: CrawlResult("page", "", links=tuple(f"http://x.test{link}" for link in links))}
    done = simulate_crawl(site, START)
    assert done.fetched[1:] == [f"http://x.test{link}" for link in ("/a;jsessionid=1", "/a", "/b")]
    assert done.details["http://x.test/a;jsessionid=2"] == (
        "session id: the page is http://x.test/a;jsessionid=1"
    )
    assert done.receipt["http://x.test/b;jsessionid=3"] == "trap"


def calendar(url: str) -> str:
    months = int(url.removeprefix(START) or 0)
    links = [f"{START}{months + step}" for step in (1, 2, 12)]
    return document(f"Month {months}", links=links, text="No events this month.")


def farm(url: str) -> str:
    links = [f"{url.rstrip('/')}/{word}" for word in ("oak", "elm", "fir")]
    return document("Page not found", links=links, text="We could not find that page.")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("filtered", [False, True])
def test_endless_calendar_is_a_trap(strategy: Callable[[], Frontier], *, filtered: bool) -> None:
    done = simulate_crawl(
        page_reader(calendar), START, frontier=strategy, limits=CrawlLimits(1000, 1000),
        facets=FacetDetector() if filtered else None,
    )  # fmt: skip
    assert len(done.fetched) <= 4 * MAX_SIMILAR_PAGES
    assert len(done.rows) <= MAX_SIMILAR_PAGES + 1
    assert Counter(done.receipt.values())["trap"] == len(done.receipt) - len(done.rows)
    assert f"http://x.test/#: {MAX_SIMILAR_PAGES} pages in a row say the same as " in " ".join(
        done.details.values()
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_endless_soft_404s_are_a_trap(strategy: Callable[[], Frontier]) -> None:
    done = simulate_crawl(
        page_reader(farm), START, frontier=strategy, limits=CrawlLimits(1000, 1000)
    )
    assert len(done.rows) <= MAX_SIMILAR_PAGES
    assert len(done.fetched) <= 5 * MAX_SIMILAR_PAGES
    soft = [
        url for url, detail in done.details.items() if detail == f"soft 404: the text of {START}"
    ]
    assert soft
    assert set(done.receipt.values()) == {"fetched", "trap"}


def test_links_beyond_the_limit_of_a_page_are_traps() -> None:
    count = 3 * MAX_LINKS_PER_PAGE
    links = tuple(f"http://x.test/{n}-x" for n in range(count))
    done = simulate_crawl(
        {START: CrawlResult("page", "", links=links)}, START, limits=CrawlLimits(10, 10)
    )
    assert len(done.receipt) == count + 1
    counts = Counter(done.receipt.values())
    assert counts["trap"] == count - MAX_LINKS_PER_PAGE
    assert counts["over_max_pages"] == MAX_LINKS_PER_PAGE - 9
    assert done.details[links[-1]] == f"link {MAX_LINKS_PER_PAGE} and on of {START}"


def test_long_list_of_similar_pages_is_no_trap() -> None:
    def shelf(url: str) -> str:
        links = [f"{START}item/{n}" for n in range(300)] if url == START else [START]
        return document(f"Item {url}", links=links, text="Sold out.")

    done = simulate_crawl(page_reader(shelf), START, limits=CrawlLimits(1000, 10))
    assert len(done.rows) == 301
    assert set(done.receipt.values()) == {"fetched"}


def test_long_chain_of_different_pages_is_no_trap() -> None:
    def log(url: str) -> str:
        number = int(url.removeprefix(START) or 0)
        return document(f"Entry {number}", links=[f"{START}{number + 1}"])

    done = simulate_crawl(page_reader(log), START, limits=CrawlLimits(200, 1000))
    assert len(done.rows) == 200
    assert set(done.receipt.values()) == {"fetched", "over_max_pages"}
