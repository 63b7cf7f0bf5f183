"""The contract suite of search providers, against stubs with the replies of the real APIs."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import ip_network
from typing import Any
from unittest.mock import Mock

import orjson
import pytest
from aiohttp import web

from tests.service.search.stubs import KEY, Result, Stub, StubRequest, results, stubs, wiki_address
from tests.site.server import Site
from webdata_nb.contract.local import Access
from webdata_nb.contract.url_keys import result_key
from webdata_nb.service.runtime.fair_scheduler import on_behalf_of
from webdata_nb.service.search import catalog
from webdata_nb.service.search.breaker import ProviderBreakers
from webdata_nb.service.search.catalog import ProviderCatalog, SearchSettings
from webdata_nb.service.search.chain import ChainLink, SearchOutcome, search_providers
from webdata_nb.service.search.providers import http_provider
from webdata_nb.service.search.providers.api import ResultPage, SearchProvider, SearchQuery
from webdata_nb.service.search.providers.ddgs import DdgsProvider
from webdata_nb.service.search.providers.http_provider import ProviderQueues
from webdata_nb.service.web import fetch
from webdata_nb.service.web.egress_policy import EgressPolicy, is_local_host
from webdata_nb.service.web.fetch import Fetcher
from webdata_nb.service.work.engines import EgressRoute

QUERY = SearchQuery("web frames & more", 10, "en", None, safe_search=False, account_id="a")
NAMES = sorted(stubs())
SCRAPED = [name for name in NAMES if name.startswith("ddgs.")]
JSON = [name for name in NAMES if name not in SCRAPED]
# One page, and no more than so many results on it.
MOST = {"tavily": 20}


@dataclass
class Bench:
    """A provider wired to its stub."""

    stub: Stub
    provider: SearchProvider
    breakers: ProviderBreakers

    async def search(self, query: SearchQuery = QUERY) -> SearchOutcome:
        name = self.provider.name
        return await search_providers(
            [ChainLink("engine_one", name)], {name: self.provider}, query, self.breakers
        )

    async def status(self, query: SearchQuery = QUERY) -> tuple[str, str]:
        """Return how the one attempt ended, and why."""
        outcome = await self.search(query)
        [attempt] = outcome.attempts
        assert KEY not in f"{outcome!r} {self.provider!r} {vars(self.provider)!r}"
        return attempt.status, attempt.detail or ""

    @property
    def request_params(self) -> dict[str, Any]:
        return dict(self.stub.requests[-1].parameters)


@pytest.fixture
def stub(request: pytest.FixtureRequest) -> Stub:
    return stubs()[request.param]


TRUST = ssl.create_default_context()


@pytest.fixture(autouse=True)
def without_pacing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody wait for turns, which have tests of their own, nor read certificates each time."""
    monkeypatch.setattr(fetch, "tls_context", lambda _bundle: TRUST)
    for api in catalog.APIS.values():
        monkeypatch.setattr(
            api, "rate_limit", replace(api.rate_limit, interval_s=0.0), raising=False
        )


@pytest.fixture
async def bench(stub: Stub, site: Site) -> AsyncIterator[Bench]:
    access = Access(url=stub.on(site), key=KEY if stub.keyed else None)
    policy = EgressPolicy("local")
    async with Fetcher(policy, user_agent="webdata-test/1") as fetcher:
        opened = ProviderCatalog(_UnusedProvider(), ProviderQueues()).open_providers(
            [stub.name], SearchSettings({}, {stub.name: access}), lambda _: fetcher
        )
        yield Bench(stub, opened[stub.name], ProviderBreakers())


class _UnusedProvider:
    name = identity = "local"

    async def fetch_page(self, query: SearchQuery, number: int) -> ResultPage:
        raise AssertionError((query, number))


each = pytest.mark.parametrize("stub", NAMES, indirect=True)


