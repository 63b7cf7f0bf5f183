"""Models of stream events and of webhook payloads in both profiles of the contract."""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
)

from webdata_nb.contract.outcomes import JobKind, JobStatus


class StreamEvent(StrEnum):
    """Names of the server-sent events."""

    PROGRESS = "progress"
    RANKED = "ranked"
    PAGE = "page"
    DONE = "done"


class Event(BaseModel):
    """Base of events; unknown fields are kept."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", frozen=True, defer_build=True)


def _parse_credits(value: Any) -> float | None:
    """Return a finite number, else None; other services may use the field differently."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None


Credits = Annotated[
    float | None,
    BeforeValidator(_parse_credits),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "null"}]}),
]


class Cost(BaseModel):
    """The cost of a job (ours), if the service reports it."""

    model_config: ClassVar[ConfigDict] = ConfigDict(defer_build=True)

    credits: Credits = Field(
        default=None, description="Credits that the job cost; null until it has ended."
    )
    credits_reserved: Credits = Field(
        default=None,
        description="Credits reserved for the running job, the most that it may cost; null if none "
        "are reserved.",
    )
    credits_unlimited: Annotated[bool, BeforeValidator(lambda value: value is True)] = Field(
        default=False,
        description="Whether the account has no limit, so that no credits are reserved.",
    )


class Progress(Event, Cost):
    """Progress of a job. Counts are rows, `elapsed` is seconds; `failed` counts by error kind."""

    job_id: str = Field(description="Id of the job, a UUID.")
    type: JobKind = Field(description="Whether it is a search or a crawl.")
    status: JobStatus = Field(description="State of the job.")
    completed: int = Field(default=0, description="Rows that are final.")
    total: int | None = Field(
        default=None,
        description="Expected rows of the job; null while unknown.",
    )
    failed: dict[str, int] = Field(
        default_factory=dict, description="Rows that failed, by kind of error."
    )
    links_checked: int = Field(
        default=0, description="Links to other sites that were checked, with `check_links` (ours)."
    )
    elapsed: float = Field(default=0.0, description="Processing time so far, in seconds.")
    message: str = Field(default="", description="A readable message; may be empty.")


class Ranked(Event):
    """A search result has its `rank`, from 1; the row of its page, `position`, is not final yet."""

    job_id: str = Field(description="Id of the job, a UUID.")
    position: int = Field(description="Position of the row, from 0.")
    rank: int = Field(description="Rank of the result, from 1.")
    url: str = Field(description="Address of the result's page.")


class PageDone(Event):
    """The row at `position`, counted from 0, is final; `success` is the row's own."""

    job_id: str = Field(description="Id of the job, a UUID.")
    position: int = Field(description="Position of the row, from 0.")
    url: str = Field(description="Address of the row's page.")
    success: bool = Field(description="Whether the row succeeded.")


class Done(Event):
    """The job reached a terminal state; nothing follows."""

    job_id: str = Field(description="Id of the job, a UUID.")
    status: JobStatus = Field(description="State in which the job ended.")
    error: str | None = Field(default=None, description="Why the job failed; null if it did not.")


STREAMED: Final[dict[StreamEvent, type[Event]]] = {
    StreamEvent.PROGRESS: Progress,
    StreamEvent.RANKED: Ranked,
    StreamEvent.PAGE: PageDone,
    StreamEvent.DONE: Done,
}
"""The model of each stream event."""


class Profile(StrEnum):
    """The two webhook formats of the contract; a service uses one of them."""

    A = "A"
    B = "B"


class WebhookA(Event):
    """Payload of profile A."""

    event: Literal["job.completed", "job.failed", "job.cancelled"] = Field(
        description="What happened."
    )
    job_id: str = Field(description="Id of the job, a UUID.")
    job_type: JobKind = Field(description="Whether it is a search or a crawl.")
    status: JobStatus = Field(description="State of the job.")
    total_pages: int = Field(description="Rows of the job.")
    completed_pages: int = Field(description="Rows that are final.")


class WebhookB(Event):
    """Payload of profile B; `timestamp` is UTC."""

    # FastAPI's field of a body has an alias, which pydantic refuses for a deferred model.
    model_config: ClassVar[ConfigDict] = ConfigDict(defer_build=False)

    event: Literal[
        "search.completed", "crawl.completed", "crawl.page", "scrape.completed", "extract.completed"
    ] = Field(description="What happened.")
    job_id: str = Field(description="Id of the job, a UUID.")
    status: JobStatus = Field(description="State of the job.")
    timestamp: datetime = Field(description="When it happened (UTC).")
    data: dict[str, Any] = Field(
        default_factory=dict, description="Counts of rows, and the page's or the crawl's `url`."
    )


EVENT_HEADERS: Final = ("X-Service-Event", "X-Webhook-Event")
SIGNATURE_HEADERS: Final = ("X-Service-Signature", "X-Webhook-Signature")
DELIVERY_HEADER: Final = "X-Service-Delivery"
# An extension: the same for every attempt at an event, so that receivers can drop duplicates.
EVENT_ID_HEADER: Final = "X-Webhook-Id"


# Signatures with HMAC-SHA256, as in part 6.1 of the contract


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


# Events and payloads, as in part 6.2 of the contract


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
        event = f"job.{job.status.value}"
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
    data: dict[str, object]
    if job.kind == "search":
        data = {"total_results": job.total, "completed_results": job.completed}
    else:
        data = {**_page_counts(job), "url": job.subject}
    return _profile_b(f"{job.kind}.completed", job, at, data)  # whatever its status


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
