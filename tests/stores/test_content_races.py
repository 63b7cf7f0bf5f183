"""On PostgreSQL a content is deleted and used by transactions that wait for each other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.postgres import PostgresServer, schema_name
from tests.stores.conftest import open_postgres
from tests.stores.jobs import ALICE, NOW, accounts, claimed, new_job, row_json, shared_entry
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.store.records import CommitBatch, JobRecord, Lease
from webdata_nb.service.store.sql.store import Store

TEXT = "Ein Text, der sich nicht ändert. " * 50
WAITERS = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
DELETE_ENTRIES = "DELETE FROM entry WHERE job_id = %s"
DELETE_CONTENTS = "DELETE FROM content"
LOCK_CONTENTS = "SELECT id FROM content ORDER BY id FOR NO KEY UPDATE"
USE = """
INSERT INTO entry (job_id, ordinal, url, success, journal, content_id)
SELECT %s, 7, 'http://x/7', TRUE, '', id FROM content
"""


@pytest.fixture
async def store(postgres_server: PostgresServer, tmp_path: Path) -> AsyncIterator[Store]:
    async with open_postgres(postgres_server, tmp_path) as opened:
        await accounts(opened)
        yield opened


@pytest.fixture
async def other(
    postgres_server: PostgresServer, tmp_path: Path, store: Store
) -> AsyncIterator[psycopg.AsyncConnection]:
    """Connect another process to the same store, with a transaction that stays open."""
    assert store
    name = sql.Identifier(schema_name(tmp_path))
    async with await psycopg.AsyncConnection.connect(postgres_server.url) as connection:
        await connection.execute(sql.SQL("SET search_path = {}").format(name))
        await connection.commit()
        yield connection


async def started(store: Store, worker: str = "w1") -> tuple[JobRecord, Lease]:
    await store.accept(new_job(), now=NOW)
    return await claimed(store, worker)


async def commit_page(store: Store, job: JobRecord, lease: Lease) -> None:
    await store.commit(lease, CommitBatch(entries=(await shared_entry(job, 0, TEXT),)))


async def wait_for_lock(url: str) -> None:
    """Wait until a transaction waits for another one."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        async with asyncio.timeout(120):
            while True:
                row = await (await connection.execute(WAITERS)).fetchone()
                if row is not None and row[0]:
                    return
                await asyncio.sleep(0.01)


async def test_a_content_that_is_deleted_meanwhile_is_stored_again(
    store: Store, other: psycopg.AsyncConnection, postgres_server: PostgresServer
) -> None:
    first, lease = await started(store)
    await commit_page(store, first, lease)
    # Another worker: the first one would claim its own job again, which has stored this page.
    second, lease = await started(store, "w2")
    await other.execute(DELETE_ENTRIES, [first.id])
    await other.execute(DELETE_CONTENTS)
    commit = asyncio.create_task(commit_page(store, second, lease))
    await wait_for_lock(postgres_server.url)
    await other.commit()
    await commit
    assert await store.rows(ALICE, second.id, start=0, count=9) == [row_json(0, TEXT)]


async def test_a_content_that_is_used_meanwhile_stays(
    store: Store, other: psycopg.AsyncConnection, postgres_server: PostgresServer
) -> None:
    first, lease = await started(store)
    await commit_page(store, first, lease)
    await store.finish(lease, JobStatus.COMPLETED, error=None, now=NOW)
    second, _ = await started(store)
    await other.execute(USE, [second.id])
    deletion = asyncio.create_task(store.retention.delete_rows(first.id, now=NOW))
    await wait_for_lock(postgres_server.url)
    await other.commit()
    await deletion
    assert store.retried_transactions() == 1
    contents = await store.database.read("contents", after=b"", limit=9)
    assert len(contents) == 1
    assert await store.rows(ALICE, first.id, start=0, count=9) == []


async def test_the_last_uses_of_a_content_are_deleted_together(
    store: Store, other: psycopg.AsyncConnection, postgres_server: PostgresServer
) -> None:
    jobs = []
    for _ in range(2):
        job, lease = await started(store)
        await commit_page(store, job, lease)
        await store.finish(lease, JobStatus.COMPLETED, error=None, now=NOW)
        jobs.append(job)
    await other.execute(DELETE_ENTRIES, [jobs[0].id])
    await other.execute(LOCK_CONTENTS)
    deletion = asyncio.create_task(store.retention.delete_rows(jobs[1].id, now=NOW))
    await wait_for_lock(postgres_server.url)
    await other.commit()  # it has seen the entry of the second job, and kept the content
    await deletion
    assert await store.database.read("contents", after=b"", limit=9) == []
