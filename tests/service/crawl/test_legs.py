"""A crawl in legs, each continued from a record, is the same crawl as one without legs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.service.crawl.page_reading import page_reader
from tests.service.crawl.simulated_crawl import simulate_crawl
from tests.site.shops import Boutique, Warenhaus
from webdata_nb.service.crawl import candidate_queue
from webdata_nb.service.crawl import plan as plan_module
from webdata_nb.service.crawl.anchor_grading import anchor_grades
from webdata_nb.service.crawl.facets import FacetDetector
from webdata_nb.service.crawl.frontier import BestFirst, BreadthFirst, DepthFirst, Frontier
from webdata_nb.service.crawl.journal import CrawlResult
from webdata_nb.service.crawl.plan import CrawlLimits
from webdata_nb.service.crawl.scope import CrawlScope
from webdata_nb.service.crawl.state_record import (
    RecordChain,
    UnusableRecord,
    decode_records,
    sections_of,
)
from webdata_nb.service.crawl.url_hashes import UrlHashes, hashes_of

BASE = "http://x.test"
STRATEGIES = [BreadthFirst, DepthFirst, BestFirst]
NAMES = ["sort", "sid", "utm_source", "color", "q", "page"]


def _sketch(rng: random.Random, texts: int) -> bytes:
    text = random.Random(rng.randrange(texts))
    return b"".join(sorted(text.randbytes(4) for _ in range(48)))


def _urls(rng: random.Random) -> list[str]:
    plain = [f"{BASE}/p{n}" for n in range(40)]
    queried = [
        f"{BASE}/list?" + "&".join(f"{name}={rng.randrange(4)}" for name in rng.sample(NAMES, 2))
        for _ in range(30)
    ]
    endless = [f"{BASE}/day/{n}" for n in range(60)]
    sessions = [f"{BASE}/s{n};jsessionid={rng.randrange(99)}" for n in range(8)]
    outside = ["http://y.test/z", f"{BASE}/{'a/' * 6}", f"{BASE}/private/é"]
    return [f"{BASE}/", *plain, *queried, *endless, *sessions, *outside]


def _result(rng: random.Random, url: str, urls: list[str]) -> CrawlResult:
    kind = rng.random()
    links = tuple(rng.choices(urls, k=rng.randrange(12)))
    if url != f"{BASE}/" and kind > 0.75:
        if kind < 0.8:
            return CrawlResult("failed", url, reason="timeout", hops=rng.randrange(3))
        if kind < 0.9:
            return CrawlResult("page", rng.choice(urls), hops=1)
        if kind < 0.95:
            return CrawlResult("robots", url)
        if kind < 0.98:
            return CrawlResult("not_archived", url, was_requested=rng.random() < 0.3)
        return CrawlResult("stopped", "http://z.test/", reason="scope", hops=1)
    return CrawlResult(
        "page",
        url,
        content_hash=rng.choice([None, url, *"abc"]),
        links=links,
        anchor_grades=anchor_grades(links),
        nofollow_links=(0,) if links and rng.random() < 0.3 else (),
        nofollow_page=rng.random() < 0.05,
        canonical=rng.choice([None, None, url, rng.choice(urls)]),
        sketch=_sketch(rng, 30),
        shape=_sketch(rng, 3),
        hops=rng.choice([0, 0, 0, 2]),
        low_confidence=rng.choice(["", "", "no text", "pictures only"]),
    )


def _web(seed: int) -> dict[str, CrawlResult]:
    rng = random.Random(seed)
    urls = _urls(rng)
    return {url: _result(rng, url, urls) for url in urls}


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    leg_rows=st.sampled_from([1, 3, 7, 20]),
    max_pages=st.sampled_from([5, 30, 80, 200]),
    max_depth=st.sampled_from([2, 4, 10]),
    concurrency=st.sampled_from([1, 3, 10]),
    frontier=st.sampled_from(STRATEGIES),
    facets=st.booleans(),
    nofollow=st.booleans(),
    scope=st.sampled_from(
        [
            CrawlScope(frozenset({"x.test"})),
            CrawlScope(frozenset({"x.test"}), external=True),
            CrawlScope(frozenset({"x.test"}), exclude=("/day/1*",)),
            CrawlScope(frozenset({"x.test"}), include=("/p*", "/list*", "/day/**")),
        ]
    ),
    seeds=st.booleans(),
    restart=st.sampled_from([None, 0.3]),
    chunk=st.sampled_from([3, candidate_queue.CHUNK]),
)
def test_rows_order_and_receipt_do_not_depend_on_legs(
    *,
    seed: int,
    leg_rows: int,
    max_pages: int,
    max_depth: int,
    concurrency: int,
    frontier: Callable[[], Frontier],
    scope: CrawlScope,
    facets: bool,
    nofollow: bool,
    seeds: bool,
    restart: float | None,
    chunk: int,
) -> None:
    site = _web(seed)

    def crawl(leg_rows: int | None, concurrency: int) -> tuple[object, ...]:
        done = simulate_crawl(
            site, f"{BASE}/", frontier=frontier, limits=CrawlLimits(max_pages, max_depth),
            concurrency=concurrency, seed=seed, obey_nofollow=nofollow, scope=scope,
            facets=FacetDetector() if facets else None, leg_rows=leg_rows,
            seeds=list(site)[::3] if seeds else (), restart=restart,
        )  # fmt: skip
        fetched = sorted(done.fetched)
        return done.rows, done.scores, done.receipt, done.details, done.low_confidence, fetched

    whole = crawl(None, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidate_queue, "CHUNK", chunk)
        assert crawl(leg_rows, concurrency) == whole


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", [Boutique, Warenhaus])
def test_shops_in_legs(kind: type[Boutique | Warenhaus], strategy: Callable[[], Frontier]) -> None:
    whole, in_legs = (
        simulate_crawl(
            page_reader(shop.html),
            shop.start,
            frontier=strategy,
            limits=CrawlLimits(1000, 10),
            concurrency=5,
            facets=FacetDetector(),
            leg_rows=leg_rows,
        )
        for shop, leg_rows in ((kind(), None), (kind(), 20))
    )
    assert in_legs.records
    assert (in_legs.rows, in_legs.receipt) == (whole.rows, whole.receipt)
    assert in_legs.details == whole.details


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_limit_of_known_urls_in_legs(
    strategy: Callable[[], Frontier], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_module, "KNOWN_URLS_PER_ROW", 0)
    monkeypatch.setattr(plan_module, "EXTRA_KNOWN_URLS", 500)

    def read(url: str) -> CrawlResult:
        links = tuple(f"{url}/{n}" for n in range(130))
        return CrawlResult("page", url, links=links, anchor_grades="1" * 130)

    whole, in_legs = (
        simulate_crawl(
            read, f"{BASE}/s", frontier=strategy, limits=CrawlLimits(30, 50), leg_rows=leg_rows
        )
        for leg_rows in (None, 9)
    )
    assert (in_legs.rows, in_legs.receipt) == (whole.rows, whole.receipt)
    assert "over_urls" in whole.receipt.values()


def _sections_of(record: bytes) -> list[tuple[str, list[Any]]]:
    """Return the sections of one record, also one of changes."""
    return list(sections_of(record))


def _chain_of(length: int) -> dict[str, CrawlResult]:
    urls = [f"{BASE}/{n}" for n in range(length)]
    return {
        url: CrawlResult("page", url, links=(f"{BASE}/{number + 1}",), anchor_grades="1")
        for number, url in enumerate(urls)
    }


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_leg_has_no_more_rows_than_it_may(strategy: Callable[[], Frontier]) -> None:
    links = [f"{BASE}/{n}" for n in range(100)]
    leaves = {url: CrawlResult("page", url) for url in links}
    start = CrawlResult("page", f"{BASE}/", links=tuple(links), anchor_grades="1" * 100)
    done = simulate_crawl(
        {f"{BASE}/": start, **leaves}, f"{BASE}/", frontier=strategy, leg_rows=25,
        limits=CrawlLimits(90, 3), concurrency=10,
    )  # fmt: skip
    rows = [next(items for name, items in _sections_of(record) if name == "plan")[2]
            for record in done.records]  # fmt: skip
    steps = [after - before for before, after in zip([0, *rows], rows, strict=False)]
    assert all(17 < step <= 25 for step in steps), steps
    assert len(done.rows) == 90


def test_unusable_records() -> None:
    site = _chain_of(30)
    limits = CrawlLimits(30, 40)
    record = simulate_crawl(site, f"{BASE}/0", limits=limits, leg_rows=20).records[0]
    assert dict(decode_records([record])[0])
    damaged = [
        b"", record[:10], record[:-1], record + b"x", bytes([*record[:-1], record[-1] ^ 1]),
        b"x" * 30, record.replace(b"webdata crawl\x00\x03", b"webdata crawl\x00\x02"),
    ]  # fmt: skip
    for other in damaged:
        with pytest.raises(UnusableRecord, match="record of the crawl"):
            decode_records([other])


def test_a_missing_record_is_noticed() -> None:
    def plan(leg_rows: int) -> list[bytes]:
        done = simulate_crawl(
            _chain_of(30), f"{BASE}/0", limits=CrawlLimits(30, 40), leg_rows=leg_rows, seed=3
        )
        return done.records

    first, second, third = plan(8)[:3]
    assert decode_records([first, second])[1].whole_bytes == len(first)
    parts, chain = decode_records([first, second, third])
    assert [name for name, _ in parts].count("plan") == 3
    assert chain.change_bytes == len(second) + len(third)
    for damaged in ([first, third], [second, third], [first, second, second]):
        with pytest.raises(UnusableRecord, match="a record of the crawl is missing"):
            decode_records(damaged)


def test_records_are_bounded_by_a_whole_state() -> None:
    chain = RecordChain().followed_by(b"x" * 5_000_000, whole=True)
    assert not chain.needs_whole_state
    for number in range(11):
        assert not chain.needs_whole_state, number
        chain = chain.followed_by(b"y" * 1_000_000, whole=False)
    assert chain.needs_whole_state
    assert not chain.followed_by(b"z", whole=True).needs_whole_state


def test_url_hashes() -> None:
    hashes = UrlHashes()
    urls = [f"{BASE}/{n}" for n in range(5000)]
    for url in urls[:3000] * 2:
        hashes.add(url)
    assert len(hashes) == 3000
    again = hashes_of(hashes.changes(whole=True, block=8))
    for known in (hashes, again):
        assert [url in known for url in urls] == [True] * 3000 + [False] * 2000
    again.add(urls[-1])
    assert (len(again), urls[-1] in again, urls[-1] in hashes) == (3001, True, False)
    assert len(list(again.changes(whole=False, block=8))) == 1
    assert list(again.changes(whole=False, block=8)) == []
    hashes.add(urls[-2])
    [change] = hashes.changes(whole=False, block=8)
    again.restore(change)
    assert (len(again), urls[-2] in again) == (3002, True)


def test_state_is_refused_while_pages_are_in_flight() -> None:
    site = _chain_of(5)
    plan = plan_module.CrawlPlan(
        f"{BASE}/0", CrawlLimits(5, 9), CrawlScope(frozenset({"x.test"})), BreadthFirst(), str
    )
    target = plan.next_target()
    assert target is not None
    with pytest.raises(RuntimeError, match="in flight"):
        next(plan.state())
    plan.settle(0, site[target.url])
    assert next(plan.state())
