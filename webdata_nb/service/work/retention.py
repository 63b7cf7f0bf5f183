"""Since when a job's rows are gone: a decision on values, without a clock of its own."""

from __future__ import annotations

from typing import Final

from webdata_nb.service.settings import Retention
from webdata_nb.service.store.records import Job

HOUR_S: Final = 3600.0


def hours_of(retention: Retention, job: Job) -> float:
    """Return the hours that hold for a job's rows."""
    hours = retention.search_hours if job.kind == "search" else retention.crawl_hours
    return min(hours, retention.job_hours)


def expired_at(retention: Retention, job: Job, now: float) -> float | None:
    """Return since when a job's rows are gone; None while they can be read."""
    if job.finished_at is None:
        return None
    due = job.finished_at + hours_of(retention, job) * HOUR_S
    if job.expired_at is not None:
        return min(due, job.expired_at)
    return due if now >= due else None
