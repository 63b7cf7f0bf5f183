"""A claimed job in an engine's hands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from webdata_nb.service.store.base import Store
from webdata_nb.service.store.records import Batch, Job, Journaled, Lease
from webdata_nb.service.work.events import Hub


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a worker elsewhere needs to take a job up: plain values, so that they travel."""

    job: Job
    lease: Lease


@dataclass(frozen=True, slots=True)
class LeasedJob:
    """A `JobContext` over a store: reads the journal, writes behind the lease."""

    assignment: Assignment
    store: Store
    hub: Hub

    @property
    def job(self) -> Job:
        """The job as claimed."""
        return self.assignment.job

    async def entries(self) -> Sequence[Journaled]:
        """See `JobContext.entries`; a first attempt finds none, and does not ask."""
        return () if self.job.attempt == 1 else await self.store.entries(self.job.id)

    async def snapshots(self) -> dict[str, bytes]:
        """See `JobContext.snapshots`."""
        if self.job.attempt == 1:
            return {}
        return await self.store.snapshots(self.job.id)

    async def commit(self, batch: Batch) -> None:
        """See `JobContext.commit`."""
        await self.store.commit(self.assignment.lease, batch)
        self.hub.changed(self.job.id)
