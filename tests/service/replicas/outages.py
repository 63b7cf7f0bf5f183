"""Replicas during an outage of their store: how to open them, and what must hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from tests.replica_process import HEADERS
from tests.service.conftest import Api, open_service
from tests.service.webhooks.endpoint import Endpoint
from tests.site.server import Site
from webdata_nb.contract.outcomes import TERMINAL

DEADLINE_S: Final = 120.0


@asynccontextmanager
async def open_replica(folder: Path, url: str, key: str, **options: Any) -> AsyncIterator[Api]:
    """Open a service of a team on a store; requests are those of Alice."""
    async with open_service(
        folder, "team", allow_networks=("127.0.0.0/8",), store=url, secret_keys=(key,), **options
    ) as api:
        api.http.headers.update(HEADERS)
        yield api


async def wait_for_pages(site: Site, count: int) -> None:
    """Wait until so many pages have been requested."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if len(site.paths) >= count:
                return
            await asyncio.sleep(0.02)


def crawl_body(urls: list[str], endpoint: Endpoint) -> dict[str, Any]:
    """Return the request of a crawl of all pages that reports its end."""
    return {
        "url": urls[0],
        "max_pages": len(urls),
        "concurrency": 4,
        "webhook_url": endpoint.url,
        "webhook_secret": "secret",
    }


async def check_webhooks(endpoint: Endpoint, job_ids: list[str]) -> None:
    """Check that each job was reported, with one event id."""
    webhooks = await endpoint.received(len(job_ids))
    assert {webhook.payload["job_id"] for webhook in webhooks} == set(job_ids)
    assert len({webhook.event_id for webhook in webhooks}) == len(job_ids)


def check_refusal(response: httpx.Response) -> None:
    """Check the reply to a request that meets an outage."""
    assert response.status_code == 503, response.text
    assert "not available" in response.json()["detail"]
    assert int(response.headers["Retry-After"]) > 0
    assert "get a connection" not in response.text  # it did not wait for one until the timeout


async def check_crawl(api: Api, job_id: str, urls: list[str]) -> None:
    """Wait for the end of a crawl; check that it has exactly these rows in this order."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            response = await api.http.get(f"/v1/crawl/{job_id}?per_page=1000")
            if response.status_code == 503:  # the sessions were killed just now
                check_refusal(response)
            elif (reply := Api._checked(response, 200))["status"] in TERMINAL:
                break
            await asyncio.sleep(0.05)
    assert (reply["status"], reply["error"]) == ("completed", None)
    assert [row["url"] for row in reply["data"]] == urls
