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

from webdata_nb.service.errors import JobFailure, LeaseLost
from webdata_nb.service.store import spool as module
from webdata_nb.service.store.spool import SpoolDirectory

RECORD = b"a page" * 100


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "spool"


async def write_without_closing(root: Path, *records: bytes) -> None:
    """Keep records as a process does that is killed: nobody leaves the `with` block."""
    spool = SpoolDirectory(root).open("job")
    for ordinal, record in enumerate(records):
        assert await spool.write(ordinal, record)


async def test_records_survive_their_process(root: Path) -> None:
    await write_without_closing(root, RECORD, b"")
    with SpoolDirectory(root).open("job") as later:
        assert await later.read(0) == RECORD
        assert await later.read(1) == b""
        assert await later.read(2) is None


async def test_large_record_is_kept(root: Path) -> None:
    large = bytes(module.LARGE_RECORD_BYTES + 1)
    await write_without_closing(root, large)
    with SpoolDirectory(root).open("job") as later:
        assert await later.read(0) == large


@given(cut=some.integers(0, len(RECORD) + module._HEADER.size - 1))
async def test_truncated_record_is_not_returned(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    root = tmp_path_factory.mktemp("spool")
    await write_without_closing(root, RECORD)
    path = root / "job" / "0"
    path.write_bytes(path.read_bytes()[:cut])
    with SpoolDirectory(root).open("job") as later:
        assert await later.read(0) is None
        assert await later.write(0, RECORD)
        assert await later.read(0) == RECORD


@given(some.lists(some.tuples(some.integers(0, 5), some.binary(max_size=300)), max_size=20))
async def test_files_are_reused_and_kept_records_stay(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, bytes]]
) -> None:
    root = tmp_path_factory.mktemp("spool")
    spool, pages, most = SpoolDirectory(root).open("job"), dict[int, bytes](), 0
    for ordinal, record in steps:
        if ordinal in pages:
            spool.drop(ordinal)
            del pages[ordinal]
        else:
            assert await spool.write(ordinal, record)
            pages[ordinal] = record
        most = max(most, len(pages))
    assert len(list((root / "job").glob("*"))) == most
    with SpoolDirectory(root).open("job") as later:
        for ordinal, record in pages.items():
            assert await later.read(ordinal) == record


async def test_large_file_is_deleted_with_its_record(root: Path) -> None:
    with SpoolDirectory(root).open("job") as job:
        assert await job.write(0, bytes(module.LARGE_RECORD_BYTES + 1))
        job.drop(0)
        assert list((root / "job").iterdir()) == []
        assert await job.write(1, RECORD)
        assert await job.read(1) == RECORD


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
async def test_spooled_files_have_owner_permissions(root: Path) -> None:
    await write_without_closing(root, RECORD)
    assert stat.S_IMODE((root / "job").stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "job" / "0").stat().st_mode) == 0o600


async def test_all_jobs_share_the_size_limit(root: Path) -> None:
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


async def test_records_of_an_earlier_attempt_count(root: Path) -> None:
    await write_without_closing(root, RECORD)
    spool = SpoolDirectory(root, max_bytes=len(RECORD) + 50)
    with spool.open("job") as later:
        assert not await later.write(1, bytes(60))
        later.drop(0)
        assert await later.write(1, bytes(60))


@pytest.mark.parametrize(
    ("ending", "stays"),
    [(None, False), (JobFailure("no start page"), False), (LeaseLost("job"), True),
     (asyncio.CancelledError(), True)],
)  # fmt: skip
async def test_files_stay_if_the_job_may_continue(
    root: Path, ending: BaseException | None, stays: bool
) -> None:
    spool = SpoolDirectory(root)
    with suppress(JobFailure, LeaseLost, asyncio.CancelledError), spool.open("job") as job:
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


async def test_foreign_files_are_ignored(root: Path) -> None:
    await write_without_closing(root, RECORD)
    (root / "job" / "notes.txt").write_bytes(b"none of ours")
    (root / "job" / "7").write_bytes(b"")
    with SpoolDirectory(root).open("job") as later:
        assert await later.read(0) == RECORD
        assert await later.write(1, RECORD)
        assert await later.read(1) == RECORD


async def test_unwritable_folder_refuses_records(blocked: Path) -> None:
    spool = SpoolDirectory(blocked, max_bytes=len(RECORD))
    assert spool.job_ids() == []
    with spool.open("job") as job:
        assert not await job.write(0, RECORD)
        assert await job.read(0) is None
        await asyncio.to_thread(blocked.unlink)
        assert await job.write(0, RECORD)
