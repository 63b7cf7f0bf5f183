"""Models of replies about crawls: rows, status and receipt."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from webdata_nb.contract.events import Cost
from webdata_nb.contract.replies.base import Reply, Rows, RowsOf, SuccessReply
from webdata_nb.contract.replies.pages import PageFields
from webdata_nb.contract.states import JobStatus


class CrawlPage(PageFields):
    """One crawled page; `time_taken` is seconds, `depth` link depth from the start page."""

    url: str | None = Field(default=None, description="Address of the page, after redirects.")
    title: str | None = Field(default=None, description="Title of the page.")
    status: str | None = Field(default=None, description="`completed` or `failed`.")
    status_code: int | None = Field(
        default=None, description="HTTP status of the page; null where there was no answer."
    )
    success: bool | None = Field(default=None, description="Whether the page was scraped.")
    error: str | None = Field(default=None, description="Why it was not; null if it was.")
    depth: int | None = Field(default=None, description="Links from the start page, which has 0.")
    time_taken: float | None = Field(default=None, description="Seconds that the page took.")
    quality: Any = Field(
        default=None,
        description="How much of the page is content, such as `word_count`, `score` (0 to 1).",
    )
    content_hash: str | None = Field(
        default=None, description="Hash of the page's content: the same for the same content."
    )
    fetched_at: datetime | None = Field(default=None, description="When the page arrived (UTC).")


class Receipt(Reply):
    """Every URL seen, by outcome: counts, and at most 20 examples an outcome.

    `contract.outcomes` says what each outcome means. `warning` is ours: why a completed crawl may
    not be what was wanted, such as a start page that answered 404; None where nothing hints at it.
    """

    counts: dict[str, int] = Field(default_factory=dict, description="URLs by outcome.")
    examples: dict[str, list[str]] = Field(
        default_factory=dict, description="Some URLs of each outcome, at most 20."
    )
    warning: str | None = Field(
        default=None,
        description="Why a completed crawl may not be what was wanted (ours); null if nothing "
        "hints at it.",
    )


class ReceiptEntry(Reply):
    """What became of one URL."""

    url: str = Field(description="The URL, in the form in which the crawl wrote it.")
    outcome: str = Field(
        description="What became of it, such as `fetched`, `robots` or `failed:http_404`."
    )
    detail: str = Field(
        default="",
        description="More about the outcome, such as the page of which it is a duplicate; may "
        "be empty.",
    )


class ReceiptPage(SuccessReply):
    """GET /v1/crawl/{job_id}/receipt (ours): entries in the order of their URLs.

    `total_results` counts the entries that the question is about: all, those of one outcome, or
    the one of a URL. `url` is the form under which that one was looked up.
    """

    job_id: str = Field(description="Id of the job, a UUID.")
    status: JobStatus = Field(description="State of the job.")
    total_results: int = Field(
        description="Entries that the question is about: all, those of one outcome, or one URL's."
    )
    page: int = Field(default=1, description="Which page of the entries, from 1.")
    per_page: int = Field(default=0, description="Entries a page that were asked for.")
    url: str | None = Field(
        default=None,
        description="The form under which a URL was looked up, where one was asked for.",
    )
    data: list[ReceiptEntry] = Field(
        default_factory=list, description="The entries, in the order of their URLs."
    )


class CrawlStatus(SuccessReply, Cost):
    """GET /v1/crawl/{job_id}; `receipt`, `error` and what it costs are ours."""

    job_id: str = Field(description="Id of the job, a UUID.")
    status: JobStatus = Field(description="State of the job.")
    total_pages: int = Field(
        default=0,
        description="Pages that the crawl has or, while it runs, will have as far as it can tell.",
    )
    completed_pages: int = Field(default=0, description="Pages that are rows.")
    total_results: int = Field(default=0, description="Rows of the job so far.")
    page: int = Field(default=1, description="Which page of the rows, from 1.")
    per_page: int = Field(default=0, description="Rows a page that were asked for.")
    data: Annotated[Rows, RowsOf(CrawlPage)] = Field(
        default_factory=list, description="The rows of this page, in the order of the crawl."
    )
    error: str | None = Field(
        default=None, description="Why the job failed; null if it did not (ours)."
    )
    time_taken: float | None = Field(
        default=None, description="Processing time so far, in seconds; null before the job runs."
    )
    receipt: Receipt | None = Field(
        default=None, description="What became of every URL that the crawl saw (ours)."
    )
