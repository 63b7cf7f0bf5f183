"""Job slots between accounts: one that holds them all keeps nobody else waiting."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

from tests.stores.jobs import new_job
from webdata_nb.service.runtime.fair_scheduler import current_account
from webdata_nb.service.settings import SLOTS
from webdata_nb.service.store.interface import JobContext
from webdata_nb.service.store.records import EMPTY_BATCH, CommitBatch, JobSnapshot
from webdata_nb.service.store.sqlite.store import SqliteStore
from webdata_nb.service.work.events import JobEvents
from webdata_nb.service.work.runner import LocalRunner


class Endless:
    """Jobs that run until they are let go; an account's name tells whose work it is."""

    def __init__(self) -> None:
        self.running: Counter[str] = Counter()
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
            self.changed.notify_all()

    async def until(self, **running: int) -> None:
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(lambda: +self.running == +Counter(running))

    def finished(self, ended: JobSnapshot) -> None:
        self.ended.put_nowait(ended.job.account_id)


async def test_account_with_all_slots_does_not_block_others(tmp_path: Path) -> None:
    engine = Endless()
    async with SqliteStore(tmp_path / "jobs.sqlite") as store:
        for name in engine.go:
            await store.accounts.ensure(name, name, now=time.time())
        runner = LocalRunner(
            store, JobEvents(), engine, on_end=engine.finished, delete_spooled=lambda _: None
        )
        await runner.start()

        async def start(name: str, jobs: int) -> None:
            for _ in range(jobs):
                await store.accept(new_job(name), now=time.time())
            runner.wake()

        await start("alice", SLOTS + 4)
        await engine.until(alice=SLOTS)
        await start("bob", 2)
        await engine.until(alice=SLOTS, bob=1)
        await start("carol", 1)
        await engine.until(alice=SLOTS, bob=1, carol=1)
        # Bob's first is over: his second takes its place, while all of Alice's still run.
        engine.go["carol"].set()
        engine.go["bob"].set()
        async with asyncio.timeout(60):
            assert sorted([await engine.ended.get() for _ in range(3)]) == ["bob", "bob", "carol"]
        assert engine.running["alice"] == SLOTS
        await runner.close()
