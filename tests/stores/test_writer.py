"""Changes that share a transaction: each whole or not at all, and none of them lost."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from webdata_nb.service.store.sqlite.database import GroupCommitWriter

Change = Callable[[sqlite3.Connection], int]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "some.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA journal_mode=wal; CREATE TABLE t (n INTEGER UNIQUE)")
    connection.close()
    return path


@pytest.fixture
async def writer(path: Path) -> AsyncIterator[GroupCommitWriter]:
    opened = GroupCommitWriter(
        partial(sqlite3.connect, path, isolation_level=None, check_same_thread=False)
    )
    yield opened
    await opened.close()


def add(*numbers: int) -> Change:
    def change(connection: sqlite3.Connection) -> int:
        for number in numbers:
            connection.execute("INSERT INTO t VALUES (?)", (number,))
        return numbers[-1]

    return change


def stored(path: Path) -> list[int]:
    connection = sqlite3.connect(path)
    try:
        return [row[0] for row in connection.execute("SELECT n FROM t ORDER BY n")]
    finally:
        connection.close()


async def together(writer: GroupCommitWriter, *changes: Change) -> list[int | BaseException]:
    """Run changes in one group: they wait behind one that is under way."""
    started, go = threading.Event(), threading.Event()

    def slow(connection: sqlite3.Connection) -> int:
        started.set()
        go.wait(30)
        return add(0)(connection)

    first = asyncio.create_task(writer.run(slow))
    await asyncio.to_thread(started.wait, 30)
    tasks = [asyncio.create_task(writer.run(change)) for change in changes]
    await asyncio.sleep(0)  # each has put its change into the queue
    go.set()
    assert await first == 0
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_failed_change_does_not_affect_its_group(
    writer: GroupCommitWriter, path: Path
) -> None:
    results = await together(writer, add(1), add(2, 1), add(3), add(4, 4), add(5))
    assert [each if isinstance(each, int) else type(each) for each in results] == [
        1,
        sqlite3.IntegrityError,
        3,
        sqlite3.IntegrityError,
        5,
    ]
    assert stored(path) == [0, 1, 3, 5]


async def test_single_change_is_atomic(writer: GroupCommitWriter, path: Path) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        await writer.run(add(1, 1))
    assert await writer.run(add(2)) == 2
    assert stored(path) == [2]


def failing(code: int) -> Change:
    def broken(_connection: sqlite3.Connection) -> int:
        error = sqlite3.OperationalError("no luck")
        error.sqlite_errorcode = code
        raise error

    return broken


async def test_change_too_large_for_the_disk_does_not_block_others(
    writer: GroupCommitWriter, path: Path
) -> None:
    results = await together(writer, add(1), failing(sqlite3.SQLITE_FULL), add(2))
    assert [str(each) for each in results] == ["1", "no luck", "2"]
    assert stored(path) == [0, 1, 2]


async def test_locked_database_fails_the_whole_group(writer: GroupCommitWriter, path: Path) -> None:
    results = await together(writer, add(1), failing(sqlite3.SQLITE_BUSY), add(2))
    assert [str(each) for each in results] == ["no luck"] * 3
    assert stored(path) == [0]


class Stubborn(sqlite3.Connection):
    """A connection on which a rollback fails."""

    def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
        if sql == "ROLLBACK":
            raise sqlite3.OperationalError("disk I/O error")
        return super().execute(sql, *rest)


async def test_writer_replaces_broken_connections(
    path: Path,
) -> None:
    opened = 0

    def connect() -> sqlite3.Connection:
        nonlocal opened
        opened += 1
        if opened == 1:
            raise sqlite3.OperationalError("unable to open database file")
        return sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, factory=Stubborn
        )

    writer = GroupCommitWriter(connect)
    with pytest.raises(sqlite3.OperationalError, match="open"):
        await writer.run(add(1))
    assert await writer.run(add(2)) == 2
    with pytest.raises(sqlite3.IntegrityError):
        await writer.run(add(3, 2))
    assert await writer.run(add(4)) == 4
    await writer.close()
    assert stored(path) == [2, 4]
    assert opened == 3


async def test_each_event_loop_gets_its_own_results(writer: GroupCommitWriter, path: Path) -> None:
    def elsewhere(number: int) -> int:
        return asyncio.run(writer.run(add(number)))

    results = await asyncio.gather(
        *(asyncio.to_thread(elsewhere, number) for number in (1, 2, 3)), writer.run(add(4))
    )
    assert results == [1, 2, 3, 4]
    assert stored(path) == [1, 2, 3, 4]


async def test_change_of_a_cancelled_caller_is_applied(
    writer: GroupCommitWriter, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    started, go = threading.Event(), threading.Event()

    def slow(connection: sqlite3.Connection) -> int:
        started.set()
        go.wait(30)
        return add(1)(connection)

    async def leave() -> None:
        tasks = [asyncio.create_task(writer.run(change)) for change in (slow, add(2), add(1))]
        await asyncio.to_thread(started.wait, 30)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert all(task.cancelled() for task in tasks)

    await leave()
    go.set()
    await writer.run(add(3))
    assert stored(path) == [1, 2, 3]
    gc.collect()
    assert "never retrieved" not in caplog.text
