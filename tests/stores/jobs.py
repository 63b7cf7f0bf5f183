"""Jobs, entries and accounts for tests of the store."""

from __future__ import annotations

import uuid
from typing import Any

from webdata_nb.service.store.interface import Store
from webdata_nb.service.store.records import (
    JobRecord,
    JournalEntry,
    Lease,
    NewJob,
)

ALICE, BOB = "alice", "bob"
NOW = 1_700_000_000.0


def new_job(account_id: str = ALICE, **fields: Any) -> NewJob:
    values = {"kind": "crawl", "subject": "http://x/", "request": {"url": "http://x/"}, **fields}
    return NewJob(id=str(uuid.uuid4()), account_id=account_id, **values)


def entry(ordinal: int, *, page: bytes = b'{"n":1}', **fields: Any) -> JournalEntry:
    values = {"success": True, "journal": b"{}", "page": page, **fields}
    return JournalEntry(ordinal, f"http://x/{ordinal}", **values)


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
