"""kill -9 around the end of a job: no job is lost or stuck, and each is told under one event id.

Each instant is killed twice; `FAIL_POINT_KILLS=10 python -m pytest
tests/wire/test_kill_webhooks.py` does the whole count.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.service.webhooks.endpoint import Endpoint
from tests.wire.waiting import PATIENCE_S
from webdata_nb import local
from webdata_nb.client.client import Client
from webdata_nb.client.exchange import Call
from webdata_nb.contract.local import Runtime
from webdata_nb.contract.signature import verify_signature
from webdata_nb.settings import Settings

KILLS = int(os.environ.get("FAIL_POINT_KILLS", "2"))
SECRET = "s3cret"
CHECKOUT = Path(__file__).resolve().parent.parent.parent


@contextmanager
def process(settings: Settings, instant: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a service that dies at an instant; one that lives is asked to stop in the end."""
    command = [sys.executable, "-m", "tests.wire.failing_service", str(settings.data_dir), instant]
    with subprocess.Popen(command, cwd=CHECKOUT, stderr=subprocess.DEVNULL) as child:
        try:
            yield child
        finally:
            child.terminate()
            child.wait(PATIENCE_S)


@asynccontextmanager
async def client_of(settings: Settings, child: subprocess.Popen[bytes]) -> AsyncIterator[Client]:
    """Find the service that this process is, and no older one."""
    found: Runtime | None = None
    async with asyncio.timeout(PATIENCE_S):
        while found is None or found.pid != child.pid:
            assert child.poll() is None
            await asyncio.sleep(0.02)
            found = local.place(settings).runtime()
    async with Client(found.url, found.token, trust_env=False) as client:
        yield client


async def died(child: subprocess.Popen[bytes]) -> None:
    assert await asyncio.to_thread(child.wait, PATIENCE_S) == -9


async def told(client: Client, job_id: str) -> list[dict[str, Any]]:
    """Wait until a job has ended and everything is told; return its deliveries."""
    call: Any = client._transport  # no method of the toolkit lists deliveries
    async with asyncio.timeout(PATIENCE_S):
        while True:
            status = await client.search_status(job_id)
            params = {"job_id": job_id}
            reply = await call.json(Call("GET", "/v1/webhooks/deliveries", params))
            ended: list[dict[str, Any]] = reply["deliveries"]
            if status.status.terminal and {each["status"] for each in ended} == {"delivered"}:
                return ended
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("instant", ["outbox", "committed", "mark"])
async def test_a_kill_loses_no_job_and_makes_no_second_event(
    chosen: Settings, instant: str
) -> None:
    jobs = []
    async with Endpoint() as endpoint:
        hook = {"webhook_url": endpoint.url, "webhook_secret": SECRET}
        for _ in range(KILLS):
            with process(chosen, instant) as child:
                async with client_of(chosen, child) as client:
                    start = {"query": "q", "formats": [], **hook}
                    jobs.append((await client.start_search(start)).job_id)
                    await died(child)
            with process(chosen, "never") as child:
                async with client_of(chosen, child) as client:
                    [delivery] = await told(client, jobs[-1])
            assert delivery["event"] == "job.completed"
        by_job: dict[str, list[str]] = {job_id: [] for job_id in jobs}
        for got in endpoint.got:
            assert verify_signature(got.body, got.headers, SECRET)
            by_job[got.payload["job_id"]].append(got.event_id)
    assert all(len(set(ids)) == 1 for ids in by_job.values())
    # Sent again only where the kill fell between the receiver's answer and its mark.
    assert {len(ids) for ids in by_job.values()} == ({2} if instant == "mark" else {1})
