"""Defines query, path and header parameters, their validation and their descriptions.

Numbers are parsed here, because pydantic accepts " 1", "+1" and "1.0".
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, Protocol

import orjson
from fastapi import Header, Path, Query
from pydantic import BeforeValidator, WithJsonSchema

from webdata_nb.contract import limits, outcomes, paths
from webdata_nb.page.errors import ApplicationError, BadInput
from webdata_nb.service.errors import NoSuchDelivery, NoSuchJob
from webdata_nb.service.routes import stream_position

PAGES: Final = (1, 10**9)
_KEY: Final = re.compile(limits.IDEMPOTENCY_KEY_FORM)
_FLAGS: Final = {"true": True, "1": True, "false": False, "0": False}
_FORMATS: Final = ("json", "csv", "zip")
# A NUL, which PostgreSQL does not store, and halves of surrogate pairs, which UTF-8 does not have.
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


def number(bounds: tuple[int, int]) -> tuple[BeforeValidator, WithJsonSchema]:
    """Return the validator and the schema of a whole number in digits within `bounds`."""
    low, high = bounds

    def check(text: Any) -> int:
        digits = isinstance(text, str) and text.isascii() and text.isdecimal()
        if not digits or not low <= int(text[:12]) <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return int(text)

    return BeforeValidator(check), WithJsonSchema(
        {"type": "integer", "minimum": low, "maximum": high}
    )


def one_of(*allowed: str) -> BeforeValidator:
    """Return the validator of a choice."""

    def check(text: Any) -> Any:
        if text not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return text

    return BeforeValidator(check)


def _flag(text: Any) -> bool:
    if not isinstance(text, str) or text.lower() not in _FLAGS:
        raise ValueError("must be true or false")
    return _FLAGS[text.lower()]


def _key(text: str) -> str:
    if len(text) > limits.IDEMPOTENCY_KEY_LENGTH or not _KEY.fullmatch(text):
        raise ValueError(f"must be 1 to {limits.IDEMPOTENCY_KEY_LENGTH} printable ASCII characters")
    return text


def _storable(text: str) -> str:
    """Refuse what no store takes, and what it would fail to look for."""
    if _UNSTORABLE.search(text):
        raise ValueError("must not contain NUL characters or lone surrogates")
    return text


def _id_or(error: type[ApplicationError], message: str) -> BeforeValidator:
    """Return the validator of an id in a path; one that nothing can have is as unknown as any."""

    def check(text: str) -> str:
        if _UNSTORABLE.search(text):
            raise error(message)
        return text

    return BeforeValidator(check)


def _event_id(text: str) -> str:
    stream_position.StreamPosition.parse(text)
    return text


class Listed(Protocol):
    """An entry of a listing, newest first."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def created_at(self) -> float:
        """When it was created, in seconds since the epoch."""


def list_cursor(last: Listed) -> str:
    """Return the cursor of the page after an entry."""
    return base64.urlsafe_b64encode(orjson.dumps([last.created_at, last.id])).decode()


def read_list_cursor(text: str | None) -> tuple[float, str] | None:
    """Return the time and the id in the cursor of a listing; raises `BadInput`."""
    if text is None:
        return None
    try:
        at, entry_id = orjson.loads(base64.urlsafe_b64decode(text))  # noqa: TID251 - ours, else refused
        return float(at), _storable(str(entry_id))
    except (ValueError, TypeError, binascii.Error):
        raise BadInput("not a cursor of this listing", loc=("query", "cursor")) from None


def _outcome(text: str) -> str:
    text = _storable(text)
    if text not in outcomes.MEANINGS and not text.startswith(outcomes.FAILED):
        allowed = ", ".join([*outcomes.MEANINGS, f"{outcomes.FAILED}<kind>"])
        raise ValueError(f"must be one of {allowed}")
    return text


