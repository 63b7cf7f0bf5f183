"""Defines the requests about archive files and about web archives (ours)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from webdata_nb.contract import limits
from webdata_nb.contract.choices import ArchiveSource, CaptureMatch
from webdata_nb.contract.fields import HttpUrl, Strict, whole
from webdata_nb.contract.requests import CrawlRequest

# The first captures of the Wayback Machine.
FIRST_YEAR: Final = 1996


def utc_time(text: str) -> str:
    """Return a time in UTC, in the form `2024-06-01T00:00:00Z`; a day is its first moment.

    Raises
    ------
    ValueError
        It is no time, or one without captures.
    """
    try:
        at = datetime.fromisoformat(text)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("must be a date or time in ISO 8601, such as 2024-06-01") from None
    if at.year < FIRST_YEAR:
        raise ValueError(f"must be in {FIRST_YEAR} or later, when web archives begin")
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _past_time(text: str) -> str:
    at = utc_time(text)
    if datetime.fromisoformat(at) > datetime.now(UTC):
        raise ValueError("must be a date in the past")
    return at


def _days(value: Any) -> float:
    low, high = limits.CAPTURE_DISTANCE
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:
        raise ValueError(f"must be a number of days from {low:g} to {high:g}")
    return float(value)


_TIME_SCHEMA: Final = WithJsonSchema(
    {"type": "string", "format": "date-time", "maxLength": limits.TIME_LENGTH}
)
ArchiveTime = Annotated[
    str, Field(max_length=limits.TIME_LENGTH), AfterValidator(utc_time), _TIME_SCHEMA
]
PastTime = Annotated[
    str, Field(max_length=limits.TIME_LENGTH), AfterValidator(_past_time), _TIME_SCHEMA
]
CaptureDistance = Annotated[
    float,
    BeforeValidator(_days),
    WithJsonSchema(
        {
            "type": "number",
            "minimum": limits.CAPTURE_DISTANCE[0],
            "maximum": limits.CAPTURE_DISTANCE[1],
        }
    ),
]
_CapturesListed = Annotated[int, *whole(limits.CAPTURES_LISTED)]


class ArchiveCrawlRequest(CrawlRequest):
    """POST /local/archive-crawls, of the local service alone: a crawl of a WARC or WACZ file."""

    archive: Annotated[str, Field(min_length=1, max_length=limits.URL_LENGTH)] = Field(
        description="Absolute path of the file."
    )
    archive_version: Annotated[str, Field(max_length=limits.URL_LENGTH)] = Field(
        description="Size and time of change of the file; the crawl fails if they are others."
    )
    url: HttpUrl = Field(
        default="", description="Where the crawl starts; the archive's first page when left out."
    )

    @model_validator(mode="after")
    def _check_stored_pages(self) -> ArchiveCrawlRequest:
        options = self.scrape_options
        if options.may_render:
            raise ValueError(
                "an archive has pages as they were sent, and no browser loads them: leave out "
                'render, wait_for, mobile, mobile_device and the format "screenshot"'
            )
        if options.headers or options.cookies:
            raise ValueError("nothing is sent for an archive: leave out headers and cookies")
        if self.reads_rights:
            raise ValueError(
                "rights are what a site declares now, and an archive may lack it: leave out rights "
                "and purpose"
            )
        if self.check_links:
            raise ValueError(
                "nothing is requested for an archive, and check_links requests links: leave it out"
            )
        return self

    @property
    def subject(self) -> str:
        """What the crawl is of."""
        return self.archive


class RecordedCrawlRequest(CrawlRequest):
    """POST /local/recorded-crawls, of the local service alone: a crawl that writes a WARC file."""

    warc: Annotated[str, Field(min_length=1, max_length=limits.URL_LENGTH)] = Field(
        description="Absolute path of the file."
    )

    @model_validator(mode="after")
    def _check_stored_pages(self) -> RecordedCrawlRequest:
        if self.purpose is not None:
            raise ValueError(
                "a WARC file has every response, also of pages that are refused for a purpose: "
                "leave out purpose"
            )
        if self.check_links:
            raise ValueError(
                "a WARC file has the pages of a crawl, and check_links does not read those that it "
                "requests: leave it out"
            )
        return self


class CapturesRequest(Strict):
    """POST /v1/captures (ours): a page of a web archive's index."""

    url: HttpUrl = Field(description="The URL whose captures are listed.")
    source: ArchiveSource = Field(
        default="wayback",
        description="The archive: `wayback`, the Wayback Machine, or `commoncrawl`.",
    )
    match: CaptureMatch = Field(
        default="exact",
        description="Which captures: of this URL (`exact`), of those that begin with it "
        "(`prefix`), of its `host`, or of its `domain` with all hosts below it.",
    )
    start: ArchiveTime | None = Field(
        default=None, description="The earliest time of a capture; any when null."
    )
    end: ArchiveTime | None = Field(
        default=None, description="The latest time of a capture; any when null."
    )
    limit: _CapturesListed = Field(
        default=limits.CAPTURES_LISTED_DEFAULT, description="Captures in one reply at most."
    )
    cursor: Annotated[str, Field(min_length=1, max_length=limits.CURSOR_LENGTH)] | None = Field(
        default=None, description="The `cursor` of the previous reply; the first page when null."
    )

    @model_validator(mode="after")
    def _check_times(self) -> Self:
        if self.start is not None and self.end is not None and self.start > self.end:
            raise ValueError("start must not be after end")
        return self


class DatedCrawlRequest(CrawlRequest):
    """POST /v1/dated-crawls (ours): a crawl of a site as a web archive captured it."""

    as_of: PastTime = Field(
        description="The time at which the site is crawled: of each URL the nearest capture "
        "counts. A day is its first moment in UTC."
    )
    source: ArchiveSource = Field(
        default="wayback",
        description="The archive: `wayback`, the Wayback Machine, or `commoncrawl`.",
    )
    max_distance: CaptureDistance = Field(
        default=limits.CAPTURE_DISTANCE_DEFAULT,
        description="Days between a capture and `as_of` at most. A URL without such a capture is "
        "`not_archived`.",
    )

    @model_validator(mode="after")
    def _check_stored_pages(self) -> Self:
        options = self.scrape_options
        if options.may_render:
            raise ValueError(
                "as_of reads pages as they were sent, and no browser loads them: leave out "
                'render, wait_for, mobile, mobile_device and the format "screenshot"'
            )
        if options.headers or options.cookies:
            raise ValueError(
                "with as_of nothing is sent to the site: leave out headers and cookies"
            )
        if self.check_links:
            raise ValueError(
                "as_of reads what was, and check_links requests links as they are now: leave it out"
            )
        if self.reads_rights:
            raise ValueError(
                "rights are what a site declares now, and as_of reads what it was: leave out "
                "rights and purpose"
            )
        return self
