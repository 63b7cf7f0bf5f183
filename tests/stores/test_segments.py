"""Contents move to segments, are read from there, and go with the last job that uses them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import orjson
import pytest

from tests.stores.conftest import StoreFactory
from tests.stores.jobs import ALICE, BOB, NOW, accounts, row_json, shared_entry
from tests.stores.test_contents import TEXTS, crawl, expected_rows, rows_of, started
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.blobs import Blob, BlobStore, LocalFolder
from webdata_nb.service.errors import BlobsUnavailable, MissingBlobs, SegmentGivenUp
from webdata_nb.service.observability.metrics import Metrics
from webdata_nb.service.segments import mover
from webdata_nb.service.segments.mover import BodyMover, SegmentSweep
from webdata_nb.service.segments.parquet_file import encode_segment, segment_name
from webdata_nb.service.segments.reader import SegmentReader, check_place, check_segments
from webdata_nb.service.store.records import CommitBatch, JobRecord, RowRange
from webdata_nb.service.store.sql.contents import (
    NO_SEGMENTS,
    ContentReader,
    StoredSegment,
    segments_with_contents,
)
from webdata_nb.service.store.sql.store import Store

HOUR = 3600.0


class FaultyFolder(LocalFolder):
    """A folder that notes which files are read, and fails when it is told to."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.reads: list[str] = []
        self.before_write: Callable[[], None] = lambda: None
        self.is_down = False

    def _check(self) -> None:
        if self.is_down:
            raise OSError(5, "Input/output error")

    def read(self, name: str) -> Blob | None:
        self._check()
        self.reads.append(name)
        return super().read(name)

    def write(self, name: str, data: bytes) -> None:
        self._check()
        self.before_write()
        super().write(name, data)

    def delete(self, name: str) -> None:
        self._check()
        super().delete(name)


@dataclass(slots=True)
class Setup:
    """A store, its place for files, and what works on both."""

    store: Store
    root: Path
    place: FaultyFolder
    ahead: float = 0.0
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def blobs(self) -> BlobStore:
        return BlobStore(self.place, "a folder")

    def clock(self) -> float:
        return self.store.now() + self.ahead

    @property
    def mover(self) -> BodyMover:
        return BodyMover(self.store, self.blobs, self.metrics, clock=self.clock)

    async def sweep(self) -> None:
        await SegmentSweep(self.store, self.blobs, self.metrics, clock=self.clock).sweep()

    def reopen_reader(self) -> SegmentReader:
        """Forget the segments in memory."""
        reader = SegmentReader(self.blobs)
        self.store.contents = ContentReader(self.store.database, reader)
        return reader

    def files(self) -> list[Path]:
        return sorted(path for path in self.root.rglob("*") if path.is_file())

    async def in_database(self) -> int:
        """Count the contents that are in the database."""
        rows = await self.store.database.read("contents", after=b"", limit=1000)
        return sum(row["body"] is not None for row in rows)

    async def expire(self, job: JobRecord) -> None:
        await self.store.retention.mark_expired(job.id, now=NOW)
        await self.store.retention.delete_rows(job.id, now=NOW)


@pytest.fixture
async def setup(store_factory: StoreFactory, tmp_path: Path) -> AsyncIterator[Setup]:
    async with store_factory(tmp_path) as store:
        assert isinstance(store, Store)
        await accounts(store)
        root = tmp_path / "files"
        setup = Setup(store, root, FaultyFolder(root))
        setup.reopen_reader()
        yield setup


async def check_rows(setup: Setup, job: JobRecord, texts: Sequence[str] = TEXTS) -> None:
    """Check everything that is read from contents."""
    store = setup.store
    assert await rows_of(store, job) == expected_rows(texts)
    snapshot = await store.job_snapshot(
        job.account_id, job.id, row_range=lambda _: RowRange(1, 2), examples=0
    )
    assert list(snapshot.rows) == expected_rows(texts)[1:3]
    journal = [orjson.loads(entry.journal)["url"] for entry in await store.journal(job.id)]
    assert journal == [f"http://x/{n}" for n in range(len(texts))]
    unindexed = await store.unindexed_rows(job.id, start=0, count=99)
    assert [row.markdown for row in unindexed] == list(texts)


