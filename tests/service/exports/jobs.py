"""Creates ended jobs with given rows."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterable
from typing import Any

import orjson

from webdata_nb.contract.outcomes import JobKind, JobStatus
from webdata_nb.service.exports import ExportRows
from webdata_nb.service.store.records import CommitBatch, JobRecord, JournalEntry, NewJob
from webdata_nb.service.store.sql.store import Store

ACCOUNT = "alice"
NOW = 1_700_000_000.0


def search_row(rank: int, **fields: Any) -> dict[str, Any]:
    row = {
        "id": f"r-{rank}",
        "url": f"https://site.test/{rank}",
        "rank": rank,
        "title": f"Result {rank}",
        "snippet": f"About {rank}",
        "success": True,
        "scraped": True,
        "markdown": f"# Result {rank}",
        "metadata": {"language": "en"},
    }
    return row | fields


def crawl_row(number: int, **fields: Any) -> dict[str, Any]:
    row = {
        "url": f"https://site.test/{number}",
        "title": f"Page {number}",
        "status": "completed",
        "status_code": 200,
        "success": True,
        "error": None,
        "depth": 1,
        "time_taken": 0.25,
        "quality": {"score": 0.5},
        "content_hash": "ab",
        "fetched_at": "2026-11-20T10:00:00Z",
        "markdown": f"# Page {number}",
        "metadata": {"language": "en"},
    }
    return row | fields


async def ended_job(
    store: Store,
    kind: JobKind,
    rows: Iterable[dict[str, Any]],
    *,
    request: dict[str, Any] | None = None,
    subject: str = "aurora forecast",
    account: str = ACCOUNT,
) -> JobRecord:
    """Store a completed job with these rows."""
    await store.accounts.ensure(account, account, now=NOW)
    new = NewJob(str(uuid.uuid4()), account, kind, subject, request or {})
    await store.accept(new, now=NOW)
    [(job, lease)] = await store.claim("w", lease_s=60, now=NOW)
    for n, row in enumerate(rows):
        entry = JournalEntry(
            n, row["url"], row["success"], b"{}", page=orjson.dumps(row), position=n
        )
        await store.commit(lease, CommitBatch(entries=(entry,)))
    await store.finish(lease, JobStatus.COMPLETED, error=None, now=NOW + 1)
    return await store.job(account, job.id)


async def read_all(stream: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in stream])


class RowsInMemory(ExportRows):
    """ExportRows without a store."""

    def __init__(self, *rows: dict[str, Any]) -> None:
        self._rows = [orjson.dumps(row) for row in rows]

    async def __aiter__(self) -> AsyncIterator[list[bytes]]:
        for start in range(0, len(self._rows), 2):
            yield self._rows[start : start + 2]


def job_of(
    kind: JobKind, subject: str = "aurora forecast", published: int = 0, **request: Any
) -> JobRecord:
    return JobRecord(
        id="0a1b2c3d-0000-4000-8000-000000000000",
        account_id=ACCOUNT,
        kind=kind,
        state=JobStatus.COMPLETED,
        subject=subject,
        request=request,
        context={},
        created_at=NOW,
        started_at=NOW,
        finished_at=NOW + 1,
        attempt=1,
        total=0,
        completed=0,
        published=published,
        error=None,
        outcome={},
    )
