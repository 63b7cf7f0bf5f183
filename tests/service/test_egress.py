"""Every way in which a job could reach a forbidden address, through the service itself.

The matrix: entry point x spelling of the address x mode. A team's service may fetch from 127.0.0.1
alone, and a listener waits at another address; a local one may go there too, which shows that each
way does lead somewhere. Nobody gets to metadata addresses. Where the policy says no, no connection
is tried (the interpreter's own report), so nothing can be told of what is behind an address.
Browsers: `tests/browser/test_egress_policy.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from aiohttp import web

from tests.service.addresses import (
    INNER_HOSTS,
    METADATA_HOSTS,
    POLICY_TEXT,
    PRIVATE_HOSTS,
    inside,
    look_up,
    refusal,
)
from tests.service.conftest import Api, open_service
from tests.service.creatives.stubs import TOKEN, GoogleStub, MetaStub
from tests.service.extract.stub_model import StubModel, always_reply
from tests.service.outgoing_connections import record_connections
from tests.service.routes.teams import member
from tests.service.search.stubs import Result, stubs
from tests.site.server import Site
from webdata_nb.contract import paths
from webdata_nb.contract.choices import ENGINES
from webdata_nb.contract.local import SessionSettings
from webdata_nb.service.creatives import google
from webdata_nb.service.web import resolver

pytestmark = pytest.mark.asyncio(loop_scope="module")

Mode = Literal["team", "local"]
LEASE = {"X-Webdata-Lease": "l1"}
START = "<title>S</title><main><p>A start page.</p></main>"
REFUSALS = {
    "team": {**INNER_HOSTS, **PRIVATE_HOSTS, **METADATA_HOSTS},
    "local": METADATA_HOSTS,
}
NO_SEARCH = SessionSettings(engines=dict.fromkeys(ENGINES, ("local",)))


@pytest.fixture(autouse=True, scope="module")
def names() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resolver, "_system_addresses", look_up)
        yield


@asynccontextmanager
async def serving(
    mode: Mode,
    home: Path,
    providers: SessionSettings = NO_SEARCH,
    proxy: str | None = None,
) -> AsyncIterator[Api]:
    """Open a service; a team's may fetch from 127.0.0.1 alone, and tells no loopback address."""
    if mode == "local":
        async with open_service(home, providers=providers, proxy=proxy) as api:
            await api.http.put("/local/leases/l1", json={})
            api.http.headers.update(LEASE)
            yield api
        return
    alice = await member(home, "alice")
    async with open_service(
        home,
        "team",
        providers=providers,
        allow_networks=("127.0.0.1/32",),
        webhook_loopback=False,
        proxy=proxy,
    ) as api:
        api.http.headers.update(alice)
        yield api


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def services(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, Api]]:
    team, local = (tmp_path_factory.mktemp(name) for name in ("team", "local"))
    async with serving("team", team) as one, serving("local", local) as other:
        yield {"team": one, "local": other}


async def bind(api: Api, **settings: Any) -> None:
    """Give the session of a local service other settings."""
    whole = {"engines": dict.fromkeys(ENGINES, ("local",)), **settings}
    bound = await api.http.put("/local/leases/l1/settings", json=whole)
    assert bound.status_code == 204, bound.text


def row_error(reply: dict[str, Any]) -> str:
    """Return what the last row, or the job, says went wrong."""
    errors = [row["error"] for row in reply["data"] if row.get("error")]
    return str(errors[-1] if errors else reply["error"])


# The entry points: each returns what was said of the target, or None where that is not shown.

Entry = Callable[[Api, Site, str], Awaitable[str | None]]


async def by_url(api: Api, _site: Site, target: str) -> str:
    answer = await api.http.post(paths.CRAWL, json={"url": target})
    if answer.status_code == 422:  # what the URL alone shows
        return str(answer.json()["detail"][0]["msg"])
    assert answer.status_code == 200, answer.text
    return row_error(await api.wait_for_end("crawl", answer.json()["job_id"]))


