"""Text that a database cannot store is refused alike on both, whichever parameter has it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from aiohttp import web

from tests.openapi.operations import OPERATIONS, Operation
from tests.service.conftest import Api
from tests.service.routes.test_search_providers import Town, every
from tests.service.search.stubs import Result
from tests.site.server import Site

pytestmark = pytest.mark.both_stores

# A NUL, which PostgreSQL does not store, at any place, and bytes that are no UTF-8, which decode
# to U+FFFD or to lone surrogates.
NUL_CURSOR = base64.urlsafe_b64encode(orjson.dumps([1.0, "a\0"])).decode()
UNSTORABLE = (NUL_CURSOR, "%00", "a%00b", f"{'a' * 40}%00", "%ED%A0%80", "%ff%00")
KNOWN = "00000000-0000-4000-8000-000000000000"


def text_parameters(operation: Operation, place: str) -> list[dict[str, Any]]:
    return [
        each
        for each in operation.described.get("parameters", [])
        if each["in"] == place and "string" in str(each["schema"])
    ]


def required_query(operation: Operation) -> dict[str, str]:
    return {
        each["name"]: "text"
        for each in operation.described.get("parameters", [])
        if each["in"] == "query" and each.get("required")
    }


def requests(operation: Operation) -> list[str]:
    """Return paths with queries in which one parameter has such text."""
    found = []
    path_names = [each["name"] for each in text_parameters(operation, "path")]
    plain_path = operation.path
    for name in path_names:
        plain_path = plain_path.replace(f"{{{name}}}", KNOWN)
    required = required_query(operation)
    for text in UNSTORABLE:
        for name in path_names:
            path = operation.path.replace(f"{{{name}}}", text)
            for other in path_names:
                path = path.replace(f"{{{other}}}", KNOWN)
            found.append(_with_query(path, {name: quote(v) for name, v in required.items()}))
        for parameter in text_parameters(operation, "query"):
            query = {**required, parameter["name"]: text}
            found.append(_with_query(plain_path, query))
    return found


def _with_query(path: str, query: dict[str, str]) -> str:
    return f"{path}?{'&'.join(f'{name}={value}' for name, value in query.items())}"


async def test_no_parameter_of_a_path_or_query_is_an_error_of_the_service(api: Api) -> None:
    failures = []
    for operation in OPERATIONS:
        for url in requests(operation):
            body = next(iter(operation.examples), None)
            reply = await api.http.request(operation.method, url, json=body)
            if reply.status_code not in operation.statuses - {500}:
                failures.append((operation.method, url, reply.status_code, reply.text[:200]))
    assert failures == []


def changed(value: Any, text: str) -> Iterator[Any]:
    """Yield a body once for each of its texts, and names of fields, with that one replaced."""
    if isinstance(value, str):
        yield text
        yield f"{value}{text}"
    elif isinstance(value, dict):
        for name, part in value.items():
            yield {**value, text: part}
            for each in changed(part, text):
                yield {**value, name: each}
    elif isinstance(value, list):
        for position, part in enumerate(value):
            for each in changed(part, text):
                yield [*value[:position], each, *value[position + 1 :]]


@pytest.mark.parametrize("text", ["\0", "\ud800"], ids=["nul", "surrogate"])
async def test_no_text_of_a_body_is_an_error_of_the_service(api: Api, text: str) -> None:
    failures = []
    for operation in OPERATIONS:
        path = operation.path
        for parameter in text_parameters(operation, "path"):
            path = path.replace(f"{{{parameter['name']}}}", KNOWN)
        for body in (each for example in operation.examples for each in changed(example, text)):
            content = json.dumps(body).encode()
            headers = {"Content-Type": "application/json"}
            reply = await api.http.post(path, content=content, headers=headers)
            if reply.status_code not in operation.statuses - {200, 500}:
                failures.append((operation.id, body, reply.status_code, reply.text[:200]))
    assert failures == []


@pytest.mark.parametrize(
    "files",
    [
        {"source": {"file": {"path": "/tmp/a\0.warc", "version": "1"}}},
        {"sink": {"warc": "/tmp/a\0.warc.gz"}},
    ],
)
async def test_no_path_of_a_file_is_an_error_of_the_service(
    api: Api, files: dict[str, Any]
) -> None:
    body = {"url": "http://example.test/", **files}
    assert "NUL" in str(await api.post("/v1/crawls", body, status=422))


ODD = "a\0b"
JSON_LD = (
    r'{"@type": "Product", "name": "a\u0000b", "sku": "\ud83d", "offers": {"price": "1\u0000"}}'
)
PAGE = f"""<html lang="e\0n"><head><title>Title {ODD}</title>
<meta name="description" content="{ODD}"><meta property="og:title" content="{ODD}">
<link rel="canonical" href="/{ODD}"><script type="application/ld+json">{JSON_LD}</script></head>
<body><h1 id="x\0">Head {ODD}</h1><p>Text {ODD} &#0; &#xD800; of the page,
<a href="/p\0q" title="\0">link {ODD}</a> <a href="/%00">same</a> <a href="/json?a=%00">json</a>
<a href="/feed">feed</a> <a href="/moved">moved</a> <a href="/gone">gone</a>
<img src="/i\0.png" alt="{ODD}"></p>
<table><tr><th>k\0</th></tr><tr><td>v{ODD}</td></tr></table><pre>code {ODD}</pre></body></html>"""
FORMATS = ["markdown", "html", "raw_html", "links", "images", "headings", "structured_data"]


def odd_site(site: Site) -> None:
    """Serve pages whose every text has a NUL, a lone surrogate or both."""
    kinds = {"/": (PAGE, "text/html; charset=utf-8"), "/%00": (PAGE, "text/html; charset=utf-8")}
    kinds["/json"] = r'{"name": "a\u0000b", "half": "\ud83d"}', "application/json"
    kinds["/feed"] = f"<rss><channel><title>{ODD}</title></channel></rss>", "text/xml"
    kinds["/sitemap.xml"] = (
        f"<urlset><url><loc>{site.at('/in')}\0map</loc></url></urlset>",
        "text/xml",
    )
    for path, (content, kind) in kinds.items():
        site.page(path, content, headers={"Content-Type": kind})
    site.page("/gone", ODD, status=404)
    site.redirect("/moved", "/%00?x=%00")
    site.robots(f"User-agent: *\nDisallow: /secret\0\n# {ODD}\nSitemap: /map\0.xml\n")


async def test_what_sites_send_is_stored(api: Api, site: Site) -> None:
    odd_site(site)
    options = {"max_pages": 30, "sitemap": True, "scrape_options": {"formats": FORMATS}}
    reply = await api.run_job("crawl", url=site.url, **options)
    assert reply["status"] == "completed", reply["error"]
    rows = {row["url"].removeprefix(site.url): row for row in reply["data"]}
    assert {name for name, row in rows.items() if row["success"]} == {"", "json?a=%00", "feed"}
    assert rows[""]["title"] == "Title a\ufffdb"
    assert "Text ab" in rows[""]["markdown"]
    path = f"/v1/crawl/{reply['job_id']}"
    for kind in ("json", "csv", "zip"):
        assert (await api.http.get(f"{path}/export", params={"format": kind})).status_code == 200
    entries = (await api.get(f"{path}/receipt"))["data"]
    assert len(entries) == sum(reply["receipt"]["counts"].values())


async def test_what_providers_send_is_stored(api: Api, site: Site) -> None:
    odd_site(site)
    town = Town(api, site)
    brave, searxng = town.stubs["brave"], town.stubs["searxng"]
    brave.other = lambda _: web.Response(status=500, text='{"message": "no\\u0000pe"}')
    searxng.served = [Result(f"{site.url}?{n}=\0", f"Title\0{n}", f"About\0 {n}") for n in range(3)]
    providers = {"brave": town.access("brave"), "searxng": town.access("searxng", "/own")}
    await town.bind(every("brave", "searxng"), providers)
    reply = await town.search(formats=["markdown"])
    assert reply["status"] == "completed", reply["error"]
    assert [row["rank"] for row in reply["data"]] == [1, 2, 3]
