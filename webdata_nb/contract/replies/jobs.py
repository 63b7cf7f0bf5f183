"""Models of replies about jobs of either kind: start, cancel, retry and list."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from webdata_nb.contract.replies.base import Reply, SuccessReply
from webdata_nb.contract.states import JobKind, JobStatus


class StartReply(Reply):
    """Reply to a start; the job is stored before it is sent."""

    success: bool = Field(
        description="Whether the request was accepted; always true in a reply with status 200."
    )
    job_id: str = Field(description="Id of the job, a UUID.")
    status: str = Field(description="Always `started`; the job itself is `pending`.")
    message: str = Field(default="", description="A readable message.")


class CancelReply(Reply):
    """Reply to a cancel: a search has `message`, a crawl `status`."""

    success: bool = Field(
        description="Whether the request was accepted; always true in a reply with status 200."
    )
    job_id: str = Field(description="Id of the job, a UUID.")
    message: str | None = Field(default=None, description="A readable message; only of searches.")
    status: str | None = Field(default=None, description="Always `cancelled`; only of crawls.")


class RetryReply(Reply):
    """Reply to a retry: a search has `new_job_id`, a crawl `job_id`."""

    success: bool = Field(
        description="Whether the request was accepted; always true in a reply with status 200."
    )
    job_id: str | None = Field(
        default=None, description="Id of the new job, a UUID; only of crawls."
    )
    new_job_id: str | None = Field(
        default=None, description="Id of the new job, a UUID; only of searches."
    )
    original_job_id: str | None = Field(default=None, description="Id of the job that was retried.")
    message: str | None = Field(default=None, description="A readable message; only of searches.")
    status: str | None = Field(default=None, description="Always `pending`; only of crawls.")
    type: str | None = Field(default=None, description="Always `search`; only of searches.")

    @property
    def started(self) -> str:
        """The id of the new job."""
        return self.new_job_id or self.job_id or ""


class JobSummary(Reply):
    """One of the caller's jobs (ours). `completed` and `total` count rows."""

    job_id: str = Field(description="Id of the job, a UUID.")
    type: JobKind = Field(description="Whether it is a search or a crawl.")
    status: JobStatus = Field(description="State of the job.")
    subject: str = Field(default="", description="Query of a search, or start URL of a crawl.")
    created_at: datetime = Field(description="When it was created (UTC).")
    started_at: datetime | None = Field(
        default=None, description="When it started to run (UTC); null before."
    )
    finished_at: datetime | None = Field(
        default=None, description="When it ended (UTC); null before."
    )
    total: int = Field(
        default=0,
        description="Rows of the job; an estimate while it runs.",
    )
    completed: int = Field(default=0, description="Rows so far.")
    error: str | None = Field(default=None, description="Why it failed; null if it did not.")


class JobList(SuccessReply):
    """GET /v1/jobs (ours): newest first; `cursor` is there when older ones exist."""

    jobs: list[JobSummary] = Field(description="The jobs, newest first.")
    cursor: str | None = Field(
        default=None, description="Where the next page begins; absent on the last page."
    )