async def test_contents_of_ended_jobs_move(setup: Setup) -> None:
    jobs = [await crawl(setup.store), await crawl(setup.store, TEXTS[:3]), await crawl(setup.store)]
    await setup.mover.move()
    assert await setup.in_database() == 0
    assert len(setup.files()) == 1  # they share a segment
    for job, texts in zip(jobs, (TEXTS, TEXTS[:3], TEXTS), strict=True):
        await check_rows(setup, job, texts)
    assert len(setup.place.reads) == 1  # later ones from memory
    setup.place.before_write = pytest.fail
    await setup.mover.move()
    assert not await setup.store.segments.jobs_to_move(limit=9)


async def test_accounts_do_not_share_segments(setup: Setup) -> None:
    one, two = await crawl(setup.store), await crawl(setup.store, account_id=BOB)
    private = await crawl(setup.store, options={"cookies": {"a": "b"}})
    await setup.mover.move()
    files = setup.files()
    assert len(files) == 2
    assert len({path.parent for path in files}) == 2
    assert ALICE not in str(files)
    for job in (one, two, private):
        await check_rows(setup, job)


async def test_pages_crawled_again_stay_in_their_segment(setup: Setup) -> None:
    await crawl(setup.store)
    await setup.mover.move()
    again = await crawl(setup.store)
    assert await setup.in_database() == 0
    changed = await crawl(setup.store, [*TEXTS[:-1], "Neu. " * 200])
    assert await setup.in_database() == 1
    await check_rows(setup, changed, [*TEXTS[:-1], "Neu. " * 200])
    await setup.mover.move()
    assert len(setup.files()) == 2
    await check_rows(setup, again)
    await check_rows(setup, changed, [*TEXTS[:-1], "Neu. " * 200])


async def test_running_jobs_move_what_clients_can_see(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mover, "SEGMENT_BYTES", 20_000)
    monkeypatch.setattr(mover, "_MOVED", 3)
    texts = [f"{number:02} seen. " * 500 for number in range(12)]  # four fill a segment
    job, lease = await started(setup.store)
    moving = setup.mover
    for count in (2, 5, 12):
        new = [await shared_entry(job, n, text) for n, text in enumerate(texts[:count])]
        await setup.store.commit(lease, CommitBatch(entries=tuple(new)))
        hidden = await shared_entry(job, 50 + count, texts[0], position=None)
        await setup.store.commit(lease, CommitBatch(entries=(hidden,)))
        await moving.move()
        await moving.move()
    # Full segments alone; the rest and the hidden rows follow when the job has ended.
    assert len(setup.files()) == 2
    assert await setup.in_database() == 4 + 3
    assert await rows_of(setup.store, job) == expected_rows(texts)
    await setup.store.finish(lease, JobStatus.COMPLETED, error=None, now=NOW)
    await moving.move()
    assert await setup.in_database() == 0
    assert await rows_of(setup.store, job) == expected_rows(texts)
    assert len(await setup.store.journal(job.id)) == 15


async def test_segments_have_a_limited_size(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mover, "SEGMENT_BYTES", 20_000)
    monkeypatch.setattr(mover, "SEGMENT_CONTENTS", 3)
    texts = [f"{number} {'x' * 900}" for number in range(10)] + ["large " * 9000, "last " * 300]
    jobs = [await crawl(setup.store, texts), await crawl(setup.store, texts)]
    await setup.mover.move()
    segments = await setup.store.database.query(segments_with_contents)
    # Three each, then one of the page before the large one, which has one of its own.
    assert sorted(len(each.ids) for each in segments) == [1, 1, 1, 3, 3, 3]
    setup.reopen_reader()
    for job in jobs:
        await check_rows(setup, job, texts)


async def test_files_go_with_their_contents(setup: Setup) -> None:
    one, two = await crawl(setup.store), await crawl(setup.store, TEXTS[:2])
    three = await crawl(setup.store, account_id=BOB)
    await setup.mover.move()
    before = setup.files()
    await setup.sweep()
    assert setup.files() == before
    await setup.expire(one)
    await setup.sweep()  # two contents are left, in a new file
    rewritten = setup.files()
    assert len(rewritten) == len(before) == 2
    assert len({*before, *rewritten}) == 3
    assert not any(TEXTS[3].encode() in path.read_bytes() for path in rewritten)
    await check_rows(setup, two, TEXTS[:2])
    await check_rows(setup, three)
    await setup.sweep()
    assert setup.files() == rewritten
    for job in (two, three):
        await setup.expire(job)
    await setup.sweep()
    assert setup.files() == []
    assert await setup.store.segments.names() == set()


