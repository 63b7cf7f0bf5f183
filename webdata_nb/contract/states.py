"""Job states and the transitions between them (contract, part 3)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal

JobKind = Literal["search", "crawl"]


class JobStatus(StrEnum):
    """The six values of `status`; a start is answered `started`, its job is `pending`."""

    STARTED = "started"
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether polling can stop here."""
        return self in TERMINAL


class Trigger(StrEnum):
    """What moves a job."""

    CLAIM = "claim"
    FINISH = "finish"
    FAIL = "fail"
    CANCEL = "cancel"


TERMINAL: Final = frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED})
ACTIVE: Final = frozenset({JobStatus.PENDING, JobStatus.RUNNING})
RETRYABLE: Final = frozenset({JobStatus.FAILED, JobStatus.CANCELLED})

# A running job may be claimed again: its worker died and the lease ran out.
TRANSITIONS: Final[dict[tuple[JobStatus, Trigger], JobStatus]] = {
    (JobStatus.PENDING, Trigger.CLAIM): JobStatus.RUNNING,
    (JobStatus.RUNNING, Trigger.CLAIM): JobStatus.RUNNING,
    (JobStatus.RUNNING, Trigger.FINISH): JobStatus.COMPLETED,
    (JobStatus.RUNNING, Trigger.FAIL): JobStatus.FAILED,
    (JobStatus.PENDING, Trigger.CANCEL): JobStatus.CANCELLED,
    (JobStatus.RUNNING, Trigger.CANCEL): JobStatus.CANCELLED,
    (JobStatus.CANCELLED, Trigger.CANCEL): JobStatus.CANCELLED,
}


def after(state: JobStatus, trigger: Trigger) -> JobStatus | None:
    """Return the state that `trigger` leads to, or None where the table has no such move."""
    return TRANSITIONS.get((state, trigger))


def may_retry(state: JobStatus) -> bool:
    """Whether a retry of a job in `state` makes a new job."""
    return state in RETRYABLE
