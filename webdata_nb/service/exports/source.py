"""The rows of an export: a few at a time, straight from the store, and exactly so many."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol

from webdata_nb.contract.states import JobStatus
from webdata_nb.service.errors import ResultsExpired
from webdata_nb.service.store.interface import Store
from webdata_nb.service.store.records import JobRecord

# A row may be several megabytes, so that this bounds what an export holds in memory.
BATCH: Final = 4


PARTIAL: Final = "partial_export"
"""The field, and the column, by which each row of a partial export says so."""


def is_partial(job: JobRecord) -> bool:
    """Whether an export holds what a job has so far, or had when it ended without success."""
    return job.state is not JobStatus.COMPLETED


class Rows(Protocol):
    """Rows as stored, batch after batch; each iteration begins anew."""

    def __aiter__(self) -> AsyncIterator[Sequence[bytes]]: ...


class StoredRows:
    """The rows that a job showed when the export began; later ones are not in it."""

    def __init__(self, store: Store, job: JobRecord) -> None:
        self._store, self._job = store, job

    async def __aiter__(self) -> AsyncIterator[Sequence[bytes]]:
        job = self._job
        for start in range(0, job.published, BATCH):
            count = min(BATCH, job.published - start)
            rows = await self._store.rows(job.account_id, job.id, start=start, count=count)
            if len(rows) < count:
                # The connection breaks here, so that nobody takes a part for the whole.
                raise ResultsExpired("the results went past their retention during the export")
            yield rows
