"""Old rows, records and keys go, a slice at a time, and a kill between two slices loses nothing."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.service.exports.jobs import ACCOUNT, NOW, crawl_row, ended, search_row
from tests.stores.suite import new_job
from webdata_nb.contract.states import JobKind
from webdata_nb.service.errors import NoSuchJob
from webdata_nb.service.settings import Retention
from webdata_nb.service.store.accounts import Accounts
from webdata_nb.service.store.deletion import Expiry
from webdata_nb.service.store.indexing import Indexer
from webdata_nb.service.store.records import Batch, IdempotencyKey, Job, NewJob, UrlOutcome
from webdata_nb.service.store.spool import Spool
from webdata_nb.service.store.sqlite import IDEMPOTENCY_S, SqliteStore
from webdata_nb.service.store.text_index import TextIndex
from webdata_nb.service.work.cleanup import Janitor

HOUR = 3600.0
RETENTION = Retention(search_hours=48, crawl_hours=100, job_hours=200)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with SqliteStore(tmp_path / "jobs.sqlite") as opened:
        yield opened


@pytest.fixture
async def index(tmp_path: Path) -> AsyncIterator[TextIndex]:
    async with TextIndex(tmp_path / "index.sqlite") as opened:
        yield opened


def janitor(
    store: SqliteStore, index: TextIndex, hours: float, plan: Retention = RETENTION
) -> Janitor:
    # Jobs of these tests end a second after NOW.
    spool = Spool(store.path.with_name("spool"))
    at = NOW + 1 + hours * HOUR
    return Janitor(Expiry(store), Accounts(store), index, spool, retention=plan, clock=lambda: at)


async def rows(store: SqliteStore, job: Job) -> int:
    return len(await store.entries(job.id))


@pytest.mark.parametrize(("kind", "hours"), [("search", 48), ("crawl", 100)])
async def test_rows_go_at_their_hour_and_not_before(
    store: SqliteStore, index: TextIndex, kind: JobKind, hours: int
) -> None:
    row = search_row if kind == "search" else crawl_row
    job = await ended(store, kind, (row(n) for n in range(45)))
    await janitor(store, index, hours - 0.01).sweep()
    assert await rows(store, job) == 45
    await janitor(store, index, hours).sweep()
    assert await rows(store, job) == 0
    kept = await store.job(ACCOUNT, job.id)
    assert (kept.state, kept.published) == (job.state, 45)
    assert kept.expired_at == NOW + 1 + hours * HOUR


async def test_a_running_job_is_left_alone(store: SqliteStore, index: TextIndex) -> None:
    await store.add_account(ACCOUNT, ACCOUNT, now=NOW)
    await store.accept(NewJob("j", ACCOUNT, "crawl", "s", {}), now=NOW)
    await store.claim("w", lease_s=60, now=NOW)
    await janitor(store, index, 10_000).sweep()
    assert (await store.job(ACCOUNT, "j")).expired_at is None


async def test_the_text_index_forgets_the_rows(store: SqliteStore, index: TextIndex) -> None:
    job = await ended(store, "crawl", [crawl_row(1, markdown="a word about petrels")])
    await Indexer(store, index).catch_up()
    assert len(await index.find(ACCOUNT, "petrels", limit=9)) == 1
    await janitor(store, index, 100).sweep()
    assert await index.find(ACCOUNT, "petrels", limit=9) == []
    await Indexer(store, index).catch_up()
    assert await index.cursor(job.id) == 0


async def test_a_sweep_that_was_cut_short_is_finished_by_the_next(
    store: SqliteStore, index: TextIndex
) -> None:
    job = await ended(store, "search", (search_row(n) for n in range(45)))
    expiry = Expiry(store)
    # As after a kill: marked, and some slices gone.
    await expiry.expire(job.id, now=NOW)
    await store.write("clear_entries", id=job.id, limit=20)
    assert await rows(store, job) == 25
    # A retention that was raised meanwhile does not bring the other half back.
    long = Retention(search_hours=9999, crawl_hours=9999, job_hours=9999)
    await janitor(store, index, 0, long).sweep()
    assert await rows(store, job) == 0
    assert await expiry.due(searches_before=NOW * 2, crawls_before=NOW * 2) == []


async def test_receipts_and_snapshots_go_with_the_rows(
    store: SqliteStore, index: TextIndex
) -> None:
    await store.add_account(ACCOUNT, ACCOUNT, now=NOW)
    await store.accept(NewJob("j", ACCOUNT, "crawl", "s", {}), now=NOW)
    [(_, lease)] = await store.claim("w", lease_s=60, now=NOW)
    seen = tuple(UrlOutcome(f"http://x/{n}", "fetched") for n in range(2345))
    await store.commit(lease, Batch(seen=seen, snapshots=(("robots", b"x"),)))
    job = await store.cancel(ACCOUNT, "j", now=NOW + 1)
    await janitor(store, index, 100).sweep()
    receipt = await store.receipt(job.id, examples=1)
    # How many there were is no raw result.
    assert (receipt.counts, receipt.examples) == ({"fetched": 2345}, {"fetched": []})
    assert await store.snapshots(job.id) == {}


async def test_records_go_last_and_keys_after_a_day(store: SqliteStore, index: TextIndex) -> None:
    job = await ended(store, "search", [search_row(1)])
    key = IdempotencyKey("k", "f")
    other = NewJob(str(uuid.uuid4()), ACCOUNT, "search", "s", {})
    await store.accept(other, key=key, now=NOW)
    day = (IDEMPOTENCY_S - 1) / HOUR
    await janitor(store, index, day - 0.01).sweep()
    assert len(await store.read("idempotent", account_id=ACCOUNT, key="k", since=0)) == 1
    await janitor(store, index, day).sweep()
    assert await store.read("idempotent", account_id=ACCOUNT, key="k", since=0) == []
    await janitor(store, index, 199.9).sweep()
    assert (await store.job(ACCOUNT, job.id)).published == 1
    await janitor(store, index, 200).sweep()
    with pytest.raises(NoSuchJob):
        await store.job(ACCOUNT, job.id)
    assert (await store.job(ACCOUNT, other.id)).id == other.id


async def test_for_ever_is_a_setting(store: SqliteStore, index: TextIndex) -> None:
    for_ever = Retention(float("inf"), float("inf"), float("inf"))
    job = await ended(store, "crawl", [crawl_row(1)])
    await janitor(store, index, 1e6, for_ever).sweep()
    assert await rows(store, job) == 1


async def test_hundreds_of_jobs_are_cleared_in_one_sweep(
    store: SqliteStore, index: TextIndex
) -> None:
    jobs = [await ended(store, "search", [search_row(1)]) for _ in range(120)]
    await janitor(store, index, 48).sweep()
    assert [await rows(store, job) for job in jobs] == [0] * 120


async def test_what_an_ended_or_unknown_job_left_in_the_spool_goes(
    store: SqliteStore, index: TextIndex
) -> None:
    over = await ended(store, "crawl", [crawl_row(0)])
    going_on, _ = await store.accept(new_job(ACCOUNT), now=NOW)
    spool = Spool(store.path.with_name("spool"))
    for job_id in (going_on.id, over.id, "unknown"):
        assert await spool.of(job_id).keep(0, b"a page")
    await janitor(store, index, 0).sweep()
    assert spool.jobs() == [going_on.id]
