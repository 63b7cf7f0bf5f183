"""A page with sort, filter, session and tracking parameters is fetched once."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.service.crawl.page_reading import page_reader
from tests.service.crawl.simulated_crawl import SimulatedCrawl, journaled, simulate_crawl
from tests.site.shops import Boutique, Shop, Warenhaus
from webdata_nb.service.crawl.facets import UNDECIDED, FacetDetector, PageFingerprint, UrlVariant
from webdata_nb.service.crawl.frontier import BestFirst, BreadthFirst, DepthFirst, Frontier
from webdata_nb.service.crawl.journal import CrawlResult
from webdata_nb.service.crawl.plan import CrawlLimits

STRATEGIES = [BreadthFirst, DepthFirst, BestFirst]
LEFT_OUT = {"facet", "duplicate", "canonical"}


def crawl_shop(
    shop: Shop, strategy: Callable[[], Frontier], concurrency: int = 1
) -> SimulatedCrawl:
    return simulate_crawl(
        page_reader(shop.html), shop.start, frontier=strategy, limits=CrawlLimits(1000, 10),
        concurrency=concurrency, facets=FacetDetector(), seed=concurrency,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", [Boutique, Warenhaus])
def test_variants_are_left_out_and_originals_are_fetched(
    kind: type[Shop], strategy: Callable[[], Frontier]
) -> None:
    shop = kind()
    done = crawl_shop(shop, strategy)
    variants = {url for url in done.receipt if shop.is_variant(url)}
    left_out = {url for url, outcome in done.receipt.items() if outcome in LEFT_OUT}
    right = left_out & variants
    wrong = sorted(left_out - variants)[:5], sorted(variants - left_out)[:5]
    assert len(variants) >= 150
    assert len(right) / len(left_out) >= 0.98, wrong
    assert len(right) / len(variants) >= 0.98, wrong
    rows = set(done.rows)
    read = {page for page in shop.pages() if resolved_row(done, page) in rows}
    assert len(read) == len(shop.pages()), sorted(shop.pages() - read)
    assert len(done.fetched) < 1.75 * len(shop.pages())
    assert all(done.details[url] for url in left_out)


def resolved_row(done: SimulatedCrawl, url: str) -> str:
    """Return the row that stands for a URL which was left out, by the receipt."""
    while done.receipt.get(url) in LEFT_OUT:
        url = done.details[url].partition(" by ")[0].removeprefix("the text of ")
    return url


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", [Boutique, Warenhaus])
def test_detected_facets_do_not_depend_on_timing(
    kind: type[Shop], strategy: Callable[[], Frontier]
) -> None:
    alone, busy = (crawl_shop(kind(), strategy, concurrency) for concurrency in (1, 10))
    assert (busy.rows, busy.receipt, busy.details) == (alone.rows, alone.receipt, alone.details)


def test_only_linked_urls_are_fetched() -> None:
    shop = Boutique()
    read = page_reader(shop.html)
    done = crawl_shop(shop, BreadthFirst)
    linked = {url for page in done.fetched for url in read(page).links}
    assert set(done.fetched) <= linked | {shop.start}


def test_variants_are_fetched_without_filter() -> None:
    shop = Boutique()
    done = simulate_crawl(page_reader(shop.html), shop.start, limits=CrawlLimits(60, 10))
    assert not set(done.receipt.values()) & {"facet", "canonical"}


def body(url: str, text: bytes = b"", canonical: str | None = None) -> PageFingerprint:
    return PageFingerprint(url, text, canonical)


P = "http://x.test/p"


def test_tracking_parameters_are_always_ignored() -> None:
    facets = FacetDetector()
    assert facets.classify(f"{P}?utm_source=a") is None
    found = facets.classify(P)
    assert isinstance(found, UrlVariant)
    assert found.detail == f"{P}?utm_source=a by utm_source"
    assert isinstance(facets.classify(f"{P}?gclid=1&utm_source=b"), UrlVariant)


@pytest.mark.parametrize("order", [1, -1])
def test_plain_url_is_preferred_over_tracked_one(order: int) -> None:
    links = (P, f"{P}?utm_source=front", "http://x.test/q?gclid=1", "http://x.test/q?utm_id=2")
    site = {"http://x.test/": CrawlResult("page", "", links=links[::order], sketch=b"front")}
    done = simulate_crawl(site, "http://x.test/", facets=FacetDetector())
    [alone] = [url for url in done.fetched if "/q" in url]
    assert alone == (links[2] if order == 1 else links[3])
    assert set(done.fetched) == {"http://x.test/", P, alone}
    assert done.receipt[links[1]] == "facet"
    assert done.details[links[1]] == f"{P} by utm_source"


def test_parameter_order_is_ignored() -> None:
    facets = FacetDetector()
    assert facets.classify(f"{P}?a=1&b=2") is None
    found = facets.classify(f"{P}?b=2&a=1")
    assert isinstance(found, UrlVariant)
    assert found.detail == f"{P}?a=1&b=2 by the order of parameters"


@pytest.mark.parametrize("own", [True, False])
def test_suspected_name_is_facet_unless_pages_are_canonical(own: bool) -> None:
    facets = FacetDetector()
    facets.classify(P)
    probes = [f"{P}?color=red", f"{P}?color=blue"]
    assert [facets.classify(url) for url in probes] == [None, None]
    assert facets.classify(f"{P}?color=green") is UNDECIDED
    for url in probes:
        facets.learn(body(url, url.encode().ljust(80), url if own else None))
    green = facets.classify(f"{P}?color=green")
    assert green is None if own else isinstance(green, UrlVariant)


def test_unknown_name_needs_several_equal_pages() -> None:
    facets = FacetDetector()
    same = b"".join(n.to_bytes(4, "big") for n in range(30))
    for number in range(4):
        assert facets.classify(f"{P}?zz={number}") is None
        facets.learn(body(f"{P}?zz={number}", same))
    assert facets.classify(f"{P}?zz=9") is UNDECIDED
    facets.classify(P)
    assert isinstance(facets.classify(f"{P}?zz=9"), UrlVariant)


def test_one_different_page_makes_a_content_parameter() -> None:
    facets = FacetDetector()
    for number in range(20):
        assert facets.classify(f"{P}?id={number}") is None
        text = b"".join((100 * number + n).to_bytes(4, "big") for n in range(30))
        assert facets.learn(body(f"{P}?id={number}", text)) is None


def test_list_pages_that_declare_first_page_canonical_are_kept() -> None:
    facets = FacetDetector()
    for number in range(1, 8):
        url = P if number == 1 else f"{P}?page={number}"
        assert facets.classify(url) is None
        text = b"".join((100 * number + n).to_bytes(4, "big") for n in range(30))
        assert facets.learn(body(url, text, P)) is None


def test_page_with_canonical_already_read_is_a_variant() -> None:
    facets = FacetDetector()
    facets.learn(body(P, b"abcd" * 30, P))
    assert facets.learn(body(f"{P}?x=1", b"abce" * 30, P)) == ("canonical", P)
    assert facets.learn(body("http://x.test/other", b"zzzz" * 30, P)) is None


def _web(seed: int) -> dict[str, CrawlResult]:
    """Make a site of few paths and many queries, some of them the same page."""
    chance = random.Random(seed)
    names = ("sort", "color", "utm_source", "id", "zz", "page")
    urls = ["http://x.test/"]
    for _ in range(60):
        parameters = chance.sample(names, chance.randrange(4))
        query = "&".join(f"{name}={chance.randrange(3)}" for name in parameters)
        urls.append(f"http://x.test/{chance.choice('ab')}{'?' if query else ''}{query}")
    texts = [random.Random(n).randbytes(120) for n in range(8)]
    site = {}
    for url in urls:
        links = tuple(chance.choices(urls, k=8))
        site[url] = CrawlResult(
            "page", url, content_hash=f"{chance.randrange(40)}", links=links, anchor_grades="2" * 8,
            canonical=chance.choice([None, None, url, chance.choice(urls)]),
            sketch=chance.choice(texts), shape=chance.choice(texts),
        )  # fmt: skip
    return site


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    timing=st.integers(0, 10**6),
    concurrency=st.integers(2, 10),
    max_pages=st.sampled_from([3, 10, 100]),
    strategy=st.sampled_from(STRATEGIES),
)
def test_order_and_receipt_with_facets_do_not_depend_on_timing(
    seed: int, timing: int, concurrency: int, max_pages: int, strategy: Callable[[], Frontier]
) -> None:
    site, limits = _web(seed), CrawlLimits(max_pages, 5)
    alone, busy = (
        simulate_crawl(
            site, "http://x.test/", frontier=strategy, limits=limits, facets=FacetDetector(),
            concurrency=pages, seed=timing,
        )
        for pages in (1, concurrency)
    )  # fmt: skip
    assert (busy.rows, busy.receipt, busy.details) == (alone.rows, alone.receipt, alone.details)
    assert len(alone.rows) <= max_pages
    linked_urls = {"http://x.test/", *(u for url in alone.rows for u in site[url].links)}
    assert linked_urls <= set(alone.receipt)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    kept=st.sets(st.integers(0, 60)),
    concurrency=st.integers(1, 10),
    strategy=st.sampled_from(STRATEGIES),
)
def test_replayed_journal_with_facets_gives_same_result(
    seed: int, kept: set[int], concurrency: int, strategy: Callable[[], Frontier]
) -> None:
    site, limits = _web(seed), CrawlLimits(40, 5)
    whole = simulate_crawl(
        site, "http://x.test/", frontier=strategy, limits=limits, facets=FacetDetector()
    )
    stored = {
        ordinal: journaled(ordinal, url, site[url])
        for ordinal, url in enumerate(whole.fetched)
        if ordinal in kept
    }
    again = simulate_crawl(
        site, "http://x.test/", frontier=strategy, limits=limits, facets=FacetDetector(),
        concurrency=concurrency, seed=seed, stored=stored,
    )  # fmt: skip
    assert (again.rows, again.receipt, again.details) == (whole.rows, whole.receipt, whole.details)
    assert again.scores == whole.scores
    assert sorted(again.fetched) == sorted(
        set(whole.fetched) - {result.url for result in stored.values()}
    )
