"""Reads the rows of an export from the store in small batches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol

from webdata_nb.contract.states import JobStatus
from webdata_nb.service.errors import ResultsExpired
from webdata_nb.service.store.interface import Store
from webdata_nb.service.store.records import JobRecord

# A row may have several megabytes, so the batch size limits the memory of an export.
BATCH_SIZE: Final = 4

PARTIAL_FIELD: Final = "partial_export"
"""The field or column that marks each row of a partial export."""


def is_partial(job: JobRecord) -> bool:
    """Whether an export may lack rows: the job is active, or ended without success."""
    return job.state is not JobStatus.COMPLETED


class ExportRows(Protocol):
    """Stored rows in batches; each iteration starts at the first row."""

    def __aiter__(self) -> AsyncIterator[Sequence[bytes]]: ...


class StoredRows(ExportRows):
    """The rows that were visible when the export began."""

    def __init__(self, store: Store, job: JobRecord) -> None:
        self._store, self._job = store, job

    async def __aiter__(self) -> AsyncIterator[Sequence[bytes]]:
        job = self._job
        for start in range(0, job.published, BATCH_SIZE):
            count = min(BATCH_SIZE, job.published - start)
            rows = await self._store.rows(job.account_id, job.id, start=start, count=count)
            if len(rows) < count:
                # The error closes the connection, so that the file does not look complete.
                raise ResultsExpired("the results expired during the export")
            yield rows
