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
    """One entry of `fallback_chain`: a provider asked, in execution order.

    `detail` is ours: why the provider could not answer, in words.
    """

    provider: str = Field(description="Name of the provider.")
    status: str = Field(
        description="What came of it: `ok`, `empty`, or why it could not answer: "
        "`rate_limited`, `blocked`, `auth`, `timeout` or `error`."
    )
    results_count: int = Field(default=0, description="Results that it gave.")
    elapsed_ms: float = Field(default=0, description="Milliseconds that it took.")
    detail: str | None = Field(
        default=None, description="Why it could not answer, in words (ours)."
    )


class SearchItem(PageFields):
    """One ranked result."""

    id: str = Field(description="Id of the result within the job.")
    rank: int = Field(description="Rank of the result, from 1.")
    url: str = Field(description="Address of the result.")
    title: str = Field(default="", description="Title of the result.")
    snippet: str = Field(default="", description="Text that the provider shows of the result.")
    success: bool = Field(
        default=True,
        description="Whether nothing failed: true for a result that was not to be scraped.",
    )
    scraped: bool = Field(default=False, description="Whether the page was loaded.")
    error: str | None = Field(
        default=None, description="Why the page could not be scraped; null if it could."
    )


class SearchStatus(SuccessReply, Cost):
    """GET /v1/search/{job_id}; `time_taken` is seconds.

    `providers_usable` and `providers_unusable` (with what each one lacks) are ours, and so is what
    it costs.
    """

    job_id: str = Field(description="Id of the job, a UUID.")
    status: JobStatus = Field(description="State of the job.")
    query: str = Field(default="", description="What was searched for.")
    engine_requested: str | None = Field(default=None, description="Engine that the request named.")
    engine_used: str | None = Field(
        default=None, description="Engine whose provider answered; null until one has."
    )
    provider_used: str | None = Field(
        default=None, description="Provider that answered; null until one has."
    )
    fallback_used: bool | None = Field(
        default=None, description="Whether another provider than the first one answered."
    )
    fallback_chain: list[Attempt] = Field(
        default_factory=list, description="The providers that were asked, in order."
    )
    providers_usable: list[str] = Field(
        default_factory=list, description="Providers of the engine that could be asked (ours)."
    )
    providers_unusable: dict[str, str] = Field(
        default_factory=dict,
        description="Providers of the engine that could not, with what each lacks (ours).",
    )
    total_results: int = Field(default=0, description="Results of the job so far.")
    completed_results: int = Field(
        default=0, description="Results that are final: scraped, failed, or not to be scraped."
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
        default=None, description="Hours for which the rows were kept, where they have expired."
    )
    expired_at: datetime | None = Field(
        default=None, description="When the rows expired (UTC), where they have."
    )


class SearchStart(StartReply):
    """Answer to the start of a search; `result`, asked for with `?wait=` (ours), once it ended."""

    result: SearchStatus | None = Field(
        default=None,
        description="The search as a status reply tells it, where `wait` was given and it ended "
        "in time; absent otherwise (ours).",
    )


class ExportedResult(Reply):
    """One entry of a search's JSON export."""

    url: str = Field(description="Address of the result.")
    title: str = Field(default="", description="Title of the result.")
    snippet: str = Field(default="", description="Text that the provider shows of the result.")
    success: bool = Field(default=True, description="Whether nothing failed.")


class SearchExport(Reply):
    """A search's JSON export."""

    query: str = Field(description="What was searched for.")
    results: list[ExportedResult] = Field(description="The results, by rank.")
    partial: bool = Field(
        default=False, description="Whether these are the results so far, or of a job that failed."
    )
    status: JobStatus | None = Field(
        default=None, description="The job's status, where the export is partial."
    )
