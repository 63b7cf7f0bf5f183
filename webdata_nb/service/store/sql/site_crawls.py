"""Site crawls: their start, the URLs that their jobs hand over, and the jobs that wait for them.

The receipts of the jobs have the URLs that they hand over. A job that has no URL left is parked.
When a job ends, or when none is active, the table `handed_over` receives the URLs of the receipts,
each once. When none is active, the jobs that can take some are woken. If none can, all are woken to
end. So the URLs that a job takes do not depend on how fast the others are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final

from webdata_nb.service.encryption import SecretCipher
from webdata_nb.service.errors import BadInput, ConcurrencyReached, CreditsUsedUp, NoSuchSiteCrawl
from webdata_nb.service.store.records import IdempotencyKey
from webdata_nb.service.store.site_crawls import (
    Handover,
    NewSiteCrawl,
    SiteCrawl,
    SiteCrawlStore,
)
from webdata_nb.service.store.sql.connection import SqlDatabase, SqlRow, Transaction
from webdata_nb.service.store.sql.credit_reservations import LockedCredits
from webdata_nb.service.store.sql.job_queue import QUEUE_LANE
from webdata_nb.service.store.sql.job_rows import job_of_row, new_job_values
from webdata_nb.service.store.sql.job_start import add_job, remember_key, replayed_id

# URLs that one transaction collects, and that a job takes in one turn.
URLS_PER_TURN: Final = 10_000


class SqlSiteCrawlStore(SiteCrawlStore):
    """A `SiteCrawlStore` on a database."""

    def __init__(self, database: SqlDatabase, cipher: SecretCipher) -> None:
        self._database, self._cipher = database, cipher

    async def accept(
        self, site_crawl: NewSiteCrawl, *, key: IdempotencyKey | None = None, now: float
    ) -> tuple[SiteCrawl, bool]:
        account_id = site_crawl.jobs[0].account_id
        values = [new_job_values(job, self._cipher, now) for job in site_crawl.jobs]

        def change(transaction: Transaction) -> tuple[SiteCrawl, bool]:
            account_credits = LockedCredits.lock(transaction, account_id, now)
            if key and (earlier := replayed_id(transaction, account_id, key, now)):
                return self._load(transaction, account_id, earlier), False
            _add(transaction, account_credits, site_crawl, values, now)
            if key is not None:
                remember_key(transaction, account_id, key, site_crawl.id, now)
            return self._load(transaction, account_id, site_crawl.id), True

        return await self._database.change(change, lane=QUEUE_LANE)

    async def site_crawl(self, account_id: str, site_crawl_id: str) -> SiteCrawl:
        return await self._database.query(
            lambda transaction: self._load(transaction, account_id, site_crawl_id)
        )

    async def handover(self, job_id: str) -> Handover:
        def query(transaction: Transaction) -> Handover:
            siblings = transaction.rows("handover", job_id=job_id)
            taken = transaction.rows("taken_urls", job_id=job_id)
            return Handover(
                tuple(row["subject"] for row in siblings),
                tuple(
                    tuple(row["url"] for row in rows)
                    for _, rows in groupby(taken, key=lambda row: row["turn"])
                ),
                is_closed=any(row["closed_at"] is not None for row in siblings),
            )

        return await self._database.query(query)

    async def wake_parked(self, *, now: float) -> int:
        woken = 0
        for row in await self._database.read("idle_site_crawls"):
            site_crawl_id = str(row["id"])
            # In slices, so that the commits of other jobs do not wait.
            while await self._database.change(partial(_collect, site_crawl_id=site_crawl_id)):
                pass
            wake = partial(_wake, site_crawl_id=site_crawl_id, now=now)
            woken += await self._database.change(wake, lane=QUEUE_LANE)
        return woken

    def _load(self, transaction: Transaction, account_id: str, site_crawl_id: str) -> SiteCrawl:
        row = transaction.row("site_crawl", id=site_crawl_id, account_id=account_id)
        if row is None:
            raise NoSuchSiteCrawl("no such site crawl")
        rows = transaction.rows("jobs_of_site_crawl", id=site_crawl_id)
        [counted] = transaction.rows("handed_over_count", id=site_crawl_id)
        return SiteCrawl(
            site_crawl_id,
            account_id,
            row["created_at"],
            tuple(job_of_row(each, self._cipher) for each in rows),
            counted["n"],
        )


def _add(
    transaction: Transaction,
    account_credits: LockedCredits,
    site_crawl: NewSiteCrawl,
    values: Sequence[Mapping[str, Any]],
    now: float,
) -> None:
    """Add all jobs; an error of a limit speaks of all of them."""
    account, jobs = account_credits.account, site_crawl.jobs
    limit = account.terms.concurrency
    if limit is not None and len(jobs) > limit:
        raise BadInput(
            f"has {len(jobs)} sites, and the plan of the account allows {limit} jobs at once",
            loc=("body", "urls"),
        )
    transaction.send("add_site_crawl", id=site_crawl.id, account_id=account.id, now=now)
    for number, job in enumerate(jobs):
        try:
            add_job(transaction, account_credits, job, values[number], now)
        except ConcurrencyReached as error:
            raise ConcurrencyReached(
                limit=error.limit or 0, active=error.active - number, retry_after=error.retry_after
            ) from None
        except CreditsUsedUp as error:
            raise CreditsUsedUp(
                needed=sum(charge.credits for each in jobs for charge in each.max_charges),
                left=account.balance.left,
                limit=error.limit,
                active=error.active - number,
                retry_after=error.retry_after,
            ) from None
        transaction.send(
            "join_site_crawl", id=job.id, site_crawl_id=site_crawl.id, site_number=number
        )


def _collect(transaction: Transaction, *, site_crawl_id: str) -> int:
    """Add URLs of the receipts to `handed_over`; return how many, 0 if no other is left."""
    if not _lock_if_idle(transaction, site_crawl_id):
        return 0
    parked = transaction.rows("parked_jobs_of_site_crawl", id=site_crawl_id)
    slices = (
        transaction.execute("collect_handed_over", job_id=row["id"], limit=URLS_PER_TURN)
        for row in parked
    )
    return next(filter(None, slices), 0)


def _wake(transaction: Transaction, *, site_crawl_id: str, now: float) -> int:
    """Wake the parked jobs of a site crawl that can take URLs, or else all; return how many."""
    if not _lock_if_idle(transaction, site_crawl_id):
        return 0
    parked = transaction.rows("parked_jobs_of_site_crawl", id=site_crawl_id)
    woken = sum(_take(transaction, site_crawl_id, row, now) for row in parked)
    if not woken:
        transaction.send("close_site_crawl", id=site_crawl_id, now=now)
        woken = transaction.execute("wake_parked_jobs", id=site_crawl_id, now=now)
    return woken


def _lock_if_idle(transaction: Transaction, site_crawl_id: str) -> bool:
    """Lock a site crawl; return whether it is open and none of its jobs is active."""
    if transaction.row("lock_site_crawl", id=site_crawl_id) is None:
        return False
    # Not in the statement that locks: it would not see what a transaction before it has changed.
    [active] = transaction.rows("active_jobs_of_site_crawl", id=site_crawl_id)
    return not active["n"]


def _take(transaction: Transaction, site_crawl_id: str, job_row: SqlRow, now: float) -> int:
    """Give a parked job its next URLs, and wake it; return 0 if there is none."""
    taken = transaction.execute(
        "take_handed_over",
        site_crawl_id=site_crawl_id,
        site_number=job_row["site_number"],
        job_id=job_row["id"],
        turn=job_row["site_turns"],
        limit=URLS_PER_TURN,
    )
    return transaction.execute("wake_job", id=job_row["id"], now=now) if taken else 0
