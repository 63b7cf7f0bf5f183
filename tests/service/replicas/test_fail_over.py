"""A standby becomes the primary while two replicas run crawls, and all connections end."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests import postgres
from tests.postgres import PostgresServer, url_of_both
from tests.replica_process import add_account
from tests.service.conftest import Api
from tests.service.replicas.outages import (
    DEADLINE_S,
    check_crawl,
    check_refusal,
    check_webhooks,
    crawl_body,
    open_replica,
    wait_for_pages,
)
from tests.service.webhooks.endpoint import Endpoint
from tests.site.graphs import link_tree
from tests.site.server import Site
from webdata_nb.service.encryption import new_key

pytestmark = pytest.mark.slow

PAGES = 100
CRAWLS = 4


@pytest.fixture
def servers() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """Run a primary and a standby that confirms its commits."""
    with postgres.running() as primary, postgres.running_standby(primary) as standby:
        yield primary, standby


async def start_until_accepted(api: Api, body: dict[str, Any]) -> str:
    """Start a crawl as the toolkit does: with a key, again after each 503."""
    key = {"Idempotency-Key": str(uuid.uuid4())}
    async with asyncio.timeout(DEADLINE_S):
        while True:
            response = await api.http.post("/v1/crawl", json=body, headers=key)
            if response.status_code == 200:
                return str(response.json()["job_id"])
            check_refusal(response)
            await asyncio.sleep(0.1)


async def test_crawls_go_on_at_a_promoted_standby(
    servers: tuple[PostgresServer, PostgresServer], site: Site, tmp_path: Path
) -> None:
    primary, standby = servers
    urls = [site.at(path) for path in link_tree(site, depth=2, fanout=10)[:PAGES]]
    url, key = url_of_both(primary, standby, primary.new_schema()), new_key()
    await add_account(url, key)
    async with AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(Endpoint())
        replicas = [
            await stack.enter_async_context(open_replica(tmp_path / name, url, key, replica=name))
            for name in ("first", "second")
        ]
        body = crawl_body(urls, endpoint)
        with site.hold("/tree/5"):
            job_ids = [await replicas[n % 2].start_job("crawl", body) for n in range(CRAWLS)]
            await wait_for_pages(site, 6 * CRAWLS)
        starts = [
            asyncio.create_task(start_until_accepted(replicas[n % 2], body)) for n in range(CRAWLS)
        ]
        await asyncio.to_thread(primary.stop, "immediate")
        for api in replicas:
            check_refusal(await api.http.get(f"/v1/crawl/{job_ids[0]}"))
        await asyncio.to_thread(standby.promote)
        job_ids += await asyncio.gather(*starts)
        for api in replicas:
            for job_id in job_ids:
                await check_crawl(api, job_id, urls)
            usage = await api.get("/v1/usage")
            charged = PAGES * len(job_ids)
            assert (usage["used"], usage["reserved"], usage["active"]) == (charged, 0, 0)
        await check_webhooks(endpoint, job_ids)
