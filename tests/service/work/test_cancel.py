"""A cancelled job does nothing any more, whenever the cancellation comes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection
from pathlib import Path

import pytest

from tests.service.job_stores import cipher_of, database_of
from tests.stores.jobs import ALICE, accounts, entry, new_job
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.settings import SLOTS, unreserved_slots
from webdata_nb.service.store.job_context import JobContext, JobEvents
from webdata_nb.service.store.records import EMPTY_BATCH, CommitBatch, JobRecord, JobSnapshot, Lease
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.work.runner import Runner


class Slow(Store):
    """A store whose claims are noticed late, each once `held` is set."""

    claimed: asyncio.Event
    held: asyncio.Event

    async def claim(
        self,
        worker: str,
        *,
        max_jobs: int = 1,
        spare_jobs: int = 0,
        held_jobs: Collection[str] = (),
        lease_s: float,
        now: float,
    ) -> list[tuple[JobRecord, Lease]]:
        found = await super().claim(
            worker,
            max_jobs=max_jobs,
            spare_jobs=spare_jobs,
            held_jobs=held_jobs,
            lease_s=lease_s,
            now=now,
        )
        if found:
            self.claimed.set()
            await self.held.wait()
            self.held.clear()
        return found


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Slow]:
    async with Slow(database_of(tmp_path), cipher_of(tmp_path)) as opened:
        opened.claimed, opened.held = asyncio.Event(), asyncio.Event()
        await accounts(opened)
        yield opened


class Engine:
    """Runs until it is cancelled, and tells what it did."""

    def __init__(self) -> None:
        self.started_ids: list[str] = []
        self.cleaned: list[str] = []
        self.running = asyncio.Event()

    async def __call__(self, context: JobContext) -> CommitBatch:
        self.started_ids.append(context.job.id)
        await context.commit(CommitBatch(entries=(entry(0, position=0),)))
        self.running.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cleaned.append(context.job.id)
        return EMPTY_BATCH


def nothing(_ended: JobSnapshot) -> None:
    pass


async def begin_cancel(store: Store, runner: Runner, job_id: str) -> asyncio.Task[None]:
    """Do what the route does, as far as possible during a claim; the task is the rest."""
    await store.cancel(ALICE, job_id, now=time.time())
    cancelling = asyncio.create_task(runner.cancel(job_id))
    await asyncio.sleep(0)  # its first step marks the job
    return cancelling


def keep(_job_id: str) -> None:
    pass


async def test_job_cancelled_during_its_claim_never_begins(store: Slow) -> None:
    engine = Engine()
    runner = Runner(store, JobEvents(), engine, on_end=nothing, delete_spooled=keep)
    job, _ = await store.accept(new_job(), now=time.time())
    await runner.start()
    async with asyncio.timeout(60):
        await store.claimed.wait()
        cancelling = await begin_cancel(store, runner, job.id)
        assert (await store.job(ALICE, job.id)).state is JobStatus.CANCELLED
        store.held.set()
        await cancelling
    assert engine.started_ids == []
    await runner.close()


async def test_cancelled_jobs_free_their_slots(
    store: Slow,
) -> None:
    engine = Engine()
    runner = Runner(store, JobEvents(), engine, on_end=nothing, delete_spooled=keep)
    slots = unreserved_slots(SLOTS)
    jobs = [(await store.accept(new_job(), now=time.time()))[0] for _ in range(slots + 4)]
    await runner.start()
    async with asyncio.timeout(60):
        for claim in (jobs[:slots], jobs[slots:-1]):
            await store.claimed.wait()
            store.claimed.clear()
            cancelling = [await begin_cancel(store, runner, job.id) for job in claim]
            store.held.set()
            await asyncio.gather(*cancelling)
        store.held.set()
        await engine.running.wait()
    assert engine.started_ids == [jobs[-1].id]
    await runner.close()


async def test_cancel_returns_after_the_job_has_ended(store: Slow) -> None:
    store.held.set()
    engine = Engine()
    forgotten: list[str] = []
    runner = Runner(store, JobEvents(), engine, on_end=nothing, delete_spooled=forgotten.append)
    job, _ = await store.accept(new_job(), now=time.time())
    await runner.start()
    async with asyncio.timeout(60):
        await engine.running.wait()
        await (await begin_cancel(store, runner, job.id))
    assert engine.cleaned == forgotten == [job.id]
    assert len(await store.rows(ALICE, job.id, start=0, count=9)) == 1
    await runner.close()


@pytest.mark.parametrize("is_over", [True, False])
async def test_a_job_that_another_process_took_leaves_spooled_files_only_if_it_continues(
    store: Slow, is_over: bool
) -> None:
    store.held.set()
    engine = Engine()
    forgotten: list[str] = []
    runner = Runner(store, JobEvents(), engine, on_end=nothing, delete_spooled=forgotten.append)
    job, _ = await store.accept(new_job(), now=time.time())
    await runner.start()
    async with asyncio.timeout(60):
        await engine.running.wait()
        if is_over:
            await store.cancel(ALICE, job.id, now=time.time())
        else:
            await store.accounts.suspend("Alice", now=time.time())
        runner.check_lease(job.id)
        while True:
            if not runner.running_jobs:
                break
            await asyncio.sleep(0)
    assert engine.cleaned == [job.id]
    assert forgotten == ([job.id] if is_over else [])
    await runner.close()
