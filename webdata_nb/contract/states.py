"""Job states and their transitions (contract, part 3)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal

JobKind = Literal["search", "crawl"]


class JobStatus(StrEnum):
    """The six values of `status`; the reply to a start says `started`, its job is `pending`."""

    STARTED = "started"
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether the job has ended."""
        return self in TERMINAL


class Trigger(StrEnum):
    """Causes of transitions."""

    CLAIM = "claim"
    FINISH = "finish"
    FAIL = "fail"
    CANCEL = "cancel"


TERMINAL: Final = frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED})
ACTIVE: Final = frozenset({JobStatus.PENDING, JobStatus.RUNNING})
RETRYABLE: Final = frozenset({JobStatus.FAILED, JobStatus.CANCELLED})

# A running job can be claimed again when the lease of a dead worker has expired.
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
    """Return the next state, or None if the transition is not allowed."""
    return TRANSITIONS.get((state, trigger))


def may_retry(state: JobStatus) -> bool:
    """Whether a job in `state` can be retried."""
    return state in RETRYABLE
