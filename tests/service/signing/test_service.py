"""A whole service with keys: its crawls and searches, its directory, and what it never shows."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import generate_latest

from tests.service.conftest import Api, open_service
from tests.service.job_stores import stored_bytes
from tests.service.routes.teams import member
from tests.service.routes.test_archive_crawls import body_for
from tests.service.search.stubs import Result, stubs
from tests.service.signing.keys import AGENT, new_key_file, received_at, secrets_of
from tests.service.signing.verifier import NotVerified, Verified, Verifier, verify_directory
from tests.service.webhooks.endpoint import Endpoint
from tests.site.server import Hit, Site
from webdata_nb.contract import paths
from webdata_nb.contract.choices import ENGINES
from webdata_nb.contract.local import SessionSettings
from webdata_nb.service.signing import request_signer
from webdata_nb.service.signing.message_signature import SigningKey
from webdata_nb.service.signing.request_signer import KEY_FILE, SIGNATURE_HEADERS, SigningKeyFile

PAGE = "<title>{0}</title><main><h1>{0}</h1><p>Words enough to be read.</p>{1}</main>"
LOOPBACK = ("127.0.0.1/32", "::1/128")
WEEK_S = 7 * 24 * 3600


def publish(site: Site) -> Site:
    """Publish three pages, one of them behind a redirect."""
    links = '<a href="/a">a</a> <a href="/moved">m</a>'
    site.page("/", PAGE.format("Home", links))
    site.page("/a", PAGE.format("A", ""))
    site.redirect("/moved", "/b")
    site.page("/b", PAGE.format("B", ""))
    return site


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield publish(running)


@pytest.fixture
def other_site() -> Iterator[Site]:
    with Site() as running:
        yield publish(running)


async def directory_of(api: Api) -> httpx.Response:
    """Read the directory as a site does: without a key, under any name of the service."""
    transport = httpx.ASGITransport(api.running.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        return await http.get(paths.SIGNATURE_DIRECTORY)


def lower(hit: Hit) -> dict[str, str]:
    return {name.lower(): value for name, value in hit.headers.items()}


def is_signed(hit: Hit) -> bool:
    return bool(SIGNATURE_HEADERS & lower(hit).keys())


async def verify(api: Api, *hits: Hit) -> list[Verified]:
    """Verify requests with the directory that the service serves now."""
    directory = (await directory_of(api)).json()
    verifier = Verifier(lambda _agent: directory)
    return [
        verifier.verify_request(hit.method, hit.path, lower(hit), received_at(hit)) for hit in hits
    ]


def rotate(file: SigningKeyFile) -> str:
    """Replace the key at once; the old one stays in the directory for a week."""
    now = time.time()
    key = SigningKey.generate(starts_at=int(now))
    file.replace(file.read().rotated(key, now=now, keep_s=WEEK_S))
    return key.thumbprint


async def test_crawls_of_two_accounts_are_signed_across_a_rotation_and_a_restart(
    tmp_path: Path,
    site: Site,
    other_site: Site,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_signer, "CHECK_INTERVAL_S", 0.0)
    caplog.set_level(logging.DEBUG)
    keys, data = new_key_file(tmp_path / "keys"), tmp_path / "data"
    accounts = [await member(data, name) for name in ("alice", "bob")]
    replies: list[Any] = []
    async with open_service(data, "team", allow_networks=LOOPBACK, signing_keys=keys.path) as api:
        first = keys.read().keys[0].thumbprint
        for account, url in zip(accounts, (site.url, other_site.url), strict=True):
            api.http.headers.update(account)
            replies.append(await api.run_job("crawl", url=url))
        hits = [*site.requests, *other_site.requests]
        assert {hit.path for hit in hits} == {"/robots.txt", "/", "/a", "/moved", "/b"}
        assert {each.keyid for each in await verify(api, *hits)} == {first}
        second = rotate(keys)
        replies.append(await api.run_job("crawl", url=site.url))
        later = [hit for hit in site.requests if hit not in hits]
        assert {each.keyid for each in await verify(api, *later)} == {second}
        assert len(await verify(api, *hits, *later)) == len(hits) + len(later)
        metrics = await asyncio.to_thread(generate_latest, api.running.metrics.registry)
    async with open_service(data, "team", allow_networks=LOOPBACK, signing_keys=keys.path) as api:
        api.http.headers.update(accounts[0])
        before = len(site.requests)
        replies.append(await api.run_job("crawl", url=site.url))
        assert {each.keyid for each in await verify(api, *site.requests[before:])} == {second}
        directory = await directory_of(api)
    assert [reply["receipt"]["signature_agent"] for reply in replies] == [AGENT] * 4
    assert [jwk["kid"] for jwk in directory.json()["keys"]] == [first, second]
    shown = {"replies": json.dumps(replies).encode(), "directory": directory.content}
    shown |= {"log": caplog.text.encode(), "metrics": metrics, **stored_bytes(data)}
    secrets = secrets_of(keys)
    assert len(secrets) == 6
    assert [
        place for place, content in shown.items() if any(secret in content for secret in secrets)
    ] == []


async def test_checks_of_links_are_signed(tmp_path: Path, site: Site, other_site: Site) -> None:
    site.page("/", PAGE.format("Home", f'<a href="{other_site.at("/a")}">a</a>'))
    keys, data = new_key_file(tmp_path / "keys"), tmp_path / "data"
    account = await member(data, "alice")
    async with open_service(data, "team", allow_networks=LOOPBACK, signing_keys=keys.path) as api:
        api.http.headers.update(account)
        await api.run_job("crawl", url=site.url, check_links=True)
        hits = other_site.requests
        assert [(hit.method, hit.path) for hit in hits] == [("GET", "/robots.txt"), ("HEAD", "/a")]
        assert len(await verify(api, *hits)) == len(hits)


async def test_the_directory_is_public_and_signed_for_its_own_address(
    tmp_path: Path, site: Site
) -> None:
    keys = new_key_file(tmp_path)
    rotate(keys)
    async with open_service(tmp_path / "data", signing_keys=keys.path) as api:
        reply = await directory_of(api)
        head = await api.http.head(paths.SIGNATURE_DIRECTORY)
        assert reply.status_code == 200
        assert reply.headers["content-type"] == (
            "application/http-message-signatures-directory+json"
        )
        assert reply.headers["cache-control"] == "public, max-age=3600"
        assert "content-encoding" not in reply.headers
        now = time.time()
        assert len(verify_directory("bot.example.com", reply.headers, reply.content, now)) == 2
        assert head.status_code == 200
        for authority, body in (
            ("localhost", reply.content),
            ("bot.example.com", reply.content.replace(b"sig", b"enc")),
        ):
            with pytest.raises(NotVerified):
                verify_directory(authority, reply.headers, body, now)
        members = {"kty", "crv", "kid", "x", "use", "nbf"}
        assert [jwk.keys() for jwk in reply.json()["keys"]] == [members | {"exp"}, members]
        # Headers of the caller cannot replace those of the service.
        own: dict[str, Any] = {"headers": {"SIGNATURE-agent": 'sig1="https://bot.example.com"'}}
        crawl: dict[str, Any] = {"url": site.url, "scrape_options": own}
        problems = [
            (await api.post("/v1/crawl", crawl, 422))["detail"][0],
            (await api.post("/v1/search", {"query": "q", **own}, 422))["detail"][0],
        ]
        locations = [["body", "scrape_options", "headers"], ["body", "headers"]]
        assert [problem["loc"] for problem in problems] == locations
        refusal = "the header 'SIGNATURE-agent' cannot be set at a service that signs its requests"
        assert [problem["msg"] for problem in problems] == [refusal] * 2
    assert not site.requests


async def test_only_requests_for_pages_without_headers_of_a_user_are_signed(
    tmp_path: Path, site: Site, other_site: Site
) -> None:
    keys, data = new_key_file(tmp_path), tmp_path / "data"
    stub = stubs()["searxng"]
    stub.served = [Result(site.at(path), "Words", "Words") for path in ("/", "/a")]
    access = {"searxng": {"url": stub.on(other_site)}}
    providers = SessionSettings.model_validate(
        {"engines": dict.fromkeys(ENGINES, ("searxng",)), "providers": access}
    )
    async with (
        Endpoint() as endpoint,
        open_service(data, providers=providers, signing_keys=keys.path) as api,
    ):
        formats = {"formats": ["markdown"], "webhook_url": endpoint.url}
        searched = await api.run_job("search", query="words", **formats)
        assert searched["signature_agent"] == AGENT
        assert [row["success"] for row in searched["data"]] == [True, True]
        assert len(await verify(api, *site.requests)) == 2
        assert stub.requests
        sent_headers = [request.headers for request in stub.requests]
        sent_headers += [webhook.headers for webhook in await endpoint.received(1)]
        assert not any("ignature-" in name for headers in sent_headers for name in headers)
        plain = await api.run_job("search", query="words", formats=[])
        assert plain["signature_agent"] is None

        before = len(site.requests)
        for options in ({"cookies": {"sid": "1"}}, {"headers": {"X-Key": "k"}}):
            reply = await api.run_job("crawl", url=site.url, scrape_options=options)
            assert reply["receipt"]["signature_agent"] is None
        pages = [hit for hit in site.requests[before:] if hit.path != "/robots.txt"]
        assert len(pages) == 8
        assert not any(map(is_signed, pages))
        reply = await api.run_job(
            "crawl", url=site.url, scrape_options={"headers": {"Accept-Language": "de"}}
        )
        assert reply["receipt"]["signature_agent"] == AGENT

        # A recorded crawl is signed, its file has no signature, and a crawl of the file is not.
        warc = tmp_path / "site.warc.gz"
        body: dict[str, Any] = {"url": site.url, "sink": {"warc": str(warc)}}
        start = await api.post(paths.EXTENDED_CRAWLS, body)
        recorded = await api.wait_for_end("crawl", start["job_id"])
        assert recorded["receipt"]["signature_agent"] == AGENT
        await verify(api, *site.requests[-3:])
        assert b"ignature" not in gzip.decompress(warc.read_bytes())
        body = body_for(warc, url=site.url)
        start = await api.post(paths.EXTENDED_CRAWLS, body)
        archived = await api.wait_for_end("crawl", start["job_id"])
        assert len(archived["data"]) == 3
        assert archived["receipt"]["signature_agent"] is None


async def test_a_service_without_keys_has_no_directory(tmp_path: Path) -> None:
    async with open_service(tmp_path / "data") as api:
        reply = await directory_of(api)
        # Its callers may have signatures of their own.
        headers = {"Signature": "sig1=:AAAA:"}
        await api.start_job("search", {"query": "q", "headers": headers, "formats": []})
    assert reply.status_code == 404
    assert reply.json() == {"detail": "this service does not sign its requests"}
    assert not (tmp_path / "data" / KEY_FILE).exists()
