"""Notifies listeners in this process that a job changed; they read the change from the store."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from webdata_nb.service.store.records import JobSnapshot


class JobListener:
    """Wakes one reader; several changes between two waits count once.

    `ended` is the job at its end, if it ended in this process.
    """

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self.ended: JobSnapshot | None = None

    def wake(self) -> None:
        """Note a change."""
        self._changed.set()

    async def wait(self, timeout_s: float) -> bool:
        """Wait for a change since the last wait; return False after the timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        changed = self._changed.is_set()
        self._changed.clear()
        return changed


class JobEvents:
    """The listeners of each job."""

    def __init__(self) -> None:
        self._listeners: dict[str, set[JobListener]] = defaultdict(set)
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether this process stops, so that listeners should not wait here any more."""
        return self._closed

    def close(self) -> None:
        """Wake every listener for the last time."""
        self._closed = True
        self.all_changed()

    def changed(self, job_id: str) -> None:
        """Wake the listeners of a job."""
        for listener in self._listeners.get(job_id, ()):
            listener.wake()

    def all_changed(self) -> None:
        """Wake every listener."""
        for job_id in self._listeners:
            self.changed(job_id)

    def ended(self, snapshot: JobSnapshot) -> None:
        """Wake the listeners of a job that ended."""
        for listener in self._listeners.get(snapshot.job.id, ()):
            listener.ended = snapshot
            listener.wake()

    @contextmanager
    def listen(self, job_id: str) -> Iterator[JobListener]:
        """Listen to a job while the context lasts."""
        listener = JobListener()
        self._listeners[job_id].add(listener)
        try:
            yield listener
        finally:
            self._listeners[job_id].discard(listener)
            if not self._listeners[job_id]:
                del self._listeners[job_id]
