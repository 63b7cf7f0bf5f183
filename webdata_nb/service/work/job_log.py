"""The lines of the log that say what became of a job, and on whose account."""

from __future__ import annotations

import logging
from typing import Any, Final, Literal

from webdata_nb.contract.states import JobStatus
from webdata_nb.service.observability.logs import event, reason
from webdata_nb.service.store.records import Job

_FAILED: Final = frozenset({JobStatus.FAILED})


def started(job: Job, *, now: float) -> None:
    """Say that a worker began with a job; a later attempt goes on where the last one was."""
    event(
        "job_started", **_whose(job), attempt=job.attempt, waited_s=max(0.0, now - job.created_at)
    )


def ended(job: Job) -> None:
    """Say how a job ended, what it gave and what it cost."""
    level = logging.WARNING if job.state in _FAILED else logging.INFO
    event(
        "job_ended",
        level,
        **_whose(job),
        status=job.state.value,
        rows=job.published,
        credits=job.credits,
        seconds=job.elapsed(job.finished_at or job.created_at),
        attempt=job.attempt,
        reason=reason(job.error),
    )


def stalled(
    job: Job, *, operation: str, waited_s: float, action: Literal["requeued", "failed"]
) -> None:
    """Say that a job made no progress, what it was waiting for, and what is done about it."""
    event(
        "job_stalled",
        logging.WARNING,
        **_whose(job),
        attempt=job.attempt,
        operation=reason(operation),
        waited_s=waited_s,
        action=action,
    )


def _whose(job: Job) -> dict[str, Any]:
    return {"job": job.id, "account": job.account_id, "key": job.key_id, "kind": job.kind}