async def by_link(api: Api, site: Site, target: str) -> str:
    site.page("/", f"{START}<a href='{target}'>in</a>")
    wide = {"url": site.url, "allow_external_links": True, "respect_robots_txt": False}
    return row_error(await api.run_job("crawl", **wide))


async def by_robots_of_a_link(api: Api, site: Site, target: str) -> str | None:
    site.page("/", f"{START}<a href='{target}'>in</a>")
    asking = await api.run_job("crawl", url=site.url, allow_external_links=True)
    receipt = await api.get(f"/v1/crawl/{asking['job_id']}/receipt")
    details = {entry["url"]: entry["detail"] for entry in receipt["data"]}
    details.pop(site.url)
    return str(*details.values())


async def by_redirect(api: Api, site: Site, target: str) -> str:
    site.redirect("/", target)
    return row_error(await api.run_job("crawl", url=site.url))


async def by_redirects(api: Api, site: Site, target: str) -> str:
    site.redirect("/", site.at("/further"), status=308)
    site.redirect("/further", target, status=307)
    return row_error(await api.run_job("crawl", url=site.url))


async def by_robots(api: Api, site: Site, target: str) -> None:
    site.page("/", START)
    site.redirect("/robots.txt", target)
    await api.run_job("crawl", url=site.url)


async def by_sitemap(api: Api, site: Site, target: str) -> None:
    site.page("/", START)
    site.robots(f"Sitemap: {target}\n")
    reply = await api.run_job("crawl", url=site.url, sitemap=True)
    assert (reply["status"], [row["url"] for row in reply["data"]]) == ("completed", [site.url])


async def by_sitemap_index(api: Api, site: Site, target: str) -> None:
    site.page("/", START)
    listed = f"<sitemapindex><sitemap><loc>{target}</loc></sitemap></sitemapindex>"
    site.page("/sitemap.xml", listed, headers={"Content-Type": "application/xml"})
    await api.run_job("crawl", url=site.url, sitemap=True)


async def by_license_of_robots(api: Api, site: Site, target: str) -> str:
    site.robots(f"License: {target}\n")
    return await license_problem(api, site, START)


async def by_license_of_a_page(api: Api, site: Site, target: str) -> str:
    link = f'<link rel="license" type="application/rsl+xml" href="{target}">'
    return await license_problem(api, site, f"{link}{START}")


async def license_problem(api: Api, site: Site, start: str) -> str:
    site.page("/", start)
    [row] = (await api.run_job("crawl", url=site.url, max_pages=1, rights=True))["data"]
    [signal] = [each for each in row["rights"]["signals"] if each["signal"] == "rsl"]
    return str(signal["problem"])


async def by_tdm_file(api: Api, site: Site, target: str) -> None:
    site.page("/", START)
    site.redirect("/.well-known/tdmrep.json", target)
    reply = await api.run_job("crawl", url=site.url, max_pages=1, rights=True)
    assert reply["status"] == "completed"


async def by_webhook_of_a_crawl(api: Api, site: Site, target: str) -> str:
    return await _webhook_error(api, paths.CRAWL, {"url": site.page("/", START)}, target)


async def by_webhook_of_a_search(api: Api, _site: Site, target: str) -> str:
    return await _webhook_error(api, paths.SEARCH, {"query": "q", "formats": []}, target)


async def _webhook_error(api: Api, path: str, body: dict[str, Any], target: str) -> str:
    webhook_body = {**body, "webhook_url": target.replace("http:", "https:")}
    return str((await api.post(path, webhook_body, 422))["detail"][0]["msg"])


async def by_webhook_test(api: Api, _site: Site, target: str) -> str:
    hook = {"webhook_url": target.replace("http:", "https:")}
    answer = await api.http.post(paths.WEBHOOK_TEST, json=hook)
    return str(answer.json()["detail"][0]["msg"] if answer.status_code == 422 else answer.json())


