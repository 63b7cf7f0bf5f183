"""Deliveries of one account do not wait for the name lookups of another one."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.service.job_stores import store_of
from tests.service.webhooks.endpoint import Endpoint
from tests.stores.jobs import ALICE, BOB, NOW, accounts, new_job
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.store.job_context import StoreRetry
from webdata_nb.service.store.records import WEBHOOK_CONTEXT
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.web import resolver
from webdata_nb.service.webhooks.delivery import Deliverer, Sender, webhook_policy

LOOKUP_THREADS = 16
SILENT_ENDPOINTS = LOOKUP_THREADS + 4


class SilentNameServer:
    """Resolves no name below `.silent.test` until it is released, and all others to loopback."""

    def __init__(self) -> None:
        self._pending = threading.Semaphore(0)
        self.released = threading.Event()

    def look_up(self, host: str) -> list[str]:
        """Return the addresses of a host, as the operating system does."""
        if host.endswith(".silent.test"):
            self._pending.release()
            self.released.wait()
        return ["127.0.0.1"]

    async def wait_for_lookups(self, count: int) -> None:
        """Wait until `count` lookups of silent names are pending."""
        for _ in range(count):
            assert await asyncio.to_thread(self._pending.acquire, timeout=120)


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> SilentNameServer:
    silent = SilentNameServer()
    monkeypatch.setattr(resolver, "_system_addresses", silent.look_up)
    # Neither a lookup nor its queue ends by itself during the test.
    monkeypatch.setattr(resolver, "LOOKUP_TIMEOUT_S", 600.0)
    monkeypatch.setattr(resolver, "QUEUE_S", 600.0)
    return silent


async def add_delivery(store: Store, account_id: str, url: str) -> None:
    """End a job of an account with a webhook."""
    job = new_job(
        account_id,
        request={"url": "http://x/", "webhook_url": url},
        context={WEBHOOK_CONTEXT: {"profile": "B", "pages": False}},
    )
    await store.accept(job, now=NOW)
    [(_, lease)] = await store.claim("worker", lease_s=10, now=NOW)
    await store.finish(lease, JobStatus.COMPLETED, error=None, now=NOW)


async def test_silent_names_of_one_account_do_not_delay_deliveries_of_others(
    tmp_path: Path, name_server: SilentNameServer
) -> None:
    policy = webhook_policy((), own_port=None, loopback=True)
    async with (
        store_of(tmp_path) as store,
        Sender(policy, "webdata-tests/1.0", loopback=True) as sender,
        Endpoint() as endpoint,
    ):
        await accounts(store)
        for number in range(SILENT_ENDPOINTS):
            await add_delivery(store, ALICE, f"http://{number}.silent.test/hook")
        deliverer = Deliverer(store.outbox, store, sender, time.time, StoreRetry())
        running = asyncio.create_task(deliverer.run())
        try:
            await name_server.wait_for_lookups(LOOKUP_THREADS)
            await add_delivery(store, BOB, endpoint.url.replace("127.0.0.1", "bob.test"))
            deliverer.wake()
            async with asyncio.timeout(120):
                await endpoint.received(1)
        finally:
            name_server.released.set()
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
