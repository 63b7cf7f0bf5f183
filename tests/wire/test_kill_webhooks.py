"""kill -9 around the start and the end of a job: none is lost, stuck, or told under two event ids.

Each instant is killed twice; `FAIL_POINT_KILLS=10 python -m pytest
tests/wire/test_kill_webhooks.py` does the whole count.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from time import time
from typing import Any

import httpx
import pytest

from tests.preloaded import start_command
from tests.service.webhooks.endpoint import Endpoint
from tests.wire.waiting import TIMEOUT_S
from webdata_nb.contract.events import verify_signature
from webdata_nb.contract.local import Runtime
from webdata_nb.service.ledger import Terms
from webdata_nb.service.settings import LOCAL_ACCOUNT
from webdata_nb.service.store.sqlite.database import SqliteStore
from webdata_nb.settings import Settings
from webdata_nb.toolkit import local
from webdata_nb.toolkit.client.client import Client
from webdata_nb.toolkit.client.transport import ApiRequest

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("FAIL_POINT_KILLS", "2"))
SECRET = "s3cret"
CHECKOUT = Path(__file__).resolve().parent.parent.parent


@contextmanager
def process(settings: Settings, instant: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a service that dies at an instant; one that lives is asked to stop in the end."""
    options: dict[str, Any] = {"cwd": CHECKOUT, "stderr": subprocess.DEVNULL}
    module = "tests.wire.failing_service"
    with start_command(str(settings.data_dir), instant, module=module, **options) as child:
        try:
            yield child
        finally:
            child.terminate()
            child.wait(TIMEOUT_S)


async def runtime_of(settings: Settings, child: subprocess.Popen[bytes]) -> Runtime:
    """Find the service that this process is, and no older one."""
    found: Runtime | None = None
    async with asyncio.timeout(TIMEOUT_S):
        while found is None or found.pid != child.pid:
            assert child.poll() is None
            await asyncio.sleep(0.02)
            found = local.resolve_data_directory(settings).read_runtime()
    return found


@asynccontextmanager
async def client_of(settings: Settings, child: subprocess.Popen[bytes]) -> AsyncIterator[Client]:
    found = await runtime_of(settings, child)
    async with Client(found.url, found.token, trust_env=False) as client:
        yield client


async def died(child: subprocess.Popen[bytes]) -> None:
    assert await asyncio.to_thread(child.wait, TIMEOUT_S) == -9


async def wait_for_deliveries(client: Client, job_id: str) -> list[dict[str, Any]]:
    """Wait until a job has ended and everything is told; return its deliveries."""
    call: Any = client._transport  # no method of the toolkit lists deliveries
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            status = await client.search_status(job_id)
            params = {"job_id": job_id}
            reply = await call.json(ApiRequest("GET", "/v1/webhooks/deliveries", params))
            ended: list[dict[str, Any]] = reply["deliveries"]
            if status.status.terminal and {each["status"] for each in ended} == {"delivered"}:
                return ended
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("instant", ["outbox", "committed", "mark"])
async def test_a_kill_loses_no_job_and_makes_no_second_event(
    local_settings: Settings, instant: str
) -> None:
    jobs = []
    async with Endpoint() as endpoint:
        hook = {"webhook_url": endpoint.url, "webhook_secret": SECRET}
        for _ in range(KILLS):
            with process(local_settings, instant) as child:
                async with client_of(local_settings, child) as client:
                    start = {"query": "q", "formats": [], **hook}
                    jobs.append((await client.start_search(start)).job_id)
                    await died(child)
            with process(local_settings, "never") as child:
                async with client_of(local_settings, child) as client:
                    [delivery] = await wait_for_deliveries(client, jobs[-1])
            assert delivery["event"] == "job.completed"
        by_job: dict[str, list[str]] = {job_id: [] for job_id in jobs}
        for request in endpoint.webhooks:
            assert verify_signature(request.body, request.headers, SECRET)
            by_job[request.payload["job_id"]].append(request.event_id)
    assert all(len(set(ids)) == 1 for ids in by_job.values())
    # Sent again only where the kill fell between the receiver's answer and its mark.
    assert {len(ids) for ids in by_job.values()} == ({2} if instant == "mark" else {1})


MONTHLY = 100


async def limit_credits(settings: Settings) -> None:
    """Give the one account of a local service a limit, so that its credits can be counted."""
    async with SqliteStore(settings.data_dir / "jobs.sqlite") as store:
        terms = Terms("team", MONTHLY, 1)
        await store.accounts.add(LOCAL_ACCOUNT, "local", terms, now=time())


@asynccontextmanager
async def plain_client(
    settings: Settings, child: subprocess.Popen[bytes]
) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client that sends each request once, whatever becomes of the answer."""
    found = await runtime_of(settings, child)
    bearer = {"Authorization": f"Bearer {found.token}"}
    async with httpx.AsyncClient(
        base_url=found.url, headers=bearer, trust_env=False, timeout=TIMEOUT_S
    ) as client:
        yield client


async def list_job_ids(client: httpx.AsyncClient) -> list[str]:
    reply = (await client.get("/v1/jobs")).raise_for_status().json()
    return [each["job_id"] for each in reply["jobs"]]


@pytest.mark.parametrize("instant", ["accept", "accepted"])
async def test_a_start_whose_answer_was_lost_is_found_again_by_its_key(
    local_settings: Settings, instant: str
) -> None:
    await limit_credits(local_settings)
    jobs: list[str] = []
    async with Endpoint() as endpoint:
        hook = {"webhook_url": endpoint.url, "webhook_secret": SECRET}
        start = {"query": "q", "formats": [], **hook}
        for number in range(KILLS):
            key = {"Idempotency-Key": f"start {number}"}
            with process(local_settings, instant) as child:
                async with plain_client(local_settings, child) as client:
                    with pytest.raises(httpx.TransportError):
                        await client.post("/v1/search", json=start, headers=key)
                    await died(child)
            with process(local_settings, "never") as child:
                async with plain_client(local_settings, child) as client:
                    others = [each for each in await list_job_ids(client) if each not in jobs]
                    assert len(others) == (instant == "accepted")
                    again = await client.post("/v1/search", json=start, headers=key)
                    assert again.status_code == 200, again.text
                    job_id = again.json()["job_id"]
                    assert others in ([], [job_id])
                    jobs.append(job_id)
                async with client_of(local_settings, child) as toolkit:
                    [delivery] = await wait_for_deliveries(toolkit, job_id)
                    usage = await toolkit.usage()
            assert delivery["event"] == "job.completed"
            # One credit a search: nothing is held by what was lost, nothing was taken twice.
            assert (usage.monthly_left, usage.reserved, usage.active) == (MONTHLY - len(jobs), 0, 0)
        assert len(set(jobs)) == KILLS
        assert sorted(request.payload["job_id"] for request in endpoint.webhooks) == sorted(jobs)
        assert len({request.event_id for request in endpoint.webhooks}) == KILLS
