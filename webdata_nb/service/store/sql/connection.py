"""The protocols that a database implements to carry the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

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


class SqlDatabase(Protocol):
    """A database with the store's schema, to be used by `async with`.

    Raises
    ------
    StoreUnavailable, StoreDamaged
        From every method: the database cannot be read or written now, or not at all.
    """

    retried_transactions: int

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

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

    async def return_space(self) -> None:
        """Return free space of the database's files to the file system, in slices."""


async def wait_applied(change: asyncio.Future[T]) -> T:
    """Return the value of a change; a cancellation ends the wait, not the change."""
    try:
        return await asyncio.shield(change)
    except asyncio.CancelledError:
        change.add_done_callback(_mark_retrieved)
        raise


def _mark_retrieved(change: asyncio.Future[T]) -> None:
    """Keep asyncio from logging the error of a change whose caller was cancelled."""
    if not change.cancelled():
        change.exception()
