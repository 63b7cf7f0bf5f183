"""Jobs of a few accounts commit, renew and end at the same time on PostgreSQL, for minutes.

Two stores with connections of their own, as two processes of a service have, run 16 jobs of four
accounts together: each job commits 20 pages, four at a time, and is renewed meanwhile; credits are
added to the accounts; then all jobs end at the same moment, and the next 16 start. PostgreSQL ends
a transaction that deadlocks with another (SQLSTATE 40P01) or cannot be serialized (40001), and the
store tries it again. The exit code is 1 if a caller sees an error, if a row is missing, or if the
stored data contradict each other at the end::

    python -m benchmarks.concurrent_commits --minutes 10

It needs PostgreSQL (Debian package ``postgresql``) and starts a server of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import orjson
import psycopg

from benchmarks.store_load import page_batch, sample_rows
from tests import postgres
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.encryption import FixedKeys, SecretCipher, new_key
from webdata_nb.service.ledger import Charge, Terms
from webdata_nb.service.store.backends import check_store, open_store
from webdata_nb.service.store.page_contents import share_content
from webdata_nb.service.store.records import CommitBatch, JobRecord, Lease, NewJob
from webdata_nb.service.store.sql.store import Store

MINUTES: Final = 10.0
JOBS: Final = 16
ACCOUNTS: Final = tuple(f"account-{number}" for number in range(4))
STORES: Final = 2
PAGES: Final = 20
COMMITTERS: Final = 4
"""Pages of one job that are committed at the same time."""
LEASE_S: Final = 3600.0


@dataclass(slots=True)
class CommitReport:
    """What the callers saw, and what the server and the stores did about conflicts."""

    commits: int = 0
    jobs: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    retried: int = 0
    deadlocks: int = 0
    contradictions: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether there were commits, and nobody saw an error."""
        return self.commits > 0 and not self.errors and not self.contradictions

    def lines(self) -> list[str]:
        """Return the report as text."""
        return [
            f"jobs {self.jobs}, commits of pages {self.commits}",
            f"transactions tried again {self.retried}",
            f"of these deadlocks (40P01) {self.deadlocks}",
            f"of these not serializable (40001) {self.retried - self.deadlocks}",
            f"errors that a caller saw {self.errors.total()} {dict(self.errors) or ''}".rstrip(),
            f"contradictions in the stored data {len(self.contradictions)}",
            *self.contradictions,
        ]


@dataclass(frozen=True, slots=True)
class CommitLoad:
    """The load of one run: its stores, the rows that it writes, and its report."""

    stores: list[Store]
    rows: list[bytes]
    report: CommitReport

    async def run(self, is_over: Callable[[], bool]) -> None:
        """Run rounds of jobs until the time is over, at least one."""
        now = time.time()
        for name in ACCOUNTS:
            await self.stores[0].accounts.add(name, name, Terms("team", None, None), now=now)
        for number in itertools.count():
            await self._run_round(number)
            if is_over():
                return

    async def _run_round(self, number: int) -> None:
        await self._all(self._start(number, n) for n in range(JOBS))
        claims = await self._all(
            store.claim(f"w{number}-{n}", max_jobs=JOBS, lease_s=LEASE_S, now=time.time())
            for n, store in enumerate(self.stores)
        )
        claimed_jobs = [claimed for each in claims for claimed in each]
        top_ups = (
            self.stores[n % STORES].accounts.top_up(name, 1, now=time.time())
            for n, name in enumerate(ACCOUNTS)
        )
        pages = (self._commit_pages(n, job, lease) for n, (job, lease) in enumerate(claimed_jobs))
        await self._all(itertools.chain(pages, top_ups))
        await self._all(self._finish(n, lease) for n, (_, lease) in enumerate(claimed_jobs))

    async def _start(self, turn: int, number: int) -> None:
        account_id = ACCOUNTS[number % len(ACCOUNTS)]
        charges = (Charge("crawl", "page", PAGES),)
        job = NewJob(
            str(uuid.uuid4()), account_id, "crawl", "http://x/", {"url": "http://x/"},
            max_charges=charges,
        )  # fmt: skip
        await self.stores[(turn + number) % STORES].accept(job, now=time.time())

    async def _commit_pages(self, job_number: int, job: JobRecord, lease: Lease) -> None:
        store = self.stores[job_number % STORES]
        numbers = iter(range(PAGES))

        async def commit() -> None:
            for number in numbers:
                row = self.rows[number % len(self.rows)]
                await store.commit(lease, await charged_batch(job, number, row))
                self.report.commits += 1

        renewal = store.renew(lease, lease_s=LEASE_S, now=time.time())
        await self._all([*(commit() for _ in range(COMMITTERS)), renewal])

    async def _finish(self, number: int, lease: Lease) -> None:
        store = self.stores[number % STORES]
        ended = await store.finish(lease, JobStatus.COMPLETED, error=None, now=time.time())
        self.report.jobs += 1
        stored = await store.rows(ended.job.account_id, lease.job_id, start=0, count=PAGES + 1)
        if len(stored) != PAGES:
            self.report.contradictions.append(f"job {lease.job_id} has {len(stored)} rows")
        if number % 2:  # while others use the same contents
            await store.retention.mark_expired(lease.job_id, now=time.time())
            await store.retention.delete_rows(lease.job_id, now=time.time())

    async def _all(self, calls: Iterable[Awaitable[Any]]) -> list[Any]:
        """Make all calls together; count their errors, and return the other results."""
        results = await asyncio.gather(*calls, return_exceptions=True)
        errors = [result for result in results if isinstance(result, Exception)]
        self.report.errors.update(f"{type(error).__name__}: {error}" for error in errors)
        return [result for result in results if not isinstance(result, BaseException)]


async def charged_batch(job: JobRecord, number: int, row: bytes) -> CommitBatch:
    """Return the batch of a page that is charged, with a content that the jobs share."""
    batch = page_batch(number, row)
    [entry] = batch.entries
    entry = await share_content(
        job,
        replace(entry, charged=("page",)),
        orjson.loads(row),
        of_visit=["url"],
        shares_journal=True,
    )
    return replace(batch, entries=(entry,))


async def measure(url: str, is_over: Callable[[], bool]) -> CommitReport:
    """Put the load on an empty store until the time is over, at least one round."""
    report = CommitReport()
    cipher = SecretCipher(FixedKeys((new_key(),)))
    deadlocks = count_deadlocks(url)
    async with AsyncExitStack() as stack:
        stores = [
            await stack.enter_async_context(open_store(Path(), cipher, url)) for _ in range(STORES)
        ]
        await CommitLoad(stores, sample_rows(), report).run(is_over)
        report.retried = sum(store.retried_transactions() for store in stores)
    report.deadlocks = count_deadlocks(url) - deadlocks
    for result in await check_store(Path(), url):
        report.contradictions += result.problems
    return report


def count_deadlocks(url: str) -> int:
    """Return how many deadlocks the server ended in this database."""
    query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
    return int(row[0]) if row else 0


def main() -> int:
    """Print the report; return 1 if a caller saw an error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    end = time.monotonic() + 60 * parser.parse_args().minutes
    with postgres.running() as server:
        report = asyncio.run(measure(server.new_schema(), lambda: time.monotonic() > end))
    print("\n".join(report.lines()))
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
