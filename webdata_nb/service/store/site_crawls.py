"""Site crawls as the store takes and returns them, and the protocol of their part of the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from webdata_nb.service.store.records import IdempotencyKey, JobRecord, NewJob


@dataclass(frozen=True, slots=True)
class NewSiteCrawl:
    """Crawls of several sites that start together; all jobs are of one account."""

    id: str
    jobs: tuple[NewJob, ...]


@dataclass(frozen=True, slots=True)
class SiteCrawl:
    """A stored site crawl with its jobs, in the order of the request.

    `handed_over` counts the URLs that jobs have found for others.
    """

    id: str
    account_id: str
    created_at: float
    jobs: tuple[JobRecord, ...]
    handed_over: int = 0


@dataclass(frozen=True, slots=True)
class Handover:
    """The state of the other jobs of a site crawl that a job needs.

    Attributes
    ----------
    siblings
        Their start pages.
    taken
        The URLs that the job takes over in each of its turns, in order.
    is_closed
        Whether nothing more can be handed over to it.
    """

    siblings: tuple[str, ...] = ()
    taken: tuple[tuple[str, ...], ...] = ()
    is_closed: bool = False


class SiteCrawlStore(Protocol):
    """Crawls of several sites that start together, and hand links over to each other."""

    async def accept(
        self, site_crawl: NewSiteCrawl, *, key: IdempotencyKey | None = None, now: float
    ) -> tuple[SiteCrawl, bool]:
        """Persist all jobs of a site crawl or none, as `JobStore.accept` does with one."""

    async def site_crawl(self, account_id: str, site_crawl_id: str) -> SiteCrawl:
        """Return an account's site crawl with its jobs; raises `NoSuchSiteCrawl`."""

    async def handover(self, job_id: str) -> Handover:
        """Return the state of the other jobs of its site crawl that a job needs."""

    async def wake_parked(self, *, now: float) -> int:
        """Wake parked jobs of the site crawls in which no job is active; return how many.

        Those wake that can take URLs from others, or all if none can. A site crawl with an active
        job stays as it is, so that calling this at any time, in any process, is safe.
        """