@each
async def test_results_are_in_organic_order_with_own_urls(bench: Bench) -> None:
    bench.stub.served = results(7)
    outcome = await bench.search()
    [attempt] = outcome.attempts
    assert (attempt.provider, attempt.status) == (bench.stub.name, "ok"), attempt.detail
    assert [found.url for found in outcome.results] == [address(bench, one) for one in results(7)]
    assert [found.title for found in outcome.results] == [f"Title {n} & more" for n in range(1, 8)]
    assert [found.snippet for found in outcome.results] == [f"Snippet of {n}" for n in range(1, 8)]


def address(bench: Bench, result: Any) -> str:
    return wiki_address(result) if bench.stub.name == "mediawiki" else str(result.url)


@pytest.mark.parametrize("stub", JSON, indirect=True)
async def test_half_an_emoji_in_a_reply_is_replaced(bench: Bench) -> None:
    """Snippets are cut anywhere; such JSON is legal, and most parsers refuse all of it."""
    bench.stub.served = [Result("https://x.test/1", "Cut \ud83d", "Words \ude00 and more")]
    outcome = await bench.search()
    assert outcome.attempts[0].status == "ok", outcome.attempts
    assert [(each.title, each.snippet) for each in outcome.results] == [
        ("Cut \ufffd", "Words \ufffd and more")
    ]


@each
async def test_pages_are_requested_until_there_are_enough_results(bench: Bench) -> None:
    bench.stub.served = results(120)
    for wanted in (1, 10, 50):
        outcome = await bench.search(replace(QUERY, num_results=wanted))
        expected = min(wanted, MOST.get(bench.stub.name, wanted))
        assert [found.url for found in outcome.results] == [
            address(bench, one) for one in results(expected)
        ]
        assert len({result_key(found.url) for found in outcome.results}) == expected


@each
async def test_provider_with_few_results_returns_all(bench: Bench) -> None:
    bench.stub.served = results(23)
    outcome = await bench.search(replace(QUERY, num_results=50))
    assert len(outcome.results) == min(23, MOST.get(bench.stub.name, 23))
    assert len(bench.stub.requests) <= 9  # Startpage is asked for a token before each page


@each
async def test_no_results_is_status_empty(bench: Bench) -> None:
    assert await bench.status() == ("empty", "")


@each
async def test_query_text_is_sent_unchanged(bench: Bench) -> None:
    text = 'naïve "a & b" 100% +x 日本'
    bench.stub.served = results(3)
    await bench.search(replace(QUERY, text=text))
    assert text in bench.request_params.values()


def _answered(_request: StubRequest, **options: Any) -> web.Response:
    return web.Response(**options)


STATUSES = {429: "rate_limited", 500: "error", 502: "error", 504: "timeout", 404: "error"}


@each
async def test_http_statuses(bench: Bench) -> None:
    key = KEY if bench.stub.keyed else ""
    for status, expected in STATUSES.items():
        bench.stub.other = partial(_answered, status=status, text=f"sorry {key} for that")
        bench.breakers = ProviderBreakers()
        reason = "sorry *** for that" if key else "sorry for that"
        outcome, detail = await bench.status()
        assert (outcome, detail.endswith(f'; it says "{reason}"')) == (expected, True), detail
        assert "HTTP" not in detail
        bench.stub.other = partial(_answered, status=status, text="<title>no</title>")
        bench.breakers = ProviderBreakers()
        assert await bench.status() == (expected, detail.partition(";")[0])


INVALID_KEY = [
    {"message": "Invalid API key."},
    {"error": "Invalid API key."},
    {"error": {"message": "Invalid API key.", "code": "x"}},
    {"detail": {"error": "Invalid API key."}},
    {"errors": [{"detail": "Invalid API key."}]},
    "Invalid API key.",
]


@pytest.mark.parametrize("stub", JSON, indirect=True)
@pytest.mark.parametrize("body", INVALID_KEY)
async def test_refused_key_is_status_auth_whatever_the_http_status(bench: Bench, body: Any) -> None:
    for status in (200, 400, 401, 403, 422, 429, 500):
        bench.breakers = ProviderBreakers()
        text = body if isinstance(body, str) else orjson.dumps(body).decode()
        bench.stub.other = partial(_answered, text=text, status=status)
        expected = 'the key is not accepted; it says "Invalid API key."'
        assert await bench.status() == ("auth", expected), status


