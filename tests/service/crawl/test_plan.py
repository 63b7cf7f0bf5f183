"""The plan of a crawl: order, budget, duplicates and receipt, independent of timing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.service.crawl.simulated_crawl import journaled, simulate_crawl
from tests.steps import run_to_completion
from webdata_nb.service.crawl import plan as plan_module
from webdata_nb.service.crawl.discovery import URLS_PER_STEP
from webdata_nb.service.crawl.frontier import (
    BestFirst,
    BreadthFirst,
    DepthFirst,
    Frontier,
    anchor_grades,
)
from webdata_nb.service.crawl.journal import (
    CrawlResult,
    CrawlTarget,
    encode_entry,
)
from webdata_nb.service.crawl.plan import MAX_REQUESTS_PER_PAGE, CrawlLimits, CrawlPlan
from webdata_nb.service.crawl.scope import CrawlScope
from webdata_nb.service.web import request

Site = dict[str, CrawlResult]
BASE = "http://x.test"
STRATEGIES = [BreadthFirst, DepthFirst, BestFirst]


def page(*links: str, body: str | None = None) -> CrawlResult:
    urls = tuple(_url(link) for link in links)
    return CrawlResult(
        "page", "", content_hash=body, links=urls, anchor_grades=anchor_grades(links)
    )


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
    stored: dict[int, CrawlResult] | None = None,
    obey_nofollow: bool = False,
) -> Crawled:
    """Drive a plan over a site; results come back in a random order."""
    rng = random.Random(seed)
    plan = CrawlPlan(
        _url("/"), CrawlLimits(max_pages, max_depth), CrawlScope(frozenset({"x.test"}), external),
        frontier(), obey_nofollow=obey_nofollow,
    )  # fmt: skip
    done, in_flight = Crawled(), list[CrawlTarget]()
    while not plan.is_over:
        while len(in_flight) < concurrency and (target := plan.next_target()) is not None:
            in_flight.append(target)
        done.most_in_flight = max(done.most_in_flight, len(in_flight))
        target = in_flight.pop(rng.randrange(len(in_flight)))
        result = _fetch(site, target, done, stored or {})
        effects = run_to_completion(plan.commit_in_steps(target.ordinal, result))
        for committed, position in effects.rows:
            assert position == len(done.rows)
            done.rows.append(committed.url.removeprefix(BASE))
        done.receipt |= {one.url.removeprefix(BASE): one.outcome for one in effects.outcomes}
    done.receipt |= {one.url.removeprefix(BASE): one.outcome for one in plan.leftovers()}
    return done


def _fetch(
    site: Site, target: CrawlTarget, done: Crawled, stored: dict[int, CrawlResult]
) -> CrawlResult:
    if target.ordinal in stored:
        result = stored[target.ordinal]
        assert result.url == target.url
        return result
    done.fetched.append(target.url.removeprefix(BASE))
    result = site[target.url.removeprefix(BASE)]
    return result if result.final_url else replace(result, final_url=target.url)


TREE: Site = {
    "/": page("/a", "/b"),
    "/a": page("/a1", "/a2", "/"),
    "/b": page("/b1", "/a1"),
    "/a1": page(),
    "/a2": page(),
    "/b1": page(),
}


def test_breadth_first_order() -> None:
    assert crawl(TREE).rows == ["/", "/a", "/b", "/a1", "/a2", "/b1"]


def test_depth_first_order() -> None:
    assert crawl(TREE, frontier=DepthFirst).rows == ["/", "/a", "/a1", "/a2", "/b", "/b1"]


@pytest.mark.parametrize("wanted", [1, 2, 5, 6])
def test_max_pages_is_exact_and_leftovers_are_in_receipt(wanted: int) -> None:
    done = crawl(TREE, max_pages=wanted, concurrency=10)
    assert len(done.rows) == len(done.fetched) == wanted
    known = {"/": "fetched", "/a": "over_max_pages", "/b": "over_max_pages"}
    assert done.receipt if wanted > 1 else done.receipt == known


def test_failed_pages_are_rows_without_links() -> None:
    site = {**TREE, "/a": CrawlResult("failed", "", reason="http_500")}
    done = crawl(site, max_pages=3)
    assert done.rows == ["/", "/a", "/b"]
    assert done.receipt["/a"] == "failed:http_500"


def test_duplicate_content_does_not_use_budget() -> None:
    site = {
        "/": page("/a", "/copy", "/b"),
        "/a": page(body="h"),
        "/copy": page("/never", body="h"),
        "/b": page(),
    }
    done = crawl(site, max_pages=3, concurrency=4)
    assert done.rows == ["/", "/a", "/b"]
    assert done.receipt == {"/": "fetched", "/a": "fetched", "/copy": "duplicate", "/b": "fetched"}


def test_redirect_to_known_page_is_not_a_row() -> None:
    site = {"/": page("/a", "/moved"), "/a": page(), "/moved": CrawlResult("page", BASE + "/a")}
    done = crawl(site)
    assert done.rows == ["/", "/a"]
    assert done.receipt["/moved"] == "redirect"


def test_redirect_to_new_page_is_its_row() -> None:
    site = {
        "/": page("/moved", "/a"),
        "/moved": CrawlResult("page", BASE + "/new"),
        "/a": page("/new"),
    }
    done = crawl(site)
    assert done.rows == ["/", "/moved", "/a"]
    assert "/new" not in done.receipt


def test_out_of_scope_redirects_and_robots_do_not_use_budget() -> None:
    site = {
        "/": page("/out", "/private", "/a"),
        "/out": CrawlResult("stopped", "http://y.test/", reason="scope"),
        "/private": CrawlResult("robots", ""),
        "/a": page(),
    }
    done = crawl(site, max_pages=2)
    assert done.rows == ["/", "/a"]
    assert (done.receipt["/out"], done.receipt["/private"]) == ("scope", "robots")


def test_external_links_are_out_of_scope_unless_allowed() -> None:
    site = {"/": page("http://y.test/p"), "http://y.test/p": page()}
    assert crawl(site).receipt["http://y.test/p"] == "scope"
    assert crawl(site, external=True).rows == ["/", "http://y.test/p"]


def test_redirected_start_page_widens_scope() -> None:
    moved = CrawlResult("page", "http://y.test/", links=("http://y.test/p", _url("/q")))
    site = {"/": moved, "http://y.test/p": page(), "/q": page()}
    assert crawl(site, concurrency=3).rows == ["/", "http://y.test/p", "/q"]


def test_redirected_start_page_moves_folder() -> None:
    links = ("http://y.test/en/p", "http://y.test/q", _url("/docs/r"))
    site = {"/docs/": CrawlResult("page", "http://y.test/en/", links=links)}
    site |= dict.fromkeys(["http://y.test/en/p", "http://y.test/q", "/docs/r"], page())
    scope = CrawlScope(frozenset({"x.test"}), folder="x.test/docs/")
    full = {_url(path): result for path, result in site.items()}
    done = simulate_crawl(full, _url("/docs/"), scope=scope)
    assert done.rows == [_url("/docs/"), "http://y.test/en/p"]
    assert done.receipt["http://y.test/q"] == done.receipt[_url("/docs/r")] == "folder"


def test_depth_is_bounded_by_shortest_path() -> None:
    site = {"/": page("/a", "/b"), "/a": page("/c"), "/b": page(), "/c": page("/d"), "/d": page()}
    done = crawl(site, max_depth=2)
    assert done.rows == ["/", "/a", "/b", "/c"]
    assert done.receipt["/d"] == "depth"


def test_spellings_of_a_url_are_one_page() -> None:
    site = {"/": page("/a", "/a?", "http://X.TEST:80/a"), "/a": page()}
    assert crawl(site).fetched == ["/", "/a"]


def test_requests_are_bounded_on_site_of_redirects() -> None:
    links = [f"/r{n}" for n in range(3000)]
    site = {"/": page(*links), **{link: CrawlResult("page", BASE + "/") for link in links}}
    done = crawl(site, max_pages=10)
    assert done.rows == ["/"]
    # One is begun as long as it may take eleven requests.
    assert len(done.fetched) == 3 * 10 + 50 - 10
    assert sum(outcome == "over_requests" for outcome in done.receipt.values()) == 3000 - 69


def test_redirect_hops_count_as_requests_and_robots_refusals_do_not() -> None:
    links = [f"/r{n}" for n in range(3000)]
    hops = CrawlResult("page", BASE + "/", hops=4)
    site = {"/": page(*links), **dict.fromkeys(links, hops)}
    done = crawl(site, max_pages=10, concurrency=10)
    # The start page takes one request and each other five; 69 leave no eleven of 80.
    assert len(done.fetched) == 1 + 14
    refused = {"/": page(*links), **dict.fromkeys(links, CrawlResult("robots", ""))}
    done = crawl(refused, max_pages=10)
    assert len(done.fetched) == 10 * 10 + 100
    foreign = [f"http://{n}.test/" for n in range(300)]
    elsewhere = {"/": page(*foreign), **dict.fromkeys(foreign, CrawlResult("robots", ""))}
    done = crawl(elsewhere, max_pages=10, external=True)
    assert len(done.fetched) == 3 * 10 + 50 - 10


@pytest.mark.parametrize("frontier", STRATEGIES)
def test_number_of_known_urls_is_bounded(
    frontier: Callable[[], Frontier], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_module, "KNOWN_URLS_PER_ROW", 0)
    monkeypatch.setattr(plan_module, "EXTRA_KNOWN_URLS", 500)

    def read(url: str) -> CrawlResult:
        inside = [f"{url}/{n}" for n in range(150)]
        outside = [f"http://other.test/{url[7:]}/{n}" for n in range(150)]
        return replace(page(*inside, *outside), final_url=url, content_hash=url)

    driven = [
        simulate_crawl(
            read,
            f"{BASE}/s",
            frontier=frontier,
            limits=CrawlLimits(20, 50),
            concurrency=concurrency,
        )
        for concurrency in (1, 8)
    ]
    assert driven[0].rows == driven[1].rows
    assert len(driven[0].rows) == 20
    for done in driven:
        counts = Counter(done.receipt.values())
        assert sum(counts.values()) == 1 + 20 * 300
        assert counts["over_urls"] > 4_000
        assert sum(counts.values()) - counts["over_urls"] < 500 + 2 * URLS_PER_STEP
        assert all(done.receipt[url] == "fetched" for url in done.rows)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    timing=st.integers(0, 10**6),
    concurrency=st.sampled_from([1, 2, 5, 10, 50]),
    max_pages=st.sampled_from([1, 3, 10, 25]),
    frontier=st.sampled_from(STRATEGIES),
)
def test_request_limit_does_not_depend_on_timing(
    seed: int, timing: int, concurrency: int, max_pages: int, frontier: Callable[[], Frontier]
) -> None:
    site = _web_of_copies(seed)
    alone = crawl(site, frontier=frontier, max_pages=max_pages)
    busy = crawl(site, frontier=frontier, max_pages=max_pages, concurrency=concurrency, seed=timing)
    assert (busy.rows, busy.receipt) == (alone.rows, alone.receipt)
    for done in (alone, busy):
        assert sum(1 + site[path].hops for path in done.fetched) <= 3 * max_pages + 50
    left = {"over_requests", "over_max_pages"} & set(alone.receipt.values())
    assert left <= ({"over_max_pages"} if len(alone.rows) == max_pages else {"over_requests"})


def _web_of_copies(seed: int) -> Site:
    """Make 400 pages of which a tenth are their own, many of them behind redirects."""
    rng = random.Random(seed)
    names = [f"/p{n}" for n in range(400)]
    site: Site = {"/": page(*rng.sample(names, k=30))}
    for name in names:
        body = None if rng.random() < 0.1 else "the same"
        links = page(*rng.choices(names, k=5), body=body)
        site[name] = replace(links, hops=rng.choice([0, 0, 0, 1, 3, 10]))
    return site


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    stored=st.integers(0, 80),
    frontier=st.sampled_from(STRATEGIES),
)
def test_request_limit_includes_earlier_attempts(
    seed: int, stored: int, frontier: Callable[[], Frontier]
) -> None:
    site = _web_of_copies(seed)
    whole = crawl(site, frontier=frontier, max_pages=10)
    journal = {
        ordinal: journaled(ordinal, _url(path), _resolved(site, path))
        for ordinal, path in enumerate(whole.fetched[:stored])
    }
    again = crawl(site, frontier=frontier, max_pages=10, stored=journal, concurrency=5, seed=seed)
    assert (again.rows, again.receipt) == (whole.rows, whole.receipt)
    assert set(again.fetched) == set(whole.fetched[stored:])


def test_reserved_requests_match_redirect_limit() -> None:
    assert request.FetchLimits().redirects + 1 == MAX_REQUESTS_PER_PAGE


def _web(seed: int) -> Site:
    rng = random.Random(seed)
    paths = ["/", *(f"/p{n}" for n in range(40))]
    site: Site = {}
    for path in paths:
        links = rng.choices([*paths, "http://y.test/z"], k=rng.randrange(7))
        kind = rng.random()
        if path == "/" or kind < 0.7:
            site[path] = page(*links, body=rng.choice([None, *"abcdef"]))
        elif kind < 0.8:
            site[path] = CrawlResult("failed", "", reason="timeout")
        elif kind < 0.9:
            site[path] = CrawlResult("page", _url(rng.choice(paths)))
        else:
            site[path] = CrawlResult("robots", "")
    return site


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    timing=st.integers(0, 10**6),
    concurrency=st.integers(2, 10),
    max_pages=st.sampled_from([1, 3, 10, 25]),
    frontier=st.sampled_from(STRATEGIES),
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
@given(
    seed=st.integers(0, 10**6),
    kept=st.sets(st.integers(0, 40)),
    frontier=st.sampled_from(STRATEGIES),
)
def test_replayed_journal_gives_same_result(
    seed: int, kept: set[int], frontier: Callable[[], Frontier]
) -> None:
    site = _web(seed)
    whole = crawl(site, frontier=frontier)
    order = whole.fetched
    stored = {
        ordinal: journaled(ordinal, _url(path), _resolved(site, path))
        for ordinal, path in enumerate(order)
        if ordinal in kept
    }
    again = crawl(site, frontier=frontier, stored=stored, concurrency=5, seed=seed)
    assert (again.rows, again.receipt) == (whole.rows, whole.receipt)
    assert set(again.fetched) == set(order) - {order[n] for n in stored}


def _resolved(site: Site, path: str) -> CrawlResult:
    result = site[path]
    return replace(result, final_url=result.final_url or _url(path))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("wanted", [10, 25, 50, 100, 1000])
def test_number_of_rows_is_exact(wanted: int, strategy: Callable[[], Frontier]) -> None:
    rng = random.Random(wanted)
    links = {f"/p{n}": [f"/p{rng.randrange(1500)}" for _ in range(6)] for n in range(1500)}
    site = {path: page(f"/p{(int(path[2:]) * 7 + 1) % 1500}", *to) for path, to in links.items()}
    for n in range(0, 1500, 20):
        site[f"/p{n}"] = CrawlResult("page", _url(f"/p{n + 1}"))
        site[f"/p{n + 7}"] = page("/p1", "/p2", body="the same")
    site["/"] = page("/p1", "/p2", "/p3", "/p5", "/p11")
    done = crawl(site, frontier=strategy, max_pages=wanted, max_depth=1000, concurrency=10)
    assert len(done.rows) == wanted
    assert len(set(done.fetched)) == len(done.fetched)


def test_nofollow_links_are_left_out_on_request() -> None:
    front = page("/a", "/ad", "/late")
    site = {
        "/": replace(front, nofollow_links=(1, 2)),
        "/a": page("/late", "/sealed"),
        "/ad": page(),
        "/late": page(),
        "/sealed": replace(page("/secret", "/a"), nofollow_page=True),
        "/secret": page(),
    }
    assert crawl(site).rows == ["/", "/a", "/ad", "/late", "/sealed", "/secret"]
    done = crawl(site, obey_nofollow=True)
    assert done.rows == ["/", "/a", "/late", "/sealed"]
    assert (done.receipt["/ad"], done.receipt["/secret"]) == ("nofollow", "nofollow")
    assert len(done.receipt) == 6


def test_journal_entry_round_trip() -> None:
    links = ("http://x.test/a", "https://x.test/b", "http://x.testing/", "http://x.test/?q")
    full = CrawlResult(
        "page", "http://x.test/b", content_hash="h", links=links, anchor_grades="0120",
        nofollow_links=(0, 3), nofollow_page=True, canonical="http://y.test/", sketch=b"abcd",
        shape=b"efgh", hops=3, url="http://x.test/", text="text", facts={"status": 203},
    )  # fmt: skip
    assert journaled(0, "http://x.test/", full) == full
    entry = encode_entry(CrawlTarget("http://x.test/", 0, ordinal=0), full)
    assert entry.journal.count(b"http://x.test/") == 2
    for short in (
        CrawlResult("failed", "http://x.test/", reason="dns"),
        CrawlResult("robots", "http://x/"),
    ):
        assert journaled(1, "u", short) == replace(short, url="u")
