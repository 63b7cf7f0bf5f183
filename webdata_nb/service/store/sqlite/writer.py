"""Group commit: one thread writes to SQLite, and concurrent changes share a transaction."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from webdata_nb.service.store.sql.connection import wait_applied
from webdata_nb.service.store.sqlite.errors import is_busy

T = TypeVar("T")
_MAX_GROUP: Final = 64  # changes that share one fsync
_Change = tuple[Callable[[sqlite3.Connection], Any], asyncio.Future[Any]]
_Result = tuple[asyncio.Future[Any], Any, BaseException | None]


class GroupCommitWriter:
    """Runs each change atomically, and returns once it is durable."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._changes: queue.SimpleQueue[_Change | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="webdata-writer", daemon=True)
        self._thread.start()

    async def run(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Run `change` in a transaction; return its value once it is on disk."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._changes.put((change, future))
        return await wait_applied(future)

    async def close(self) -> None:
        """Write the changes in the queue, then stop."""
        self._changes.put(None)
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        while (group := self._next_group()) is not None:
            self._commit(group)
        self._close_connection()

    def _next_group(self) -> list[_Change] | None:
        first = self._changes.get()
        if first is None:
            return None
        group = [first]
        while len(group) < _MAX_GROUP:
            try:
                change = self._changes.get_nowait()
            except queue.Empty:
                break
            if change is None:
                self._changes.put(None)
                break
            group.append(change)
        return group

    def _commit(self, group: list[_Change]) -> None:
        try:
            results = self._run_transaction(group)
        except BaseException as error:  # noqa: BLE001 - every caller must receive it
            self._roll_back()
            if len(group) > 1 and not is_busy(error):
                # One of them may be too large for a full disk: try each alone.
                for change in group:
                    self._commit([change])
                return
            results = [(future, None, error) for _, future in group]
        _deliver(results)

    def _run_transaction(self, group: list[_Change]) -> list[_Result]:
        if self._connection is None:
            self._connection = self._connect()
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        results: list[_Result]
        if len(group) == 1:  # the transaction is its savepoint
            [(change, future)] = group
            results = [(future, change(connection), None)]
        else:
            results = [(future, *_run_in_savepoint(connection, change)) for change, future in group]
        connection.execute("COMMIT")
        return results

    def _roll_back(self) -> None:
        """Undo an open transaction; replace a connection that cannot."""
        if self._connection is None:
            return
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._close_connection()

    def _close_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()


def _run_in_savepoint(
    connection: sqlite3.Connection, change: Callable[[sqlite3.Connection], Any]
) -> tuple[Any, BaseException | None]:
    """Run one change so that its failure does not affect the others of its group."""
    connection.execute("SAVEPOINT change")
    try:
        value = change(connection)
    except sqlite3.OperationalError:
        raise  # disk full, locked: the whole transaction is in doubt
    except Exception as error:  # noqa: BLE001 - the caller receives it
        connection.execute("ROLLBACK TO change")
        connection.execute("RELEASE change")
        return None, error
    connection.execute("RELEASE change")
    return value, None


def _deliver(results: list[_Result]) -> None:
    """Set the futures of a group, waking each event loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Result]] = {}
    for result in results:
        by_loop.setdefault(result[0].get_loop(), []).append(result)
    for loop, loop_results in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_set_futures, loop_results)


def _set_futures(results: list[_Result]) -> None:
    for future, value, error in results:
        if future.cancelled():
            continue
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