@pytest.mark.parametrize("stub", ["serper", "brave", "exa"], indirect=True)
async def test_ended_subscription_is_named(bench: Bench) -> None:
    reply = {"error": {"code": 7, "message": "Your subscription expired on 2026-01-01"}}
    bench.stub.other = lambda _request: web.json_response(reply, status=403)
    status, detail = await bench.status()
    assert (status, detail.partition(";")[0]) == ("auth", "the subscription has ended")
    assert "Your subscription expired on 2026-01-01" in detail


@pytest.mark.parametrize("stub", JSON, indirect=True)
async def test_query_that_an_error_quotes_does_not_decide_its_meaning(bench: Bench) -> None:
    query = replace(QUERY, text="invalid api key")
    for text in ("cannot search for invalid api key", 'bad query "invalid api key"'):
        bench.breakers = ProviderBreakers()
        bench.stub.other = partial(_answered, text=text, status=400)
        status, detail = await bench.status(query)
        assert (status, text.split()[0] in detail) == ("error", True)


@pytest.mark.parametrize("stub", ["tavily"], indirect=True)
async def test_tavily_limit_of_characters(bench: Bench) -> None:
    status, detail = await bench.status(replace(QUERY, text="x" * 401))
    assert (status, bench.stub.requests) == ("error", [])
    assert detail == "it takes queries of 400 characters at most; this one has 401 characters"
    reply = {"detail": {"error": "Query is too long. Max query length is 300 characters."}}
    bench.stub.other = lambda _request: web.json_response(reply, status=400)
    status, detail = await bench.status()
    assert (status, "300 characters" in detail) == ("error", True)
    # It says nothing about other queries.
    assert not bench.breakers.state(bench.provider.identity).circuit.failures


@pytest.mark.parametrize("stub", ["serper"], indirect=True)
async def test_error_with_status_200_is_no_empty_result(bench: Bench) -> None:
    for error, expected in {
        "index is down": "error",
        "Google hasn't returned any results for this query.": "empty",
    }.items():
        bench.breakers = ProviderBreakers()
        reply = {"organic": [], "error": error}
        bench.stub.other = partial(_answered, text=orjson.dumps(reply).decode())
        assert (await bench.status())[0] == expected


@each
async def test_retry_after_opens_circuit(bench: Bench) -> None:
    bench.stub.other = lambda _request: web.Response(status=429, headers={"Retry-After": "7"})
    assert (await bench.status())[0] == "rate_limited"
    assert 5 < bench.breakers.state(bench.provider.identity).circuit.remaining_s(loop_time()) <= 7
    before = len(bench.stub.requests)
    status, detail = await bench.status()
    assert (status, "rests" in detail, len(bench.stub.requests)) == ("rate_limited", True, before)


def loop_time() -> float:
    return asyncio.get_running_loop().time()


@each
async def test_forbidden_status(bench: Bench) -> None:
    key = KEY if bench.stub.keyed else "?"
    bench.stub.other = lambda _request: web.Response(status=401, text=f"bad key {key}")
    assert (await bench.status())[0] == "auth"


@each
async def test_redirect_is_not_followed(bench: Bench, other: Site) -> None:
    bench.stub.other = lambda _request: web.Response(status=302, headers={"Location": other.url})
    assert (await bench.status())[0] == "error"
    assert other.requests == ()


@pytest.fixture
def other() -> Iterator[Site]:
    with Site() as made:
        yield made


@pytest.mark.parametrize("stub", JSON, indirect=True)
async def test_html_instead_of_json_is_blocked(bench: Bench) -> None:
    page = "<html><title>Just a moment...</title></html>"
    bench.stub.other = lambda _request: web.Response(text=page, content_type="text/html")
    assert (await bench.status())[0] == "blocked"


