"""Searches over HTTP with providers that are real servers: the chain, ranks, secrets, the list."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.service.conftest import Api, open_service
from tests.service.search.stubs import KEY, Result, stubs
from tests.site.server import Site
from webdata_nb.contract.choices import ENGINES
from webdata_nb.contract.local import SessionSettings

LEASE = {"X-Webdata-Lease": "l1"}


def every(*providers: str) -> dict[str, tuple[str, ...]]:
    """Let every engine ask these."""
    return dict.fromkeys(ENGINES, providers)


class Town:
    """Stubs of providers, and the settings that lead to them."""

    def __init__(self, api: Api, site: Site) -> None:
        self.api, self.site, self.stubs = api, site, stubs()

    def access(self, name: str, prefix: str = "") -> dict[str, str]:
        stub = self.stubs[name]
        stub.path = prefix + stub.path
        url = stub.on(self.site)
        return {"url": url, "key": KEY} if stub.keyed else {"url": url}

    async def bind(
        self, engines: Mapping[str, Sequence[str]], providers: Mapping[str, Any]
    ) -> None:
        await self.api.http.put("/local/leases/l1", json={})
        whole = {
            **every("local"),
            **engines,
        }
        settings = {"engines": whole, "providers": providers}
        bound = await self.api.http.put("/local/leases/l1/settings", json=settings)
        assert bound.status_code == 204, bound.text

    async def search(self, **body: Any) -> Any:
        job_id = await self.api.start_job("search", {"query": "q", **body}, headers=LEASE)
        return await self.api.wait_for_end("search", job_id)


@pytest.fixture
def town(api: Api, site: Site) -> Town:
    return Town(api, site)


def pages(site: Site, count: int) -> list[Result]:
    return [Result(site.at(f"/page/{n}"), f"Page {n}", f"About {n}") for n in range(1, count + 1)]


def article(number: int) -> str:
    return f"<title>Page {number}</title><main><h1>Page {number}</h1><p>Text of it.</p></main>"


async def test_the_first_is_limited_the_second_empty_the_third_answers(town: Town) -> None:
    brave, searxng = town.stubs["brave"], town.stubs["searxng"]
    brave.other = lambda _request: web.Response(status=429, headers={"Retry-After": "30"})
    town.stubs["marginalia"].served = pages(town.site, 3)
    providers = {
        "brave": town.access("brave"),
        "searxng": town.access("searxng", "/own"),
        "marginalia": town.access("marginalia", "/m"),
    }
    lists = {"engine_one": ["serper", "brave", "searxng"], "engine_two": ["marginalia"]}
    await town.bind(lists, providers)
    reply = await town.search(formats=[])
    assert reply["status"] == "completed"
    assert [
        (each["provider"], each["status"], each["results_count"])
        for each in reply["fallback_chain"]
    ] == [("brave", "rate_limited", 0), ("searxng", "empty", 0), ("marginalia", "ok", 3)]
    assert all(each["elapsed_ms"] > 0 for each in reply["fallback_chain"])
    assert (reply["engine_requested"], reply["engine_used"]) == ("engine_one", "engine_two")
    assert (reply["provider_used"], reply["fallback_used"]) == ("marginalia", True)
    assert [row["rank"] for row in reply["data"]] == [1, 2, 3]
    assert reply["providers_usable"] == ["brave", "searxng", "marginalia", "local"]
    assert reply["providers_unusable"] == {"serper": "no key: set WEBDATA_SERPER_KEY"}
    # The next search leaves the limited one alone, and says so.
    again = await town.search(formats=[])
    assert again["fallback_chain"][0]["elapsed_ms"] == 0
    assert "rests" in again["fallback_chain"][0]["detail"]
    assert (len(brave.requests), len(searxng.requests)) == (1, 2)


async def test_job_fails_with_reasons_when_all_providers_fail(town: Town) -> None:
    for name in ("brave", "searxng"):
        town.stubs[name].other = lambda _request: web.Response(status=500, text=KEY)
    providers = {"brave": town.access("brave"), "searxng": town.access("searxng")}
    lists = every("brave", "searxng")
    await town.bind(lists, providers)
    reply = await town.search(formats=[])
    assert (reply["status"], reply["total_results"]) == ("failed", 0)
    said = 'it failed (status 500); it says "***"'
    assert f"brave: error ({said}), searxng: error ({said})" in reply["error"]
    assert "webdata doctor" in reply["error"]
    assert [each["status"] for each in reply["fallback_chain"]] == ["error", "error"]
    assert (reply["engine_used"], reply["provider_used"]) == (None, None)


async def test_job_fails_without_usable_providers(town: Town) -> None:
    await town.bind(every("serper"), {})
    reply = await town.search(formats=[])
    assert reply["status"] == "failed"
    assert "no search provider is usable" in reply["error"]
    assert reply["providers_unusable"] == {"serper": "no key: set WEBDATA_SERPER_KEY"}


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [1, 10, 50])
async def test_ranks_are_exact_after_failures_and_retries(town: Town, wanted: int) -> None:
    stub = town.stubs["searxng"]
    served = pages(town.site, 70)
    # Doubles in other spellings take no rank, wherever they stand.
    stub.served = [each for one in served for each in (one, Result(f"{one.url}/#x", "again", ""))]
    busy: set[str] = set()

    def page(request: web.BaseRequest) -> web.StreamResponse:
        number = int(request.path.rsplit("/", 1)[1])
        if number % 5 == 0:
            return web.Response(status=404)
        if number % 3 == 0 and request.path not in busy:
            busy.add(request.path)
            return web.Response(status=503)
        return web.Response(text=article(number), content_type="text/html")

    town.site.under("/page/", page)
    await town.bind({"engine_one": ["searxng"]}, {"searxng": town.access("searxng")})
    reply = await town.search(num_results=wanted)
    rows = reply["data"]
    assert (reply["status"], reply["total_results"]) == ("completed", wanted)
    assert reply["completed_results"] == wanted
    assert [row["rank"] for row in rows] == list(range(1, wanted + 1))
    assert [row["url"] for row in rows] == [one.url for one in served[:wanted]]
    assert len({row["id"] for row in rows}) == wanted
    for number, row in enumerate(rows, start=1):
        if number % 5:
            assert (row["success"], row["scraped"]) == (True, True)
            assert f"Page {number}" in row["markdown"]
            assert "error" not in row
        else:
            assert (row["success"], row["scraped"]) == (False, False)
            assert row["error"] == "HTTP 404 Not Found"
            assert "markdown" not in row


async def test_every_option_reaches_the_result_pages_and_none_the_provider(town: Town) -> None:
    stub = town.stubs["searxng"]
    stub.served = pages(town.site, 1)
    body = (
        "<title>T</title><nav><a href='/nav'>Nav words</a></nav>"
        "<main><h1>Head</h1><p>Main words, quite a few of them, in a sentence of its own.</p>"
        "<a href='/in'>in</a><img src='/i.png' alt='pic'></main>"
        '<script type="application/ld+json">{"@type": "Thing", "name": "N"}</script>'
    )
    town.site.page("/page/1", body)
    await town.bind({"engine_one": ["searxng"]}, {"searxng": town.access("searxng")})
    formats = ["markdown", "html", "raw_html", "links", "images", "headings", "structured_data"]
    reply = await town.search(
        formats=formats,
        only_main_content=False,
        format_options={"markdown": {"mode": "full"}},
        headers={"X-Own": "h-canary"},
        cookies={"own": "c-canary"},
    )
    [row] = reply["data"]
    assert set(formats) | {"metadata"} <= set(row)
    assert "Nav words" in row["markdown"]
    assert town.site.at("/in") in row["links"]
    assert row["images"][0]["alt"] == "pic"
    assert row["headings"][0]["text"] == "Head"
    [visit] = town.site.hits("/page/1")
    assert visit.headers["X-Own"] == "h-canary"
    assert visit.headers["Cookie"] == "own=c-canary"
    assert stub.requests
    assert "canary" not in str(stub.requests)
    assert "canary" not in str(reply)
    narrow = await town.search(only_main_content=True)
    assert "Nav words" not in narrow["data"][0]["markdown"]
    assert set(narrow["data"][0]).isdisjoint(set(formats) - {"markdown"})


async def test_safe_search_language_and_country_reach_the_provider(town: Town) -> None:
    stub = town.stubs["searxng"]
    stub.served = pages(town.site, 10)
    await town.bind({"engine_one": ["searxng"]}, {"searxng": town.access("searxng")})
    await town.search(formats=[], language="de", country="AT", safe_search=True)
    [request] = stub.requests
    assert request.parameters["language"] == "de-AT"
    assert request.parameters["safesearch"] == "2"


async def test_no_key_is_ever_shown(
    tmp_path: Path, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    texts: list[str] = []
    async with open_service(tmp_path / "data") as api:
        town = Town(api, site)
        # Providers that hold up the key to whoever asks, in bodies and redirects.
        for number, name in enumerate(("mojeek", "brave", "serper", "exa")):
            town.stubs[name].other = _mirror(number)
        providers = {
            name: town.access(name, f"/{name}") for name in ("mojeek", "brave", "serper", "exa")
        }
        town.stubs["tavily"].served = pages(site, 1)
        providers["tavily"] = town.access("tavily", "/tavily")
        await town.bind({"engine_one": list(providers)}, providers)
        reply = await town.search(formats=[])
        assert reply["provider_used"] == "tavily", reply
        for path in (
            f"/v1/search/{reply['job_id']}",
            f"/v1/search/{reply['job_id']}/events",
            f"/v1/search/{reply['job_id']}/export?format=json",
            f"/v1/search/{reply['job_id']}/export?format=csv",
            "/v1/engines",
            "/v1/jobs",
        ):
            answer = await api.http.get(path, headers=LEASE)
            assert answer.status_code == 200, path
            texts.append(answer.text)
        bad = {"providers": {"brave": {"key": KEY, "colour": KEY}}}
        refused = await api.http.put("/local/leases/l1/settings", json=bad)
        assert refused.status_code == 422
        texts += [refused.text, repr(SessionSettings.model_validate({"providers": providers}))]
    texts.append(caplog.text)
    assert [text for text in texts if KEY in text] == []


def _mirror(number: int) -> Any:
    answers = (
        lambda request: web.json_response({"response": {"status": f"ERROR: {request.parameters}"}}),
        lambda _request: web.Response(status=500, text=KEY, reason=KEY),
        lambda _request: web.Response(status=302, headers={"Location": f"http://x.test/{KEY}"}),
        lambda _request: web.Response(text=f"<html>{KEY}", content_type="text/html"),
    )
    return answers[number]


async def test_engine_list_shows_usable_providers(town: Town) -> None:
    await town.bind(
        {"engine_one": ["serper", "brave", "searxng", "local"]},
        {"brave": {"key": KEY}, "searxng": {"url": "ftp://nowhere"}},
    )
    answer = await town.api.get("/v1/engines", headers=LEASE)
    rows = [row for row in answer["engines"] if row["engine"] == "engine_one"]
    assert [(row["position"], row["provider"], row["usable"]) for row in rows] == [
        (1, "serper", False),
        (2, "brave", True),
        (3, "searxng", False),
        (4, "local", False),
    ]
    assert "never answers instead of the web" in rows[3]["why"]
    assert rows[0]["why"] == "no key: set WEBDATA_SERPER_KEY"
    assert rows[2]["why"] == "WEBDATA_SEARXNG_URL must be an http:// or https:// URL with a host"
    assert rows[1]["why"] is None
    assert {row["engine"] for row in answer["engines"]} == {
        "engine_one",
        "engine_two",
        "engine_three",
    }


async def test_engine_list_shows_resting_providers(town: Town) -> None:
    town.stubs["searxng"].other = lambda _request: web.Response(
        status=429, headers={"Retry-After": "99"}
    )
    await town.bind({"engine_one": ["searxng", "local"]}, {"searxng": town.access("searxng")})
    await town.search(formats=[])
    answer = await town.api.get("/v1/engines", headers=LEASE)
    row = answer["engines"][0]
    assert (row["provider"], row["usable"]) == ("searxng", True)
    assert row["why"] == "rests after: rate_limited"
    assert 0 < row["resting_s"] <= 99
    # Rest belongs to this address and key alone.
    await town.bind({"engine_one": ["searxng"]}, {"searxng": {"url": town.site.at("/other")}})
    answer = await town.api.get("/v1/engines", headers=LEASE)
    assert answer["engines"][0]["resting_s"] == 0


async def test_changed_session_settings_apply_at_once(town: Town) -> None:
    for name, count in (("searxng", 1), ("marginalia", 2)):
        town.stubs[name].served = pages(town.site, count)
    access = {
        "searxng": town.access("searxng", "/s"),
        "marginalia": town.access("marginalia", "/m"),
    }
    for name in ("searxng", "marginalia", "searxng"):
        await town.bind(every(name), access)
        reply = await town.search(formats=[])
        assert (reply["provider_used"], reply["providers_usable"]) == (name, [name])
    # An address alone makes another provider of the same name.
    other = {"searxng": {"url": town.site.at("/nowhere")}}
    await town.bind(every("searxng"), other)
    assert (await town.search(formats=[]))["status"] == "failed"


async def test_unknown_provider_is_reported_by_the_engine_list(town: Town) -> None:
    await town.bind({"engine_one": ["nowhere"]}, {})
    answer = await town.api.get("/v1/engines", headers=LEASE, status=422)
    assert "nowhere" in answer["detail"][0]["msg"]


async def test_the_operators_providers_serve_everybody(tmp_path: Path, site: Site) -> None:
    stub = stubs()["brave"]
    stub.served = pages(site, 2)
    operator = SessionSettings.model_validate(
        {
            "engines": every("brave"),
            "providers": {"brave": {"url": stub.on(site), "key": KEY}},
        }
    )
    async with open_service(tmp_path / "data", providers=operator) as api:
        reply = await api.run_job("search", query="q", formats=[])
        assert (reply["provider_used"], reply["total_results"]) == ("brave", 2)
        # A session's own settings go before them, name by name.
        await api.http.put("/local/leases/l1", json={})
        own = {"providers": {"brave": {"url": site.at("/nothing-there"), "key": KEY}}}
        assert (await api.http.put("/local/leases/l1/settings", json=own)).status_code == 204
        job_id = await api.start_job("search", {"query": "q", "formats": []}, headers=LEASE)
        assert (await api.wait_for_end("search", job_id))["status"] == "failed"


async def test_rows_survive_a_restart_as_they_were_ranked(tmp_path: Path, site: Site) -> None:
    stub = stubs()["searxng"]
    stub.served = pages(site, 8)
    operator = SessionSettings.model_validate(
        {
            "engines": every("searxng"),
            "providers": {"searxng": {"url": stub.on(site)}},
        }
    )
    for number in range(1, 9):
        site.page(f"/page/{number}", article(number))
    gate = site.hold("/page/7")
    async with open_service(tmp_path / "data", providers=operator) as api:
        job_id = await api.start_job("search", {"query": "q", "num_results": 8})
        await asyncio.to_thread(site.wait_for, "/page/7")
        before = await api.get(f"/v1/search/{job_id}")
        assert before["total_results"] == 8
    gate.release()
    stub.served = list(reversed(stub.served))  # the engine has changed its mind meanwhile
    async with open_service(tmp_path / "data", providers=operator) as api:
        after = await api.wait_for_end("search", job_id)
    assert len(stub.requests) == 1
    assert after["status"] == "completed"
    assert [(row["rank"], row["url"]) for row in after["data"]] == [
        (row["rank"], row["url"]) for row in before["data"]
    ]
    assert all(row["scraped"] for row in after["data"])
    assert after["fallback_chain"] == before["fallback_chain"]


async def test_a_status_may_be_waited_for(town: Town) -> None:
    stub = town.stubs["searxng"]
    stub.served = pages(town.site, 2)
    await town.bind({"engine_one": ["searxng"]}, {"searxng": town.access("searxng")})
    start = await town.api.post("/v1/search", {"query": "q", "formats": []}, headers=LEASE)
    status = await town.api.get(f"/v1/search/{start['job_id']}?wait=30")
    assert (status["status"], len(status["data"])) == ("completed", 2)
    again = await town.api.get(f"/v1/search/{start['job_id']}?wait=30")
    assert again["data"] == status["data"]
    for wrong in ("31", "-1", "soon", "1.5"):
        path = f"/v1/search/{start['job_id']}?wait={wrong}"
        [problem] = (await town.api.get(path, status=422))["detail"]
        assert problem["loc"] == ["query", "wait"]


async def test_a_start_may_wait_for_its_result(town: Town) -> None:
    stub = town.stubs["searxng"]
    stub.served = pages(town.site, 2)
    await town.bind({"engine_one": ["searxng"]}, {"searxng": town.access("searxng")})
    body = {"query": "q", "formats": [], "num_results": 2}
    named = {**LEASE, "Idempotency-Key": "once"}
    start = await town.api.post("/v1/search?wait=30", body, headers=named)
    assert (start["success"], start["status"]) == (True, "started")
    status = await town.api.get(f"/v1/search/{start['job_id']}")
    assert (status["status"], len(status["data"])) == ("completed", 2)
    assert start["result"] == status
    again = await town.api.post("/v1/search?wait=30", body, headers=named)
    assert again == start
    assert len(stub.requests) == 1
    bare = await town.api.post("/v1/search?wait=30&include_data=false", body, headers=LEASE)
    assert (bare["result"]["total_results"], bare["result"]["data"]) == (2, [])
    jobs = (await town.api.get("/v1/jobs"))["jobs"]
    for wrong in ("wait=31", "include_data=maybe"):
        [problem] = (await town.api.post(f"/v1/search?{wrong}", body, status=422))["detail"]
        assert problem["loc"] == ["query", wrong.partition("=")[0]]
    assert (await town.api.get("/v1/jobs"))["jobs"] == jobs


async def test_a_start_that_waits_brings_the_pages_too(town: Town) -> None:
    town.stubs["searxng"].served = pages(town.site, 2)
    for number in (1, 2):
        town.site.page(f"/page/{number}", article(number))
    await town.bind({"engine_one": ["searxng"]}, {"searxng": town.access("searxng")})
    await town.api.run_job(
        "crawl", url=town.site.at("/page/1"), max_pages=1
    )  # starts a page worker
    body = {"query": "q", "num_results": 2}
    start = await town.api.post("/v1/search?wait=30", body, headers=LEASE)
    assert start["result"] == await town.api.get(f"/v1/search/{start['job_id']}")
    assert ["Text of it." in row["markdown"] for row in start["result"]["data"]] == [True, True]


async def test_a_start_says_that_its_search_failed(town: Town) -> None:
    town.stubs["searxng"].other = lambda _request: web.Response(status=429)
    await town.bind(every("searxng"), {"searxng": town.access("searxng")})
    start = await town.api.post("/v1/search?wait=30", {"query": "q", "formats": []}, headers=LEASE)
    assert start["result"]["status"] == "failed"
    assert [entry["status"] for entry in start["result"]["fallback_chain"]] == ["rate_limited"]


async def slow_provider(town: Town) -> asyncio.Event:
    """Bind the engine to a provider that answers once the event is set."""
    released = asyncio.Event()

    async def slow(_request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.to_thread(asyncio.run_coroutine_threadsafe(released.wait(), loop).result)
        return web.json_response({"results": []})

    loop = asyncio.get_running_loop()
    town.stubs["searxng"].handler = slow
    await town.bind({"engine_one": ["searxng"]}, {"searxng": town.access("searxng")})
    return released


async def test_a_start_goes_on_when_its_time_to_wait_is_up(town: Town) -> None:
    released = await slow_provider(town)
    start = await town.api.post("/v1/search?wait=1", {"query": "q", "formats": []}, headers=LEASE)
    assert "result" not in start
    released.set()
    assert (await town.api.wait_for_end("search", start["job_id"]))["status"] == "completed"


async def test_a_wait_ends_when_its_time_is_up(town: Town) -> None:
    released = await slow_provider(town)
    start = await town.api.post("/v1/search", {"query": "q", "formats": []}, headers=LEASE)
    status = await town.api.get(f"/v1/search/{start['job_id']}?wait=1")
    assert status["status"] in {"pending", "running"}
    released.set()
    await town.api.wait_for_end("search", start["job_id"])


@pytest.mark.both_stores
async def test_characters_that_no_store_takes_cost_no_result(town: Town) -> None:
    odd = "Page \0 of \ud83d"
    searxng = town.stubs["searxng"]
    for number in (1, 2):
        town.site.page(f"/page/{number}", article(number))
    searxng.served = [
        Result(town.site.at("/page/1"), odd, odd),
        Result(town.site.at("/page/2?a=\0\ud83d"), odd, odd),
        Result("http://\0\ud83d.test/", odd, odd),
        Result("http:///\0", odd, odd),
    ]
    await town.bind(every("searxng"), {"searxng": town.access("searxng")})
    for formats in ([], ["markdown"]):
        found = await town.search(formats=formats)
        assert found["status"] == "completed", found
        assert found["data"][0]["url"] == town.site.at("/page/1")
        assert found["data"][0]["snippet"].endswith("of \ufffd")
        export = await town.api.http.get(
            f"/v1/search/{found['job_id']}/export", params={"format": "csv"}
        )
        assert export.status_code == 200
