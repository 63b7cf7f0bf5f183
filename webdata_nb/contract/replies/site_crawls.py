"""Models of replies about site crawls (ours): start, status and cancel."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from webdata_nb.contract.replies.base import Reply, SuccessReply
from webdata_nb.contract.states import JobStatus


class StartedSite(Reply):
    """The job of one site."""

    job_id: str = Field(description="Id of the job, a UUID.")
    url: str = Field(description="Where its crawl starts.")


class SiteCrawlStart(SuccessReply):
    """Reply to POST /v1/site-crawls; all jobs are stored before it is sent."""

    site_crawl_id: str = Field(description="Id of the site crawl, a UUID.")
    status: str = Field(description="Always `started`.")
    jobs: list[StartedSite] = Field(description="The jobs, in the order of `urls`.")


class SiteOfCrawl(StartedSite):
    """The state of the crawl of one site."""

    status: JobStatus = Field(description="State of the job.")
    is_parked: bool = Field(
        description="Whether it has no URL left, and waits for those of the other sites; its "
        "state is then `pending`."
    )
    total_pages: int = Field(description="Pages of the crawl; an estimate while it runs.")
    completed_pages: int = Field(description="Pages that are rows.")
    error: str | None = Field(default=None, description="Why the job failed; null if it did not.")


class SiteCrawlStatus(SuccessReply):
    """GET /v1/site-crawls/{site_crawl_id}: the jobs and their states."""

    site_crawl_id: str = Field(description="Id of the site crawl, a UUID.")
    created_at: datetime = Field(description="When it was created (UTC).")
    states: dict[JobStatus, int] = Field(description="Jobs by their state.")
    handed_over: int = Field(
        description="URLs that a crawl found for another one so far; each counts once."
    )
    jobs: list[SiteOfCrawl] = Field(description="The jobs, in the order of `urls`.")


class SiteCrawlCancel(SuccessReply):
    """Reply to a cancel of a site crawl."""

    site_crawl_id: str = Field(description="Id of the site crawl, a UUID.")
    cancelled: list[str] = Field(description="Ids of the jobs that are cancelled now or before.")
