"""No secret of a job is in any reply, stream, export or log line, whatever goes wrong."""

from __future__ import annotations

import asyncio
import io
import logging
import zipfile
from typing import Any

import httpx
import pytest

from tests.service.conftest import Api
from tests.service.routes.test_search import magazine
from tests.service.webhooks.endpoint import Endpoint
from tests.site.server import Site

CANARIES = {
    "webhook_secret": "canary-hook-71f3",
    "header": "canary-header-0b9e",
    "cookie": "canary-cookie-c5d2",
    "url": "canary-token-44aa",
}


def secrets_of(endpoint: Endpoint) -> dict[str, Any]:
    base = endpoint.url.partition("?")[0]
    return {
        "webhook_url": f"{base}?key={CANARIES['url']}",
        "webhook_secret": CANARIES["webhook_secret"],
    }


def visits() -> dict[str, Any]:
    return {"headers": {"X-Key": CANARIES["header"]}, "cookies": {"sid": CANARIES["cookie"]}}


def leaked(text: str) -> list[str]:
    return [name for name, canary in CANARIES.items() if canary in text]


async def told(api: Api, job_id: str) -> None:
    """Wait until everything that a job tells was sent, or given up."""
    async with asyncio.timeout(30):
        while True:
            reply = await api.get("/v1/webhooks/deliveries", params={"job_id": job_id})
            if {each["status"] for each in reply["deliveries"]} & {"delivered", "failed"}:
                return
            await asyncio.sleep(0.02)


async def everything_about(api: Api, kind: str, job_id: str) -> list[httpx.Response]:
    """Ask for all that can be read of a job."""
    paths = [
        f"/v1/{kind}/{job_id}",
        f"/v1/{kind}/{job_id}/events",
        f"/v1/crawl/{job_id}/receipt",
        "/v1/jobs",
        "/v1/usage",
        "/v1/webhooks/deliveries",
        "/v1/webhooks/stats",
        *(f"/v1/{kind}/{job_id}/export?format={name}" for name in ("json", "csv", "zip")),
    ]
    return [await api.http.get(path) for path in paths]


def text_of(answer: httpx.Response) -> str:
    """Return an answer as text, archives unpacked, with its headers."""
    head = str(answer.headers)
    if answer.headers.get("content-type") != "application/zip":
        return head + answer.text
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        names = archive.namelist()
        return head + "".join(archive.read(name).decode("utf-8", "replace") for name in names)


async def test_what_a_job_was_given_is_seen_by_nobody(
    api: Api, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    magazine(site)
    async with Endpoint(answers=[404, 204, 404]) as endpoint:
        hook = secrets_of(endpoint)
        crawl = await api.done("crawl", url=site.url, scrape_options=visits(), **hook)
        await api.done("crawl", url=site.url)
        search = await api.done("search", query="northern lights", **visits(), **hook)
        failed = await api.done("crawl", url="http://127.0.0.1:1024/", **hook)
        answers = []
        for kind, job in (("crawl", crawl), ("search", search), ("crawl", failed)):
            await told(api, job["job_id"])
            answers += await everything_about(api, kind, job["job_id"])
    assert site.hits("/rain")[0].headers["X-Key"] == CANARIES["header"]
    assert sum(answer.status_code == 200 for answer in answers) >= 20
    for answer in answers:
        assert leaked(text_of(answer)) == [], answer.url
    lines = [line for line in caplog.text.splitlines() if leaked(line)]
    assert lines == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"webhook_secret": [CANARIES["webhook_secret"]]},
        {"webhook_secret": CANARIES["webhook_secret"] * 200},
        {"webhook_url": f"http://example.com/?{CANARIES['url']}"},
        {"webhook_url": f"https://x:{CANARIES['url']}@example.com/"},
        {"headers": {"X Y": CANARIES["header"]}},
        {"headers": {"X": f"{CANARIES['header']}\n"}},
        {"cookies": {"sid": f"{CANARIES['cookie']};"}},
        {"cookies": CANARIES["cookie"]},
    ],
)
async def test_a_refusal_repeats_no_secret(
    api: Api, wrong: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    answer = await api.http.post("/v1/search", json={"query": "q", **wrong})
    assert answer.status_code == 422
    assert leaked(answer.text + caplog.text) == []
