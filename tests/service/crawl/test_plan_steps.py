"""Committing a result in steps does the same as committing it at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.steps import run_to_completion
from webdata_nb.service.crawl.discovery import URLS_PER_STEP
from webdata_nb.service.crawl.facets import FacetDetector
from webdata_nb.service.crawl.frontier import BestFirst, BreadthFirst, DepthFirst, Frontier
from webdata_nb.service.crawl.journal import CrawlResult
from webdata_nb.service.crawl.plan import CrawlLimits, CrawlPlan, PlanEffects
from webdata_nb.service.crawl.scope import CrawlScope

START = "http://x.test/"
MANY = 50 * URLS_PER_STEP


def plan(frontier: Callable[[], Frontier], *, facets: bool = False) -> CrawlPlan:
    return CrawlPlan(
        START,
        CrawlLimits(100, 10),
        CrawlScope(frozenset({"x.test"})),
        frontier(),
        facets=FacetDetector() if facets else None,
    )


def page(mark: str, count: int) -> CrawlResult:
    links = tuple(f"{START}{mark}{n}?sort={n}" for n in range(count))
    return CrawlResult(
        "page", START + mark, content_hash=mark or "-", links=links, anchor_grades="2" * count
    )


@pytest.mark.parametrize("frontier", [BreadthFirst, DepthFirst, BestFirst])
@pytest.mark.parametrize("facets", [False, True])
def test_no_target_is_popped_between_steps(frontier: Callable[[], Frontier], facets: bool) -> None:
    stepped, whole = plan(frontier, facets=facets), plan(frontier, facets=facets)
    assert stepped.next_target() == whole.next_target()
    steps = stepped.commit_in_steps(0, page("", MANY))
    count = 0
    with suppress(StopIteration):
        while True:
            next(steps)
            count += 1
            assert stepped.next_target() is None
            assert not stepped.is_over
    assert count >= MANY / URLS_PER_STEP
    run_to_completion(whole.commit_in_steps(0, page("", MANY)))
    for _ in range(8):
        assert stepped.next_target() == whole.next_target()
    assert list(stepped.leftovers()) == list(whole.leftovers())


def test_result_received_between_steps_is_committed_in_order() -> None:
    stepped = plan(BreadthFirst)
    stepped.next_target()
    run_to_completion(stepped.commit_in_steps(0, page("", 4)))
    targets = [stepped.next_target() for _ in range(4)]
    assert all(targets)
    steps = stepped.commit_in_steps(1, page("a", MANY))
    next(steps)
    assert run_to_completion(stepped.commit_in_steps(2, page("b", 3))) == PlanEffects()
    effects = run_to_completion(steps)
    assert [(target.ordinal, position) for target, position in effects.rows] == [(1, 1), (2, 2)]
