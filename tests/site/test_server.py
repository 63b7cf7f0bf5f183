from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import aiohttp
import pytest
from aiohttp import web

from tests.site.document import document, prose
from tests.site.server import Site


async def fetch(url: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, allow_redirects=False) as answer,
    ):
        return answer.status, await answer.text()


async def test_a_page_answers_with_its_status_headers_and_body(site: Site) -> None:
    url = site.page("/a", "Grüße", status=203, headers={"X-Kind": "text"})
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert (answer.status, await answer.text()) == (203, "Grüße")
        assert answer.headers["X-Kind"] == "text"
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"


async def test_a_path_without_a_page_is_not_found(site: Site) -> None:
    assert (await fetch(site.at("/nowhere")))[0] == 404


async def test_a_query_has_its_own_page_or_that_of_its_path(site: Site) -> None:
    site.page("/list", "all")
    site.page("/list?color=red", "red ones")
    assert (await fetch(site.at("/list?color=red")))[1] == "red ones"
    assert (await fetch(site.at("/list?color=blue")))[1] == "all"


async def test_the_longest_prefix_answers(site: Site) -> None:
    site.under("/a/", "short")
    site.under("/a/b/", "long")
    assert (await fetch(site.at("/a/b/c")))[1] == "long"
    assert (await fetch(site.at("/a/c")))[1] == "short"


async def test_handlers_may_be_plain_or_async_and_return_text_or_a_response(site: Site) -> None:
    async def later(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(0)
        return web.Response(status=202, text=request.method)

    site.page("/plain", lambda request: request.path.encode())
    site.page("/async", later)
    assert await fetch(site.at("/plain")) == (200, "/plain")
    assert await fetch(site.at("/async")) == (202, "GET")


async def test_a_redirect_names_its_target(site: Site) -> None:
    url = site.redirect("/old", "/new", status=308)
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, allow_redirects=False) as answer,
    ):
        assert (answer.status, answer.headers["Location"]) == (308, "/new")


def test_every_request_is_recorded_in_order_with_headers_and_body(site: Site) -> None:
    site.page("/a")
    urlopen(site.at("/a?x=1")).close()
    urlopen(Request(site.at("/a"), data=b"form", headers={"X-Secret": "1"})).close()
    first, second = site.requests
    assert (first.method, first.path, first.body) == ("GET", "/a?x=1", b"")
    assert (second.method, second.path, second.body) == ("POST", "/a", b"form")
    assert second.headers["x-secret"] == "1"
    assert first.time <= second.time
    assert site.hits("/a") == (second,)


def test_robots_is_recorded_but_is_not_a_path(site: Site) -> None:
    site.robots("User-agent: *\nDisallow: /private/\n")
    site.page("/a")
    with urlopen(site.at("/robots.txt")) as answer:
        assert answer.headers["Content-Type"] == "text/plain"
        assert b"Disallow: /private/" in answer.read()
    urlopen(site.at("/a")).close()
    assert site.paths == ("/a",)
    assert len(site.hits("/robots.txt")) == 1


def test_forgetting_leaves_the_pages(site: Site) -> None:
    site.page("/a", "kept")
    urlopen(site.at("/a")).close()
    site.forget()
    assert site.requests == ()
    with urlopen(site.at("/a")) as answer:
        assert answer.read() == b"kept"


def test_one_connection_serves_many_requests(site: Site) -> None:
    site.page("/a", "same")
    connection = HTTPConnection("127.0.0.1", site.port)
    for _ in range(3):
        connection.request("GET", "/a")
        assert connection.getresponse().read() == b"same"
    connection.close()
    assert len({hit.peer for hit in site.requests}) == 1


def test_a_held_page_waits_while_others_answer(site: Site) -> None:
    site.page("/slow", "slow")
    site.page("/quick", "quick")
    with ThreadPoolExecutor(1) as threads:
        with site.hold("/slow"):
            waiting = threads.submit(lambda: urlopen(site.at("/slow")).read())
            site.wait_for("/slow")
            assert urlopen(site.at("/quick")).read() == b"quick"
            assert not waiting.done()
        assert waiting.result() == b"slow"
    assert site.peak == 2


def test_waiting_for_a_request_that_never_comes_times_out(site: Site) -> None:
    with pytest.raises(TimeoutError, match="/never was requested 0 times, not 1"):
        site.wait_for("/never", timeout=0.01)


def test_transient_failures_are_a_function_of_seed_and_path() -> None:
    paths = [f"/{number}" for number in range(400)]
    with Site(seed=7, fault_rate=0.05) as one, Site(seed=7, fault_rate=0.05) as two:
        chosen = [path for path in paths if one.is_transient(path)]
        assert chosen == [path for path in paths if two.is_transient(path)]
        assert 8 <= len(chosen) <= 36
        one.page(chosen[0], "back")
        with pytest.raises(HTTPError, match="503") as failure:
            urlopen(one.at(chosen[0]))
        failure.value.close()
        assert urlopen(one.at(chosen[0])).read() == b"back"


def test_robots_is_never_transient() -> None:
    with Site(fault_rate=1.0) as site:
        site.robots("User-agent: *\nAllow: /\n")
        with urlopen(site.at("/robots.txt")) as answer:
            assert answer.status == 200


def test_latency_and_delay_answer_all_the_same() -> None:
    with Site(latency=0.01) as site:
        assert urlopen(site.page("/a", "late", delay=0.001)).read() == b"late"


def test_closing_drops_held_and_idle_connections() -> None:
    site = Site().start()
    site.page("/idle", "done")
    site.hold("/held")
    idle, held = (HTTPConnection("127.0.0.1", site.port, timeout=10) for _ in range(2))
    idle.request("GET", "/idle")
    idle.getresponse().read()
    held.request("GET", "/held")
    site.wait_for("/held")
    site.close()
    site.close()
    with pytest.raises(OSError, match=r"without response|reset"):
        held.getresponse()
    idle.close()
    held.close()


def test_documents_differ_by_title_and_repeat_by_seed() -> None:
    assert prose("a") == prose("a") != prose("b")
    assert document("A & B", links=["/x?a=1&b=2"]).count("&amp;") == 4
