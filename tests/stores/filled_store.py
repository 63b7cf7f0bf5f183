"""Fills a store with ended jobs of every kind, for copies of the whole store."""

from __future__ import annotations

import uuid
from time import time
from typing import Any, Final

import orjson

from tests.service.exports.jobs import crawl_row, search_row
from webdata_nb.contract.states import JobKind, JobStatus
from webdata_nb.service.api_keys import key_hash
from webdata_nb.service.crawl.journal import CrawlResult, CrawlTarget, encode_entry
from webdata_nb.service.credits.plans import Terms
from webdata_nb.service.credits.weights import Charge
from webdata_nb.service.store.page_contents import share_content
from webdata_nb.service.store.records import (
    CommitBatch,
    IdempotencyKey,
    JobRecord,
    JournalEntry,
    Lease,
    NewJob,
    RowParts,
    UrlOutcome,
)
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.store.webhook_records import WEBHOOK_CONTEXT

ACCOUNTS: Final = ("alice", "bob")
SECRET: Final = "hunter2-of-a-job"
_STATES: Final = (JobStatus.COMPLETED, JobStatus.FAILED)
_COMMIT_ROWS: Final = 50


def bearer(account: str) -> dict[str, str]:
    """Return the headers of an account's requests."""
    return {"Authorization": f"Bearer wdk_{account}"}


async def fill_store(
    store: Store, *, job_count: int, row_count: int, row_bytes: int
) -> dict[str, list[str]]:
    """Add accounts, and jobs with `row_count` rows in total; return the job ids by account."""
    now = time() - 3600
    for name in ACCOUNTS:
        await store.accounts.add(name, name, Terms("team", 10_000_000, 1000), now=now)
        await store.accounts.add_key(f"key_{name}", name, "pc", key_hash(f"wdk_{name}"), now=now)
    await store.accounts.top_up("alice", 77, now=now)
    job_ids: dict[str, list[str]] = {name: [] for name in ACCOUNTS}
    rows_of_job = row_count // job_count
    for number in range(job_count):
        account = ACCOUNTS[number % len(ACCOUNTS)]
        kind: JobKind = "search" if number % 10 == 7 else "crawl"
        job = NewJob(
            str(uuid.uuid4()),
            account,
            kind,
            f"Seite {number}: Größe",
            _request(number),
            {WEBHOOK_CONTEXT: {"profile": "A"}, "providers": {"brave": {"key": SECRET}}},
            (Charge("crawl", "page", rows_of_job),),
            f"key_{account}",
        )
        await store.accept(job, key=IdempotencyKey(f"start {number}", "body"), now=now + number)
        [(claimed, lease)] = await store.claim("w", lease_s=60, now=now + number)
        count = row_count - rows_of_job * (job_count - 1) if number == 0 else rows_of_job
        await _write_rows(store, claimed, lease, count, row_bytes)
        await store.finish(
            lease,
            _STATES[number % 9 == 8],
            error="gave up: Größe" if number % 9 == 8 else None,
            now=now + number + 1.25,
        )
        await _deliver(store, number, now=now + number + 2)
        job_ids[account].append(job.id)
    return job_ids


async def _deliver(store: Store, number: int, *, now: float) -> None:
    """End the deliveries, so that no service sends them."""
    for endpoint in await store.outbox.due(now=now):
        while delivery := await store.outbox.take(endpoint, lease_s=60, now=now):
            state, status, error = (
                ("failed", None, "dns") if number % 4 else ("delivered", 204, None)
            )
            await store.outbox.record_attempt(
                delivery, state, due_at=now, status=status, error=error, now=now
            )


def _request(number: int) -> dict[str, Any]:
    return {
        "url": f"https://site.test/{number}",
        "webhook_url": f"https://hooks.test/{SECRET}",
        "scrape_options": {"headers": {"X-Key": SECRET}},
    }


async def _write_rows(
    store: Store, job: JobRecord, lease: Lease, count: int, row_bytes: int
) -> None:
    for start in range(0, count, _COMMIT_ROWS):
        numbers = range(start, min(start + _COMMIT_ROWS, count))
        batch = [await _entry(job, number, row_bytes) for number in numbers]
        outcomes = [
            UrlOutcome(f"https://Site.test/{'_aB'[n.ordinal % 3]}/{n.ordinal}", "fetched")
            for n in batch
        ]
        filtered = UrlOutcome(f"https://site.test/ä/{batch[0].ordinal}", "filtered", "not below /")
        await store.commit(
            lease,
            CommitBatch(
                entries=tuple(batch),
                url_outcomes=(*outcomes, filtered),
                pinned_files=((f"robots {batch[0].ordinal}", b"User-agent: *\n\x00\xff"),),
                total=count,
                completed=batch[-1].ordinal + 1,
                outcome={"engine": "test"},
            ),
        )


async def _entry(job: JobRecord, n: int, row_bytes: int) -> JournalEntry:
    """Return an entry; its row has a content if it is large enough."""
    row = search_row(n + 1) if job.kind == "search" else crawl_row(n)
    row["markdown"] = f"# {n} \x00 " + "word é " * (row_bytes // 8)
    charged = ("page",) if job.kind == "crawl" else ()
    result = CrawlResult("page", row["url"], links=("https://site.test/ä", row["url"]))
    journal = encode_entry(CrawlTarget(n, row["url"], 0), result, None)
    journal = journal if job.kind == "crawl" else b"{}"
    entry = JournalEntry(n, row["url"], n % 5 != 4, journal, position=n, charged=charged)
    own, comma, rest = orjson.dumps(row).partition(b",")
    parts = RowParts((b"", comma + rest), (own,))
    return await share_content(job, entry, parts, shares_journal=False)
