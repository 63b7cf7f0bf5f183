"""The protocols that a database implements to carry the store."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, Protocol, Self, TypeVar

from webdata_nb.service.errors import OtherSchema
from webdata_nb.service.runtime.work_threads import mark_retrieved

# The schema, `schema.sql`, and the named statements of `statements/*.sql`
#
# The files are written for SQLite. What differs on another database is marked in them: there, a
# line ``-- on postgresql: TEXT`` stands for its text, and a statement named ``NAME on postgresql``
# replaces the statement ``NAME``. One named ``NAME only on postgresql`` exists there alone.
#
# ``rows_of(:rows, url TEXT, page BLOB) AS new`` stands for a table whose rows are a parameter: a
# JSON array of objects. JSON has no binary values. With BLOB columns the statement therefore runs
# once for each row of a `RowSet` on SQLite, with a parameter for each column; on PostgreSQL each
# BLOB column comes from an array beside the JSON.


SCHEMA_VERSION: Final = 38
"""The version of `schema.sql`. Lower numbers are of databases before the first release."""
_ROOT: Final = files("webdata_nb.service.store.sql")
_NAME: Final = re.compile(r"^-- name: (\w+)(?:( only)? on (\w+))?\s*$", re.MULTILINE)
_ROWS: Final = re.compile(r"rows_of\(\s*:(\w+),\s*([^()]+?)\s*\) AS (\w+)")
_DIALECT_LINE: Final = re.compile(r"^([ \t]*)-- on (\w+): (.*)$", re.MULTILINE)


@cache
def statements(dialect: str = "sqlite") -> dict[str, str]:
    """Return every statement by its name, as a database of that dialect runs it."""
    common: dict[str, str] = {}
    of_dialect: dict[str, str] = {}
    for file in (_ROOT / "statements").iterdir():
        for name, only, target, text in _blocks(file.read_text("utf-8")):
            by_name = common if target is None or only else of_dialect
            if target not in {None, dialect}:
                continue
            if name in by_name:
                raise ValueError(f"two statements are named {name}")
            by_name[name] = _in_dialect(text.strip(), dialect)
    if unknown := of_dialect.keys() - common.keys():
        raise ValueError(f"statements of {dialect} replace no other: {', '.join(sorted(unknown))}")
    return common | of_dialect


def parse_statements(text: str) -> list[tuple[str, str]]:
    """Return the names and the statements of a file for one dialect."""
    return [(name, statement.strip()) for name, _, _, statement in _blocks(text)]


def _blocks(text: str) -> list[tuple[str, str | None, str | None, str]]:
    """Return name, mark of a single dialect, dialect and text of each block of a file."""
    parts = _NAME.split(text)[1:]
    return list(zip(*(parts[n::4] for n in range(4)), strict=True))


def schema(dialect: str = "sqlite") -> str:
    """Return the script that creates the tables in an empty database of that dialect."""
    return _in_dialect((_ROOT / "schema.sql").read_text("utf-8"), dialect)


def check_schema(present: int, another: str) -> None:
    """Raise `OtherSchema` unless the schema of a database is that of this release.

    `another` says what may be used in place of the database.
    """
    if present > SCHEMA_VERSION:
        raise OtherSchema(
            f"the database has schema {present}, this release knows {SCHEMA_VERSION}: "
            f"use the newer release of webdata_nb, or {another}"
        )
    if present < SCHEMA_VERSION:
        raise OtherSchema(
            f"the database has schema {present} of a version before the first release, and this "
            f"one cannot read it: to start anew, use {another}"
        )


def _in_dialect(text: str, dialect: str) -> str:
    """Insert the lines that are marked for a dialect; those of others stay comments."""

    def line(match: re.Match[str]) -> str:
        return match[1] + match[3] if match[2] == dialect else match[0]

    text = _DIALECT_LINE.sub(line, text)
    return _ROWS.sub(_json_rows if dialect == "sqlite" else _recordset, text)


def _json_rows(match: re.Match[str]) -> str:
    """Return a table of rows on SQLite."""
    rows, columns, alias = match.groups()
    names = [column.split()[0] for column in columns.split(",")]
    if "BLOB" in columns:
        return f"(SELECT {', '.join(f':{name} AS {name}' for name in names)}) AS {alias}"
    values = ", ".join(f"json_extract(value, '$.{name}') AS {name}" for name in names)
    return f"(SELECT {values} FROM json_each(:{rows})) AS {alias}"  # noqa: S608 - our own SQL


def _recordset(match: re.Match[str]) -> str:
    """Return a table of rows on PostgreSQL; BLOB columns come last."""
    rows, columns, alias = match.groups()
    of_json = ", ".join(each.strip() for each in columns.split(",") if "BLOB" not in each)
    recordset = f"json_to_recordset(:{rows}::json) AS"
    if not (blobs := re.findall(r"(\w+) BLOB", columns)):
        return f"{recordset} {alias} ({of_json})"
    arrays = ", ".join(f"unnest(:{name}::bytea[])" for name in blobs)
    names = ", ".join(column.split()[0] for column in columns.split(","))
    return f"ROWS FROM ({recordset} ({of_json}), {arrays}) AS {alias} ({names})"


T = TypeVar("T")


NamedStatement = tuple[str, Mapping[str, Any]]
"""The name of a statement, and its values."""


@dataclass(frozen=True, slots=True)
class RowSet:
    """A statement with `rows_of(:rows, ...)`, the rows, and its other values.

    A database whose dialect has no such statement leaves it out.
    """

    statement: str
    rows: Sequence[Mapping[str, Any]]
    values: Mapping[str, Any]


class SqlRow(Protocol):
    """One row of a result, by column name."""

    def __getitem__(self, column: str, /) -> Any: ...


class Transaction(Protocol):
    """Runs named statements of `named_statements`; used by one thread at a time."""

    def row(self, statement: str, /, **values: Any) -> SqlRow | None:
        """Run a statement; return its first row, or None."""

    def rows(self, statement: str, /, **values: Any) -> Sequence[SqlRow]:
        """Run a statement; return its rows."""

    def rows_of_each(
        self, statements: Sequence[NamedStatement | RowSet], /, *, is_last: bool = False
    ) -> list[Sequence[SqlRow]]:
        """Run statements in order, in one round trip; return the rows of each, if it has any.

        With `is_last` the transaction may be committed in the same round trip: a change that fails
        after that must not have written anything.
        """

    def execute(self, statement: str, /, **values: Any) -> int:
        """Run a statement; return how many rows it changed."""

    def send(self, statement: str, /, **values: Any) -> None:
        """Run a statement without a result; its error may be raised by a later call."""

    def execute_many(self, statement: str, values: Sequence[Mapping[str, Any]], /) -> int:
        """Run a statement for each of `values`; return how many rows changed in total."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A sequence of changes that are applied in order.

    Those that wait may share a transaction if the lane is `grouped`.
    """

    name: str
    grouped: bool = True


# Starts and claims: a claim finds the jobs whose start began before it.
QUEUE_LANE: Final = Lane("queue", grouped=False)
# Within this time a process notices that another one has changed the database.
VERSION_S: Final = 1.0


class SqlDatabase(Protocol):
    """A database with the store's schema, to be used by `async with`.

    Raises
    ------
    StoreUnavailable, StoreDamaged
        From every method: the database cannot be read or written now, or not at all.
    """

    retried_transactions: int

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_: object) -> None: ...

    async def change(self, change: Callable[[Transaction], T], *, lane: Lane | None = None) -> T:
        """Run `change` in a transaction; return its value once it is durable.

        Changes of one lane are applied in the order of their calls. `change` may run more than
        once, until a transaction succeeds.
        """

    async def write(self, statement: str, /, **values: Any) -> int:
        """Run one statement in a transaction; return how many rows it changed."""

    async def read(self, statement: str, /, **values: Any) -> Sequence[SqlRow]:
        """Return the rows of one statement."""

    async def query(self, query: Callable[[Transaction], T]) -> T:
        """Run reading statements that all see the same state of the database."""

    def exclusive(self, work: str) -> AbstractAsyncContextManager[bool]:
        """Return a context for work that one process does at a time; see `Store.exclusive`."""

    def data_version(self) -> int:
        """Return a number that differs from earlier ones after any commit.

        After one of another process, within a second.
        """

    def subscribe(self, on_signal: Callable[[str | None], None]) -> None:
        """Call `on_signal` with the name of each lane that another process changed.

        With None if any lane may have changed. Calls are made on the event loop, soon after the
        change. A database for one process never calls.
        """

    def now(self) -> float:
        """Return the database's time in Unix seconds, which is the same for every process."""

    async def erase(self) -> None:
        """Remove what deleted rows leave in the database's files, as far as the database can."""

    async def return_space(self) -> None:
        """Return free space of the database's files to the file system, in slices."""


async def wait_applied(change: asyncio.Future[T]) -> T:
    """Return the value of a change; a cancellation ends the wait, not the change."""
    try:
        return await asyncio.shield(change)
    except asyncio.CancelledError:
        change.add_done_callback(mark_retrieved)
        raise
