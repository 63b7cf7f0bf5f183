"""How many requests a crawl may send, and what it says of the URLs that this leaves out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from tests.service.conftest import Api
from tests.site.document import document, prose
from tests.site.server import Answer, Site
from webdata_nb.pacing.retry_policies import PAGE
from webdata_nb.service.crawl import crawl_results
from webdata_nb.service.crawl.page_fetcher import PREFETCHED_PER_FETCH
from webdata_nb.service.crawl.sitemaps import MAX_FILES

pytestmark = pytest.mark.slow

PAGES = 20
MAX_REQUESTS = 3 * PAGES + 50


def duplicates(site: Site) -> None:
    """Every URL is the same page, and leads nowhere new."""
    site.page("/", document("Front", links=[f"/copy/{n}" for n in range(300)]))
    site.under("/copy/", lambda _request: document("One page under many names"))


def facets(site: Site) -> None:
    """Every listing shows the same under another query, and each of them counts as a view."""
    views = [f"/list?color={n}" for n in range(150)] + [f"/list?p{n}=1" for n in range(150)]
    site.page("/", document("Front", links=["/list", *views]))
    site.page("/list", document("List", links=views, text=prose("list")))


def soft_404s(site: Site) -> None:
    """Every path answers that there is no such page, and links to further ones."""

    def not_found_page(request: web.BaseRequest) -> str:
        links = [f"{request.path.rstrip('/')}/{letter}" for letter in "abcdefgh"]
        return document("Page not found", links=links, text="We could not find that page.")

    site.page("/", document("Front", links=[f"/x{n}" for n in range(20)]))
    site.under("/x", not_found_page)


def redirects(site: Site) -> None:
    """Every link leads back to the start page, in two hops."""

    def away(request: web.BaseRequest) -> Answer:
        number = request.path.removeprefix("/away/")
        return web.Response(status=302, headers={"Location": f"/back/{number}"})

    site.page("/", document("Front", links=[f"/away/{n}" for n in range(300)]))
    site.under("/away/", away)
    site.under("/back/", lambda _: web.Response(status=301, headers={"Location": "/"}))


SITES = [duplicates, facets, soft_404s, redirects]


@pytest.mark.parametrize("strategy", ["bfs", "dfs", "bff"])
@pytest.mark.parametrize("kind", SITES)
async def test_requests_are_bounded_whatever_a_site_is_made_of(
    api: Api, kind: Callable[[Site], None], strategy: str
) -> None:
    replies = []
    for concurrency in (1, 10):
        with Site(seed=concurrency, latency=0.01) as site:
            kind(site)
            reply = await api.run_job(
                "crawl", url=site.url, max_pages=PAGES, concurrency=concurrency,
                crawl_strategy=strategy, filter_faceted_urls=kind is facets,
            )  # fmt: skip
            ahead = (
                PREFETCHED_PER_FETCH * concurrency if strategy == "dfs" and concurrency > 1 else 0
            )
            assert len(site.paths) <= MAX_REQUESTS + ahead
            rows = [row["url"].removeprefix(site.url) for row in reply["data"]]
            replies.append((rows, reply["receipt"]["counts"], reply["status"]))
    assert replies[0] == replies[1]
    rows, counts, status = replies[0]
    assert status == "completed"
    left = "over_max_pages" if len(rows) == PAGES else "over_requests"
    assert counts.keys() & {"over_max_pages", "over_requests"} <= {left}
    if kind in {duplicates, redirects}:
        assert counts["over_requests"] > 150


async def test_what_the_limit_left_out_is_named_and_costs_nothing(api: Api, site: Site) -> None:
    duplicates(site)
    job_id = await api.start_job("crawl", {"url": site.url, "max_pages": PAGES})
    reply = await api.wait_for_end("crawl", job_id)
    # A page is begun as long as eleven requests are left: its own and ten redirects.
    fetched = MAX_REQUESTS - 10
    counts = {"fetched": 2, "duplicate": fetched - 2, "over_requests": 301 - fetched}
    assert reply["receipt"]["counts"] == counts
    assert len(site.paths) == fetched
    params: dict[str, Any] = {"outcome": "over_requests", "per_page": 3}
    receipt = await api.get(f"/v1/crawl/{job_id}/receipt", params=params)
    assert receipt["total_results"] == 301 - fetched
    assert all(site.at("/copy/") in each["url"] for each in receipt["data"])
    assert reply["credits"] == 2


async def test_urls_left_over_are_stored_in_batches(
    api: Api, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crawl_results, "OUTCOMES_PER_BATCH", 7)
    site.page("/", document("Front", links=[f"/page/{n}" for n in range(100)]))
    site.under("/page/", lambda request: document(request.path))
    reply = await api.run_job("crawl", url=site.url, max_pages=2)
    assert reply["receipt"]["counts"] == {"fetched": 2, "over_max_pages": 99}


async def test_a_site_of_pages_gives_them_all(api: Api, site: Site) -> None:
    # A third of the links are copies and a third redirects: within the limit, nothing is lost.
    pages = [f"/page/{n}" for n in range(PAGES)]
    links = [each for n, path in enumerate(pages) for each in (path, f"/copy/{n}", f"/r/{n}")]
    site.page("/", document("Front", links=links))
    for path in pages:
        site.page(path, document(path))
    site.under("/copy/", lambda _request: document("One page under many names"))
    for n in range(PAGES):
        site.redirect(f"/r/{n}", "/")
    reply = await api.run_job("crawl", url=site.url, max_pages=PAGES)
    assert len(reply["data"]) == PAGES
    assert "over_requests" not in reply["receipt"]["counts"]


async def test_retries_robots_and_sitemaps_have_bounds_of_their_own(api: Api, site: Site) -> None:
    site.page("/", document("Front", links=["/broken"]))
    site.page("/broken", "no", status=500)
    locations = "".join(f"<sitemap><loc>{site.at(f'/map{n}')}</loc></sitemap>" for n in range(99))
    site.page("/sitemap.xml", f"<sitemapindex>{locations}</sitemapindex>")
    site.under("/map", lambda _request: "<urlset></urlset>")
    reply = await api.run_job("crawl", url=site.url, sitemap=True, max_pages=1000)
    assert reply["receipt"]["counts"]["failed:http_500"] == 1
    assert len(site.hits("/broken")) == PAGE.max_attempts
    assert len(site.hits("/robots.txt")) == 1
    assert sum("map" in path for path in site.paths) == MAX_FILES
