"""Jobs of processes that died: another one claims them without waiting for its next poll."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.service.job_stores import store_of
from tests.stores.jobs import entry, new_job
from webdata_nb.service.store.job_context import JobContext, JobEvents
from webdata_nb.service.store.records import EMPTY_BATCH, CommitBatch
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.work import runner
from webdata_nb.service.work.runner import Engine, Membership


@pytest.fixture(autouse=True)
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "POLL_S", 1000.0)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with store_of(tmp_path) as opened:
        await opened.accounts.ensure("alice", "Alice", now=opened.now())
        yield opened


@asynccontextmanager
async def running(store: Store, engine: Engine, id_file: Path) -> AsyncIterator[None]:
    """Run jobs as one of several processes."""
    membership = Membership(
        store.replicas, "alive", 16, kind="serve", id_file=id_file, now=store.now()
    )
    local = runner.Runner(
        store,
        JobEvents(),
        engine,
        on_end=lambda _: None,
        delete_spooled=lambda _: None,
        membership=membership,
        clock=store.now,
    )
    await local.start()
    yield
    await local.close()


@pytest.mark.both_stores
async def test_jobs_are_claimed_when_their_leases_end(store: Store, tmp_path: Path) -> None:
    claimed: asyncio.Queue[str] = asyncio.Queue()

    async def engine(context: JobContext) -> CommitBatch:
        await claimed.put(context.job.id)
        return EMPTY_BATCH

    jobs: list[str] = []
    for lease_s in (0.5, 4.0):
        await store.accept(new_job("alice"), now=store.now())
        [(job, _)] = await store.claim("dead", held_jobs=jobs, lease_s=lease_s, now=store.now())
        jobs.append(job.id)
    async with running(store, engine, tmp_path / "id"), asyncio.timeout(60):
        assert [await claimed.get() for _ in jobs] == jobs


async def test_a_lease_that_ends_during_a_claim_is_not_overlooked(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed = asyncio.Event()

    async def engine(_context: JobContext) -> CommitBatch:
        claimed.set()
        return EMPTY_BATCH

    await store.accept(new_job("alice"), now=store.now())
    await store.claim("dead", lease_s=3.0, now=store.now())
    lease_end = store.now() + 3.0
    claim = store.claim

    async def slow_claim(*arguments: Any, **options: Any) -> Any:
        found = await claim(*arguments, **options)
        await asyncio.sleep(max(0.0, lease_end + 0.1 - store.now()))
        return found

    monkeypatch.setattr(store, "claim", slow_claim)
    async with running(store, engine, tmp_path / "id"), asyncio.timeout(60):
        await claimed.wait()


@pytest.mark.both_stores
async def test_jobs_without_progress_follow_each_other_at_once(
    store: Store, tmp_path: Path
) -> None:
    progressed: asyncio.Queue[str] = asyncio.Queue()

    async def engine(context: JobContext) -> CommitBatch:
        await context.commit(CommitBatch(entries=(entry(0),)))
        await progressed.put(context.job.id)
        await asyncio.Event().wait()
        raise AssertionError

    jobs = [(await store.accept(new_job("alice"), now=store.now()))[0].id for _ in range(4)]
    for process in ("killed", "killed as well"):
        claims = await store.claim(process, max_jobs=9, lease_s=-1, now=store.now())
        assert len(claims) == len(jobs)
    async with running(store, engine, tmp_path / "id"), asyncio.timeout(60):
        assert {await progressed.get() for _ in jobs} == set(jobs)