async def test_reader_finds_a_segment_that_was_rewritten_meanwhile(setup: Setup) -> None:
    one, two = await crawl(setup.store), await crawl(setup.store, TEXTS[:2])
    await setup.mover.move()
    rows = await setup.store.database.read("rows", account_id=ALICE, job_id=two.id, start=0, stop=9)
    [old] = {row["segment"] for row in rows}
    await setup.expire(one)

    async def read_late(statement: str, /, **values: object) -> object:
        if statement != "rows":
            return await read(statement, **values)
        await setup.sweep()
        assert not (setup.root / old).exists()
        return rows

    read = setup.store.database.read
    setup.store.database.read = read_late  # type: ignore[method-assign, assignment]
    setup.reopen_reader()
    assert await rows_of(setup.store, two) == expected_rows(TEXTS[:2])


@pytest.mark.parametrize("damage", ["missing", "changed", "cut", "empty", "another"])
async def test_damaged_files_are_error_rows(setup: Setup, damage: str) -> None:
    job = await crawl(setup.store)
    other = await crawl(setup.store, ["other " * 300], BOB)
    await setup.mover.move()
    names = {path.stat().st_size: path for path in setup.files()}
    path, another = names[max(names)], names[min(names)]
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(
            {
                "changed": content.replace(b"PAR1", b"PAR2"),
                "cut": content[:-20],
                "empty": b"",
                "another": another.read_bytes(),
            }[damage]
        )
    for _ in range(2):
        setup.reopen_reader()
        rows = [orjson.loads(row) for row in await rows_of(setup.store, job)]
        assert [row["url"] for row in rows] == [f"http://x/{n}" for n in range(len(TEXTS))]
        assert {(row["success"], row["status"]) for row in rows} == {(False, "failed")}
        assert all("is damaged" in row["error"] for row in rows)
    assert await rows_of(setup.store, other) == expected_rows(["other " * 300])
    await setup.sweep()
    path.write_bytes(content)  # restored
    assert await rows_of(setup.store, job) == expected_rows()
    await setup.expire(job)
    await setup.sweep()
    assert setup.files() == [another]


async def test_content_of_another_id_in_an_intact_file_is_an_error_row(setup: Setup) -> None:
    job = await crawl(setup.store, TEXTS[:1])
    await setup.mover.move()
    [segment] = await setup.store.database.query(segments_with_contents)
    data = encode_segment([(segment.ids[0], b"other content")], "move")
    forged = StoredSegment(segment_name("store", ALICE, data), ALICE, 1)
    setup.place.write(forged.name, data)
    await setup.store.segments.begin(forged, now=NOW)
    await setup.store.segments.complete(forged.name, segment.ids, source=segment.name)
    [row] = await rows_of(setup.store, job)
    assert "another checksum" in orjson.loads(row)["error"]
    assert b"other content" not in row


async def test_place_that_is_down_is_no_error_row(setup: Setup) -> None:
    job = await crawl(setup.store)
    await setup.mover.move()
    later = await crawl(setup.store, ["later " * 300])
    setup.reopen_reader()
    setup.place.is_down = True
    for reading in (
        rows_of(setup.store, job),
        setup.store.journal(job.id),
        setup.store.unindexed_rows(job.id, start=0, count=9),
        setup.mover.move(),
    ):
        with pytest.raises(BlobsUnavailable, match="Input/output error"):
            await reading
    assert await rows_of(setup.store, later) == expected_rows(["later " * 300])
    setup.place.is_down = False
    await setup.mover.move()
    await check_rows(setup, job)
    assert await rows_of(setup.store, later) == expected_rows(["later " * 300])
    assert await setup.in_database() == 0
    setup.ahead = 2 * HOUR
    await setup.sweep()
    assert len(setup.files()) == 2
    assert len(await setup.store.segments.names()) == 2


