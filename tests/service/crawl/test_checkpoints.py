"""A crawl continued at checkpoints is the same crawl as one without them."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.service.crawl.page_reading import page_reader
from tests.service.crawl.simulated_crawl import simulate_crawl
from tests.site.shops import Boutique, Warenhaus
from tests.steps import run_to_completion
from webdata_nb.service.crawl import frontier as frontier_module
from webdata_nb.service.crawl import journal
from webdata_nb.service.crawl import plan as plan_module
from webdata_nb.service.crawl.facets import FacetDetector, UrlHashes
from webdata_nb.service.crawl.frontier import (
    BestFirst,
    BreadthFirst,
    DepthFirst,
    Frontier,
    anchor_grades,
)
from webdata_nb.service.crawl.journal import CrawlResult, StateReader, UnusableState
from webdata_nb.service.crawl.plan import CrawlLimits, PlanState
from webdata_nb.service.crawl.scope import CrawlScope

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
    checkpoint_rows=st.sampled_from([1, 3, 7, 20]),
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
            CrawlScope(frozenset({"x.test"}), folder="x.test/day/"),
            CrawlScope(frozenset({"x.test"}), include=("/p*", "/list*", "/day/**")),
        ]
    ),
    seeds=st.booleans(),
    restart=st.sampled_from([None, 0.3]),
    chunk=st.sampled_from([3, frontier_module.CHUNK]),
)
def test_rows_order_and_receipt_do_not_depend_on_checkpoints(
    *,
    seed: int,
    checkpoint_rows: int,
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

    def crawl(checkpoint_rows: int | None, concurrency: int) -> tuple[object, ...]:
        done = simulate_crawl(
            site, f"{BASE}/", frontier=frontier, limits=CrawlLimits(max_pages, max_depth),
            concurrency=concurrency, seed=seed, obey_nofollow=nofollow, scope=scope,
            facets=FacetDetector() if facets else None, checkpoint_rows=checkpoint_rows,
            seeds=list(site)[::3] if seeds else (), restart=restart,
        )  # fmt: skip
        fetched = sorted(done.fetched)
        return done.rows, done.scores, done.receipt, done.details, done.low_confidence, fetched

    whole = crawl(None, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frontier_module, "CHUNK", chunk)
        patch.setattr(journal, "ITEMS_PER_CHUNK", chunk)
        assert crawl(checkpoint_rows, concurrency) == whole


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", [Boutique, Warenhaus])
def test_shops_with_checkpoints(
    kind: type[Boutique | Warenhaus], strategy: Callable[[], Frontier]
) -> None:
    whole, continued = (
        simulate_crawl(
            page_reader(shop.html),
            shop.start,
            frontier=strategy,
            limits=CrawlLimits(1000, 10),
            concurrency=5,
            facets=FacetDetector(),
            checkpoint_rows=checkpoint_rows,
        )
        for shop, checkpoint_rows in ((kind(), None), (kind(), 20))
    )
    assert continued.states
    assert (continued.rows, continued.receipt) == (whole.rows, whole.receipt)
    assert continued.details == whole.details


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_limit_of_known_urls_at_checkpoints(
    strategy: Callable[[], Frontier], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_module, "KNOWN_URLS_PER_ROW", 0)
    monkeypatch.setattr(plan_module, "EXTRA_KNOWN_URLS", 500)

    def read(url: str) -> CrawlResult:
        links = tuple(f"{url}/{n}" for n in range(130))
        return CrawlResult("page", url, links=links, anchor_grades="1" * 130)

    whole, continued = (
        simulate_crawl(
            read,
            f"{BASE}/s",
            frontier=strategy,
            limits=CrawlLimits(30, 50),
            checkpoint_rows=checkpoint_rows,
        )
        for checkpoint_rows in (None, 9)
    )
    assert (continued.rows, continued.receipt) == (whole.rows, whole.receipt)
    assert "over_urls" in whole.receipt.values()


def _chain_of(length: int) -> dict[str, CrawlResult]:
    urls = [f"{BASE}/{n}" for n in range(length)]
    return {
        url: CrawlResult("page", url, links=(f"{BASE}/{number + 1}",), anchor_grades="1")
        for number, url in enumerate(urls)
    }


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_checkpoint_comes_after_no_more_rows_than_it_may(
    strategy: Callable[[], Frontier],
) -> None:
    links = [f"{BASE}/{n}" for n in range(100)]
    leaves = {url: CrawlResult("page", url) for url in links}
    start = CrawlResult("page", f"{BASE}/", links=tuple(links), anchor_grades="1" * 100)
    done = simulate_crawl(
        {f"{BASE}/": start, **leaves}, f"{BASE}/", frontier=strategy, checkpoint_rows=25,
        limits=CrawlLimits(90, 3), concurrency=10,
    )  # fmt: skip
    rows = [StateReader(state).state(PlanState).rows for state in done.states]
    steps = [after - before for before, after in zip([0, *rows], rows, strict=False)]
    assert all(17 < step <= 25 for step in steps), steps
    assert len(done.rows) == 90


def test_unusable_states() -> None:
    site = _chain_of(30)
    limits = CrawlLimits(30, 40)
    state = simulate_crawl(site, f"{BASE}/0", limits=limits, checkpoint_rows=20).states[0]
    assert StateReader(state).state(PlanState).rows == 20
    damaged = [b"", state[:3], state[:10], state[:-1], state + b"x", b"x" * 30]
    damaged += [bytes([*state[:at], state[at] ^ 1, *state[at + 1 :]]) for at in (0, 40, -6, -1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "VERSION", journal.VERSION + 1)
        damaged.append(
            simulate_crawl(site, f"{BASE}/0", limits=limits, checkpoint_rows=20).states[0]
        )
    for other in damaged:
        with pytest.raises(UnusableState, match="state of the crawl"):
            StateReader(other).state(PlanState)


def test_url_hashes() -> None:
    hashes, again = UrlHashes(), UrlHashes()
    urls = [f"{BASE}/{n}" for n in range(5000)]
    for url in urls[:3000] * 2:
        hashes.add(url)
    assert len(hashes) == 3000
    again.restore(hashes.state())
    for known in (hashes, again):
        assert [url in known for url in urls] == [True] * 3000 + [False] * 2000
    again.add(urls[-1])
    assert (len(again), urls[-1] in again, urls[-1] in hashes) == (3001, True, False)


def test_state_is_refused_while_pages_are_in_flight() -> None:
    site = _chain_of(5)
    plan = plan_module.CrawlPlan(
        f"{BASE}/0", CrawlLimits(5, 9), CrawlScope(frozenset({"x.test"})), BreadthFirst()
    )
    target = plan.next_target()
    assert target is not None
    with pytest.raises(RuntimeError, match="in flight"):
        run_to_completion(plan.encode_state())
    run_to_completion(plan.commit_in_steps(0, site[target.url]))
    assert run_to_completion(plan.encode_state())
