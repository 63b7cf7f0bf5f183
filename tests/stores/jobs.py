"""Jobs, entries and accounts for tests of the store."""

from __future__ import annotations

import uuid
from typing import Any, Final

import orjson

from webdata_nb.service.store.page_contents import share_content
from webdata_nb.service.store.records import (
    JobRecord,
    JournalEntry,
    Lease,
    NewJob,
)
from webdata_nb.service.store.sql.store import Store

ALICE, BOB = "alice", "bob"
NOW = 1_700_000_000.0


def new_job(account_id: str = ALICE, **fields: Any) -> NewJob:
    values = {"kind": "crawl", "subject": "http://x/", "request": {"url": "http://x/"}, **fields}
    return NewJob(id=str(uuid.uuid4()), account_id=account_id, **values)


def entry(ordinal: int, *, page: bytes = b'{"n":1}', **fields: Any) -> JournalEntry:
    values = {"success": True, "journal": b"{}", "page": page, **fields}
    return JournalEntry(ordinal, f"http://x/{ordinal}", **values)


OF_VISIT: Final = ("time_taken", "fetched_at", "rights")


def page_row(ordinal: int, text: str, *, visit: float = 0.5) -> dict[str, Any]:
    """Return a crawl's row with some text, of which the times belong to the visit."""
    return {
        "url": f"http://x/{ordinal}",
        "title": "Page",
        "depth": 1,
        "time_taken": visit,
        "fetched_at": f"2026-11-25T12:00:0{visit}Z",
        "markdown": text,
        "metadata": {},
    }


def row_json(ordinal: int, text: str) -> bytes:
    """Return the JSON of such a row."""
    return orjson.dumps(page_row(ordinal, text))


async def shared_entry(
    job: JobRecord, ordinal: int, text: str, *, visit: float = 0.5, **fields: Any
) -> JournalEntry:
    """Return an entry whose row and journal have a content, if the text is long."""
    journal = orjson.dumps({"url": f"http://x/{ordinal}", "links": ["/a"] * 9})
    bare = entry(ordinal, **{"journal": journal, "position": ordinal, **fields})
    row = page_row(ordinal, text, visit=visit)
    return await share_content(job, bare, row, of_visit=OF_VISIT, shares_journal=True)


async def accounts(store: Store) -> None:
    await store.accounts.ensure(ALICE, "Alice", now=NOW)
    await store.accounts.ensure(BOB, "Bob", now=NOW)


async def accepted(store: Store, account_id: str = ALICE, *, now: float = NOW) -> JobRecord:
    job, _ = await store.accept(new_job(account_id), now=now)
    return job


async def claimed(store: Store, worker: str = "w1", *, now: float = NOW) -> tuple[JobRecord, Lease]:
    [found] = await store.claim(worker, lease_s=10, now=now)
    return found


async def account_of(store: Store, key_hash: str, *, now: float) -> str | None:
    """Return the account of a valid key."""
    caller = await store.accounts.caller(key_hash, now=now)
    return None if caller is None else caller.account_id
