"""Models of replies about crawls: rows, status and receipt."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from webdata_nb.contract.claim_checks import ClaimChecks
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
        default=None, description="HTTP status of the page; null without a reply."
    )
    success: bool | None = Field(default=None, description="Whether the page was scraped.")
    error: str | None = Field(default=None, description="Why it was not; null if it was.")
    depth: int | None = Field(
        default=None, description="Link depth from the start page, which is 0."
    )
    time_taken: float | None = Field(default=None, description="Duration in seconds.")
    quality: Any = Field(
        default=None,
        description="Content measures such as `word_count` and `score` (0 to 1).",
    )
    content_hash: str | None = Field(default=None, description="Hash of the page's content.")
    fetched_at: datetime | None = Field(default=None, description="When the page arrived (UTC).")
    rights: dict[str, Any] | None = Field(
        default=None,
        description="What the page may be used for (ours), if requested: `verdicts` by purpose, "
        "`robots_allowed`, and the `signals` with their lines.",
    )
    capture_distance_s: float | None = Field(
        default=None,
        description="Seconds from the `as_of` of a dated crawl (ours) to the capture, negative if "
        "it is earlier; null without a capture, and in other crawls.",
    )


class Revalidation(Reply):
    """The rows of an incremental crawl (ours) that the site called unchanged.

    A random sample of them is fetched in full. `bound` is the share of these rows that may have
    changed at most, with a confidence of 95 % (Clopper and Pearson).
    """

    trusted: int = Field(description="Rows that were taken from the earlier crawl.")
    checked: int = Field(description="Rows that were fetched in full, to check the claim.")
    contradicted: int = Field(description="Rows of these that had changed.")
    bound: float | None = Field(
        default=None,
        description="Share of the rows called unchanged that may have changed at most, with a "
        "confidence of 95 %; null if none was checked.",
    )

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> Revalidation | None:
        """Return the statement of a receipt's counts; None if no row was called unchanged."""
        checks = ClaimChecks.of(counts)
        if checks is None:
            return None
        return cls(
            trusted=checks.trusted,
            checked=checks.checked,
            contradicted=checks.contradicted,
            bound=checks.bound,
        )


class Receipt(Reply):
    """Every URL seen, by outcome: counts, and at most 20 examples an outcome.

    `contract.outcomes` defines the outcomes. `warning` is an extension: a likely mistake in a
    completed crawl, such as a start page with status 404; None without one. `revalidation`,
    `signature_agent` and `low_confidence` are extensions as well.
    """

    counts: dict[str, int] = Field(default_factory=dict, description="URLs by outcome.")
    examples: dict[str, list[str]] = Field(
        default_factory=dict, description="Up to 20 URLs of each outcome."
    )
    warning: str | None = Field(
        default=None,
        description="A likely mistake in a completed crawl (ours); null without one.",
    )
    revalidation: Revalidation | None = Field(
        default=None,
        description="The rows of an incremental crawl that the site called unchanged (ours); null "
        "without any.",
    )
    signature_agent: str | None = Field(
        default=None,
        description="Where sites find the key that verifies the crawl's requests for pages (ours); "
        "null if they were not signed.",
    )
    low_confidence: dict[str, int] = Field(
        default_factory=dict,
        description="Rows whose `quality` has `low_confidence`, by its reason (ours), such as "
        "`no text layer`; empty without any.",
    )


class ReceiptEntry(Reply):
    """The outcome of one URL."""

    url: str = Field(description="The URL in the crawl's canonical form.")
    outcome: str = Field(
        description="Outcome of the URL, such as `fetched`, `robots` or `failed:http_404`."
    )
    detail: str = Field(
        default="",
        description="Details, such as the page of which it is a duplicate; may be empty.",
    )


class ReceiptPage(SuccessReply):
    """GET /v1/crawl/{job_id}/receipt (ours): entries in the order of their URLs.

    `total_results` counts the selected entries: all, those of one outcome, or that of one URL.
    `url` is the form in which the URL was looked up.
    """

    job_id: str = Field(description="Id of the job, a UUID.")
    status: JobStatus = Field(description="State of the job.")
    total_results: int = Field(
        description="Selected entries: all, those of one outcome, or that of one URL."
    )
    page: int = Field(default=1, description="Page of the entries, from 1.")
    per_page: int = Field(default=0, description="Entries per page.")
    url: str | None = Field(
        default=None,
        description="The form in which the requested URL was looked up.",
    )
    data: list[ReceiptEntry] = Field(
        default_factory=list, description="The entries, in the order of their URLs."
    )


class CrawlStatus(SuccessReply, Cost):
    """GET /v1/crawl/{job_id}; `receipt`, `error` and the cost are extensions."""

    job_id: str = Field(description="Id of the job, a UUID.")
    status: JobStatus = Field(description="State of the job.")
    total_pages: int = Field(
        default=0,
        description="Pages of the crawl; an estimate while it runs.",
    )
    completed_pages: int = Field(default=0, description="Pages that are rows.")
    total_results: int = Field(default=0, description="Rows of the job so far.")
    page: int = Field(default=1, description="Page of the rows, from 1.")
    per_page: int = Field(default=0, description="Rows per page.")
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
        default=None, description="The outcome of every URL that the crawl saw (ours)."
    )
