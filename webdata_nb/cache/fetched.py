"""What a service gave for one call, and what is to be said about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from webdata_nb.contract.replies import ReceiptEntry
from webdata_nb.contract.states import JobStatus
from webdata_nb.errors import IncompleteResult, JobCancelled, JobFailed, JobTimeout, WebdataError
from webdata_nb.frames.receipt import JobOutcome
from webdata_nb.frames.rows import Batch


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a service gave.

    `reason` is its own word on a failure; `shortfall` says that rows are missing, and why. The job
    had not ended by itself where the call was `interrupted`, or was `late`. `receipt` is the whole
    one of a crawl, where it was asked for and the service has one.
    """

    batch: Batch
    outcome: JobOutcome
    reason: str = ""
    shortfall: IncompleteResult | None = None
    interrupted: bool = False
    late: JobTimeout | None = None
    receipt: Sequence[ReceiptEntry] | None = None

    @property
    def worth_keeping(self) -> bool:
        """Whether to answer later calls with this: only what is whole and not a passing failure.

        A search without rows or a crawl without a single good page may be a blocked engine or a
        site that is down for a minute, which must not stay true for a week.
        """
        whole = self.outcome.status == JobStatus.COMPLETED and self.shortfall is None
        return whole and not self.interrupted and self.outcome.ok > 0

    def trouble(self) -> WebdataError | None:
        """Return the error that tells how the job ended; None where it ended well."""
        status, job_id = JobStatus(self.outcome.status), self.outcome.job_id or ""
        if self.interrupted:
            return None
        if self.late is not None:
            return self.late
        if status is JobStatus.FAILED:
            return JobFailed(job_id, self.reason or "the service gave no reason")
        return JobCancelled(job_id) if status is JobStatus.CANCELLED else self.shortfall
