"""Retention deletes old rows, jobs and keys in slices, and can be interrupted at any slice."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.service.exports.jobs import ACCOUNT, NOW, crawl_row, ended_job, search_row
from tests.stores.jobs import new_job
from webdata_nb.contract.outcomes import JobKind
from webdata_nb.service.errors import NoSuchJob
from webdata_nb.service.settings import Retention
from webdata_nb.service.store.indexing import Indexer
from webdata_nb.service.store.records import (
    IDEMPOTENCY_S,
    CommitBatch,
    IdempotencyKey,
    JobRecord,
    NewJob,
    UrlOutcome,
)
from webdata_nb.service.store.spool import SpoolDirectory
from webdata_nb.service.store.sql.jobs import key_digest
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.store.sql.text_index import TextIndex
from webdata_nb.service.work.retention import Janitor

HOUR = 3600.0
RETENTION = Retention(search_hours=48, crawl_hours=100, job_hours=200)


Sweep = Callable[..., Awaitable[None]]


@pytest.fixture
def spool(tmp_path: Path) -> SpoolDirectory:
    return SpoolDirectory(tmp_path / "spool")


@pytest.fixture
def sweep(store: Store, index: TextIndex, spool: SpoolDirectory) -> Sweep:
    """Return a function that sweeps some hours after the jobs of these tests end."""

    async def run(hours: float, retention: Retention = RETENTION) -> None:
        now = NOW + 1 + hours * HOUR
        janitor = Janitor(store, index, spool, retention=retention, clock=lambda: now)
        await janitor.sweep()

    return run


async def rows(store: Store, job: JobRecord) -> int:
    return len(await store.journal(job.id))


@pytest.mark.parametrize(("kind", "hours"), [("search", 48), ("crawl", 100)])
async def test_rows_are_deleted_at_their_hour(
    store: Store, sweep: Sweep, kind: JobKind, hours: int
) -> None:
    row = search_row if kind == "search" else crawl_row
    job = await ended_job(store, kind, (row(n) for n in range(45)))
    await sweep(hours - 0.01)
    assert await rows(store, job) == 45
    await sweep(hours)
    assert await rows(store, job) == 0
    record = await store.job(ACCOUNT, job.id)
    assert (record.state, record.published) == (job.state, 45)
    assert record.expired_at == NOW + 1 + hours * HOUR


async def test_a_running_job_is_kept(store: Store, sweep: Sweep) -> None:
    await store.accounts.ensure(ACCOUNT, ACCOUNT, now=NOW)
    await store.accept(NewJob("j", ACCOUNT, "crawl", "s", {}), now=NOW)
    await store.claim("w", lease_s=60, now=NOW)
    await sweep(10_000)
    assert (await store.job(ACCOUNT, "j")).expired_at is None


async def test_rows_are_deleted_from_the_text_index(
    store: Store, index: TextIndex, sweep: Sweep
) -> None:
    job = await ended_job(store, "crawl", [crawl_row(1, markdown="a word about petrels")])
    await Indexer(store, index).catch_up()
    assert len(await index.find(ACCOUNT, "petrels", limit=9)) == 1
    await sweep(100)
    assert await index.find(ACCOUNT, "petrels", limit=9) == []
    await Indexer(store, index).catch_up()
    assert job.id not in await index.cursors()


async def test_the_next_sweep_completes_an_interrupted_one(store: Store, sweep: Sweep) -> None:
    job = await ended_job(store, "search", (search_row(n) for n in range(45)))
    expiry = store.retention
    # As after a kill: the job is marked, and some slices are deleted.
    await expiry.mark_expired(job.id, now=NOW)
    assert isinstance(store, Store)
    await store.database.write("delete_entries", id=job.id, limit=20)
    assert await rows(store, job) == 25
    # A longer retention does not restore a marked job.
    long = Retention(search_hours=9999, crawl_hours=9999, job_hours=9999)
    await sweep(0, long)
    assert await rows(store, job) == 0
    assert await expiry.due_jobs(searches_before=NOW * 2, crawls_before=NOW * 2) == []


async def test_receipts_and_pinned_files_are_deleted_with_the_rows(
    store: Store, sweep: Sweep
) -> None:
    await store.accounts.ensure(ACCOUNT, ACCOUNT, now=NOW)
    await store.accept(NewJob("j", ACCOUNT, "crawl", "s", {}), now=NOW)
    [(_, lease)] = await store.claim("w", lease_s=60, now=NOW)
    seen = tuple(UrlOutcome(f"http://x/{n}", "fetched") for n in range(2345))
    await store.commit(lease, CommitBatch(url_outcomes=seen, pinned_files=(("robots", b"x"),)))
    job = await store.cancel(ACCOUNT, "j", now=NOW + 1)
    await sweep(100)
    receipt = await store.receipt(job.id, examples=1)
    # The counts are kept.
    assert (receipt.counts, receipt.examples) == ({"fetched": 2345}, {"fetched": []})
    assert await store.pinned_files(job.id) == {}


async def test_jobs_are_deleted_last_and_keys_after_a_day(store: Store, sweep: Sweep) -> None:
    job = await ended_job(store, "search", [search_row(1)])
    key = IdempotencyKey("k", "f")
    other = NewJob(str(uuid.uuid4()), ACCOUNT, "search", "s", {})
    await store.accept(other, key=key, now=NOW)
    day = (IDEMPOTENCY_S - 1) / HOUR
    await sweep(day - 0.01)
    assert isinstance(store, Store)
    query = {"account_id": ACCOUNT, "key": key_digest(ACCOUNT, "k"), "since": 0}
    assert len(await store.database.read("idempotent", **query)) == 1
    await sweep(day)
    assert await store.database.read("idempotent", **query) == []
    await sweep(199.9)
    assert (await store.job(ACCOUNT, job.id)).published == 1
    await sweep(200)
    with pytest.raises(NoSuchJob):
        await store.job(ACCOUNT, job.id)
    assert (await store.job(ACCOUNT, other.id)).id == other.id


async def test_infinite_retention_deletes_nothing(store: Store, sweep: Sweep) -> None:
    for_ever = Retention(float("inf"), float("inf"), float("inf"))
    job = await ended_job(store, "crawl", [crawl_row(1)])
    await sweep(1e6, for_ever)
    assert await rows(store, job) == 1


@pytest.mark.slow
async def test_hundreds_of_jobs_are_cleared_in_one_sweep(store: Store, sweep: Sweep) -> None:
    jobs = [await ended_job(store, "search", [search_row(1)]) for _ in range(120)]
    await sweep(48)
    assert [await rows(store, job) for job in jobs] == [0] * 120


async def test_spooled_files_of_ended_and_unknown_jobs_are_deleted(
    store: Store, spool: SpoolDirectory, sweep: Sweep
) -> None:
    over = await ended_job(store, "crawl", [crawl_row(0)])
    going_on, _ = await store.accept(new_job(ACCOUNT), now=NOW)
    for job_id in (going_on.id, over.id, "unknown"):
        assert await spool.open(job_id).write(0, b"a page")
    await sweep(0)
    assert spool.job_ids() == [going_on.id]
