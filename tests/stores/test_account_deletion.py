"""What a deletion of an account waits for, and what it refuses meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.stores.jobs import ALICE, BOB, NOW, accepted, accounts, claimed, entry
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.blobs import BlobStore, LocalFolder
from webdata_nb.service.creatives.enrich import FileStore
from webdata_nb.service.errors import (
    DeletionUnfinished,
    InvalidJobState,
    LeaseLost,
    NoSuchAccount,
    NoSuchJob,
    SegmentGivenUp,
)
from webdata_nb.service.store.records import CommitBatch
from webdata_nb.service.store.sql.contents import StoredSegment
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.store.sql.text_index import TextIndex
from webdata_nb.service.work import retention
from webdata_nb.service.work.retention import AccountDeletion


class Setup:
    """A store with the accounts of Alice and Bob, and the deletion of accounts."""

    def __init__(self, store: Store, index: TextIndex, folder: Path) -> None:
        self.store, self.waits = store, asyncio.Event()
        self.files = FileStore(BlobStore(LocalFolder(folder), "here"))
        self.deletion = AccountDeletion(
            store, index, files=self.files, segments=None, report=self._report
        )

    def _report(self, line: str) -> None:
        if "a call is under way" in line:
            self.waits.set()

    async def open_call(self, *, seconds: float) -> None:
        now = self.store.now()
        await self.store.accounts.open_call(ALICE, "call", (), until=now + seconds, now=now)

    async def close_call(self) -> None:
        await self.store.accounts.close_call(ALICE, "call", (), now=self.store.now())

    async def state(self) -> str:
        [account] = [each for each in await self.store.accounts.all(now=NOW) if each.id == ALICE]
        return account.state


@pytest.fixture
async def setup(store: Store, index: TextIndex, tmp_path: Path) -> Setup:
    await accounts(store)
    return Setup(store, index, tmp_path / "files")


async def test_files_of_a_call_under_way_are_deleted(setup: Setup) -> None:
    await setup.open_call(seconds=100)
    running = asyncio.create_task(setup.deletion.run("Alice"))
    async with asyncio.timeout(60):
        await setup.waits.wait()
    kept = await setup.files.put(BOB, b"a picture")
    stored = await setup.files.put(ALICE, b"a picture")
    await setup.close_call()
    await running
    assert await setup.files.get(ALICE, stored["sha256"]) is None
    assert await setup.files.get(BOB, kept["sha256"]) == b"a picture"
    assert await setup.state() == "deleted"


async def test_a_call_of_a_dead_process_ends_by_its_time(setup: Setup) -> None:
    await setup.open_call(seconds=0.5)
    await setup.deletion.run("Alice")
    assert await setup.state() == "deleted"


async def test_an_unfinished_deletion_is_told_and_continues(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "CALLS_S", 0.0)
    await setup.open_call(seconds=100)
    with pytest.raises(DeletionUnfinished, match="run the command again"):
        await setup.deletion.run("Alice")
    assert await setup.state() == "being deleted"
    for change in (
        setup.store.accounts.resume("Alice", now=NOW),
        setup.store.accounts.suspend("Alice", now=NOW),
        setup.store.accounts.top_up("Alice", 5, now=NOW),
        setup.store.accounts.named("Alice", now=NOW),
    ):
        with pytest.raises(NoSuchAccount, match="is being deleted"):
            await change
    await setup.close_call()
    await setup.deletion.run("Alice")
    assert await setup.state() == "deleted"
    with pytest.raises(NoSuchAccount):
        await setup.deletion.run("Alice")


async def test_a_worker_of_a_deleted_account_writes_nothing(setup: Setup) -> None:
    store = setup.store
    job = await accepted(store)
    _, lease = await claimed(store, now=store.now())
    batch = CommitBatch(entries=(entry(0),), published=((0, 0),))
    await store.commit(lease, batch)
    await setup.deletion.run("Alice")
    with pytest.raises(LeaseLost):
        await store.commit(lease, CommitBatch(entries=(entry(1),), published=((1, 1),)))
    with pytest.raises(LeaseLost):
        await store.finish(lease, JobStatus.COMPLETED, error=None, now=NOW)
    assert await store.is_over(job.id)
    with pytest.raises(SegmentGivenUp):
        await store.segments.begin(StoredSegment("segments/a/b/c", ALICE, 1), now=NOW)


@pytest.mark.usefixtures("setup")
async def test_only_an_ended_job_of_the_account_is_deleted(store: Store) -> None:
    job = await accepted(store)
    with pytest.raises(InvalidJobState, match="cancel it before you delete it"):
        await store.delete(ALICE, job.id, now=NOW)
    await store.cancel(ALICE, job.id, now=NOW)
    with pytest.raises(NoSuchJob):
        await store.delete(BOB, job.id, now=NOW)
    await store.delete(ALICE, job.id, now=NOW)
    for read in (store.job(ALICE, job.id), store.delete(ALICE, job.id, now=NOW)):
        with pytest.raises(NoSuchJob):
            await read
    assert await store.retention.deleted_jobs() == [job.id]
