"""Progress events of the stream, and webhook payloads in both of the contract's profiles."""

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
    model_validator,
)

from webdata_nb.contract.states import JobKind, JobStatus


class StreamEvent(StrEnum):
    """Names of the server-sent events."""

    PROGRESS = "progress"
    RANKED = "ranked"
    PAGE = "page"
    DONE = "done"


class Event(BaseModel):
    """A value on its way to a listener."""

    model_config = ConfigDict(extra="allow", frozen=True)


# What services before the field `credits_unlimited` reserved for a job without a limit.
_UNLIMITED: Final = "unlimited"


def _credits(told: Any) -> float | None:
    """Take what is a figure: the contract has no such field, so a service may mean another."""
    is_figure = isinstance(told, int | float) and not isinstance(told, bool)
    return float(told) if is_figure and math.isfinite(told) else None


def _is_true(told: Any) -> bool:
    return told is True


Credits = Annotated[
    float | None,
    BeforeValidator(_credits),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "null"}]}),
]


class Cost(BaseModel):
    """What a job costs (ours), where a service tells."""

    credits: Credits = Field(
        default=None, description="What the job cost, in credits; null until it has ended."
    )
    credits_reserved: Credits = Field(
        default=None,
        description="What is held for the job while it runs, in credits: the most that it may "
        "cost; null where nothing is held.",
    )
    credits_unlimited: Annotated[bool, BeforeValidator(_is_true)] = Field(
        default=False,
        description="Whether the job's account has no limit, so that nothing is held for it.",
    )

    @model_validator(mode="before")
    @classmethod
    def _earlier(cls, told: Any) -> Any:
        """Read a reply of an earlier service."""
        if isinstance(told, dict) and told.get("credits_reserved") == _UNLIMITED:
            return {**told, "credits_reserved": None, "credits_unlimited": True}
        return told


class Progress(Event, Cost):
    """How far a job is. Counts are rows, `elapsed` is seconds; `failed` counts by error kind."""

    job_id: str = Field(description="Id of the job, a UUID.")
    type: JobKind = Field(description="Whether it is a search or a crawl.")
    status: JobStatus = Field(description="State of the job.")
    completed: int = Field(default=0, description="Rows that are final.")
    total: int | None = Field(
        default=None,
        description="Rows that the job has or will have as far as it can tell; null while it "
        "cannot.",
    )
    failed: dict[str, int] = Field(
        default_factory=dict, description="Rows that failed, by kind of error."
    )
    elapsed: float = Field(default=0.0, description="Processing time so far, in seconds.")
    message: str = Field(default="", description="A sentence for people; may be empty.")


class Ranked(Event):
    """A result of a search has its `rank`, from 1; its page, at `position`, is yet to come."""

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
"""What each event of a stream carries."""


class Profile(StrEnum):
    """Which of the contract's two webhook descriptions a service follows."""

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
# Ours: the same for every attempt at one event, so that a receiver can drop a second copy.
EVENT_ID_HEADER: Final = "X-Webhook-Id"


def terminal_event_a(status: JobStatus) -> str:
    """Return profile A's event name of a terminal `status`."""
    return f"job.{status.value}"


def terminal_event_b(kind: JobKind) -> str:
    """Return profile B's event name of a finished job of `kind`, whatever its outcome."""
    return f"{kind}.completed"
