"""Receipts of ended jobs are packed, and read the same before, meanwhile and afterwards."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import psycopg
import pytest

from tests import postgres
from tests.postgres import schema_name
from tests.stores.conftest import open_postgres
from tests.stores.jobs import ALICE, NOW, accounts, claimed, new_job
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.store.records import CommitBatch, JobRecord, Lease, UrlOutcome
from webdata_nb.service.store.sql.store import Store, find_contradictions

# Three blocks and a few more; the outcome "rare" is in two of them.
ENTRIES = tuple(
    UrlOutcome(f"http://x/{number:05}/ä", outcome, f"detail {number}" * (number % 3))
    for number in range(3010)
    for outcome in ["rare" if number in {5, 2500} else ("fetched", "robots")[number % 2]]
)


@pytest.fixture
async def filled(store: Store) -> Store:
    assert isinstance(store, Store)
    await accounts(store)
    return store


async def started(store: Store, entries: tuple[UrlOutcome, ...]) -> tuple[JobRecord, Lease]:
    await store.accept(new_job(), now=NOW)
    job, lease = await claimed(store)
    await store.commit(lease, CommitBatch(url_outcomes=tuple(reversed(entries))))
    return job, lease


async def ended(store: Store, entries: tuple[UrlOutcome, ...] = ENTRIES) -> JobRecord:
    _, lease = await started(store, entries)
    return (await store.finish(lease, JobStatus.COMPLETED, error=None, now=NOW)).job


async def block_count(store: Store, job: JobRecord) -> int:
    return len(await store.database.read("receipt_blocks", job_id=job.id))


async def check_reads(store: Store, job: JobRecord) -> None:
    """Compare every way of reading the receipt with its entries."""
    for start, count in (
        (0, 9000),
        (0, 10),
        (995, 10),
        (2000, 1),
        (2995, 50),
        (3009, 9),
        (9000, 9),
    ):
        expected = list(ENTRIES[start : start + count])
        assert await store.receipt_page(job.id, start=start, count=count) == expected
    for outcome in ("fetched", "robots", "rare", "none"):
        chosen = [entry for entry in ENTRIES if entry.outcome == outcome]
        for start, count in ((0, 20), (1, 1), (490, 30), (1400, 999)):
            page = await store.receipt_page(job.id, start=start, count=count, outcome=outcome)
            assert page == chosen[start : start + count]
    for entry in (ENTRIES[0], ENTRIES[999], ENTRIES[1000], ENTRIES[3009]):
        assert await store.receipt_entry(job.id, entry.url) == entry
    for url in ("a", "http://x/00007", "z"):
        assert await store.receipt_entry(job.id, url) is None
    receipt = await store.receipt(job.id, examples=20)
    assert receipt.counts == Counter(entry.outcome for entry in ENTRIES)
    assert receipt.examples["rare"] == [ENTRIES[5].url, ENTRIES[2500].url]
    assert (
        receipt.examples["robots"]
        == [entry.url for entry in ENTRIES if entry.outcome == "robots"][:20]
    )


async def test_a_receipt_reads_the_same_at_each_step(filled: Store) -> None:
    job = await ended(filled)
    for blocks in (0, 1, 2, 3):
        assert await block_count(filled, job) == blocks
        await check_reads(filled, job)
        await filled.retention.pack_receipts()
    assert not await filled.retention.pack_receipts()
    await check_reads(filled, job)
    checks = await filled.database.query(lambda transaction: list(find_contradictions(transaction)))
    assert [check for check in checks if check.problems] == []


async def test_running_and_small_receipts_are_not_packed(filled: Store) -> None:
    small = await ended(filled, ENTRIES[:49])
    running, lease = await started(filled, ENTRIES)
    while await filled.retention.pack_receipts():
        pass
    assert await block_count(filled, small) == await block_count(filled, running) == 0
    await filled.commit(lease, CommitBatch(url_outcomes=(UrlOutcome("http://y/", "fetched"),)))
    assert len(await filled.receipt_page(running.id, start=0, count=9000)) == len(ENTRIES) + 1
    assert await filled.receipt_page(small.id, start=0, count=99) == list(ENTRIES[:49])


async def test_packed_receipts_are_deleted_with_the_rows(filled: Store) -> None:
    first, second = await ended(filled), await ended(filled)
    while await filled.retention.pack_receipts():
        pass
    await filled.retention.mark_expired(first.id, now=NOW)
    await filled.retention.delete_rows(first.id, now=NOW)
    assert (await block_count(filled, first), await block_count(filled, second)) == (0, 3)
    assert await filled.receipt_page(first.id, start=0, count=9) == []
    await check_reads(filled, second)


async def test_expired_receipts_are_not_packed(filled: Store) -> None:
    job = await ended(filled)
    await filled.retention.mark_expired(job.id, now=NOW)
    assert not await filled.retention.pack_receipts()
    assert await block_count(filled, job) == 0


async def test_receipts_are_packed_once_by_several_processes(filled: Store) -> None:
    jobs = [await ended(filled) for _ in range(3)]
    while any(await asyncio.gather(*(filled.retention.pack_receipts() for _ in range(4)))):
        pass
    for job in jobs:
        await check_reads(filled, job)
        assert (await filled.job(ALICE, job.id)).state is JobStatus.COMPLETED


@pytest.mark.slow
async def test_postgresql_uses_the_space_of_packed_receipts_again(tmp_path: Path) -> None:
    name, sizes = schema_name(tmp_path), list[int]()
    # In a database with transactions of other tests, VACUUM could free nothing.
    with postgres.running() as server:
        async with open_postgres(server, tmp_path) as store:
            await accounts(store)
            for _ in range(6):
                await ended(store)
                while await store.retention.pack_receipts():
                    pass
                await store.retention.return_space()
                with psycopg.connect(server.url) as connection:
                    query = "SELECT pg_total_relation_size(%s::regclass)"
                    row = connection.execute(query, [f'"{name}".receipt']).fetchone()
                sizes.append(row[0] if row else 0)
    assert sizes[-1] < 3 * sizes[0]
