"""Identical contents are stored once for each account, and deleted with the last entry."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import orjson
import pytest

from tests.stores.jobs import (
    ALICE,
    BOB,
    NOW,
    OF_VISIT,
    accounts,
    claimed,
    new_job,
    page_row,
    row_json,
    shared_entry,
)
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.errors import LeaseLost, MissingRows
from webdata_nb.service.store.page_contents import share_content
from webdata_nb.service.store.records import CommitBatch, JobRecord, Lease, RowRange, StoredSource
from webdata_nb.service.store.sql.store import Store

TEXTS = [f"Seite {number}. " * 100 for number in range(4)]


@pytest.fixture
async def filled(store: Store) -> Store:
    assert isinstance(store, Store)
    await accounts(store)
    return store


async def content_ids(store: Store) -> list[bytes]:
    rows = await store.database.read("contents", after=b"", limit=1000)
    return [bytes(row["id"]) for row in rows]


async def started(
    store: Store, account_id: str = ALICE, options: Mapping[str, object] = MappingProxyType({})
) -> tuple[JobRecord, Lease]:
    job = new_job(account_id, request={"url": "http://x/", "scrape_options": options})
    await store.accept(job, now=NOW)
    return await claimed(store)


async def crawl(
    store: Store,
    texts: Sequence[str] = TEXTS,
    account_id: str = ALICE,
    options: Mapping[str, object] = MappingProxyType({}),
) -> JobRecord:
    """Run a crawl with a page for each text."""
    job, lease = await started(store, account_id, options)
    entries = [await shared_entry(job, n, text) for n, text in enumerate(texts)]
    await asyncio.gather(*(store.commit(lease, CommitBatch(entries=(each,))) for each in entries))
    return (await store.finish(lease, JobStatus.COMPLETED, error=None, now=NOW + 1)).job


async def rows_of(store: Store, job: JobRecord) -> list[bytes]:
    return await store.rows(job.account_id, job.id, start=0, count=99)


def expected_rows(texts: Sequence[str] = TEXTS) -> list[bytes]:
    return [row_json(n, text) for n, text in enumerate(texts)]


async def test_crawls_of_an_account_share_their_contents(filled: Store) -> None:
    jobs = [await crawl(filled) for _ in range(3)]
    assert len(await content_ids(filled)) == len(TEXTS)
    changed = await crawl(filled, [*TEXTS[:-1], "Neu. " * 200])
    assert len(await content_ids(filled)) == len(TEXTS) + 1
    for job in jobs:
        assert await rows_of(filled, job) == expected_rows()
        snapshot = await filled.job_snapshot(
            ALICE, job.id, row_range=lambda _: RowRange(1, 2), examples=0
        )
        assert list(snapshot.rows) == expected_rows()[1:3]
        [first, *_] = await filled.journal(job.id)
        assert orjson.loads(first.journal)["url"] == "http://x/0"
        [row, *_] = await filled.unindexed_rows(job.id, start=0, count=9)
        assert row.markdown == TEXTS[0]
        assert row.journal["links"] == ["/a"] * 9
    assert (await rows_of(filled, changed))[-1] == row_json(3, "Neu. " * 200)


async def test_accounts_and_private_jobs_share_nothing(filled: Store) -> None:
    private = {"headers": {"X-Key": "k"}}
    jobs = [
        await crawl(filled),
        await crawl(filled, account_id=BOB),
        await crawl(filled, options=private),
        await crawl(filled, options=private),
    ]
    assert len(await content_ids(filled)) == 4 * len(TEXTS)
    for job in jobs:
        assert await rows_of(filled, job) == expected_rows()


async def test_a_page_with_the_same_text_twice_in_a_job(filled: Store) -> None:
    job, lease = await started(filled)
    twins = [await shared_entry(job, ordinal, TEXTS[0]) for ordinal in (0, 0)]
    entries = (twins[0], replace(twins[1], ordinal=1, position=1))
    await filled.commit(lease, CommitBatch(entries=entries))
    assert len(await content_ids(filled)) == 1
    assert await rows_of(filled, job) == [row_json(0, TEXTS[0])] * 2


async def test_contents_go_with_the_last_job_that_uses_them(filled: Store) -> None:
    first, second = await crawl(filled), await crawl(filled, TEXTS[:2])
    other = await crawl(filled, account_id=BOB)
    await filled.retention.mark_expired(first.id, now=NOW + 9)
    await filled.retention.delete_rows(first.id, now=NOW + 9)
    assert len(await content_ids(filled)) == 2 + len(TEXTS)
    assert await rows_of(filled, second) == expected_rows(TEXTS[:2])
    await filled.retention.delete_rows(second.id, now=NOW + 9)
    assert len(await content_ids(filled)) == len(TEXTS)
    assert await rows_of(filled, other) == expected_rows()
    await filled.retention.delete_rows(other.id, now=NOW + 9)
    assert await content_ids(filled) == []


async def test_a_page_that_is_fetched_again_after_a_kill_leaves_no_content(
    filled: Store,
) -> None:
    job, lease = await started(filled)
    await filled.commit(lease, CommitBatch(entries=(await shared_entry(job, 0, TEXTS[0]),)))
    for text in (TEXTS[0], TEXTS[1]):
        again = await shared_entry(job, 0, text)
        later = await shared_entry(job, 1, TEXTS[2])
        await filled.commit(lease, CommitBatch(entries=(again, later)))
    assert len(await content_ids(filled)) == 2
    assert await rows_of(filled, job) == [
        row_json(0, TEXTS[0]),
        row_json(1, TEXTS[2]),
    ]


async def test_a_commit_that_fails_leaves_no_content(filled: Store) -> None:
    job, lease = await started(filled)
    late = await shared_entry(job, 5, TEXTS[0])
    with pytest.raises(MissingRows):
        await filled.commit(lease, CommitBatch(entries=(late,)))
    with pytest.raises(MissingRows):
        await filled.commit(lease, CommitBatch(updates=(late,)))
    await filled.cancel(ALICE, job.id, now=NOW)
    with pytest.raises(LeaseLost):
        await filled.commit(lease, CommitBatch(entries=(await shared_entry(job, 0, TEXTS[1]),)))
    assert await content_ids(filled) == []


async def test_an_update_deletes_the_content_that_it_replaces(filled: Store) -> None:
    shared = await crawl(filled, TEXTS[:1])
    job, lease = await started(filled)
    await filled.commit(lease, CommitBatch(entries=(await shared_entry(job, 0, TEXTS[0]),)))
    for text, count in ((TEXTS[1], 2), (TEXTS[2], 2), (TEXTS[2], 2), (TEXTS[0], 1), ("", 1)):
        await filled.commit(lease, CommitBatch(updates=(await shared_entry(job, 0, text),)))
        assert await rows_of(filled, job) == [row_json(0, text)]
        assert len(await content_ids(filled)) == count
    assert await rows_of(filled, shared) == expected_rows(TEXTS[:1])


async def test_the_last_batch_of_a_job_may_have_contents(filled: Store) -> None:
    job, lease = await started(filled)
    batch = CommitBatch(entries=(await shared_entry(job, 0, TEXTS[0]),))
    snapshot = await filled.finish(lease, JobStatus.COMPLETED, error=None, batch=batch, now=NOW)
    # Without its rows, which are read instead: they are divided.
    assert (snapshot.job.published, snapshot.rows) == (1, ())
    assert await rows_of(filled, job) == expected_rows(TEXTS[:1])


async def test_large_pages_are_indexed_by_their_fields(filled: Store) -> None:
    text = "Wörter und Zeichen. " * 5000
    job = await crawl(filled, [text])
    [row] = await filled.unindexed_rows(job.id, start=0, count=9)
    assert (row.url, row.title, row.markdown) == ("http://x/0", "Page", text)


async def test_contents_are_used_while_they_are_deleted(filled: Store) -> None:
    """Deletions and uses of the same contents, in turns and at once, lose nothing."""

    async def crawl_and_delete(worker: str) -> None:
        for _ in range(6):
            job = new_job()
            await filled.accept(job, now=NOW)
            [(record, lease)] = await filled.claim(worker, lease_s=60, now=NOW)
            entries = [await shared_entry(record, n, text) for n, text in enumerate(TEXTS)]
            if worker == "w1":  # in another order, where commits do not publish
                entries = [replace(each, position=None) for each in reversed(entries)]
                await asyncio.gather(
                    *(filled.commit(lease, CommitBatch(entries=(each,))) for each in entries)
                )
                published = tuple((n, n) for n in range(len(TEXTS)))
                await filled.commit(lease, CommitBatch(published=published))
            else:
                await filled.commit(lease, CommitBatch(entries=tuple(entries)))
            await filled.finish(lease, JobStatus.COMPLETED, error=None, now=NOW)
            assert await rows_of(filled, record) == expected_rows()
            await filled.retention.delete_rows(record.id, now=NOW)

    await asyncio.gather(*(crawl_and_delete(f"w{number}") for number in range(4)))
    assert await content_ids(filled) == []


async def test_the_source_of_a_page_is_stored_beside_its_row(filled: Store) -> None:
    job, lease = await started(filled)
    sources = ["<p>one</p>\n\u2028", "<p>two</p>" * 500, ""]
    entries = []
    for number, source in enumerate(sources):
        row = page_row(number, "short")
        bare = await shared_entry(job, number, "short")
        bare = replace(bare, content_id=None, page=b"")
        json = orjson.dumps(source) if source else b""
        entries.append(
            await share_content(job, bare, row, of_visit=OF_VISIT, source=json, shares_journal=True)
        )
    await filled.commit(lease, CommitBatch(entries=tuple(entries)))
    urls = [f"http://x/{number}" for number in (2, 1, 0, 9)]
    found = await filled.page_sources(ALICE, job.id, urls)
    assert found == [StoredSource(text) for text in (None, sources[1], sources[0], None)]
    assert await filled.page_sources(BOB, job.id, urls) == [StoredSource()] * 4
    rows = await filled.rows(ALICE, job.id, start=0, count=9)
    assert [orjson.loads(row)["markdown"] for row in rows] == ["short"] * 3
    assert not any(b"<p>" in row for row in rows)
