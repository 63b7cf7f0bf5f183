"""Builds the events and payloads of webhooks, signs and verifies them (contract, 6.1 and 6.2)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from webdata_nb.contract.events import (
    DELIVERY_HEADER,
    SIGNATURE_HEADERS,
    Profile,
    WebhookA,
    WebhookB,
    terminal_event_a,
    terminal_event_b,
)
from webdata_nb.contract.states import JobKind, JobStatus

# Signs and verifies webhook deliveries with HMAC-SHA256 (contract, part 6.1).


PREFIX: Final = "sha256="
_SIGNATURE_NAMES: Final = frozenset(name.lower() for name in SIGNATURE_HEADERS)
_DELIVERY_NAME: Final = DELIVERY_HEADER.lower()
# Enough digits for Unix seconds; Python parses very long numbers slowly.
_MAX_DIGITS: Final = 12


def sign(body: bytes, secret: str) -> str:
    """Return the signature header's value: `sha256=` and 64 lower-case hex digits."""
    return PREFIX + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def verify_signature(body: bytes, headers: Mapping[str, str], secret: str) -> bool:
    """Whether a delivery was signed with `secret`, compared in constant time.

    Parameters
    ----------
    body : bytes
        The request body exactly as received; a re-serialised body does not verify.
    headers : Mapping[str, str]
        The request headers, names in any case. Either header family is accepted; where both
        are present both must match. A header sent twice never verifies.
    secret : str
        The `webhook_secret` given at the job's start. An empty secret never verifies.

    Returns
    -------
    bool
        False also for missing, malformed or non-ASCII headers; it never raises on them.

    Examples
    --------
    >>> verify_signature(b"{}", {"x-service-signature": sign(b"{}", "s3cret")}, "s3cret")
    True
    >>> verify_signature(b"{ }", {"x-service-signature": sign(b"{}", "s3cret")}, "s3cret")
    False
    """
    # A list of pairs, because a header may occur twice in a multi-dict or in two cases.
    signatures = [
        (name.lower(), value) for name, value in headers.items() if name.lower() in _SIGNATURE_NAMES
    ]
    if not secret or not signatures or len({name for name, _ in signatures}) < len(signatures):
        return False
    expected = sign(body, secret).encode()
    # All headers are compared, so that the duration does not reveal which one failed.
    matches = [
        hmac.compare_digest(value.encode("utf-8", "replace"), expected) for _, value in signatures
    ]
    return all(matches)


def is_recent(headers: Mapping[str, str], *, now: float, tolerance_s: float) -> bool:
    """Whether the delivery header is a time around `now` (Unix seconds).

    True without the header, because one profile of the contract has none; False if it is not a
    number or occurs twice. The header is not signed, so this does not prevent replay attacks;
    only the event's id does.

    Examples
    --------
    >>> is_recent({"X-Service-Delivery": "1000"}, now=1299, tolerance_s=300)
    True
    >>> is_recent({"X-Service-Delivery": "1000"}, now=1301, tolerance_s=300)
    False
    """
    values = [value for name, value in headers.items() if name.lower() == _DELIVERY_NAME]
    if not values:
        return True
    text = values[0] if len(values) == 1 else ""
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
        return False
    return abs(now - int(text)) <= tolerance_s


# Builds the events and payloads of webhooks (contract, 6.2).


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
