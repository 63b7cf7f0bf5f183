"""Builds the events and payloads of webhooks (contract, 6.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from webdata_nb.contract.events import (
    Profile,
    WebhookA,
    WebhookB,
    terminal_event_a,
    terminal_event_b,
)
from webdata_nb.contract.states import JobKind, JobStatus

PAGE: Final = "crawl.page"
TEST: Final = "webhook.test"


@dataclass(frozen=True, slots=True)
class WebhookPayload:
    """The name of an event, and its body as sent and signed."""

    event: str
    body: bytes


@dataclass(frozen=True, slots=True)
class WebhookJob:
    """The data of a job in payloads; `subject` is a crawl's start URL or a search's query."""

    job_id: str
    kind: JobKind
    status: JobStatus
    subject: str
    total: int
    completed: int


def job_ended(profile: Profile, job: WebhookJob, at: datetime) -> WebhookPayload:
    """Return the payload for the end of a job, at `at` (UTC)."""
    if profile is Profile.A:
        event = terminal_event_a(job.status)
        payload = WebhookA.model_validate(
            {
                "event": event,
                "job_id": job.job_id,
                "job_type": job.kind,
                "status": job.status,
                "total_pages": job.total,
                "completed_pages": job.completed,
            }
        )
        return WebhookPayload(event, payload.model_dump_json().encode())
    if job.kind == "search":
        data = {"total_results": job.total, "completed_results": job.completed}
        return _profile_b(terminal_event_b("search"), job, at, data)
    return _profile_b(terminal_event_b("crawl"), job, at, {**_page_counts(job), "url": job.subject})


def page_done(job: WebhookJob, at: datetime, *, url: str, success: bool) -> WebhookPayload:
    """Return the payload for a final page of a crawl; only profile B has it."""
    return _profile_b(PAGE, job, at, {**_page_counts(job), "url": url, "success": success})


def test_payload(at: datetime) -> WebhookPayload:
    """Return the payload of a test delivery."""
    body = f'{{"event":"{TEST}","timestamp":"{at.isoformat().replace("+00:00", "Z")}"}}'
    return WebhookPayload(TEST, body.encode())


def _page_counts(job: WebhookJob) -> dict[str, object]:
    return {"total_pages": job.total, "completed_pages": job.completed}


def _profile_b(
    event: str, job: WebhookJob, at: datetime, data: Mapping[str, object]
) -> WebhookPayload:
    payload = WebhookB.model_validate(
        {
            "event": event,
            "job_id": job.job_id,
            "status": job.status,
            "timestamp": at,
            "data": data,
        }
    )
    return WebhookPayload(event, payload.model_dump_json().encode())
