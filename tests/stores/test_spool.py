"""Files of pages on their way into the store: what survives, what is refused, what goes."""

from __future__ import annotations

import asyncio
import stat
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from webdata_nb.service.errors import JobFailed, LeaseLost
from webdata_nb.service.store import spool as module
from webdata_nb.service.store.spool import SpoolDirectory

RECORD = b"a page" * 100


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "spool"


async def left_by_a_kill(root: Path, *records: bytes) -> None:
    """Keep records as a process does that is killed: nobody leaves the `with` block."""
    spool = SpoolDirectory(root).open("job")
    for ordinal, record in enumerate(records):
        assert await spool.write(ordinal, record)


async def test_what_was_kept_outlives_its_process(root: Path) -> None:
    await left_by_a_kill(root, RECORD, b"")
    with SpoolDirectory(root).open("job") as later:
        assert await later.read(0) == RECORD
        assert await later.read(1) == b""
        assert await later.read(2) is None


async def test_a_large_record_is_kept_too(root: Path) -> None:
    large = bytes(module.LARGE_RECORD_BYTES + 1)
    await left_by_a_kill(root, large)
    with SpoolDirectory(root).open("job") as later:
        assert await later.read(0) == large


@given(cut=some.integers(0, len(RECORD) + module._HEADER.size - 1))
async def test_half_a_record_is_none(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    root = tmp_path_factory.mktemp("spool")
    await left_by_a_kill(root, RECORD)
    path = root / "job" / "0"
    path.write_bytes(path.read_bytes()[:cut])
    with SpoolDirectory(root).open("job") as later:
        assert await later.read(0) is None
        assert await later.write(0, RECORD)
        assert await later.read(0) == RECORD


@given(some.lists(some.tuples(some.integers(0, 5), some.binary(max_size=300)), max_size=20))
async def test_files_are_written_over_and_what_is_kept_is_there(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, bytes]]
) -> None:
    root = tmp_path_factory.mktemp("spool")
    spool, kept, most = SpoolDirectory(root).open("job"), dict[int, bytes](), 0
    for ordinal, record in steps:
        if ordinal in kept:
            spool.drop(ordinal)
            del kept[ordinal]
        else:
            assert await spool.write(ordinal, record)
            kept[ordinal] = record
        most = max(most, len(kept))
    assert len(list((root / "job").glob("*"))) == most
    with SpoolDirectory(root).open("job") as later:
        for ordinal, record in kept.items():
            assert await later.read(ordinal) == record


async def test_a_large_file_goes_with_its_record(root: Path) -> None:
    with SpoolDirectory(root).open("job") as job:
        assert await job.write(0, bytes(module.LARGE_RECORD_BYTES + 1))
        job.drop(0)
        assert list((root / "job").iterdir()) == []
        assert await job.write(1, RECORD)
        assert await job.read(1) == RECORD


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
async def test_only_the_owner_reads_it(root: Path) -> None:
    await left_by_a_kill(root, RECORD)
    assert stat.S_IMODE((root / "job").stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "job" / "0").stat().st_mode) == 0o600


async def test_all_jobs_together_keep_no_more_than_the_bound(root: Path) -> None:
    spool = SpoolDirectory(root, max_bytes=100)
    with spool.open("one") as one, spool.open("two") as two:
        assert await one.write(0, bytes(60))
        assert not await two.write(0, bytes(60))
        assert await two.write(1, bytes(40))
        one.drop(0)
        assert await two.write(0, bytes(60))
        two.drop(7)  # was never kept
        assert not await one.write(1, b"x")
    with spool.open("three") as three:
        assert await three.write(0, bytes(100))


async def test_what_an_earlier_attempt_left_counts(root: Path) -> None:
    await left_by_a_kill(root, RECORD)
    spool = SpoolDirectory(root, max_bytes=len(RECORD) + 50)
    with spool.open("job") as later:
        assert not await later.write(1, bytes(60))
        later.drop(0)
        assert await later.write(1, bytes(60))


@pytest.mark.parametrize(
    ("ending", "stays"),
    [(None, False), (JobFailed("no start page"), False), (LeaseLost("job"), True),
     (asyncio.CancelledError(), True)],
)  # fmt: skip
async def test_files_stay_where_the_job_goes_on(
    root: Path, ending: BaseException | None, stays: bool
) -> None:
    spool = SpoolDirectory(root)
    with suppress(JobFailed, LeaseLost, asyncio.CancelledError), spool.open("job") as job:
        assert await job.write(0, RECORD)
        assert spool.job_ids() == ["job"]
        if ending is not None:
            raise ending
    assert spool.job_ids() == (["job"] if stays else [])
    spool.delete("job")
    spool.delete("job")
    assert spool.job_ids() == []


@pytest.fixture
def blocked(root: Path) -> Path:
    root.write_bytes(b"a file where the folder should be")
    return root


async def test_files_of_others_are_let_be(root: Path) -> None:
    await left_by_a_kill(root, RECORD)
    (root / "job" / "notes.txt").write_bytes(b"none of ours")
    (root / "job" / "7").write_bytes(b"")
    with SpoolDirectory(root).open("job") as later:
        assert await later.read(0) == RECORD
        assert await later.write(1, RECORD)
        assert await later.read(1) == RECORD


async def test_a_folder_that_cannot_be_written_refuses(blocked: Path) -> None:
    spool = SpoolDirectory(blocked, max_bytes=len(RECORD))
    assert spool.job_ids() == []
    with spool.open("job") as job:
        assert not await job.write(0, RECORD)
        assert await job.read(0) is None
        await asyncio.to_thread(blocked.unlink)
        assert await job.write(0, RECORD)