@pytest.mark.parametrize("stub", JSON, indirect=True)
async def test_invalid_json_is_an_error(bench: Bench) -> None:
    for body in ('{"results": [', "", "[]", "null", '{"other": 1}', '"text"', "7"):
        bench.breakers = ProviderBreakers()
        bench.stub.other = partial(_answered, text=body, content_type="application/json")
        status, detail = await bench.status()
        assert status == "error", (body, detail)


@pytest.mark.parametrize("stub", JSON, indirect=True)
async def test_truncated_reply_is_an_error(bench: Bench) -> None:
    async def cut(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"results": [')
        assert request.transport is not None
        request.transport.close()
        return response

    bench.stub.handler = cut
    status, detail = await bench.status()
    assert (status, detail) == ("error", "the connection broke off")


@each
async def test_oversized_reply_is_an_error(bench: Bench) -> None:
    body = b" " * (http_provider.LIMITS.wire_bytes + 1)
    bench.stub.other = lambda _request: web.Response(body=body, content_type="application/json")
    assert await bench.status() == ("error", "the answer is too large")


@each
async def test_slow_provider_is_a_timeout(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_provider, "REQUEST_TIMEOUT_S", 0.2)

    async def slow(_request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    bench.stub.handler = slow
    assert await bench.status() == ("timeout", "no answer in time")


@each
async def test_unreachable_provider_is_an_error(bench: Bench, site: Site) -> None:
    site.close()
    status, detail = await bench.status()
    assert (status, KEY in detail) == ("error", False)


@each
async def test_cancelled_search_releases_resources(bench: Bench) -> None:
    loop, started = asyncio.get_running_loop(), asyncio.Event()

    async def slow(_request: web.BaseRequest) -> web.StreamResponse:
        loop.call_soon_threadsafe(started.set)
        await asyncio.Event().wait()
        return web.Response()

    bench.stub.handler = slow
    task = asyncio.create_task(bench.search())
    async with asyncio.timeout(60):
        await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@each
async def test_rows_without_url_are_skipped(bench: Bench) -> None:
    good = results(2)
    bench.stub.served = [good[0], replace(good[1], url="", title=""), *results(2, first=5)]
    if bench.stub.name == "mediawiki":
        bench.stub.served.pop(1)
    outcome = await bench.search()
    assert [found.url for found in outcome.results] == [
        address(bench, one) for one in (good[0], *results(2, first=5))
    ]


# What each one is asked, for the contract's options.

WISHES: dict[str, dict[str, Any]] = {
    "searxng": {"language": "de-AT", "safesearch": "2", "pageno": "1", "categories": "general"},
    "brave": {
        "search_lang": "de",
        "country": "AT",
        "safesearch": "strict",
        "count": "10",
        "offset": "0",
        "result_filter": "web",
    },
    "serper": {"hl": "de", "gl": "at", "num": 10, "page": 1},
    "tavily": {"country": "austria", "max_results": 10, "topic": "general"},
    "exa": {"userLocation": "AT", "moderation": True, "numResults": 10},
    "mojeek": {
        "lb": "DE",
        "lbb": "10",
        "rb": "AT",
        "rbb": "10",
        "safe": "1",
        "t": "10",
        "s": "1",
        "fmt": "json",
    },
    "marginalia": {"nsfw": "1", "count": "10", "page": "1"},
    "mediawiki": {"srlimit": "10", "sroffset": "0", "maxlag": "5", "formatversion": "2"},
    "ddgs.duckduckgo": {"l": "at-de"},
    "ddgs.brave": {"source": "web"},
    "ddgs.startpage": {"qsr": "de_AT", "qadf": "heavy"},
    "ddgs.yahoo": {},
    "ddgs.mojeek": {"safe": "1"},
}
COOKIES = {
    "ddgs.brave": {"at=at", "useLocation=0", "safesearch=strict"},
    "ddgs.mojeek": {"arc=at", "lb=de"},
}


@each
async def test_options_are_mapped_to_documented_parameters(bench: Bench) -> None:
    bench.stub.served = results(30)
    await bench.search(replace(QUERY, language="de", country="at", safe_search=True))
    wishes = WISHES[bench.stub.name]
    assert {name: bench.request_params.get(name) for name in wishes} == wishes
    cookies = set(bench.stub.requests[-1].headers.get("cookie", "").split("; ")) - {""}
    assert cookies == COOKIES.get(bench.stub.name, set())


@each
async def test_no_country_is_sent_by_default(bench: Bench) -> None:
    bench.stub.served = results(3)
    await bench.search()
    quiet = {"gl", "userLocation", "rb", "rbb"} | ({"country"} - _own_word(bench))
    assert quiet.isdisjoint(bench.request_params)


def _own_word(bench: Bench) -> set[str]:
    if bench.stub.name != "brave":
        return set()
    assert bench.request_params["country"] == "ALL"
    return {"country"}


@pytest.mark.parametrize("stub", ["brave"], indirect=True)
@pytest.mark.parametrize(
    ("language", "country", "lang", "where"),
    [
        ("ja", "jp", "jp", "JP"),
        ("zh-TW", "tw", "zh-hant", "TW"),
        ("pt-BR", "br", "pt-br", "BR"),
        ("fr-CA", "ca", "fr", "CA"),
        ("en", "gb", "en", "GB"),
        ("is", "is", "is", "ALL"),
    ],
)
async def test_brave_language_codes(
    bench: Bench, language: str, country: str, lang: str, where: str
) -> None:
    await bench.search(replace(QUERY, language=language, country=country))
    assert (bench.request_params["search_lang"], bench.request_params["country"]) == (lang, where)


@pytest.mark.parametrize("stub", ["brave"], indirect=True)
async def test_brave_refuses_long_queries_without_request(bench: Bench) -> None:
    for text in ("x" * 401, "x " * 51):
        status, detail = await bench.status(replace(QUERY, text=text))
        assert (status, "400 characters" in detail) == ("error", True)
    assert bench.stub.requests == []


@pytest.mark.parametrize("stub", ["brave"], indirect=True)
async def test_brave_rate_limit_headers(bench: Bench) -> None:
    bench.stub.other = lambda _request: web.Response(
        status=429,
        headers={
            "X-RateLimit-Limit": "1, 2000",
            "X-RateLimit-Remaining": "0, 0",
            "X-RateLimit-Reset": "1, 1419704",
        },
    )
    assert (await bench.status())[0] == "rate_limited"
    # The month is spent: an hour, the longest rest, until the next look.
    assert bench.breakers.state(bench.provider.identity).circuit.remaining_s(loop_time()) > 3000


@pytest.mark.parametrize("stub", ["brave", "serper", "tavily", "exa", "mojeek"], indirect=True)
async def test_wrong_key_is_status_auth(bench: Bench, site: Site) -> None:
    access = Access(url=site.at(bench.stub.path), key="wrong")
    async with Fetcher(EgressPolicy("local"), user_agent="t") as fetcher:
        choice = SearchSettings({}, {bench.stub.name: access})
        link = ChainLink("engine_one", bench.stub.name)
        opened = ProviderCatalog(_UnusedProvider(), ProviderQueues()).open_providers(
            [bench.stub.name], choice, lambda _: fetcher
        )
        outcome = await search_providers([link], opened, QUERY, ProviderBreakers())
    assert outcome.attempts[0].status == "auth"
    assert opened[bench.stub.name].identity != bench.provider.identity


@pytest.mark.parametrize("stub", ["mojeek"], indirect=True)
async def test_mojeek_limit_in_reply_with_status_200(bench: Bench) -> None:
    reply = {"response": {"status": "ERROR: Daily Limit Reached"}}
    bench.stub.other = lambda _request: web.json_response(reply)
    assert (await bench.status())[0] == "rate_limited"


@pytest.mark.parametrize("stub", ["tavily"], indirect=True)
@pytest.mark.parametrize("status", [432, 433])
async def test_tavily_limit_statuses(bench: Bench, status: int) -> None:
    bench.stub.other = lambda _request: web.json_response({"detail": {}}, status=status)
    assert (await bench.status())[0] == "rate_limited"


@pytest.mark.parametrize("stub", ["marginalia"], indirect=True)
async def test_marginalia_exhausted_key(bench: Bench) -> None:
    bench.stub.other = lambda _request: web.Response(status=503)
    assert (await bench.status())[0] == "rate_limited"


@pytest.mark.parametrize("stub", ["mediawiki"], indirect=True)
async def test_mediawiki_maxlag_is_rate_limited(bench: Bench) -> None:
    reply = {"error": {"code": "maxlag", "info": "Waiting for a database server"}}
    bench.stub.other = lambda _request: web.json_response(reply, headers={"Retry-After": "5"})
    assert (await bench.status())[0] == "rate_limited"


@pytest.mark.parametrize("stub", ["mediawiki"], indirect=True)
async def test_mediawiki_host_follows_language(bench: Bench, site: Site) -> None:
    access = Access(url=site.at("/w/api.php?x={language}"))
    async with Fetcher(EgressPolicy("local"), user_agent="t") as fetcher:
        link = ChainLink("engine_one", "mediawiki")
        chosen = SearchSettings({}, {"mediawiki": access})
        opened = ProviderCatalog(_UnusedProvider(), ProviderQueues()).open_providers(
            ["mediawiki"], chosen, lambda _: fetcher
        )
        await search_providers([link], opened, replace(QUERY, language="pt-BR"), ProviderBreakers())
    assert bench.request_params["x"] == "pt"


@pytest.mark.parametrize("stub", ["searxng"], indirect=True)
@pytest.mark.parametrize(
    ("reasons", "status"),
    [
        ([["bing", "too many requests"], ["google", "timeout"]], "rate_limited"),
        ([["bing", "Suspended: too many requests"]], "rate_limited"),
        ([["google", "CAPTCHA"]], "blocked"),
        ([["bing", "timeout"]], "timeout"),
        ([["bing", "unexpected crash"]], "error"),
        ([], "empty"),
        (5, "empty"),
        ({"bing": "timeout"}, "empty"),
    ],
)
async def test_searxng_reports_problem_of_its_engines(
    bench: Bench, reasons: object, status: str
) -> None:
    reply = {"query": "q", "results": [], "unresponsive_engines": reasons}
    bench.stub.other = lambda _request: web.json_response(reply)
    assert (await bench.status())[0] == status


@pytest.mark.parametrize("stub", ["searxng"], indirect=True)
async def test_searxng_without_json_explains_setting(bench: Bench) -> None:
    bench.stub.other = lambda _request: web.Response(status=403)
    status, detail = await bench.status()
    assert (status, "search.formats" in detail) == ("blocked", True)


@pytest.mark.parametrize("stub", SCRAPED, indirect=True)
@pytest.mark.parametrize(("code", "status"), [(202, "rate_limited"), (403, "rate_limited")])
async def test_ddgs_rate_limit_statuses(bench: Bench, code: int, status: str) -> None:
    bench.stub.other = lambda _request: web.Response(
        status=code, text="<html>", content_type="text/html"
    )
    assert (await bench.status())[0] == status


@pytest.mark.parametrize("stub", SCRAPED, indirect=True)
async def test_ddgs_captcha_is_blocked(bench: Bench) -> None:
    page = '<div class="anomaly-modal__title">Select all squares</div>'
    bench.stub.other = lambda _request: web.Response(text=page, content_type="text/html")
    assert await bench.status() == ("blocked", "it asks for a captcha")


UNREADABLE = {
    "a comment alone": "<!-- nothing -->",
    "a declared encoding": '<?xml version="1.0" encoding="utf-16"?><html><p>x</p></html>',
}


@pytest.mark.parametrize("stub", SCRAPED, indirect=True)
@pytest.mark.parametrize("page", UNREADABLE.values(), ids=UNREADABLE)
async def test_ddgs_page_that_the_library_cannot_read_is_an_error(bench: Bench, page: str) -> None:
    bench.stub.other = lambda _request: web.Response(text=page, content_type="text/html")
    status, detail = await bench.status()
    assert (status, detail.partition(" (")[0]) == ("error", "its page cannot be read")


@pytest.mark.parametrize("stub", ["ddgs.mojeek"], indirect=True)
async def test_ddgs_serves_accounts_in_turn(bench: Bench) -> None:
    """The library's threads send on behalf of the account that searches."""
    bench.stub.served = results(1)
    release, replies = asyncio.Event(), bench.stub.answer
    loop = asyncio.get_running_loop()

    async def gated(_request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(release.wait(), loop))
        page = replies(bench.stub.requests[-1], bench.stub.served)
        return web.Response(text=page, content_type="text/html")

    bench.stub.handler = gated
    assert isinstance(bench.provider, DdgsProvider)
    waiting = bench.provider._http._queue.slots._waiting

    async def search_as(account: str, text: str) -> None:
        with on_behalf_of(account):
            await bench.search(replace(QUERY, text=text, num_results=1, account_id=account))

    searches = []
    async with asyncio.timeout(60):
        for number, account in enumerate(("busy", "busy", "busy", "late")):
            searches.append(asyncio.create_task(search_as(account, f"{account} {number}")))
            while sum(map(len, waiting.values())) < number or not bench.stub.requests:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        release.set()
        await asyncio.gather(*searches)
    queries = [request.parameters["q"] for request in bench.stub.requests]
    assert queries == ["busy 0", "busy 1", "late 3", "busy 2"]


async def test_team_reaches_private_instance_but_not_metadata_address(site: Site) -> None:
    """Private addresses are the operator's to name; requests stay where they may go."""
    stub = stubs()["searxng"]
    stub.served = results(1)
    policy = EgressPolicy("team", (ip_network("10.0.0.0/8"),))
    link = ChainLink("engine_one", "searxng")
    async with Fetcher(replace(policy, mode="local"), user_agent="t") as apis:
        for url, status in (
            (stub.on(site), "ok"),
            ("http://169.254.169.254/latest", "error"),
        ):
            chosen = SearchSettings({}, {"searxng": Access(url=url)})
            opened = ProviderCatalog(_UnusedProvider(), ProviderQueues()).open_providers(
                ["searxng"], chosen, lambda _: apis
            )
            outcome = await search_providers([link], opened, QUERY, ProviderBreakers())
            assert outcome.attempts[0].status == status


@pytest.mark.parametrize("stub", ["searxng"], indirect=True)
async def test_nearby_instance_is_used_without_proxy(stub: Stub, site: Site) -> None:
    policy, link = EgressPolicy("local"), ChainLink("engine_one", "searxng")
    stub.served = results(1)
    chosen = SearchSettings({}, {"searxng": Access(url=stub.on(site))})
    async with (
        Fetcher(policy, user_agent="t", proxy="http://127.0.0.1:9") as far,
        Fetcher(policy, user_agent="t") as near,
    ):
        for nearby, status in ((far, "error"), (near, "ok")):
            route = EgressRoute(far, Mock(), far, nearby, Mock(), Mock(), Mock(), "t")
            opened = ProviderCatalog(_UnusedProvider(), ProviderQueues()).open_providers(
                ["searxng"], chosen, route.fetcher_for_api
            )
            outcome = await search_providers([link], opened, QUERY, ProviderBreakers())
            assert outcome.attempts[0].status == status


def test_nearby_hosts_are_recognized_without_lookup() -> None:
    near = ["localhost", "LOCALHOST.", "127.0.0.1", "::1", "::ffff:10.0.0.1", "fd00::1"]
    near += ["172.16.3.4", "192.168.0.4", "searxng", "search.lan", "box.local"]
    far = ["", "example.com", "8.8.8.8", "172.32.0.1", "2606:4700::1", "local.example.com"]
    assert [host for host in (*near, *far) if is_local_host(host)] == near
