"""Models of replies about searches: rows, status, start and export."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from webdata_nb.contract.events import Cost
from webdata_nb.contract.replies.base import Reply, Rows, RowsOf, SuccessReply
from webdata_nb.contract.replies.jobs import StartReply
from webdata_nb.contract.replies.pages import PageFields
from webdata_nb.contract.states import JobStatus


class Attempt(Reply):
    """One entry of `fallback_chain`: a request to a provider.

    `detail` is an extension: why the request failed.
    """

    provider: str = Field(description="Name of the provider.")
    status: str = Field(
        description="Outcome: `ok`, `empty`, or the error: "
        "`rate_limited`, `blocked`, `auth`, `timeout` or `error`."
    )
    results_count: int = Field(default=0, description="Number of results.")
    elapsed_ms: float = Field(default=0, description="Duration in milliseconds.")
    detail: str | None = Field(default=None, description="Why the request failed (ours).")


class SearchItem(PageFields):
    """One ranked result."""

    id: str = Field(description="Id of the result within the job.")
    rank: int = Field(description="Rank of the result, from 1.")
    url: str = Field(description="Address of the result.")
    title: str = Field(default="", description="Title of the result.")
    snippet: str = Field(default="", description="Excerpt from the provider.")
    success: bool = Field(
        default=True,
        description="Whether nothing failed; true for results that are not scraped.",
    )
    scraped: bool = Field(default=False, description="Whether the page was loaded.")
    error: str | None = Field(
        default=None, description="Why the page could not be scraped; null if it was."
    )


class SearchStatus(SuccessReply, Cost):
    """GET /v1/search/{job_id}; `time_taken` is seconds.

    `providers_usable`, `providers_unusable`, `signature_agent` and the cost are extensions.
    """

    job_id: str = Field(description="Id of the job, a UUID.")
    status: JobStatus = Field(description="State of the job.")
    query: str = Field(default="", description="Query of the search.")
    engine_requested: str | None = Field(default=None, description="Engine that the request named.")
    engine_used: str | None = Field(
        default=None, description="Engine whose provider replied; null before."
    )
    provider_used: str | None = Field(
        default=None, description="Provider that replied; null before."
    )
    fallback_used: bool | None = Field(
        default=None, description="Whether a provider other than the first one replied."
    )
    fallback_chain: list[Attempt] = Field(
        default_factory=list, description="Requests to providers, in order."
    )
    providers_usable: list[str] = Field(
        default_factory=list, description="Usable providers of the engine (ours)."
    )
    providers_unusable: dict[str, str] = Field(
        default_factory=dict,
        description="Unusable providers of the engine, and what each lacks (ours).",
    )
    signature_agent: str | None = Field(
        default=None,
        description="Where sites find the key that verifies the requests for result pages (ours); "
        "null if they were not signed.",
    )
    total_results: int = Field(default=0, description="Results of the job so far.")
    completed_results: int = Field(
        default=0,
        description="Results that are final: scraped, failed, or without a page to scrape.",
    )
    time_taken: float | None = Field(
        default=None, description="Processing time so far, in seconds; null before the job runs."
    )
    data: Annotated[Rows, RowsOf(SearchItem)] = Field(
        default_factory=list, description="The results, by rank."
    )
    error: str | None = Field(default=None, description="Why the job failed; null if it did not.")
    result_expired: bool | None = Field(
        default=None, description="True once the rows are past their retention; absent before."
    )
    retention_hours: float | None = Field(
        default=None, description="Retention of the rows in hours, once they have expired."
    )
    expired_at: datetime | None = Field(
        default=None, description="When the rows expired (UTC); absent before."
    )


class SearchStart(StartReply):
    """Reply to the start of a search; with `?wait=` (ours) it has the `result`."""

    result: SearchStatus | None = Field(
        default=None,
        description="The status of the search if it ended within `wait`; else absent (ours).",
    )


class ExportedResult(Reply):
    """One entry of a search's JSON export."""

    url: str = Field(description="Address of the result.")
    title: str = Field(default="", description="Title of the result.")
    snippet: str = Field(default="", description="Excerpt from the provider.")
    success: bool = Field(default=True, description="Whether nothing failed.")


class SearchExport(Reply):
    """A search's JSON export."""

    query: str = Field(description="Query of the search.")
    results: list[ExportedResult] = Field(description="The results, by rank.")
    partial: bool = Field(
        default=False,
        description="Whether the job has not completed, so that results may be missing.",
    )
    status: JobStatus | None = Field(
        default=None, description="The job's status if the export is partial."
    )
