"""A team's caller cannot tell a name that the policy forbids from one that nobody knows.

Each case is run twice, in a service of its own, and all that a caller or a scraper of metrics may
read of it is compared, with the host's name replaced. The URLs are of equal length, since some
texts are cut at a length.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from tests.service.addresses import NAME_TEXT, NAMES, look_up
from tests.service.conftest import Api, open_service
from tests.service.creatives.stubs import GoogleStub
from tests.service.outgoing_connections import record_connections
from tests.service.routes.teams import member
from tests.service.search.stubs import Result, stubs
from tests.site.server import Site
from webdata_nb.contract import paths
from webdata_nb.contract.choices import ENGINES
from webdata_nb.contract.local import SessionSettings
from webdata_nb.service.creatives import google
from webdata_nb.service.web import resolver

pytestmark = pytest.mark.slow

FORBIDDEN = ("inside.test", "mixed.test", "metadata.test")
START = "<html lang=en><title>S</title><main><p>A start page.</p></main>"
# What differs between any two runs.
_VARYING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(Z|[+-]\d\d:\d\d)?"
    r'|(?<="content_hash":")[0-9a-f]{32}'  # of a page that names the host
    r'|(?<="time_taken":)[\d.e-]+|(?<="elapsed":)[\d.e-]+|(?<="elapsed_ms":)[\d.e-]+'
)
# Those that hold a job's id, or are made of its times.
_RUN_HEADERS = {"date", "x-request-id", "content-length", "content-disposition", "etag"}
_COUNTERS = ("webdata_urls_total", "webdata_jobs_ended_total", "webdata_provider_attempts_total")

Responses = dict[str, str]
Case = Callable[[Api, Site, str], Awaitable[list[Any]]]


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolver, "_system_addresses", look_up)


@asynccontextmanager
async def team(home: Path, settings: dict[str, Any]) -> Any:
    alice = await member(home, "alice")
    chosen = {"engines": dict.fromkeys(ENGINES, ("local",)), **settings}
    async with open_service(
        home,
        "team",
        allow_networks=("127.0.0.1/32",),
        providers=SessionSettings.model_validate(chosen),
        webhook_loopback=False,
    ) as api:
        api.http.headers.update(alice)
        yield api


async def exchange(api: Api, method: str, path: str, **options: Any) -> list[Any]:
    answer = await api.http.request(method, path, **options)
    headers = {name: answer.headers[name] for name in answer.headers if name not in _RUN_HEADERS}
    return [answer.status_code, headers, answer.text]


async def of_job(api: Api, kind: str, body: dict[str, Any]) -> list[Any]:
    """Return all that is said of a job: its start's reply, its own, receipt, stream, export."""
    started = await exchange(api, "POST", f"/v1/{kind}", json=body)
    job = f"/v1/{kind}/{json.loads(started[2])['job_id']}"
    await api.wait_for_end(kind, job.rpartition("/")[2])
    reads = [job, f"{job}/events", f"{job}/export?format=json"]
    if kind == "crawl":
        reads.append(f"{job}/receipt")
    return [started, *[await exchange(api, "GET", path) for path in reads]]


async def crawled(api: Api, url: str, **more: Any) -> list[Any]:
    return await of_job(api, "crawl", {"url": url, **more})


async def by_url(api: Api, _site: Site, target: str) -> list[Any]:
    return await crawled(api, target)


async def without_robots(api: Api, _site: Site, target: str) -> list[Any]:
    return await crawled(api, target, respect_robots_txt=False)


async def by_link(api: Api, site: Site, target: str) -> list[Any]:
    site.page("/", f"{START}<a href='{target}'>in</a>")
    wide = {"allow_external_links": True, "respect_robots_txt": False}
    return await crawled(api, site.url, **wide)


async def by_robots_of_a_link(api: Api, site: Site, target: str) -> list[Any]:
    site.page("/", f"{START}<a href='{target}'>in</a>")
    return await crawled(api, site.url, allow_external_links=True)


async def by_redirect(api: Api, site: Site, target: str) -> list[Any]:
    site.redirect("/", target)
    return await crawled(api, site.url)


async def by_robots(api: Api, site: Site, target: str) -> list[Any]:
    site.page("/", START)
    site.redirect("/robots.txt", target)
    return await crawled(api, site.url)