PAGES: dict[str, Entry] = {
    "url": by_url,
    "link": by_link,
    "robots-of-a-link": by_robots_of_a_link,
    "redirect": by_redirect,
    "redirects": by_redirects,
    "robots": by_robots,
    "sitemap": by_sitemap,
    "sitemap-index": by_sitemap_index,
    "license-of-robots": by_license_of_robots,
    "license-of-a-page": by_license_of_a_page,
    "tdm-file": by_tdm_file,
    "webhook-test": by_webhook_test,
}
HOOKS: dict[str, Entry] = {
    "webhook-of-a-crawl": by_webhook_of_a_crawl,
    "webhook-of-a-search": by_webhook_of_a_search,
}


# The short run has every entry point, and every address at these two.
ALL_KINDS_ENTRIES = ("url", "link")
SHORT_RUN_KINDS = ("address", "name", "private-name", "metadata", "metadata-v6-name")


def cells(entries: dict[str, Entry]) -> list[Any]:
    return [
        pytest.param(
            mode,
            entry,
            host,
            id=f"{mode}-{name}-{kind}",
            marks=() if name in ALL_KINDS_ENTRIES or kind in SHORT_RUN_KINDS else pytest.mark.slow,
        )
        for mode, hosts in REFUSALS.items()
        for name, entry in entries.items()
        for kind, host in hosts.items()
    ]


@pytest.mark.parametrize(("mode", "entry", "host"), cells({**PAGES, **HOOKS}))
async def test_no_way_leads_to_a_forbidden_address(
    services: dict[str, Api], site: Site, mode: Mode, entry: Entry, host: str
) -> None:
    async with inside() as inner:
        with record_connections() as addresses:
            words = await entry(services[mode], site, inner.url(host))
    assert addresses <= {"127.0.0.1"}
    assert inner.callers == []
    # Webhooks go by a team's policy in both modes.
    webhook_body = entry in {by_webhook_test, *HOOKS.values()}
    assert words is None or words.endswith(refusal("team" if webhook_body else mode, host))


@pytest.mark.parametrize("kind", ["address", "mapped", "name"])
@pytest.mark.parametrize("entry", PAGES.values(), ids=PAGES)
async def test_each_way_leads_somewhere_for_a_local_service(
    services: dict[str, Api], site: Site, entry: Entry, kind: str
) -> None:
    # A webhook's name is no loopback address, by http too, before it is looked up.
    host = INNER_HOSTS["address" if entry is by_webhook_test else kind]
    async with inside() as inner:
        with record_connections() as addresses:
            await entry(services["local"], site, inner.url(host))
    assert "127.0.0.9" in addresses
    assert inner.callers != []


@pytest.mark.parametrize("source", [*PAGES, *HOOKS])
async def test_a_refusal_does_not_depend_on_who_listens(
    services: dict[str, Api], site: Site, source: str
) -> None:
    details = []
    for listening in (True, False):
        async with inside(listening=listening) as inner:
            details.append(await {**PAGES, **HOOKS}[source](services["team"], site, inner.url()))
    assert details[0] == details[1]


# Results of a search, and the providers that give them.


def searching(site: Site, *served: str) -> dict[str, Any]:
    """Return settings under which every search is answered with these addresses."""
    stub = stubs()["searxng"]
    stub.served = [Result(url, "Found", "") for url in served]
    return {
        "engines": dict.fromkeys(ENGINES, ("searxng",)),
        "providers": {"searxng": {"url": stub.on(site)}},
    }


@pytest.mark.parametrize("mode", REFUSALS)
async def test_no_search_result_leads_to_a_forbidden_address(
    tmp_path: Path, site: Site, mode: Mode
) -> None:
    hosts = REFUSALS[mode]
    async with inside() as inner:
        direct = {kind: inner.url(host) for kind, host in hosts.items()}
        redirects = {kind: site.redirect(f"/to/{kind}", url) for kind, url in direct.items()}
        chosen = searching(site, *direct.values(), *redirects.values())
        settings = SessionSettings.model_validate(chosen)
        async with serving(mode, tmp_path, settings) as api:
            with record_connections() as addresses:
                reply = await api.run_job("search", query="q", num_results=50)
    # Spellings of one address are one result, and one that no browser takes is none.
    assert len(reply["data"]) >= len(hosts)
    for row in reply["data"]:
        there = urlsplit(row["url"])
        host = hosts.get(there.path.rpartition("/")[2], there.hostname or "")
        assert (row["success"], row["error"]) == (False, refusal(mode, host)), row
    assert addresses <= {"127.0.0.1"}
    assert inner.callers == []


