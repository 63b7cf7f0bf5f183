"""A claimed job in an engine's hands."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from webdata_nb.service.errors import MissingRows, StoreUnavailable
from webdata_nb.service.observability.operations import waiting_for
from webdata_nb.service.store.base import Store
from webdata_nb.service.store.records import Batch, Job, Lease, StoredEntry
from webdata_nb.service.store.retry import StoreRetry
from webdata_nb.service.work.events import Hub


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a worker elsewhere needs to take a job up: plain values, so that they travel."""

    job: Job
    lease: Lease


@dataclass(frozen=True, slots=True)
class LeasedJob:
    """A `JobContext` over a store: reads the journal, writes behind the lease.

    While the store is unavailable it waits: the engine stands still, and the job with it.
    """

    assignment: Assignment
    store: Store
    hub: Hub
    retry: StoreRetry = field(default_factory=StoreRetry)
    _under_way: dict[asyncio.Event, None] = field(default_factory=dict, repr=False)

    @property
    def job(self) -> Job:
        """The job as claimed."""
        return self.assignment.job

    async def entries(self) -> Sequence[StoredEntry]:
        """See `JobContext.entries`; a first attempt finds none, and does not ask."""
        if self.job.attempt == 1:
            return ()
        with waiting_for("the database", inf):
            return await self.retry.run(lambda: self.store.entries(self.job.id))

    async def snapshots(self) -> dict[str, bytes]:
        """See `JobContext.snapshots`."""
        if self.job.attempt == 1:
            return {}
        with waiting_for("the database", inf):
            return await self.retry.run(lambda: self.store.snapshots(self.job.id))

    async def commit(self, batch: Batch) -> None:
        """See `JobContext.commit`."""
        # No deadline: while the disk is full or the database locked, jobs are paused.
        with waiting_for("the database", inf):
            await self._commit(batch)
        self.hub.changed(self.job.id)

    async def _commit(self, batch: Batch) -> None:
        earlier, done = tuple(self._under_way), asyncio.Event()
        self._under_way[done] = None
        try:
            try:
                await self.store.commit(self.assignment.lease, batch)
            except (StoreUnavailable, MissingRows):
                # A batch publishes what earlier ones store: those that are repeated come first.
                for each in earlier:
                    await each.wait()
                await self.retry.run(lambda: self.store.commit(self.assignment.lease, batch))
        finally:
            del self._under_way[done]
            done.set()
