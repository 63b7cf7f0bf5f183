"""Every way on which a team's job could reach an inner address, through the service itself.

The service may fetch from one loopback address; a listener waits at another. No way leads there,
and what is said does not tell whether anybody listened. Browsers: `tests/browser/test_guard.py`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import Api, opened
from tests.service.routes.teams import member
from tests.service.search.stubs import Result, stubs
from tests.site.server import Site
from webdata_nb.contract import paths
from webdata_nb.contract.fields import ENGINES
from webdata_nb.contract.local import SessionSettings
from webdata_nb.service.settings import WebhookSettings

TEXT = "The network policy of this service does not allow that address."
INNER = "127.0.0.9"
METADATA = "http://169.254.169.254/latest/meta-data/"
START = "<title>S</title><main><p>A start page.</p></main>"


@dataclass
class Inside:
    """An inner address; `callers` counts who got through to it."""

    port: int
    callers: list[Any] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{INNER}:{self.port}/secret"


@asynccontextmanager
async def inside(*, listening: bool) -> AsyncIterator[Inside]:
    """Listen at the inner address, or take a port there that nobody listens on."""
    sock = socket.socket()
    sock.bind((INNER, 0))
    found = Inside(sock.getsockname()[1])
    if not listening:
        with sock:
            yield found
        return

    async def note(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.callers.append(writer.get_extra_info("peername"))
        writer.close()

    server = await asyncio.start_server(note, sock=sock)
    async with server:
        yield found


@asynccontextmanager
async def team(home: Path, providers: SessionSettings | None = None) -> AsyncIterator[Api]:
    """Open a team's service that may fetch from 127.0.0.1 alone."""
    alice = await member(home, "alice")
    settings = providers or SessionSettings(engines=dict.fromkeys(ENGINES, ("local",)))
    async with opened(
        home,
        "team",
        providers=settings,
        networks=("127.0.0.1/32",),
        webhooks=WebhookSettings(),
    ) as api:
        api.http.headers.update(alice)
        yield api


async def by_url(api: Api, _site: Site, target: str) -> str:
    reply = await api.done("crawl", url=target)
    return said(reply)


async def by_link(api: Api, site: Site, target: str) -> str:
    site.page("/", f"{START}<a href='{target}'>in</a>")
    wide = {"url": site.at("/"), "allow_external_links": True}
    asking = await api.done("crawl", **wide)
    receipt = await api.get(f"/v1/crawl/{asking['job_id']}/receipt", params={"url": target})
    assert [each["detail"] for each in receipt["data"]] == [TEXT]
    return said(await api.done("crawl", respect_robots_txt=False, **wide))


async def by_redirect(api: Api, site: Site, target: str) -> str:
    site.redirect("/", target)
    return said(await api.done("crawl", url=site.at("/")))


async def by_redirects(api: Api, site: Site, target: str) -> str:
    site.redirect("/", site.at("/further"))
    site.redirect("/further", target)
    return said(await api.done("crawl", url=site.at("/")))


def said(reply: dict[str, Any]) -> str:
    """Return what the last row, or the job, says went wrong."""
    errors = [row["error"] for row in reply["data"] if row.get("error")]
    return str(errors[-1] if errors else reply["error"])


WAYS = {
    "url": by_url,
    "link": by_link,
    "redirect": by_redirect,
    "redirects": by_redirects,
}


@pytest.mark.parametrize("listening", [True, False])
@pytest.mark.parametrize("way", WAYS)
async def test_no_page_is_fetched_from_inside(
    tmp_path: Path, site: Site, way: str, listening: bool
) -> None:
    async with team(tmp_path) as api, inside(listening=listening) as inner:
        assert (await WAYS[way](api, site, inner.url)).endswith(TEXT)
        assert (await WAYS[way](api, site, METADATA)).endswith(TEXT)
    assert inner.callers == []


@pytest.mark.parametrize("listening", [True, False])
async def test_no_robots_file_or_sitemap_leads_inside(
    tmp_path: Path, site: Site, listening: bool
) -> None:
    site.page("/", START)
    async with team(tmp_path) as api, inside(listening=listening) as inner:
        site.robots(f"Sitemap: {inner.url}\nSitemap: {METADATA}\n")
        named = await api.done("crawl", url=site.at("/"), sitemap=True)
        site.redirect("/robots.txt", inner.url)
        redirected = await api.done("crawl", url=site.at("/"))
    assert inner.callers == []
    assert (named["status"], [row["url"] for row in named["data"]]) == ("completed", [site.at("/")])
    assert inner.url not in str(redirected["data"])


@pytest.mark.parametrize("listening", [True, False])
async def test_no_webhook_goes_inside(tmp_path: Path, site: Site, listening: bool) -> None:
    site.page("/", START)
    answers = set()
    async with team(tmp_path) as api, inside(listening=listening) as inner:
        for target in (inner.url, METADATA):
            hook = {"webhook_url": target.replace("http:", "https:")}
            crawl = await api.post(paths.CRAWL, {"url": site.at("/"), **hook}, 422)
            search = await api.post(paths.SEARCH, {"query": "q", **hook}, 422)
            tested = await api.post(paths.WEBHOOK_TEST, hook, 422)
            answers |= {each["detail"][0]["msg"] for each in (crawl, search, tested)}
    assert answers == {TEXT}
    assert inner.callers == []


@pytest.mark.parametrize("listening", [True, False])
async def test_no_search_result_leads_inside(tmp_path: Path, site: Site, listening: bool) -> None:
    stub = stubs()["searxng"]
    access = {"searxng": {"url": stub.on(site)}}
    chosen = SessionSettings.model_validate(
        {"engines": dict.fromkeys(ENGINES, ("searxng",)), "providers": access}
    )
    async with team(tmp_path, chosen) as api, inside(listening=listening) as inner:
        stub.served = [Result(inner.url, "Inside", ""), Result(METADATA, "Metadata", "")]
        reply = await api.done("search", query="q")
    assert [row["error"] for row in reply["data"]] == [TEXT, TEXT], reply
    assert inner.callers == []


@pytest.mark.parametrize("way", WAYS)
async def test_a_local_service_reaches_no_metadata_either(api: Api, site: Site, way: str) -> None:
    assert (await WAYS[way](api, site, METADATA)).endswith(TEXT)
