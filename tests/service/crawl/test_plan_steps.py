"""A plan that settles a page of many links in steps decides as one that does it at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from webdata_nb.service.crawl.best_first import BestFirst
from webdata_nb.service.crawl.facets import FacetDetector
from webdata_nb.service.crawl.frontier import BreadthFirst, DepthFirst, Frontier
from webdata_nb.service.crawl.plan import URLS_PER_STEP, CrawlLimits, CrawlPlan, CrawlResult
from webdata_nb.service.crawl.scope import CrawlScope
from webdata_nb.service.runtime.steps import at_once
from webdata_nb.service.web.urls import dedupe_key

START = "http://x.test/"
MANY = 50 * URLS_PER_STEP


def plan(frontier: Callable[[], Frontier], *, facets: bool = False) -> CrawlPlan:
    return CrawlPlan(
        START,
        CrawlLimits(100, 10),
        CrawlScope(frozenset({"x.test"})),
        frontier(),
        dedupe_key,
        facets=FacetDetector() if facets else None,
    )


def page(mark: str, count: int) -> CrawlResult:
    links = tuple(f"{START}{mark}{n}?sort={n}" for n in range(count))
    return CrawlResult(
        "page", START + mark, content_hash=mark or "-", links=links, grades="2" * count
    )


@pytest.mark.parametrize("frontier", [BreadthFirst, DepthFirst, BestFirst])
@pytest.mark.parametrize("facets", [False, True])
def test_steps_are_many_and_nothing_is_drawn_between_them(
    frontier: Callable[[], Frontier], facets: bool
) -> None:
    stepped, whole = plan(frontier, facets=facets), plan(frontier, facets=facets)
    assert stepped.next() == whole.next()
    steps = stepped.settling(0, page("", MANY))
    count = 0
    with suppress(StopIteration):
        while True:
            next(steps)
            count += 1
            assert stepped.next() is None
            assert not stepped.over
    assert count >= MANY / URLS_PER_STEP
    whole.settle(0, page("", MANY))
    for _ in range(8):
        assert stepped.next() == whole.next()
    assert list(stepped.leftovers()) == list(whole.leftovers())


def test_a_result_that_comes_meanwhile_is_settled_in_its_order() -> None:
    stepped = plan(BreadthFirst)
    stepped.next()
    stepped.settle(0, page("", 4))
    targets = [stepped.next() for _ in range(4)]
    assert all(targets)
    under_way = stepped.settling(1, page("a", MANY))
    next(under_way)
    assert stepped.settle(2, page("b", 3)) == []
    settled = at_once(under_way)
    assert [(each.target.ordinal, each.position) for each in settled] == [(1, 1), (2, 2)]
