"""Logs the start, end and stalls of jobs."""

from __future__ import annotations

import logging
from typing import Any, Literal

from webdata_nb.contract.states import JobStatus
from webdata_nb.service.observability.logs import event, reason
from webdata_nb.service.store.records import JobRecord


def log_start(job: JobRecord, *, now: float) -> None:
    """Log that a worker began an attempt at a job."""
    event(
        "job_started",
        **_job_fields(job),
        attempt=job.attempt,
        waited_s=max(0.0, now - job.created_at),
    )


def log_end(job: JobRecord) -> None:
    """Log how a job ended, its rows and its credits."""
    level = logging.WARNING if job.state is JobStatus.FAILED else logging.INFO
    event(
        "job_ended",
        level,
        **_job_fields(job),
        status=job.state.value,
        rows=job.published,
        credits=job.credits,
        seconds=job.elapsed(job.finished_at or job.created_at),
        attempt=job.attempt,
        reason=reason(job.error),
    )


def log_stall(
    job: JobRecord, *, operation: str, waited_s: float, action: Literal["requeued", "failed"]
) -> None:
    """Log that a job stalled, in which operation, and whether it was requeued or failed."""
    event(
        "job_stalled",
        logging.WARNING,
        **_job_fields(job),
        attempt=job.attempt,
        operation=reason(operation),
        waited_s=waited_s,
        action=action,
    )


def _job_fields(job: JobRecord) -> dict[str, Any]:
    return {"job": job.id, "account": job.account_id, "key": job.key_id, "kind": job.kind}
