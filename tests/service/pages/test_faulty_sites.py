"""Sites that fail: what the retry policy loses, and what may never pass for a page."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict

import pytest
from aiohttp import web

from tests.service.conftest import Api
from tests.site import faults
from tests.site.server import Answer, Handler, Site
from webdata_nb.pacing.retry_policies import PAGE

ATTEMPTS = PAGE.max_attempts or 0
PAGES = 400
RATE = 0.3


def flaky(seed: str, body: str) -> Handler:
    """Answer each request with a 5xx or the page, by the seed and the number of the request."""
    attempts = itertools.count(1)

    def answer(_request: web.BaseRequest) -> Answer:
        if fails(seed, next(attempts)):
            return web.Response(status=random.Random(seed).choice((500, 502, 504)))
        return web.Response(text=body, content_type="text/html")

    return answer


def fails(seed: str, attempt: int) -> bool:
    return random.Random(f"{seed} {attempt}").random() < RATE


@pytest.mark.slow
async def test_30_percent_of_answers_5xx_loses_what_the_arithmetic_says(
    api: Api, site: Site
) -> None:
    paths = [f"/p{i}" for i in range(PAGES)]
    site.page("/", "<title>Home</title>" + "".join(f"<a href='{path}'>x</a>" for path in paths))
    for path in paths:
        site.page(path, flaky(path, f"<title>{path}</title><p>All about {path}."))
    # A page is lost when all of its three attempts fail: 0.3 ** 3 = 2.7 % of the pages.
    lost = [path for path in paths if all(fails(path, n) for n in range(1, ATTEMPTS + 1))]
    assert 0 < len(lost) < 2 * RATE**ATTEMPTS * PAGES
    reply = await api.run_job("crawl", url=site.url, max_pages=PAGES + 1, concurrency=10)
    assert reply["total_results"] == PAGES + 1
    pages = {"per_page": 1000}
    rows = (await api.get(f"/v1/crawl/{reply['job_id']}", params=pages))["data"]
    assert [row["url"] for row in rows if not row["success"]] == [site.at(path) for path in lost]
    hits: dict[str, int] = defaultdict(int)
    for path in site.paths:
        hits[path] += 1
    assert max(hits.values()) == ATTEMPTS
    failed = {k: n for k, n in reply["receipt"]["counts"].items() if k != "fetched"}
    assert sum(failed.values()) == len(lost)
    assert set(failed) <= {"failed:http_500", "failed:http_502", "failed:http_504"}


def cut(place: str) -> Handler:
    """Cut a chunked answer at places that `faults.cut` does not have."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"<title>Cut</title><p>" + b"All about it. " * 200
    whole = head + b"%x\r\n%b\r\n" % (len(body), body)
    return faults.wire({"chunk_header": head + b"a", "mid_chunk": whole[:-200]}[place])


CUTS: dict[str, Handler] = {
    **{str(place): faults.cut(place) for place in faults.PLACES},
    **{place: cut(place) for place in ("chunk_header", "mid_chunk")},
}


@pytest.mark.slow
@pytest.mark.parametrize("place", CUTS)
async def test_no_truncated_page_is_a_success(api: Api, site: Site, place: str) -> None:
    site.page("/", "<title>Home</title><a href='/cut'>x</a><a href='/whole'>y</a>")
    site.page("/cut", CUTS[place])
    site.page("/whole", "<title>Whole</title><p>All about it.")
    rows = {row["url"]: row for row in (await api.run_job("crawl", url=site.url))["data"]}
    broken = rows[site.at("/cut")]
    assert (broken["success"], broken["status"]) == (False, "failed")
    assert broken.get("markdown") is None
    assert broken["error"]
    assert rows[site.at("/whole")]["success"]
    # A kept connection that ends without an answer is replaced once an attempt by the client.
    assert ATTEMPTS <= len(site.hits("/cut")) <= 2 * ATTEMPTS


async def test_a_page_that_comes_whole_at_last_is_a_success(api: Api, site: Site) -> None:
    site.page("/", "<title>Home</title><a href='/late'>x</a>")
    page = web.Response(text="<title>Late</title><p>Here.", content_type="text/html")
    site.page("/late", faults.sequence(faults.cut("body"), faults.status(503), lambda _: page))
    rows = (await api.run_job("crawl", url=site.url))["data"]
    assert [(row["title"], row["success"]) for row in rows] == [("Home", True), ("Late", True)]


async def test_redirect_loops_are_failed_rows_and_bounded(api: Api, site: Site) -> None:
    site.page(
        "/", "<title>Home</title><a href='/self'>x</a><a href='/ping'>y</a><a href='/0'>z</a>"
    )
    site.redirect("/self", "/self")
    site.redirect("/ping", "/pong")
    site.redirect("/pong", "/ping")
    for i in range(30):
        site.redirect(f"/{i}", f"/{i + 1}")
    reply = await api.run_job("crawl", url=site.url)
    assert reply["receipt"]["counts"] == {"fetched": 1, "failed:redirects": 3}
    assert len(site.requests) < 30


async def test_a_site_that_asks_to_wait_beyond_the_deadline_is_the_reason(
    api: Api, site: Site
) -> None:
    site.page("/", "", status=429, headers={"Retry-After": "1"})
    options = {"timeout": 1900}
    reply = await api.run_job("crawl", url=site.url, scrape_options=options)
    [row] = reply["data"]
    assert (row["error"], row["status_code"]) == ("HTTP 429 Too Many Requests", 429)


@pytest.mark.slow
async def test_a_site_that_dies_fails_fast_and_says_so(api: Api, site: Site) -> None:
    paths = [f"/p{i}" for i in range(60)]
    site.page("/", "<title>Home</title>" + "".join(f"<a href='{path}'>x</a>" for path in paths))
    for path in paths:
        site.page(path, faults.cut("start"))
    reply = await api.run_job("crawl", url=site.url, concurrency=10)
    counts = reply["receipt"]["counts"]
    assert counts["fetched"] == 1
    assert counts["failed:host_unavailable"] > 20
    assert reply["total_results"] == 61
    assert len(site.paths) < 100  # not three tries for each of sixty pages
    last = reply["data"][-1]
    assert "in a row; no request is sent to it for another" in last["error"]
