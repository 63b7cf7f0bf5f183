"""Kills processes in each step of a move, and looks for lost pages and orphans."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.postgres import PostgresServer, schema_name
from tests.stores.jobs import ALICE, BOB, NOW, accounts
from tests.stores.moving_process import MOVE_STEPS, SWEEP_STEPS
from tests.stores.test_contents import crawl, expected_rows, rows_of
from webdata_nb.service.blobs import BlobStore, LocalFolder
from webdata_nb.service.encryption import KEY_FILE, KeyFile, SecretCipher
from webdata_nb.service.observability.metrics import Metrics
from webdata_nb.service.segments.mover import UNFINISHED_S, BodyMover, SegmentSweep
from webdata_nb.service.segments.reader import SegmentReader
from webdata_nb.service.store.postgres.database import PostgresDatabase
from webdata_nb.service.store.records import JobRecord
from webdata_nb.service.store.sql.connection import SqlDatabase
from webdata_nb.service.store.sql.contents import segments_with_contents
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.store.sqlite.database import SqliteDatabase

STEPS = [("move", step) for step in MOVE_STEPS] + [("sweep", step) for step in SWEEP_STEPS]
PAGES = 5


@dataclass(slots=True)
class MoveKills:
    """A store whose moving processes are killed; the texts of each job say what its rows are."""

    folder: Path
    files: Path
    server: PostgresServer | None
    random: random.Random
    jobs: dict[str, tuple[JobRecord, list[str]]] = field(default_factory=dict)
    kills: int = 0

    def _database(self) -> SqlDatabase:
        if self.server is None:
            return SqliteDatabase(self.folder / "jobs.sqlite")
        return PostgresDatabase(self.server.url, schema=schema_name(self.folder))

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[Store, BlobStore]]:
        """Open the store as the next process does, without segments in memory."""
        blobs = BlobStore(LocalFolder(self.files), "a folder")
        cipher = SecretCipher(KeyFile(self.folder / KEY_FILE))
        async with Store(self._database(), cipher, SegmentReader(blobs)) as store:
            yield store, blobs

    async def prepare(self) -> None:
        async with self.opened() as (store, _):
            await accounts(store)

    async def kill(self, work: str, step: str) -> None:
        """Add jobs, let a process die in a step of their move, and check them and some others."""
        async with self.opened() as (store, blobs):
            await self._crawl(store, ALICE)
            await self._crawl(store, BOB)
            if work == "sweep":
                shared, _ = await self._crawl(store, ALICE), await self._crawl(store, ALICE)
                await BodyMover(store, blobs, Metrics(), clock=store.now).move()
                await self._expire(store, shared)
        arguments = [sys.executable, "-m", "tests.stores.moving_process", work, step]
        arguments += [str(self.folder), str(self.files)]
        if self.server is not None:
            arguments += [self.server.url, schema_name(self.folder)]
        process = await asyncio.create_subprocess_exec(*arguments)
        assert await process.wait() == -signal.SIGKILL, (work, step)
        self.kills += 1
        jobs = list(self.jobs.values())
        await self.check([*jobs[-4:], *self.random.sample(jobs, min(10, len(jobs)))])

    async def _crawl(self, store: Store, account_id: str) -> JobRecord:
        """Crawl new pages and some that earlier jobs have."""
        texts = [f"{self.random.random()} " * 60 for _ in range(PAGES)]
        for _, earlier in self.random.sample(list(self.jobs.values()), min(2, len(self.jobs))):
            texts[0] = earlier[0]
        job = await crawl(store, texts, account_id)
        self.jobs[job.id] = (job, texts)
        return job

    async def _expire(self, store: Store, job: JobRecord) -> None:
        del self.jobs[job.id]
        await store.retention.mark_expired(job.id, now=NOW)
        await store.retention.delete_rows(job.id, now=NOW)

    async def check(self, jobs: Iterable[tuple[JobRecord, list[str]]]) -> None:
        """Check the rows of jobs."""
        async with self.opened() as (store, _):
            for job, texts in jobs:
                assert await rows_of(store, job) == expected_rows(texts)

    async def finish(self) -> None:
        """Move and sweep what is left, and check rows and files."""
        async with self.opened() as (store, blobs):
            await BodyMover(store, blobs, Metrics(), clock=store.now).move()

            def later() -> float:
                return store.now() + 2 * UNFINISHED_S

            await SegmentSweep(store, blobs, Metrics(), clock=later).sweep()
            segments = await store.database.query(segments_with_contents)
            rows = await store.database.read("contents", after=b"", limit=1_000_000)
            assert all(row["body"] is None for row in rows)
            assert await store.segments.names() == {each.name for each in segments}
        found = {
            path.relative_to(self.files).as_posix()
            for path in self.files.rglob("*")
            if path.is_file()
        }
        assert found == {each.name for each in segments}
        await self.check(self.jobs.values())


async def run_move_kills(
    folder: Path, server: PostgresServer | None, *, rounds: int, seed: int, steps: int = len(STEPS)
) -> int:
    """Kill a process in each step of a move and of a sweep, or in some; return the kills."""
    kills = MoveKills(folder, folder / "files", server, random.Random(seed))
    await kills.prepare()
    for _ in range(rounds):
        for work, step in kills.random.sample(STEPS, steps):
            await kills.kill(work, step)
    await kills.finish()
    return kills.kills