def _advertiser(text: str) -> str:
    name = text.strip()
    if not name or len(name) > limits.ADVERTISER_QUERY_LENGTH or not name.isprintable():
        max_length = limits.ADVERTISER_QUERY_LENGTH
        raise ValueError(f"must be a name or a domain of 1 to {max_length} characters")
    return name


def _text(check: Callable[[str], Any], **schema: Any) -> tuple[BeforeValidator, WithJsonSchema]:
    return BeforeValidator(check), WithJsonSchema({"type": "string", **schema})


_STORABLE: Final = _text(_storable)

JobId = Annotated[
    str,
    _id_or(NoSuchJob, "no such job"),
    Path(
        description="Id of the job, from the reply to its start.",
        json_schema_extra={"format": "uuid"},
    ),
]
DeliveryId = Annotated[
    str,
    _id_or(NoSuchDelivery, "no such delivery"),
    Path(
        description="Id of the delivery, from the list of deliveries.",
        json_schema_extra={"format": "uuid"},
    ),
]
Sha256 = Annotated[
    str,
    Path(
        description="SHA-256 of the file's bytes, in hexadecimal, as the creative has it.",
        json_schema_extra={"pattern": "^[0-9a-f]{64}$"},
    ),
]
IncludeData = Annotated[
    bool,
    BeforeValidator(_flag),
    Query(description="Whether the reply contains the rows; if false, `data` is empty."),
]
Wait = Annotated[
    int,
    *number((0, limits.STATUS_WAIT_S)),
    Query(description="Seconds to wait for the job's end before the reply (ours)."),
]
PageNumber = Annotated[int, *number(PAGES), Query(description="Page of the rows, from 1.")]
PerPage = Annotated[int, *number(limits.PER_PAGE), Query(description="Rows per page.")]
EntriesPerPage = Annotated[
    int, *number(limits.RECEIPT_PER_PAGE), Query(description="Entries per page.")
]
FactsPerPage = Annotated[int, *number(limits.PAGE_FACTS), Query(description="Entries per page.")]
ListLimit = Annotated[
    int, *number(limits.JOBS_LISTED), Query(description="Entries per page, newest first.")
]
Cursor = Annotated[str | None, *_STORABLE, Query(description="The `cursor` of the previous page.")]
ExportFormat = Annotated[
    Literal["json", "csv", "zip"],
    one_of(*_FORMATS),
    Query(description="File format."),
]
Outcome = Annotated[
    str | None,
    *_text(_outcome),
    Query(description="Only entries with this outcome, such as `fetched` or `failed:http_404`."),
]
EntryUrl = Annotated[str | None, *_STORABLE, Query(description="Only the entry of this URL.")]
JobFilter = Annotated[str | None, *_STORABLE, Query(description="Only deliveries of this job.")]
AdvertiserQuery = Annotated[
    str,
    *_text(_advertiser, minLength=1, maxLength=limits.ADVERTISER_QUERY_LENGTH),
    Query(description="A part of an advertiser's name, or its domain."),
]
AdvertiserLimit = Annotated[
    int, *number(limits.ADVERTISERS), Query(description="Most advertisers, best match first.")
]
TimeoutMs = Annotated[
    int,
    *number(limits.TIMEOUT_MS),
    Query(description="Timeout of the source, in milliseconds."),
]
IdempotencyKey = Annotated[
    str | None,
    *_text(
        _key,
        minLength=1,
        maxLength=limits.IDEMPOTENCY_KEY_LENGTH,
        pattern=f"^{limits.IDEMPOTENCY_KEY_FORM}$",
    ),
    Header(
        alias=paths.IDEMPOTENCY_KEY,
        description="For 24 hours, a request with the same key and body returns the first job; "
        "with another body it is a 409.",
    ),
]
LastEventId = Annotated[
    str,
    *_text(_event_id, pattern=f"^{stream_position.EVENT_ID_PATTERN}$"),
    Header(
        alias="Last-Event-ID",
        description="Id of the last event that the client received; the stream resumes after it.",
    ),
]
