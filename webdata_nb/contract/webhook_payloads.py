"""What a webhook says: the events of a job and their payloads, to the byte (contract, 6.2)."""

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
    """An event's name, and the body that is sent and signed as it is."""

    event: str
    body: bytes


@dataclass(frozen=True, slots=True)
class WebhookJob:
    """What a notice tells of a job; `subject` is the crawl's start URL or the search's query."""

    job_id: str
    kind: JobKind
    status: JobStatus
    subject: str
    total: int
    completed: int


def job_ended(profile: Profile, job: WebhookJob, at: datetime) -> WebhookPayload:
    """Return the one notice of a job's end, at `at` (UTC)."""
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
        return _b(terminal_event_b("search"), job, at, data)
    return _b(terminal_event_b("crawl"), job, at, {**_pages(job), "url": job.subject})


def page_done(job: WebhookJob, at: datetime, *, url: str, success: bool) -> WebhookPayload:
    """Return the notice of one page of a crawl that became visible; profile B alone has it."""
    return _b(PAGE, job, at, {**_pages(job), "url": url, "success": success})


def test_payload(at: datetime) -> WebhookPayload:
    """Return the notice that a test of an endpoint sends."""
    body = f'{{"event":"{TEST}","timestamp":"{at.isoformat().replace("+00:00", "Z")}"}}'
    return WebhookPayload(TEST, body.encode())


def _pages(job: WebhookJob) -> dict[str, object]:
    return {"total_pages": job.total, "completed_pages": job.completed}


def _b(event: str, job: WebhookJob, at: datetime, data: Mapping[str, object]) -> WebhookPayload:
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
