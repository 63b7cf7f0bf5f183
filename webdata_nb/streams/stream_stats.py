"""What one input of a stream has given so far: its numbers, and its receipt at the end."""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from webdata_nb.contract.states import JobStatus
from webdata_nb.frames import extractions, receipt
from webdata_nb.frames.receipt import InputRun, JobOutcome

if TYPE_CHECKING:
    import pyarrow as pa

    from webdata_nb.cache.fetched import Fetched
    from webdata_nb.requests.inputs import Input


class StreamStats:
    """The count of one input's rows, as they are handed over.

    Attributes
    ----------
    job_id : str
        The job at the service, once there is one.
    ended : Fetched or None
        How the service says that it ended, without the rows.
    kept : dict or None
        The receipt of an answer that was there already, which is this input's as well.
    error : str or None
        What an input of several is to say of its failure.
    left : bool
        Whether the job goes on without its reader.
    """

    def __init__(self, each: Input, service: str) -> None:
        self.each = each
        self.job_id = ""
        self.ended: Fetched | None = None
        self.kept: dict[str, Any] | None = None
        self.error: str | None = None
        self.left = False
        self.rows = self.batches = 0
        self._failed = 0
        self._service = service
        self._began: datetime | None = None
        self._over: datetime | None = None
        self._extraction: dict[str, Any] = {}
        self._listing = f"{each.spec.op}-{secrets.token_hex(6)}"

    @property
    def under_way(self) -> bool:
        """Whether a job runs for it."""
        return bool(self.job_id) and self.ended is None

    @property
    def over(self) -> bool:
        """Whether it was read to its end, whatever that is."""
        return self._over is not None

    @property
    def partition(self) -> str:
        """What names its rows in a dataset: the job, or the listing where there is no job."""
        kept = self.kept or {}
        return str(self.job_id or kept.get("job_id") or self._listing)

    def begin(self) -> None:
        """Take the time."""
        self._began = datetime.now(UTC)

    def end(self) -> None:
        """Take the time again."""
        self._over = datetime.now(UTC)

    def add(self, table: pa.Table) -> None:
        """Count a batch that is about to be handed over."""
        self.rows += table.num_rows
        self.batches += 1
        self._failed += receipt.count_failed_rows(table)
        self._extraction = extractions.summed(self._extraction, extractions.of_table(table))

    def attrs(self) -> dict[str, Any] | None:
        """Return the input's receipt as far as it came; None where it was never begun."""
        if self._began is None:
            return None
        if self.kept is not None:
            return self.kept
        told = receipt.build(
            self._outcome(),
            request=self.each.spec.public,
            service=self._service,
            started_at=self._began,
            finished_at=self._over or datetime.now(UTC),
        )
        return {**told, "cache": "off", "file": None}

    def _outcome(self) -> JobOutcome:
        spec = self.each.spec
        counted: dict[str, Any] = {
            "rows": self.rows,
            "failed": self._failed,
            "extraction": self._extraction,
        }
        if self.ended is not None:
            return replace(self.ended.outcome, **counted)
        unfinished = JobStatus.CANCELLED if self.error is None else JobStatus.FAILED
        status = JobStatus.RUNNING if self.left else unfinished
        job_id = self.job_id or None
        return JobOutcome(spec.op, spec.subject, status.value, job_id, total=None, **counted)

    def run(self) -> InputRun:
        """Return its line in the receipt of several inputs."""
        return InputRun(dict(self.each.labels), self.attrs(), self.error)
