"""Job slots between accounts: one that holds them all keeps nobody else waiting."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.service.job_stores import store_of
from tests.stores.jobs import new_job
from webdata_nb.service.runtime.fair_scheduler import current_account
from webdata_nb.service.settings import SLOTS, unreserved_slots
from webdata_nb.service.store.job_context import JobContext, JobEvents
from webdata_nb.service.store.records import EMPTY_BATCH, CommitBatch, JobSnapshot
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.work.runner import Runner

SHARED = unreserved_slots(SLOTS)


class Endless:
    """Jobs that run until they are let go; an account's name tells whose work it is."""

    def __init__(self) -> None:
        self.running: Counter[str] = Counter()
        self.most_running = 0
        self.ended: asyncio.Queue[str] = asyncio.Queue()
        self.go = {name: asyncio.Event() for name in ("alice", "bob", "carol")}
        self.changed = asyncio.Condition()

    async def __call__(self, context: JobContext) -> CommitBatch:
        name = context.job.account_id
        assert current_account() == name
        await self._count(name, 1)
        await self.go[name].wait()
        await self._count(name, -1)
        return EMPTY_BATCH

    async def _count(self, name: str, change: int) -> None:
        async with self.changed:
            self.running[name] += change
            self.most_running = max(self.most_running, self.running.total())
            self.changed.notify_all()

    async def until(self, **running: int) -> None:
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(lambda: +self.running == +Counter(running))

    def finished(self, ended: JobSnapshot) -> None:
        self.ended.put_nowait(ended.job.account_id)


@asynccontextmanager
async def open_runner(
    folder: Path, engine: Endless, *, slots: int
) -> AsyncIterator[tuple[Store, Runner]]:
    """Yield a store that has the accounts of `engine`, and a runner of its jobs."""
    async with store_of(folder) as store:
        for name in engine.go:
            await store.accounts.ensure(name, name, now=time.time())
        runner = Runner(
            store,
            JobEvents(),
            engine,
            on_end=engine.finished,
            delete_spooled=lambda _: None,
            slots=slots,
        )
        yield store, runner
        await runner.close()


async def test_account_with_all_slots_does_not_block_others(tmp_path: Path) -> None:
    engine = Endless()
    async with open_runner(tmp_path, engine, slots=SLOTS) as (store, runner):
        await runner.start()

        async def start(name: str, jobs: int) -> None:
            for _ in range(jobs):
                await store.accept(new_job(name), now=time.time())
            runner.wake()

        await start("alice", SHARED + 4)
        await engine.until(alice=SHARED)
        await start("bob", 2)
        await engine.until(alice=SHARED, bob=1)
        await start("carol", 1)
        await engine.until(alice=SHARED, bob=1, carol=1)
        # Bob's first is over: his second takes its place, while all of Alice's still run.
        engine.go["carol"].set()
        engine.go["bob"].set()
        async with asyncio.timeout(60):
            assert sorted([await engine.ended.get() for _ in range(3)]) == ["bob", "bob", "carol"]
        assert engine.running["alice"] == SHARED


async def test_reserved_slots_are_not_exceeded(tmp_path: Path) -> None:
    engine = Endless()
    async with open_runner(tmp_path, engine, slots=3) as (store, runner):
        for name in ("alice", "alice", "alice", "bob", "carol"):
            await store.accept(new_job(name), now=time.time())
        await runner.start()
        await engine.until(alice=1, bob=1, carol=1)
        engine.go["carol"].set()
        await engine.until(alice=1, bob=1)
        # The reserved slot is not for the second job of an account.
        await store.accept(new_job("carol"), now=time.time())
        engine.go["carol"].clear()
        runner.wake()
        await engine.until(alice=1, bob=1, carol=1)
        assert engine.most_running == 3
