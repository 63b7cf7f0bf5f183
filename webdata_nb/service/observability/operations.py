"""Records the pending external operations of each job, which the watchdog reports.

Code that waits for something outside the process uses `waiting_for`. The watchdog opens the record
of a job's tasks; outside a job nothing is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final


@dataclass(eq=False, frozen=True, slots=True)
class Operation:
    """A pending operation and its own timeout in seconds."""

    description: str
    limit_s: float


class Operations:
    """The pending operations of one job; `changes` counts their starts and ends."""

    def __init__(self) -> None:
        self._pending: dict[Operation, None] = {}
        self.changes: int = 0

    @property
    def oldest(self) -> str:
        """The operation that has been pending for longest."""
        return next((operation.description for operation in self._pending), "nothing that is known")

    @property
    def longest_limit_s(self) -> float:
        """The longest timeout of the pending operations, in seconds."""
        return max((operation.limit_s for operation in self._pending), default=0.0)

    def begin(self, operation: Operation) -> None:
        """Add a pending operation."""
        self._pending[operation] = None
        self.changes += 1

    def end(self, operation: Operation) -> None:
        """Remove an operation that has ended."""
        self._pending.pop(operation, None)
        self.changes += 1


_OPERATIONS: Final[ContextVar[Operations | None]] = ContextVar("webdata_operations", default=None)


@contextmanager
def record_operations() -> Iterator[Operations]:
    """Record the operations of this context and of tasks that it starts."""
    operations = Operations()
    token = _OPERATIONS.set(operations)
    try:
        yield operations
    finally:
        _OPERATIONS.reset(token)


@contextmanager
def waiting_for(description: str, limit_s: float) -> Iterator[None]:
    """Record an operation of the current job while the context is open.

    Parameters
    ----------
    description : str
        Description for the log and the job's error, such as ``the answer of example.org:443``.
    limit_s : float
        Timeout of the operation in seconds; `inf` without one.
    """
    operations = _OPERATIONS.get()
    if operations is None:
        yield
        return
    operation = Operation(description, limit_s)
    operations.begin(operation)
    try:
        yield
    finally:
        operations.end(operation)
