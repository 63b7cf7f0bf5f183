"""Models of stream events and of webhook payloads in both profiles of the contract."""

from __future__ import annotations

import math
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
)

from webdata_nb.contract.states import JobKind, JobStatus


class StreamEvent(StrEnum):
    """Names of the server-sent events."""

    PROGRESS = "progress"
    RANKED = "ranked"
    PAGE = "page"
    DONE = "done"


class Event(BaseModel):
    """Base of events; unknown fields are kept."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)


def _parse_credits(value: Any) -> float | None:
    """Return a finite number, else None; other services may use the field differently."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None


def _is_true(value: Any) -> bool:
    return value is True


Credits = Annotated[
    float | None,
    BeforeValidator(_parse_credits),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "null"}]}),
]


class Cost(BaseModel):
    """The cost of a job (ours), if the service reports it."""

    model_config = ConfigDict(defer_build=True)

    credits: Credits = Field(
        default=None, description="Credits that the job cost; null until it has ended."
    )
    credits_reserved: Credits = Field(
        default=None,
        description="Credits reserved for the running job, the most that it may cost; null if none "
        "are reserved.",
    )
    credits_unlimited: Annotated[bool, BeforeValidator(_is_true)] = Field(
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
    model_config = ConfigDict(defer_build=False)

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


def terminal_event_a(status: JobStatus) -> str:
    """Return the event name of profile A for a terminal status."""
    return f"job.{status.value}"


def terminal_event_b(kind: JobKind) -> str:
    """Return the event name of profile B for an ended job, whatever its status."""
    return f"{kind}.completed"
