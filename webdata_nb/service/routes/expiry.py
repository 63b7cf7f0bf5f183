"""Checks whether the rows of a job are past their retention."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from webdata_nb.service.errors import ResultsExpired
from webdata_nb.service.routes.app_state import AppState
from webdata_nb.service.store.records import JobRecord
from webdata_nb.service.work.retention import expired_at, retention_hours


@dataclass(frozen=True, slots=True)
class ResultExpiry:
    """When the rows of a job expired, and their retention."""

    hours: float
    at: datetime

    def fields(self) -> dict[str, Any]:
        """Return the fields of a status reply (contract, 2.2)."""
        hours = int(self.hours) if float(self.hours).is_integer() else self.hours
        return {
            "result_expired": True,
            "retention_hours": hours,
            "expired_at": self.at.isoformat().replace("+00:00", "Z"),
        }


def expiry_of(state: AppState, job: JobRecord) -> ResultExpiry | None:
    """Return the expiry of a job's rows by the clock, deleted or not; None before it."""
    at = expired_at(state.retention, job, state.clock())
    if at is None:
        return None
    return ResultExpiry(retention_hours(state.retention, job), datetime.fromtimestamp(at, UTC))


def check_not_expired(state: AppState, job: JobRecord) -> None:
    """Raise `ResultsExpired` if the rows are past their retention."""
    if (expiry := expiry_of(state, job)) is not None:
        until = f"{expiry.at:%Y-%m-%d %H:%M} UTC"
        raise ResultsExpired(
            f"the results were kept for {expiry.hours:g} hours, until {until}; start a new job"
        )