async def by_sitemap(api: Api, site: Site, target: str) -> list[Any]:
    site.page("/", START)
    site.robots(f"Sitemap: {target}\n")
    return await crawled(api, site.url, sitemap=True)


async def by_search(api: Api, _site: Site, _target: str) -> list[Any]:
    return await of_job(api, "search", {"query": "q"})


async def by_webhook(api: Api, site: Site, target: str) -> list[Any]:
    site.page("/", START)
    hook = {"webhook_url": target.replace("http:", "https:")}
    found = [
        await exchange(api, "POST", paths.CRAWL, json={"url": site.url, **hook}),
        await exchange(api, "POST", paths.SEARCH, json={"query": "q", "formats": [], **hook}),
        await exchange(api, "POST", paths.WEBHOOK_TEST, json=hook),
    ]
    assert [each[0] for each in found] == [422, 422, 422], found
    assert (await api.get("/v1/jobs"))["jobs"] == []
    assert (await api.get("/v1/webhooks/deliveries"))["deliveries"] == []
    return found


async def by_creative(api: Api, _site: Site, _target: str) -> list[Any]:
    wanted = {
        "advertiser_id": GoogleStub.advertiser,
        "limit": 1,
        "timeout_ms": 20_000,
        "should_download_previews": True,
    }
    return await exchange(api, "POST", paths.CREATIVES, json=wanted)


CASES: dict[str, Case] = {
    "url": by_url,
    "without-robots": without_robots,
    "link": by_link,
    "robots-of-a-link": by_robots_of_a_link,
    "redirect": by_redirect,
    "robots": by_robots,
    "sitemap": by_sitemap,
    "search": by_search,
    "webhook": by_webhook,
    "creative": by_creative,
}
# Where nothing that a caller may read tells of the target at all.
SILENT = {"robots", "sitemap"}


def settings_of(case: str, site: Site, target: str) -> dict[str, Any]:
    if case == "search":
        stub = stubs()["searxng"]
        stub.served = [Result(url, "Found", "") for url in (target, site.redirect("/to", target))]
        access = {"searxng": {"url": stub.on(site)}}
        return {"engines": dict.fromkeys(ENGINES, ("searxng",)), "providers": access}
    if case == "creative":
        ads = GoogleStub(site, count=1)
        site.redirect("/simgad/0.png", target)
        chosen = {"source": google.NAME, "url": ads.home, "terms": google.TERMS}
        return {"creatives": chosen}
    return {}


async def metrics(api: Api) -> list[str]:
    """Return every series of the service's metrics, with the values that no clock decides."""
    text = (await asyncio.to_thread(generate_latest, api.running.metrics.registry)).decode()
    # Refused requests are counted every few seconds; a process joins the store in the background.
    varying = ("#", "webdata_refused_requests", "webdata_replicas")
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith(varying)]
    return sorted(
        f"{name} {value if name.startswith(_COUNTERS) else ''}" for name, _, value in lines
    )


async def responses_of(home: Path, case: str, site: Site, host: str) -> str:
    target = f"http://{host}:8081/x"
    async with team(home, settings_of(case, site, target)) as api:
        with record_connections() as addresses:
            found = [
                await CASES[case](api, site, target),
                await exchange(api, "GET", "/v1/usage"),
                await exchange(api, "GET", "/v1/jobs"),
                await metrics(api),
            ]
    assert addresses <= {"127.0.0.1"}
    return _VARYING.sub("*", json.dumps(found, ensure_ascii=False).replace('\\"', '"'))


@pytest.mark.parametrize("forbidden", FORBIDDEN)
@pytest.mark.parametrize("case", CASES)
async def test_forbidden_name_gets_the_same_reply_as_unknown(
    tmp_path: Path, site: Site, case: str, forbidden: str
) -> None:
    unknown = "z" * (len(forbidden) - len(".test")) + ".test"
    assert unknown not in NAMES
    exchange = {}
    for host in (forbidden, unknown):
        text = await responses_of(tmp_path / host, case, site, host)
        assert case in SILENT or NAME_TEXT.format(host) in text
        exchange[host] = text.replace(host, "name.test").split(",")
    assert exchange[forbidden] == exchange[unknown]
