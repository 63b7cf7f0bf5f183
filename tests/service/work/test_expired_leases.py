"""Jobs of a process that died: another one claims them as soon as their leases end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.service.job_stores import store_of
from tests.stores.jobs import new_job
from webdata_nb.service.store.interface import JobContext
from webdata_nb.service.store.records import EMPTY_BATCH, CommitBatch
from webdata_nb.service.work import runner
from webdata_nb.service.work.events import JobEvents
from webdata_nb.service.work.membership import Membership


@pytest.mark.both_stores
async def test_jobs_are_claimed_when_their_leases_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "POLL_S", 1000.0)
    claimed: asyncio.Queue[str] = asyncio.Queue()

    async def engine(context: JobContext) -> CommitBatch:
        await claimed.put(context.job.id)
        return EMPTY_BATCH

    async with store_of(tmp_path) as store:
        await store.accounts.ensure("alice", "Alice", now=store.now())
        jobs: list[str] = []
        for lease_s in (0.5, 1.0):
            await store.accept(new_job("alice"), now=store.now())
            [(job, _)] = await store.claim("dead", held_jobs=jobs, lease_s=lease_s, now=store.now())
            jobs.append(job.id)
        running = runner.LocalRunner(
            store,
            JobEvents(),
            engine,
            on_end=lambda _: None,
            delete_spooled=lambda _: None,
            membership=Membership(
                store.replicas, "alive", 16, id_file=tmp_path / "id", now=store.now()
            ),
            clock=store.now,
        )
        await running.start()
        async with asyncio.timeout(60):
            assert [await claimed.get() for _ in jobs] == jobs
        await running.close()
