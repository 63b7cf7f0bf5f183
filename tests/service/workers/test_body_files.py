"""Large bodies reach page workers in unlinked temporary files."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse, FileSlice
from webdata_nb.service.workers.pool import MAX_PIPE_BODY_BYTES, WRITE_BYTES, PagePool, body_in_file

SMALL = FetchedResponse(
    "http://a.test/", "http://a.test/", 200, "text/html", b"x", (), datetime.now(UTC)
)
LARGE = replace(SMALL, body=b"<title>Long</title>" + b"<p>word</p>" * (WRITE_BYTES // 8))

linux = pytest.mark.skipif(sys.platform != "linux", reason="unlinked files are used on Linux only")


def open_temporary_files() -> list[str]:
    """Return the unlinked temporary files that this process has open."""
    paths = []
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            paths.append(str(path.readlink()))
    return [
        each for each in paths if each.startswith(tempfile.gettempdir()) and "(deleted)" in each
    ]


async def test_small_bodies_and_file_slices_are_unchanged() -> None:
    in_file = SMALL.with_body_in(FileSlice("/nowhere", 0, 2 * MAX_PIPE_BODY_BYTES))
    for source in (SMALL, in_file, replace(SMALL, body=b"x" * MAX_PIPE_BODY_BYTES)):
        async with body_in_file(source) as handed_source:
            assert handed_source is source


@linux
async def test_large_body_is_in_a_file_until_exit() -> None:
    before = open_temporary_files()
    async with body_in_file(LARGE) as handed_source:
        assert handed_source.body == b""
        assert handed_source.load_body() == LARGE
        assert len(open_temporary_files()) == len(before) + 1
    await asyncio.sleep(0)
    assert open_temporary_files() == before


@linux
async def test_full_disk_falls_back_to_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    async with body_in_file(LARGE) as handed_source:
        assert handed_source is LARGE


@linux
def writing_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "webdata-call"]


async def test_cancelled_write_leaves_no_file() -> None:
    before = open_temporary_files()

    async def hand_over() -> None:
        async with body_in_file(LARGE):
            raise AssertionError("the task was not cancelled")

    task = asyncio.create_task(hand_over())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # The writing thread cannot be cancelled: its file is closed once it has been written.
    async with asyncio.timeout(30):
        while writing_threads() or open_temporary_files() != before:  # noqa: ASYNC110 - of threads
            await asyncio.sleep(0.01)


async def test_worker_reads_body_file() -> None:
    async with PagePool(1) as pool:
        scraped = await pool.scrape(LARGE, ConversionOptions())
    assert scraped.title == "Long"
    assert scraped.formats["markdown"].count("word") == WRITE_BYTES // 8
