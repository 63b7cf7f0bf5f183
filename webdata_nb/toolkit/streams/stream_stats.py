"""Counts the rows that one input of a stream has yielded, and builds its receipt."""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from webdata_nb.contract.states import JobStatus
from webdata_nb.toolkit.frames import extractions, receipt
from webdata_nb.toolkit.frames.receipt import InputRun, JobOutcome

if TYPE_CHECKING:
    import pyarrow as pa

    from webdata_nb.toolkit.requests.inputs import Input


class StreamStats:
    """The state of one input of a stream.

    Attributes
    ----------
    job_id : str
        The job at the service; empty before its start.
    outcome : JobOutcome or None
        How the job ended, as the service reports it.
    cached_receipt : dict or None
        The receipt of a cached or recorded result, which is this input's as well.
    error_message : str or None
        Why the input failed, where it is one of several.
    job_left_running : bool
        Whether the job continues after its stream was closed.
    """

    def __init__(self, request_input: Input, service: str) -> None:
        self.input = request_input
        self.job_id = ""
        self.outcome: JobOutcome | None = None
        self.cached_receipt: dict[str, Any] | None = None
        self.error_message: str | None = None
        self.job_left_running = False
        self.rows = self.batches = 0
        self._failed_rows = 0
        self._service = service
        self._started_at: datetime | None = None
        self._finished_at: datetime | None = None
        self._extraction: dict[str, Any] = {}
        self._listing_name = f"{request_input.spec.op}-{secrets.token_hex(6)}"

    @property
    def has_running_job(self) -> bool:
        """Whether the job has started and not ended."""
        return bool(self.job_id) and self.outcome is None

    @property
    def partition(self) -> str:
        """The name of its rows in a dataset: the job's id, or a random name for a listing."""
        cached_receipt = self.cached_receipt or {}
        return str(self.job_id or cached_receipt.get("job_id") or self._listing_name)

    def start(self) -> None:
        """Note the time of the start."""
        self._started_at = datetime.now(UTC)

    def finish(self) -> None:
        """Note the time of the end."""
        self._finished_at = datetime.now(UTC)

    def add_batch(self, table: pa.Table) -> None:
        """Count a batch that is about to be yielded."""
        self.rows += table.num_rows
        self.batches += 1
        self._failed_rows += receipt.count_failed_rows(table)
        self._extraction = extractions.summed(self._extraction, extractions.of_table(table))

    def receipt(self) -> dict[str, Any] | None:
        """Return the receipt of the rows so far; None where the input was not started."""
        if self._started_at is None:
            return None
        if self.cached_receipt is not None:
            return self.cached_receipt
        attrs = receipt.build(
            self.outcome_so_far(),
            request=self.input.spec.public_request,
            service=self._service,
            started_at=self._started_at,
            finished_at=self._finished_at or datetime.now(UTC),
        )
        return {**attrs, "cache": "off", "file": None}

    def outcome_so_far(self) -> JobOutcome:
        """Return the outcome with the counts of the rows that were yielded."""
        spec = self.input.spec
        counts: dict[str, Any] = {
            "rows": self.rows,
            "failed": self._failed_rows,
            "extraction": self._extraction,
        }
        if self.outcome is not None:
            return replace(self.outcome, **counts)
        unfinished = JobStatus.CANCELLED if self.error_message is None else JobStatus.FAILED
        status = JobStatus.RUNNING if self.job_left_running else unfinished
        job_id = self.job_id or None
        return JobOutcome(spec.op, spec.subject, status.value, job_id, total=None, **counts)

    def input_run(self) -> InputRun:
        """Return the entry of this input in the receipt of several inputs."""
        return InputRun(dict(self.input.labels), self.receipt(), self.error_message)
