"""Depth-first order equals a recursive search, independent of timing."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.service.crawl.simulated_crawl import SimulatedCrawl, journaled, simulate_crawl
from tests.site.graphs import depth_first
from tests.steps import run_to_completion
from webdata_nb.service.crawl.frontier import DepthFirst
from webdata_nb.service.crawl.journal import CrawlResult
from webdata_nb.service.crawl.plan import CrawlLimits, CrawlPlan
from webdata_nb.service.crawl.scope import CrawlScope

BASE = "http://x.test"
Links = Mapping[str, Sequence[str]]


def page(links: Sequence[str], content_hash: str | None = None) -> CrawlResult:
    urls = tuple(BASE + link for link in links)
    return CrawlResult("page", "", content_hash=content_hash, links=urls)


def crawled(links: Links, *, concurrency: int = 1, seed: int = 0, **limits: int) -> SimulatedCrawl:
    site = {BASE + path: page(there) for path, there in links.items()}
    bounds = CrawlLimits(limits.get("max_pages", 1000), limits.get("max_depth", 1000))
    return simulate_crawl(
        site, BASE + "/", frontier=DepthFirst, limits=bounds, concurrency=concurrency, seed=seed
    )


def paths(done: SimulatedCrawl) -> list[str]:
    return [url.removeprefix(BASE) for url in done.rows]


def web(seed: int, pages: int) -> dict[str, list[str]]:
    """Make a random graph with cycles, links back, links to itself and pages without links."""
    chance = random.Random(seed)
    names = ["/", *(f"/p{n}" for n in range(1, pages))]
    return {
        name: list(dict.fromkeys(chance.choices(names, k=chance.choice([0, 1, 2, 3, 8]))))
        for name in names
    }


@pytest.mark.parametrize("concurrency", [1, 2, 5, 10, 50])
def test_first_pages_of_ternary_tree_form_a_path(concurrency: int) -> None:
    def read(url: str) -> CrawlResult:
        return page([f"{url.removeprefix(BASE)}{letter}" for letter in "abc"])

    done = simulate_crawl(
        read, BASE + "/", frontier=DepthFirst, limits=CrawlLimits(8, 10), concurrency=concurrency
    )
    assert paths(done) == ["/" + "a" * depth for depth in range(8)]


def test_first_link_is_exhausted_before_second() -> None:
    links = {"/": ["/a", "/b"], "/a": ["/a1", "/a2"], "/a1": ["/a11"], "/b": ["/b1"]}
    ends: Links = {"/a11": [], "/a2": [], "/b1": []}
    assert paths(crawled({**links, **ends})) == ["/", "/a", "/a1", "/a11", "/a2", "/b", "/b1"]


def test_waiting_page_moves_up_when_linked_again() -> None:
    links = {
        "/": ["/a", "/b", "/c"],
        "/a": ["/c", "/d"],
        "/b": [],
        "/c": ["/e"],
        "/d": [],
        "/e": [],
    }
    assert paths(crawled(links)) == ["/", "/a", "/c", "/e", "/d", "/b"]


def test_depth_is_that_of_shortest_known_path() -> None:
    links = {"/": ["/a", "/b"], "/a": ["/a1"], "/a1": ["/b"], "/b": ["/b1"], "/b1": []}
    done = crawled(links, max_depth=2)
    assert paths(done) == ["/", "/a", "/a1", "/b", "/b1"]


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    pages=st.integers(2, 60),
    max_pages=st.sampled_from([1, 3, 8, 25, 1000]),
    max_depth=st.sampled_from([1, 2, 4, 10, 1000]),
    concurrency=st.sampled_from([1, 2, 5, 10, 50]),
)
def test_order_equals_recursive_depth_first_search(
    seed: int, pages: int, max_pages: int, max_depth: int, concurrency: int
) -> None:
    links = web(seed, pages)
    done = crawled(
        links, concurrency=concurrency, seed=seed, max_pages=max_pages, max_depth=max_depth
    )
    assert tuple(paths(done)) == depth_first(links, "/", max_depth=max_depth)[:max_pages]


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6), stored=st.integers(0, 40), fetched=st.sets(st.integers(0, 40)))
def test_replayed_rows_give_same_order(seed: int, stored: int, fetched: set[int]) -> None:
    links = web(seed, 40)
    whole = crawled(links)
    journal = {
        ordinal: journaled(ordinal, url, _resolved(links, url))
        for ordinal, url in enumerate(whole.fetched)
        if ordinal < stored or ordinal in fetched
    }
    site = {BASE + path: page(there) for path, there in links.items()}
    again = simulate_crawl(
        site, BASE + "/", frontier=DepthFirst, limits=CrawlLimits(1000, 1000), stored=journal,
        concurrency=5, seed=seed,
    )  # fmt: skip
    assert (again.rows, again.receipt) == (whole.rows, whole.receipt)
    assert not set(again.fetched) & {result.url for result in journal.values()}


def _resolved(links: Links, url: str) -> CrawlResult:
    there = links[url.removeprefix(BASE)]
    return CrawlResult("page", url, links=tuple(BASE + link for link in there))


def test_redirects_and_duplicates_do_not_use_budget() -> None:
    site = {
        BASE + "/": page(["/a", "/b"]),
        BASE + "/a": page(["/moved", "/copy", "/c"], content_hash="a"),
        BASE + "/moved": CrawlResult("page", BASE + "/a"),
        BASE + "/copy": page(["/never"], content_hash="a"),
        BASE + "/c": page([]),
        BASE + "/b": page([]),
    }
    done = simulate_crawl(site, BASE + "/", frontier=DepthFirst, limits=CrawlLimits(4, 10))
    assert paths(done) == ["/", "/a", "/c", "/b"]
    assert done.receipt == {
        BASE + "/": "fetched", BASE + "/a": "fetched", BASE + "/moved": "redirect",
        BASE + "/copy": "duplicate", BASE + "/c": "fetched", BASE + "/b": "fetched",
    }  # fmt: skip


@pytest.mark.parametrize("most", [0, 1, 3, 100])
def test_upcoming_urls_are_in_order_and_within_budget(most: int) -> None:
    plan = CrawlPlan(
        BASE + "/",
        CrawlLimits(4, 10),
        CrawlScope(frozenset({"x.test"})),
        DepthFirst(),
    )
    links = [f"/{n}" for n in range(9)]
    assert plan.next_target() is not None
    run_to_completion(plan.commit_in_steps(0, replace(page(links), final_url=BASE + "/")))
    named = [BASE + link for link in links]
    assert [each.url for each in plan.upcoming(most)] == named[: min(most, 3)]
    plan.next_target()
    assert [each.url for each in plan.upcoming(9)] == named[1:3]