async def test_search_results_lead_inside_for_a_local_service(
    services: dict[str, Api], site: Site
) -> None:
    async with inside() as inner:
        await bind(services["local"], **searching(site, inner.url()))
        await services["local"].run_job("search", query="q")
    assert inner.callers != []


def redirect_to(url: str) -> web.Response:
    return web.Response(status=302, headers={"Location": url})


PROVIDERS = (
    *("searxng", "serper", "brave", "tavily", "exa", "mojeek", "marginalia"),
    *("ddgs.startpage", "ddgs.duckduckgo", "ddgs.brave", "ddgs.yahoo", "ddgs.mojeek"),
    "mediawiki",
)


@pytest.mark.parametrize("mode", REFUSALS)
async def test_no_search_provider_is_at_a_metadata_address(tmp_path: Path, mode: Mode) -> None:
    """Its address comes from settings alone, and so may be inside, but not there."""
    async with inside() as inner:
        hosts = [*islice(cycle(METADATA_HOSTS.values()), len(PROVIDERS) - 1), "inside.test"]
        access = {
            name: {"url": f"{inner.url(host)}?q={{language}}", "key": "k"}
            for name, host in zip(PROVIDERS, hosts, strict=True)
        }
        chosen = {"engines": dict.fromkeys(ENGINES, PROVIDERS), "providers": access}
        settings = SessionSettings.model_validate(chosen)
        async with serving(mode, tmp_path, settings) as api:
            with record_connections() as addresses:
                reply = await api.run_job("search", query="q", formats=[])
    details = {each["provider"]: each["detail"] for each in reply["fallback_chain"]}
    *forbidden, near = PROVIDERS
    words = "the network policy does not allow its address"
    assert {name: details[name] for name in forbidden} == dict.fromkeys(forbidden, words)
    assert details[near].startswith("there is no search at its address")
    assert addresses == {"127.0.0.9"}
    assert len(inner.callers) == 1


async def test_a_search_provider_does_not_redirect_its_caller(
    services: dict[str, Api], site: Site
) -> None:
    async with inside() as inner:
        stub = stubs()["searxng"]
        stub.other = lambda _request: redirect_to(inner.url())
        await bind(
            services["local"],
            engines=dict.fromkeys(ENGINES, ("searxng",)),
            providers={"searxng": {"url": stub.on(site)}},
        )
        reply = await services["local"].run_job("search", query="q", formats=[])
    assert (
        reply["fallback_chain"][0]["detail"]
        == "it points to another address, which is not followed"
    )
    assert inner.callers == []


# Language models.


@pytest.mark.parametrize("mode", REFUSALS)
async def test_no_language_model_is_at_a_metadata_address(
    tmp_path: Path, site: Site, mode: Mode
) -> None:
    site.page("/", START)
    async with inside() as inner:
        hosts = {**METADATA_HOSTS, "near": "inside.test"}
        names = {kind.replace("-", "_"): host for kind, host in hosts.items()}
        llm = {name: {"url": inner.url(host), "model": "m"} for name, host in names.items()}
        settings = SessionSettings.model_validate({**NO_SEARCH.model_dump(), "llm": llm})
        details = {}
        async with serving(mode, tmp_path, settings) as api:
            with record_connections() as addresses:
                for name in names:
                    extract = {"prompt": "p", "provider": name}
                    details[name] = row_error(
                        await api.run_job(
                            "crawl", url=site.url, scrape_options={"extract": extract}
                        )
                    )
    near = details.pop("near")
    words = "extraction failed (unreachable): the network policy does not allow the provider's"
    assert set(details.values()) == {f"{words} address"}
    assert near != f"{words} address"
    assert addresses == {"127.0.0.1", "127.0.0.9"}
    assert len(inner.callers) == 1


