"""SQLite's files return the space of deleted rows."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.stores.jobs import (
    ALICE,
    NOW,
    accounts,
    claimed,
    new_job,
    row_json,
    shared_entry,
)
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.store.backends import INDEX_FILE, open_text_index
from webdata_nb.service.store.records import CommitBatch, IndexedPage, JobRecord
from webdata_nb.service.store.sqlite.database import SqliteStore

PAGES = 400


def random_text(number: int, words: int = 3000) -> str:
    source = random.Random(number)
    return " ".join(f"w{source.getrandbits(20):x}" for _ in range(words))


async def crawl(store: SqliteStore, seed: int, pages: int = PAGES) -> JobRecord:
    await store.accept(new_job(), now=NOW)
    job, lease = await claimed(store)
    for start in range(0, pages, 50):
        numbers = range(start, min(start + 50, pages))
        entries = [await shared_entry(job, n, random_text(seed + n)) for n in numbers]
        await store.commit(lease, CommitBatch(entries=tuple(entries)))
    return (await store.finish(lease, JobStatus.COMPLETED, error=None, now=NOW)).job


async def expire(store: SqliteStore, job: JobRecord) -> None:
    await store.retention.mark_expired(job.id, now=NOW)
    await store.retention.delete_rows(job.id, now=NOW)
    await store.retention.return_space()


def file_bytes(path: Path) -> int:
    """Return the size of a file once its log is copied into it."""
    return read(path, "PRAGMA page_count") * read(path, "PRAGMA page_size")


def read(path: Path, query: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(query).fetchone()[0])


async def test_the_file_shrinks_after_retention(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    async with SqliteStore(path) as store:
        await accounts(store)
        old, recent = await crawl(store, 0), await crawl(store, 10_000, 20)
        full = file_bytes(path)
        await expire(store, old)
        assert file_bytes(path) < full / 3
        rows = await store.rows(ALICE, recent.id, start=0, count=99)
        assert rows == [row_json(n, random_text(10_000 + n)) for n in range(20)]
        shrunk = file_bytes(path)
        await store.retention.return_space()  # nothing is left to do
        assert file_bytes(path) == shrunk
    assert read(path, "PRAGMA auto_vacuum") == 2


@pytest.mark.slow
async def test_the_text_index_shrinks_after_retention(tmp_path: Path) -> None:
    path = tmp_path / INDEX_FILE
    pages = [IndexedPage(f"http://x/{n}", "Page", random_text(n)) for n in range(PAGES)]
    async with (
        SqliteStore(tmp_path / "jobs.sqlite") as store,
        open_text_index(tmp_path, store) as index,
    ):
        await index.add(ALICE, "old", pages, upto=PAGES)
        recent = IndexedPage("http://x/recent", "Page", "aurora " + random_text(1))
        await index.add(ALICE, "recent", [recent], upto=1)
        await index.return_space()
        full = file_bytes(path)
        await index.delete("old")
        await index.return_space()
        assert file_bytes(path) < full
        [match] = await index.find(ALICE, "aurora", limit=9)
        assert match.url == "http://x/recent"
    assert file_bytes(path) < full / 3
