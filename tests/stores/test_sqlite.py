"""What only the SQLite store does: reopening, several processes."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.stores.jobs import (
    ALICE,
    BOB,
    NOW,
    accepted,
    account_of,
    accounts,
    claimed,
    entry,
)
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.store.records import CommitBatch
from webdata_nb.service.store.sql.connection import statements
from webdata_nb.service.store.sqlite.database import SqliteStore


async def test_jobs_and_rows_survive_reopening(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    async with SqliteStore(path) as store:
        await accounts(store)
        job = await accepted(store)
        _, lease = await claimed(store)
        await store.commit(lease, CommitBatch(entries=(entry(0, position=0),)))
    async with SqliteStore(path) as store:
        found = await store.job(ALICE, job.id)
        assert (found.state, found.published) == (JobStatus.RUNNING, 1)
        assert len(await store.journal(job.id)) == 1


async def test_connections_that_only_read_write_nothing(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    async with SqliteStore(path) as store:
        await accounts(store)
        before = store.data_version()
        async with SqliteStore(path) as other:
            for _ in range(4):  # each may be on a connection of its own
                await asyncio.gather(*(other.jobs(ALICE, limit=1) for _ in range(4)))
        assert store.data_version() == before


async def test_data_version_changes_with_commits_of_any_process(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    async with SqliteStore(path) as store, SqliteStore(path) as other:
        await accounts(store)
        moments = [store.data_version()]
        for write in (accepted(store), accepted(other), claimed(other)):
            assert store.data_version() == moments[-1]
            await store.jobs(ALICE, limit=1)  # a question changes nothing
            assert store.data_version() == moments[-1]
            await write
            moments.append(store.data_version())
        assert len(set(moments)) == len(moments)


async def test_key_revoked_by_another_process_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    async with SqliteStore(path) as store, SqliteStore(path) as other:
        await accounts(store)
        there = other.accounts
        await there.add_key("k", ALICE, "laptop", "hash", now=NOW)
        assert [await account_of(store, "hash", now=NOW + 1) for _ in range(2)] == [ALICE] * 2
        await there.end_key("k", at=NOW + 2)
        assert [await account_of(store, "hash", now=NOW + at) for at in (1, 2, 1)] == [
            ALICE,
            None,
            ALICE,
        ]
        await there.end_key("k", at=NOW)
        assert await account_of(store, "hash", now=NOW + 1) is None


async def test_database_file_has_owner_permissions(tmp_path: Path) -> None:
    path = tmp_path / "data" / "jobs.sqlite"
    async with SqliteStore(path):
        assert path.stat().st_mode & 0o077 == 0


def test_every_named_statement_is_a_single_statement() -> None:
    for name, text in statements().items():
        body = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
        assert body.rstrip().endswith(";"), name
        assert body.count(";") == 1, name


async def test_copies_of_rows_that_moved_between_pages_are_erased(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    chance = random.Random(7)
    async with SqliteStore(path) as store:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA secure_delete=on")
            for table in range(20):
                columns = "(id BLOB PRIMARY KEY, name, value BLOB)"
                connection.execute(f"CREATE TABLE t{table} {columns} WITHOUT ROWID")
                for _ in range(40):
                    name = chance.choice((ALICE, BOB))
                    value = f"{name}'s row".encode() + chance.randbytes(chance.randrange(1200))
                    row = (chance.randbytes(16), name, value)
                    connection.execute(f"INSERT INTO t{table} VALUES (?, ?, ?)", row)
                connection.execute(f"DELETE FROM t{table} WHERE name = ?", [ALICE])
        await store.retention.return_space()
        assert b"alice's row" in path.read_bytes(), "SQLite has overwritten the copies itself"
        await store.retention.erase()
        left = path.read_bytes() + path.with_name("jobs.sqlite-wal").read_bytes()
        assert left.count(b"alice's row") == 0
        assert left.count(b"bob's row") > 200
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
