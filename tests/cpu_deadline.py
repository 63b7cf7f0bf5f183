"""Ends a test that works for far too long, whatever the speed of the machine."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

CPU_DEADLINE_S = 60


@contextmanager
def cpu_deadline(seconds: float = CPU_DEADLINE_S) -> Iterator[None]:
    """Fail when the block takes a minute of processor time.

    This is the end of a hang, not a measurement: the input has to be so large that the failure
    which the test is about takes many minutes, and the right answer a second or two.
    """

    def fail(_signal: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"the block took {seconds} s of processor time")

    earlier = signal.signal(signal.SIGPROF, fail)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, earlier)
