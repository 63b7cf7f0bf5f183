"""Asks a service every GET of its OpenAPI document, to compare the replies of two services."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from hashlib import sha256
from urllib.parse import urlencode

import httpx

from webdata_nb.service.routes.application import openapi

Reply = tuple[int, Mapping[str, str], str]
"""Status, headers and SHA-256 of the body."""

# A number of the request, and the time of the reply.
_VARYING_HEADERS = {"x-request-id", "date"}
_OUTCOMES = ("fetched", "filtered", "failed:http_404")
_FORMATS = ("json", "csv", "zip")
_TIMEOUT_S = 600.0


def templates() -> set[str]:
    """Return the paths that the document has a GET for."""
    return {path for path, methods in openapi()["paths"].items() if "get" in methods}


async def every_reply(
    http: httpx.AsyncClient,
    headers: Mapping[str, str],
    job_ids: Sequence[str],
    *,
    files: Sequence[str] = (),
    per_page: int = 100,
) -> dict[str, Reply]:
    """Return the replies to all GETs of an account, by URL.

    Listings are followed to their end. Each path of the OpenAPI document is asked.
    """
    replies: dict[str, Reply] = {}
    paths_read: set[str] = set()
    async for template, url in _urls(http, headers, job_ids, files, per_page):
        paths_read.add(template)
        replies[url] = await _reply(http, headers, url)
    if missing := templates() - paths_read:
        raise AssertionError(f"add these GETs to the comparison: {sorted(missing)}")
    return replies


async def _reply(http: httpx.AsyncClient, headers: Mapping[str, str], url: str) -> Reply:
    digest = sha256()
    async with http.stream("GET", url, headers=headers, timeout=_TIMEOUT_S) as response:
        async for part in response.aiter_bytes():
            digest.update(part)
    stable_headers = {
        k: v for k, v in response.headers.items() if k.lower() not in _VARYING_HEADERS
    }
    return response.status_code, stable_headers, digest.hexdigest()


async def _urls(
    http: httpx.AsyncClient,
    headers: Mapping[str, str],
    job_ids: Sequence[str],
    files: Sequence[str],
    per_page: int,
) -> AsyncIterator[tuple[str, str]]:
    for path in (
        "/healthz",
        "/readyz",
        "/v1/webhooks/stats",
        "/v1/data-api-weights/public",
        "/v1/usage",
        "/v1/engines",
        "/openapi.json",
    ):
        yield path, path
    path = "/v1/data/partner-ads/transparency/advertisers"
    yield path, f"{path}?query=shop"
    path = "/v1/data/partner-ads/transparency/files/{sha256}"
    for digest in (*files, "0" * 64):
        yield path, path.format(sha256=digest)
    for path in ("/v1/jobs", "/v1/webhooks/deliveries"):
        async for url in _listing(http, headers, path):
            yield path, url
    for job_id in (*job_ids, "unknown"):
        yield "/v1/webhooks/deliveries", f"/v1/webhooks/deliveries?job_id={job_id}"
        for kind in ("crawl", "search"):
            async for template, url in _job_urls(http, headers, kind, job_id, per_page):
                yield template, url


async def _job_urls(
    http: httpx.AsyncClient, headers: Mapping[str, str], kind: str, job_id: str, per_page: int
) -> AsyncIterator[tuple[str, str]]:
    template = f"/v1/{kind}/{{job_id}}"
    base = template.format(job_id=job_id)
    yield template, base
    yield template, f"{base}?include_data=false"
    yield f"{template}/events", f"{base}/events"
    for name in _FORMATS:
        yield f"{template}/export", f"{base}/export?format={name}"
    if kind == "search":
        return
    for path in (base, f"{base}/receipt"):
        async for url in _pages(http, headers, path, per_page):
            yield template + path.removeprefix(base), url
    for outcome in _OUTCOMES:
        query = urlencode({"outcome": outcome, "per_page": 7})
        yield f"{template}/receipt", f"{base}/receipt?{query}"
    async for url in _listing(http, headers, f"{base}/page-facts", size="per_page"):
        yield f"{template}/page-facts", url
    query = urlencode({"url": "https://Site.test/_/0"})
    yield f"{template}/receipt", f"{base}/receipt?{query}"


async def _pages(
    http: httpx.AsyncClient, headers: Mapping[str, str], path: str, per_page: int
) -> AsyncIterator[str]:
    """Yield the pages of a listing by number, the one after the last included."""
    number = 0
    while True:
        number += 1
        url = f"{path}?page={number}&per_page={per_page}"
        yield url
        response = await http.get(url, headers=headers, timeout=_TIMEOUT_S)
        if not response.is_success or not response.json()["data"]:
            return


async def _listing(
    http: httpx.AsyncClient, headers: Mapping[str, str], path: str, *, size: str = "limit"
) -> AsyncIterator[str]:
    """Yield the pages of a listing by cursor; `size` is the parameter for their length."""
    query = {size: "7"}
    while True:
        url = f"{path}?{urlencode(query)}"
        yield url
        reply = (await http.get(url, headers=headers, timeout=_TIMEOUT_S)).json()
        if "cursor" not in reply:
            return
        query["cursor"] = reply["cursor"]