async def test_process_without_a_place_says_so(setup: Setup) -> None:
    await check_place(setup.store.segments, None)
    job = await crawl(setup.store)
    await setup.mover.move()
    with pytest.raises(MissingBlobs, match="--blobs"):
        await check_place(setup.store.segments, None)
    setup.store.contents = ContentReader(setup.store.database, NO_SEGMENTS)
    with pytest.raises(BlobsUnavailable, match="--blobs"):
        await rows_of(setup.store, job)
    assert await setup.store.receipt(job.id, examples=0)


async def test_another_place_is_noticed_at_the_start(
    setup: Setup, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await crawl(setup.store)
    await setup.mover.move()
    caplog.clear()  # the job's end
    await check_place(setup.store.segments, setup.blobs)
    assert caplog.text == ""
    await check_place(setup.store.segments, BlobStore(LocalFolder(tmp_path / "wrong"), "a folder"))
    assert "lacks the file" in caplog.text


class ProcessKilled(BaseException):
    """The end of the process, in the middle of a step."""


STEPS = ("intact_texts", "begin", "complete")


@pytest.mark.slow
@pytest.mark.parametrize("step", [*STEPS, "before the file", "after the file"])
@pytest.mark.parametrize("is_rewrite", [False, True])
async def test_move_that_ends_in_a_step_loses_nothing(
    setup: Setup, step: str, is_rewrite: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = await crawl(setup.store, TEXTS[:2])
    if is_rewrite:
        expired = await crawl(setup.store)
        await setup.mover.move()
        await setup.expire(expired)
    work = setup.sweep if is_rewrite else setup.mover.move

    async def end(*_: object, **__: object) -> None:
        raise ProcessKilled

    with monkeypatch.context() as patch:
        if step in STEPS:
            patch.setattr(type(setup.store.segments), step, end)
        else:
            write = BlobStore.write

            async def write_and_end(self: BlobStore, name: str, data: bytes) -> None:
                if step == "after the file":
                    await write(self, name, data)
                raise ProcessKilled

            patch.setattr(BlobStore, "write", write_and_end)
        if is_rewrite and step == "intact_texts":
            return  # a rewrite reads the file
        with pytest.raises(ProcessKilled):
            await work()
    setup.reopen_reader()
    await check_rows(setup, kept, TEXTS[:2])
    await work()
    await check_rows(setup, kept, TEXTS[:2])
    setup.ahead = 2 * HOUR
    await setup.sweep()
    assert len(setup.files()) == 1
    assert len(await setup.store.segments.names()) == 1
    await check_rows(setup, kept, TEXTS[:2])


async def test_slow_move_is_given_up(setup: Setup, caplog: pytest.LogCaptureFixture) -> None:
    """A process that was stopped for hours writes a file that a sweep has given up."""
    job = await crawl(setup.store)
    loop = asyncio.get_running_loop()

    def sweep_hours_later() -> None:
        setup.ahead = 2 * HOUR
        asyncio.run_coroutine_threadsafe(setup.sweep(), loop).result(30)
        setup.ahead = 0

    setup.place.before_write = sweep_hours_later
    await setup.mover.move()
    assert "took too long" in caplog.text
    assert await setup.in_database() == len(TEXTS)
    await check_rows(setup, job)
    assert setup.files() == []
    with pytest.raises(SegmentGivenUp):
        await setup.store.segments.complete("segments/x/y/z", [b"x" * 16])


async def test_contents_that_are_deleted_during_a_move_stay_deleted(setup: Setup) -> None:
    one, two = await crawl(setup.store), await crawl(setup.store, TEXTS[:2])
    loop = asyncio.get_running_loop()

    def expire() -> None:
        asyncio.run_coroutine_threadsafe(setup.expire(one), loop).result(30)

    setup.place.before_write = expire
    await setup.mover.move()
    setup.place.before_write = lambda: None
    segments = await setup.store.database.query(segments_with_contents)
    assert [len(each.ids) for each in segments] == [2]
    await check_rows(setup, two, TEXTS[:2])
    before = setup.files()
    await setup.sweep()  # the file has two contents too many
    assert len(setup.files()) == 1
    assert setup.files() != before
    await check_rows(setup, two, TEXTS[:2])


async def test_two_movers_at_once(setup: Setup) -> None:
    """The lock of the work may be lost: contents are then in one of two segments."""
    jobs = [await crawl(setup.store, [f"{n} {text}" for text in TEXTS]) for n in range(4)]
    await asyncio.gather(*(setup.mover._move_all(until=float("inf")) for _ in range(3)))
    assert await setup.in_database() == 0
    await asyncio.gather(setup.sweep(), setup.sweep())
    setup.reopen_reader()
    for n, job in enumerate(jobs):
        await check_rows(setup, job, [f"{n} {text}" for text in TEXTS])


async def test_damaged_content_is_not_moved(setup: Setup, caplog: pytest.LogCaptureFixture) -> None:
    job, lease = await started(setup.store)
    damaged, *others = [await shared_entry(job, n, text) for n, text in enumerate(TEXTS)]
    assert damaged.content_id is not None
    entries = (replace(damaged, body=(damaged.body or b"")[:-4]), *others)
    await setup.store.commit(lease, CommitBatch(entries=entries))
    await setup.store.finish(lease, JobStatus.COMPLETED, error=None, now=NOW)
    await setup.mover.move()
    assert "is not moved" in caplog.text
    assert await setup.in_database() == 1
    assert not await setup.store.segments.jobs_to_move(limit=9)
    [row, *rows] = await rows_of(setup.store, job)
    assert "is damaged" in orjson.loads(row)["error"]
    assert rows == expected_rows()[1:]


async def test_files_of_others_stay(setup: Setup) -> None:
    job = await crawl(setup.store)
    await setup.mover.move()
    [own] = setup.files()
    for name in ("segments/other-store/x/1", "creatives/x/1", "1"):
        setup.place.write(name, b"x")
    stray = own.with_name("0123456789abcdef0123456789abcdef-draft-01234567")
    stray.write_bytes(b"half")
    await setup.sweep()
    assert stray.exists()  # it may be of a move that is under way
    setup.ahead = 2 * HOUR
    await setup.sweep()
    assert not stray.exists()
    assert len(setup.files()) == 4
    await check_rows(setup, job)


async def test_check_reads_every_file(setup: Setup) -> None:
    async def run(blobs: BlobStore | None) -> list[tuple[int, str]]:
        results = await check_segments(
            lambda: setup.store.database.query(segments_with_contents), blobs
        )
        return [(len(result.problems), result.detail) for result in results]

    assert await run(setup.blobs) == []
    await crawl(setup.store)
    await crawl(setup.store, account_id=BOB)
    await setup.mover.move()
    assert await run(setup.blobs) == [(0, "2 files")]
    assert await run(None) == [(0, "2 files were not read: --blobs (WEBDATA_BLOBS) is missing")]
    one, two = setup.files()
    one.unlink()
    assert await run(setup.blobs) == [(1, "2 files")]
    two.write_bytes(b"PAR1")
    assert await run(setup.blobs) == [(2, "2 files")]


async def test_memory_of_the_reader_is_bounded(setup: Setup) -> None:
    jobs = []
    for number in range(6):
        jobs.append((await crawl(setup.store, [f"{number} " * 2000]), number))
        await setup.mover.move()
    assert len(setup.files()) == 6
    reader = SegmentReader(setup.blobs, cache_bytes=10_000)
    setup.store.contents = ContentReader(setup.store.database, reader)
    random.shuffle(jobs)
    for job, number in jobs * 3:
        assert await rows_of(setup.store, job) == [row_json(0, f"{number} " * 2000)]
        assert reader._cached_bytes <= 10_000
    setup.place.reads.clear()
    await asyncio.gather(*(rows_of(setup.store, job) for job, _ in jobs[:1] * 20))
    assert len(setup.place.reads) <= 1


async def test_nothing_is_swept_twice_in_an_hour(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    listings = 0

    def list_folder(*_: object) -> list[object]:
        nonlocal listings
        listings += 1
        return []

    monkeypatch.setattr(LocalFolder, "list_folder", list_folder)
    sweeping = SegmentSweep(setup.store, setup.blobs, setup.metrics, clock=setup.clock)
    for _ in range(3):
        await sweeping.sweep()
    assert listings == 1
    setup.ahead = mover.LISTING_INTERVAL_S + 1
    await sweeping.sweep()
    assert listings == 2
