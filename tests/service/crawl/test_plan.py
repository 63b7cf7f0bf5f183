"""The crawl as a machine: order, budget, duplicates, receipt; whatever the timing."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webdata_nb.service.crawl.frontier import BreadthFirst, DepthFirst, Frontier
from webdata_nb.service.crawl.journal import decode, encode
from webdata_nb.service.crawl.plan import Limits, Plan, Result, Target
from webdata_nb.service.crawl.scope import Scope
from webdata_nb.service.web.urls import dedupe_key

Site = dict[str, Result]
BASE = "http://x.test"


def page(*links: str, body: str | None = None) -> Result:
    return Result("page", "", content_hash=body, links=tuple(_url(link) for link in links))


def _url(path: str) -> str:
    return path if path.startswith("http") else BASE + path


@dataclass
class Crawled:
    """What a simulated crawl left behind."""

    rows: list[str] = field(default_factory=list)
    receipt: dict[str, str] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)
    most_in_flight: int = 0


def crawl(
    site: Site,
    *,
    frontier: Callable[[], Frontier] = BreadthFirst,
    max_pages: int = 100,
    max_depth: int = 10,
    concurrency: int = 1,
    seed: int = 0,
    external: bool = False,
    stored: dict[int, tuple[str, Result]] | None = None,
) -> Crawled:
    """Drive a plan over a site; results come back in a random order."""
    chance = random.Random(seed)
    plan = Plan(
        _url("/"), Limits(max_pages, max_depth), Scope(frozenset({"x.test"}), external),
        frontier(), dedupe_key,
    )  # fmt: skip
    done, flying = Crawled(), list[Target]()
    while not plan.over:
        while len(flying) < concurrency and (target := plan.next()) is not None:
            flying.append(target)
        done.most_in_flight = max(done.most_in_flight, len(flying))
        target = flying.pop(chance.randrange(len(flying)))
        result = _fetch(site, target, done, stored or {})
        for settled in plan.settle(target.ordinal, result):
            if settled.position is not None:
                assert settled.position == len(done.rows)
                done.rows.append(settled.target.url.removeprefix(BASE))
            done.receipt |= {one.url.removeprefix(BASE): one.outcome for one in settled.seen}
    done.receipt |= {one.url.removeprefix(BASE): one.outcome for one in plan.leftovers()}
    return done


def _fetch(
    site: Site, target: Target, done: Crawled, stored: dict[int, tuple[str, Result]]
) -> Result:
    if target.ordinal in stored:
        url, result = stored[target.ordinal]
        assert url == target.url
        return result
    done.fetched.append(target.url.removeprefix(BASE))
    result = site[target.url.removeprefix(BASE)]
    return result if result.final_url else Result(
        result.ending, target.url, result.reason, result.content_hash, result.links
    )  # fmt: skip


TREE: Site = {
    "/": page("/a", "/b"),
    "/a": page("/a1", "/a2", "/"),
    "/b": page("/b1", "/a1"),
    "/a1": page(),
    "/a2": page(),
    "/b1": page(),
}


def test_breadth_first_goes_by_level_in_document_order() -> None:
    assert crawl(TREE).rows == ["/", "/a", "/b", "/a1", "/a2", "/b1"]


def test_depth_first_goes_down_the_first_link_in_rounds() -> None:
    wide = {"/": page(*[f"/{n}" for n in range(12)]), **{f"/{n}": page() for n in range(12)}}
    wide |= {"/0": page("/deep"), "/deep": page("/deeper"), "/deeper": page()}
    rows = crawl(wide, frontier=DepthFirst).rows
    first = [f"/{n}" for n in range(8)]
    assert rows == ["/", *first, "/deep", "/8", "/9", "/10", "/11", "/deeper"]


@pytest.mark.parametrize("wanted", [1, 2, 5, 6])
def test_max_pages_is_exact_and_the_rest_is_accounted_for(wanted: int) -> None:
    done = crawl(TREE, max_pages=wanted, concurrency=10)
    assert len(done.rows) == len(done.fetched) == wanted
    known = {"/": "fetched", "/a": "over_budget", "/b": "over_budget"}
    assert done.receipt if wanted > 1 else done.receipt == known


def test_failed_pages_count_as_rows_and_are_not_followed() -> None:
    site = {**TREE, "/a": Result("failed", "", reason="http_500")}
    done = crawl(site, max_pages=3)
    assert done.rows == ["/", "/a", "/b"]
    assert done.receipt["/a"] == "failed:http_500"


def test_duplicate_bodies_give_their_budget_back() -> None:
    site = {
        "/": page("/a", "/copy", "/b"),
        "/a": page(body="h"),
        "/copy": page("/never", body="h"),
        "/b": page(),
    }
    done = crawl(site, max_pages=3, concurrency=4)
    assert done.rows == ["/", "/a", "/b"]
    assert done.receipt == {"/": "fetched", "/a": "fetched", "/copy": "duplicate", "/b": "fetched"}


def test_a_redirect_to_a_known_page_is_no_row() -> None:
    site = {"/": page("/a", "/moved"), "/a": page(), "/moved": Result("page", BASE + "/a")}
    done = crawl(site)
    assert done.rows == ["/", "/a"]
    assert done.receipt["/moved"] == "redirect"


def test_a_redirect_to_a_new_page_stands_for_it() -> None:
    site = {"/": page("/moved", "/a"), "/moved": Result("page", BASE + "/new"), "/a": page("/new")}
    done = crawl(site)
    assert done.rows == ["/", "/moved", "/a"]
    assert "/new" not in done.receipt


def test_redirects_out_and_robots_are_named_and_cost_nothing() -> None:
    site = {
        "/": page("/out", "/private", "/a"),
        "/out": Result("stopped", "http://y.test/", reason="scope"),
        "/private": Result("robots", ""),
        "/a": page(),
    }
    done = crawl(site, max_pages=2)
    assert done.rows == ["/", "/a"]
    assert (done.receipt["/out"], done.receipt["/private"]) == ("scope", "robots")


def test_external_links_are_out_of_scope_unless_allowed() -> None:
    site = {"/": page("http://y.test/p"), "http://y.test/p": page()}
    assert crawl(site).receipt["http://y.test/p"] == "scope"
    assert crawl(site, external=True).rows == ["/", "http://y.test/p"]


def test_a_start_page_that_moves_takes_the_crawl_with_it() -> None:
    moved = Result("page", "http://y.test/", links=("http://y.test/p", _url("/q")))
    site = {"/": moved, "http://y.test/p": page(), "/q": page()}
    assert crawl(site, concurrency=3).rows == ["/", "http://y.test/p", "/q"]


def test_depth_is_bounded_and_a_shorter_way_counts() -> None:
    site = {"/": page("/a", "/b"), "/a": page("/c"), "/b": page(), "/c": page("/d"), "/d": page()}
    done = crawl(site, max_depth=2)
    assert done.rows == ["/", "/a", "/b", "/c"]
    assert done.receipt["/d"] == "depth"


def test_variants_of_one_url_are_one_page() -> None:
    site = {"/": page("/a", "/a?", "http://X.TEST:80/a"), "/a": page()}
    assert crawl(site).fetched == ["/", "/a"]


def test_a_site_of_redirects_is_bounded() -> None:
    links = [f"/r{n}" for n in range(3000)]
    site = {"/": page(*links), **{link: Result("page", BASE + "/") for link in links}}
    done = crawl(site, max_pages=10)
    assert done.rows == ["/"]
    assert len(done.fetched) == 10 * 10 + 100
    assert sum(outcome == "over_budget" for outcome in done.receipt.values()) == 3000 - 199


def _web(seed: int) -> Site:
    chance = random.Random(seed)
    paths = ["/", *(f"/p{n}" for n in range(40))]
    site: Site = {}
    for path in paths:
        links = chance.choices([*paths, "http://y.test/z"], k=chance.randrange(7))
        kind = chance.random()
        if path == "/" or kind < 0.7:
            site[path] = page(*links, body=chance.choice([None, *"abcdef"]))
        elif kind < 0.8:
            site[path] = Result("failed", "", reason="timeout")
        elif kind < 0.9:
            site[path] = Result("page", _url(chance.choice(paths)))
        else:
            site[path] = Result("robots", "")
    return site


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    timing=st.integers(0, 10**6),
    concurrency=st.integers(2, 10),
    max_pages=st.sampled_from([1, 3, 10, 25]),
    frontier=st.sampled_from([BreadthFirst, DepthFirst]),
)
def test_order_rows_and_receipt_do_not_depend_on_timing_or_concurrency(
    seed: int, timing: int, concurrency: int, max_pages: int, frontier: Callable[[], Frontier]
) -> None:
    site = _web(seed)
    alone = crawl(site, frontier=frontier, max_pages=max_pages)
    busy = crawl(site, frontier=frontier, max_pages=max_pages, concurrency=concurrency, seed=timing)
    assert (busy.rows, busy.receipt) == (alone.rows, alone.receipt)
    assert len(alone.rows) <= max_pages
    assert len(set(alone.fetched)) == len(alone.fetched)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6), kept=st.sets(st.integers(0, 40)))
def test_a_plan_fed_its_journal_ends_where_it_would_have(seed: int, kept: set[int]) -> None:
    site = _web(seed)
    whole = crawl(site)
    order = crawl(site).fetched
    stored = {
        ordinal: decode(encode(Target(ordinal, _url(path), 0), _resolved(site, path), None))
        for ordinal, path in enumerate(order)
        if ordinal in kept
    }
    again = crawl(site, stored=stored, concurrency=5, seed=seed)
    assert (again.rows, again.receipt) == (whole.rows, whole.receipt)
    assert set(again.fetched) == set(order) - {order[n] for n in stored}


def _resolved(site: Site, path: str) -> Result:
    result = site[path]
    return Result(
        result.ending, result.final_url or _url(path), result.reason, result.content_hash,
        result.links,
    )  # fmt: skip