async def test_a_language_model_does_not_redirect_its_caller(
    services: dict[str, Api], site: Site
) -> None:
    model = StubModel(site)
    site.page("/", START)
    async with inside() as inner:
        model.usual = lambda _request: redirect_to(inner.url())
        await bind(services["local"], llm={"custom": {"url": model.url, "model": "m"}})
        options = {"extract": {"prompt": "p"}}
        reply = await services["local"].run_job("crawl", url=site.url, scrape_options=options)
    assert model.requests
    assert "points to another address" in row_error(reply)
    assert inner.callers == []


# Sources of creatives, and the files that they name.


def creatives_at(url: str, source: str = google.NAME) -> dict[str, Any]:
    keyed = {"key": TOKEN} if source != google.NAME else {"terms": google.TERMS}
    return {"creatives": {"source": source, "url": url, **keyed}}


CREATIVES_REQUEST = {"advertiser_id": GoogleStub.advertiser, "limit": 1, "timeout_ms": 5000}
ADVERTISERS = {google.NAME: GoogleStub.advertiser, "meta_ad_library": MetaStub.advertiser}


@pytest.mark.parametrize("mode", REFUSALS)
@pytest.mark.parametrize("source", [google.NAME, "meta_ad_library"])
@pytest.mark.parametrize("kind", [*METADATA_HOSTS, "name"])
async def test_no_source_of_creatives_is_at_a_metadata_address(
    tmp_path: Path, services: dict[str, Api], mode: Mode, source: str, kind: str
) -> None:
    async with inside() as inner:
        url = inner.url({**METADATA_HOSTS, **INNER_HOSTS}[kind])
        chosen = creatives_at(url, source)
        wanted = {**CREATIVES_REQUEST, "advertiser_id": ADVERTISERS[source]}
        with record_connections() as addresses:
            if mode == "local":
                await bind(services["local"], **chosen)
                answer = await services["local"].post(paths.CREATIVES, wanted, 502)
            else:
                settings = SessionSettings.model_validate({**NO_SEARCH.model_dump(), **chosen})
                async with serving("team", tmp_path, settings) as api:
                    answer = await api.post(paths.CREATIVES, wanted, 502)
    refused = kind in METADATA_HOSTS
    assert answer["detail"].endswith(POLICY_TEXT) is refused
    assert addresses == (set() if refused else {"127.0.0.9"})
    assert bool(inner.callers) is not refused


@pytest.mark.parametrize("mode", REFUSALS)
async def test_no_file_of_a_creative_leads_to_a_forbidden_address(
    tmp_path: Path, services: dict[str, Api], site: Site, mode: Mode
) -> None:
    stub = GoogleStub(site, count=40)
    hosts = REFUSALS[mode]
    wanted = {**CREATIVES_REQUEST, "limit": 40, "should_download_previews": True}
    async with inside() as inner:
        for number, host in enumerate(hosts.values()):
            # Named by the source itself, and where the source sends whoever asks for a file.
            site.redirect(f"/simgad/{number}.png", inner.url(host))
        stub.rows[-1]["3"] = {"3": {"2": f'<img src="{inner.url()}">'}}
        chosen = creatives_at(stub.home)
        with record_connections() as addresses:
            if mode == "local":
                await bind(services["local"], **chosen)
                reply = await services["local"].post(paths.CREATIVES, wanted)
            else:
                settings = SessionSettings.model_validate({**NO_SEARCH.model_dump(), **chosen})
                async with serving("team", tmp_path, settings) as api:
                    reply = await api.post(paths.CREATIVES, wanted)
    errors = [row["error"] for row in reply["creatives"]]
    pages = {9, 19, 29}  # whose preview is a script
    for number, (error, host) in enumerate(zip(errors, hosts.values(), strict=False)):
        assert number in pages or error.endswith(refusal(mode, host)), (number, error)
    assert errors[-1] == "previews: files are not taken from 127.0.0.9"
    assert addresses == {"127.0.0.1"}
    assert inner.callers == []


# What a request, or a session, may say of the way out.


