"""What each job is waiting for at the moment, for the watchdog to see and to name.

Whoever waits for something outside the process says so by `waiting_for`; a watchdog opens the
record for the tasks of one job. Outside a job nothing is record_operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final


@dataclass(eq=False, frozen=True, slots=True)
class Operation:
    """One thing that is waited for, and the most seconds that it may take by its own deadline."""

    what: str
    limit_s: float


class Operations:
    """The operations of one job that are under way; `changes` counts their beginnings and ends."""

    def __init__(self) -> None:
        self._open: dict[Operation, None] = {}
        self.changes = 0

    @property
    def oldest(self) -> str:
        """What has been waited for the longest."""
        return next((each.what for each in self._open), "nothing that is known")

    @property
    def longest_limit_s(self) -> float:
        """The most seconds that one of them may take."""
        return max((each.limit_s for each in self._open), default=0.0)

    def begin(self, operation: Operation) -> None:
        """Note a beginning."""
        self._open[operation] = None
        self.changes += 1

    def end(self, operation: Operation) -> None:
        """Note an end."""
        self._open.pop(operation, None)
        self.changes += 1


_OPERATIONS: Final[ContextVar[Operations | None]] = ContextVar("webdata_operations", default=None)


@contextmanager
def record_operations() -> Iterator[Operations]:
    """Record the operations of what is inside, and of the tasks that it starts."""
    operations = Operations()
    token = _OPERATIONS.set(operations)
    try:
        yield operations
    finally:
        _OPERATIONS.reset(token)


@contextmanager
def waiting_for(what: str, limit_s: float) -> Iterator[None]:
    """Note what this job waits for while the context lasts.

    Parameters
    ----------
    what : str
        A few words for the log and for the job's error, such as ``the answer of example.org:443``.
    limit_s : float
        The deadline in seconds that whoever waits keeps; `inf` for what is waited out.
    """
    operations = _OPERATIONS.get()
    if operations is None:
        yield
        return
    operation = Operation(what, limit_s)
    operations.begin(operation)
    try:
        yield
    finally:
        operations.end(operation)
