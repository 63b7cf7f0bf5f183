"""Tells listeners of this process that a job changed; what changed they read from the store."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from webdata_nb.service.store.records import JobSnapshot


class Listener:
    """Wakes one reader; changes between two looks count once.

    `ended` is the job as it ended, once it did so in this process.
    """

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self.ended: JobSnapshot | None = None

    def wake(self) -> None:
        """Note a change."""
        self._changed.set()

    async def wait(self, timeout_s: float) -> bool:
        """Wait for a change since the last wait; False when none came in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        changed = self._changed.is_set()
        self._changed.clear()
        return changed


class Hub:
    """Who listens to which job."""

    def __init__(self) -> None:
        self._listeners: dict[str, set[Listener]] = defaultdict(set)

    def changed(self, job_id: str) -> None:
        """Wake everyone who listens to a job."""
        for listener in self._listeners.get(job_id, ()):
            listener.wake()

    def ended(self, look: JobSnapshot) -> None:
        """Wake everyone who listens to a job with what it came to."""
        for listener in self._listeners.get(look.job.id, ()):
            listener.ended = look
            listener.wake()

    @contextmanager
    def listen(self, job_id: str) -> Iterator[Listener]:
        """Listen while the context lasts."""
        listener = Listener()
        self._listeners[job_id].add(listener)
        try:
            yield listener
        finally:
            self._listeners[job_id].discard(listener)
            if not self._listeners[job_id]:
                del self._listeners[job_id]
