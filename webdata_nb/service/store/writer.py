"""One thread that writes to SQLite, many callers: their changes share transactions."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from webdata_nb.service.store.sqlite_errors import is_busy

T = TypeVar("T")
_GROUP: Final = 64  # changes that share one fsync at most
_Change = tuple[Callable[[sqlite3.Connection], Any], asyncio.Future[Any]]
_Answer = tuple[asyncio.Future[Any], Any, BaseException | None]


class Writer:
    """Group commit: each change is atomic by itself, and durable before its caller goes on."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._changes: queue.SimpleQueue[_Change | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="webdata-writer", daemon=True)
        self._thread.start()

    async def run(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Run `change` in a transaction; return its value once it is on disk."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._changes.put((change, done))
        # A caller that is cancelled leaves; its change is applied all the same, whole.
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            done.add_done_callback(asyncio.Future.exception)  # nobody is left to hear of it
            raise

    async def close(self) -> None:
        """Write what was asked for, then stop."""
        self._changes.put(None)
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        while (group := self._take()) is not None:
            self._commit(group)
        self._close()

    def _take(self) -> list[_Change] | None:
        first = self._changes.get()
        if first is None:
            return None
        group = [first]
        while len(group) < _GROUP:
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
            answers = self._transaction(group)
        except BaseException as error:  # noqa: BLE001 - every caller must hear of it
            self._roll_back()
            if len(group) > 1 and not is_busy(error):
                # One of them may be too large for a full disk: the others are tried without it.
                for each in group:
                    self._commit([each])
                return
            answers = [(done, None, error) for _, done in group]
        _tell(answers)

    def _transaction(self, group: list[_Change]) -> list[_Answer]:
        if self._connection is None:
            self._connection = self._connect()
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        answers: list[_Answer]
        if len(group) == 1:  # the transaction is its savepoint
            [(change, done)] = group
            answers = [(done, change(connection), None)]
        else:
            answers = [(done, *_apply(connection, change)) for change, done in group]
        connection.execute("COMMIT")
        return answers

    def _roll_back(self) -> None:
        """Undo what is left of a transaction; a connection that cannot is replaced by a new one."""
        if self._connection is None:
            return
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()


def _apply(
    connection: sqlite3.Connection, change: Callable[[sqlite3.Connection], Any]
) -> tuple[Any, BaseException | None]:
    """Run one change in a savepoint, so that its failure leaves its neighbours alone."""
    connection.execute("SAVEPOINT change")
    try:
        value = change(connection)
    except sqlite3.OperationalError:
        raise  # disk full, locked: the whole transaction is in doubt
    except Exception as error:  # noqa: BLE001 - it is handed to the caller
        connection.execute("ROLLBACK TO change")
        connection.execute("RELEASE change")
        return None, error
    connection.execute("RELEASE change")
    return value, None


def _tell(answers: list[_Answer]) -> None:
    """Hand a group's answers over: a loop is woken once for all that it waits for."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Answer]] = {}
    for answer in answers:
        by_loop.setdefault(answer[0].get_loop(), []).append(answer)
    for loop, told in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, told)


def _settle(answers: list[_Answer]) -> None:
    for done, value, error in answers:
        if done.cancelled():
            continue
        if error is None:
            done.set_result(value)
        else:
            done.set_exception(error)