@pytest.mark.parametrize(
    "more",
    [
        {"providers": {"searxng": {"url": "http://127.0.0.9/"}}},
        {"proxy": "http://127.0.0.9/"},
        {"extract": {"prompt": "p", "provider": "http://127.0.0.9/v1"}},
        {"extract": {"prompt": "p", "url": "http://127.0.0.9/v1"}},
    ],
)
async def test_no_request_names_a_provider_or_a_proxy(
    services: dict[str, Api], more: dict[str, Any]
) -> None:
    with record_connections() as addresses:
        await services["team"].post(paths.SEARCH, {"query": "q", **more}, 422)
    assert addresses == set()


async def test_a_teams_callers_bind_no_settings(services: dict[str, Api], site: Site) -> None:
    api = services["team"]
    for path in ("/local/leases/l1", "/local/leases/l1/settings"):
        assert (await api.http.put(path, json={})).status_code == 404
    site.page("/", START)
    body = {"url": site.url}
    job_id = await api.start_job("crawl", body, headers=LEASE)
    assert (await api.wait_for_end("crawl", job_id))["status"] == "completed"


# Through a proxy, which would do the dialling.


@pytest.fixture
def proxy() -> Iterator[Site]:
    """A proxy that answers every plain request itself, whoever it is for."""
    with Site() as running:
        running.under("http://", START)
        yield running


def requested_paths(proxy: Site) -> list[str]:
    return [hit.path for hit in proxy.requests if not hit.path.endswith("/robots.txt")]


@pytest.mark.parametrize("mode", REFUSALS)
async def test_no_proxy_is_asked_for_a_forbidden_address(
    tmp_path: Path, proxy: Site, mode: Mode
) -> None:
    async with inside() as inner, serving(mode, tmp_path, proxy=proxy.url) as api:
        with record_connections() as addresses:
            for kind, host in REFUSALS[mode].items():
                for path in ("http://{}/x", "https://{}/x", "http://{}:8080/x"):
                    words = await by_url(api, proxy, path.format(host))
                    assert words.endswith(refusal(mode, host)), kind
            assert proxy.requests == ()
            # What nobody here knows is the proxy's to judge, and public pages are its to fetch.
            for url in ("http://unknown.test/", "http://93.184.215.14/"):
                reply = await api.run_job("crawl", url=url)
                assert (reply["status"], reply["data"][0]["url"]) == ("completed", url)
    assert requested_paths(proxy) == ["http://unknown.test/", "http://93.184.215.14/"]
    assert addresses == {"127.0.0.1"}
    assert inner.callers == []


@pytest.mark.parametrize("mode", REFUSALS)
async def test_providers_nearby_are_asked_without_the_proxy(
    tmp_path: Path, site: Site, proxy: Site, mode: Mode
) -> None:
    model = StubModel(site, "/llm/v1")
    model.usual = always_reply('{"mood": "calm"}')
    chosen = {
        **searching(site, "http://93.184.215.14/found"),
        **creatives_at(GoogleStub(site).home),
        "llm": {"ollama": {"url": model.url, "model": "m"}},
    }
    settings = SessionSettings.model_validate(chosen)
    async with serving(mode, tmp_path, settings, proxy=proxy.url) as api:
        reply = await api.run_job("search", query="q", extract={"prompt": "the mood"})
        ads = await api.post(paths.CREATIVES, CREATIVES_REQUEST)
    assert [row["extract"] for row in reply["data"]] == [{"mood": "calm"}], reply
    assert len(ads["creatives"]) == 1
    assert requested_paths(proxy) == ["http://93.184.215.14/found"]


async def test_a_webhook_goes_through_the_proxy_of_the_service(tmp_path: Path, proxy: Site) -> None:
    """A tunnel is asked for, since webhooks go by https; this proxy opens none."""
    async with serving("team", tmp_path, proxy=proxy.url) as api:
        with record_connections() as addresses:
            hook = {"webhook_url": "https://93.184.215.14/hook"}
            await api.post(paths.WEBHOOK_TEST, hook)
    assert [hit.method for hit in proxy.requests] == ["CONNECT"]
    assert addresses == {"127.0.0.1"}
