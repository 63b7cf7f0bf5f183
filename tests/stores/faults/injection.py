"""A SQLite store on which chosen statements fail for a while."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from tests.stores.faults.simulated import SimulatedLoop
from webdata_nb.service.encryption import KEY_FILE, KeyFile, SecretCipher
from webdata_nb.service.store.sql.connection import Lane, Transaction, statements
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.store.sqlite.database import SqliteDatabase

T = TypeVar("T")
CODES: Final = {
    "busy": sqlite3.SQLITE_BUSY,
    "full": sqlite3.SQLITE_FULL,
    "io error": sqlite3.SQLITE_IOERR_WRITE,
}
# A commit that is reported as failed and has happened all the same.
IN_DOUBT: Final = "COMMIT in doubt"
CONTROL: Final = {
    "BEGIN IMMEDIATE": "BEGIN",
    "COMMIT": "COMMIT",
    "ROLLBACK": "ROLLBACK",
    "SAVEPOINT change": "SAVEPOINT",
    "RELEASE change": "RELEASE",
}
_NAMES: Final = {text: name for name, text in statements().items()} | CONTROL


@dataclass(frozen=True, slots=True)
class Fault:
    """`statement` fails with `code`: `times` times after `skip`, or for `seconds`."""

    statement: str
    code: str
    times: int = 0
    seconds: float = 0.0
    skip: int = 0

    def __str__(self) -> str:
        lasts = f"{self.times} times" if self.times else f"{self.seconds:g} s"
        return f"{self.statement}: {self.code}, {lasts} after {self.skip}"


@dataclass
class Faults:
    """The fault that is armed, and which statements ran."""

    clock: Callable[[], float] = lambda: 0.0
    ran: Counter[str] = field(default_factory=Counter)
    raised: int = 0
    _armed: list[tuple[Fault, float, list[int]]] = field(default_factory=list)

    def arm(self, fault: Fault) -> None:
        """Let a statement fail from now on."""
        self._armed.append((fault, self.clock() + fault.seconds, [fault.skip, fault.times]))

    def clear(self) -> None:
        """Let every statement succeed from now on."""
        self._armed.clear()

    def check(self, name: str) -> None:
        """Raise what the statement is to fail with."""
        self.ran[name] += 1
        for fault, until, left in self._armed:
            if fault.statement != name:
                continue
            if left[0]:
                left[0] -= 1
            elif self.clock() < until or left[1] > 0:
                left[1] -= 1
                self.raised += 1
                raise failure(fault.code)


def failure(code: str) -> sqlite3.OperationalError:
    """Return the error that SQLite raises."""
    error = sqlite3.OperationalError(f"injected: {code}")
    error.sqlite_errorcode = CODES[code]
    return error


class FaultyConnection(sqlite3.Connection):
    """Fails as its class's faults say; fast, for nothing here outlives a loss of power."""

    faults: ClassVar[Faults] = Faults()

    def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
        if sql == "PRAGMA synchronous=full":
            sql = "PRAGMA synchronous=off"
        self._check(sql)
        cursor = super().execute(sql, *rest)
        if sql == "COMMIT":
            self.faults.check(IN_DOUBT)
        return cursor

    def executemany(self, sql: str, *rest: Any) -> sqlite3.Cursor:
        self._check(sql)
        return super().executemany(sql, *rest)

    def _check(self, sql: str) -> None:
        if (name := _NAMES.get(sql)) is not None:
            self.faults.check(name)


class FaultyDatabase(SqliteDatabase):
    """A database in simulated time, on connections that fail as `faults` says."""

    def __init__(self, path: Path, faults: Faults) -> None:
        super().__init__(path)
        self.connection_type = type("Connection", (FaultyConnection,), {"faults": faults})  # type: ignore[misc]

    async def change(self, change: Callable[[Transaction], T], *, lane: Lane | None = None) -> T:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        loop.thread_begins()
        try:
            return await super().change(change, lane=lane)
        finally:
            loop.thread_ends()


class FaultyStore(Store):
    """A store on a `FaultyDatabase`."""

    def __init__(self, path: Path, faults: Faults) -> None:
        cipher = SecretCipher(KeyFile(path.with_name(KEY_FILE)))
        super().__init__(FaultyDatabase(path, faults), cipher)
