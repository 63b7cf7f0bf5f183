"""Large bodies reach page workers by file, and no file stays."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from webdata_nb.service.content.page_source import ConversionOptions, FileSlice, PageSource
from webdata_nb.service.workers.body_files import MAX_PIPE_BODY_BYTES, WRITE_BYTES, body_in_file
from webdata_nb.service.workers.pool import PagePool

SMALL = PageSource(
    "http://a.test/", "http://a.test/", 200, "text/html", b"x", (), datetime.now(UTC)
)
LARGE = replace(SMALL, body=b"<title>Long</title>" + b"<p>word</p>" * (WRITE_BYTES // 8))

linux = pytest.mark.skipif(sys.platform != "linux", reason="files without a name are Linux's")


def left() -> list[str]:
    """Return the files without a name that this process has open."""
    found = []
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(path.readlink()))
    return [
        each for each in found if each.startswith(tempfile.gettempdir()) and "(deleted)" in each
    ]


async def test_a_small_page_and_one_in_a_file_stay_as_they_are() -> None:
    lying = SMALL.with_body_in(FileSlice("/nowhere", 0, 2 * MAX_PIPE_BODY_BYTES))
    for source in (SMALL, lying, replace(SMALL, body=b"x" * MAX_PIPE_BODY_BYTES)):
        async with body_in_file(source) as handed:
            assert handed is source


@linux
async def test_a_large_body_lies_in_a_file_until_it_is_done_with() -> None:
    before = left()
    async with body_in_file(LARGE) as handed:
        assert handed.body == b""
        assert handed.load_body() == LARGE
        assert len(left()) == len(before) + 1
    await asyncio.sleep(0)
    assert left() == before


@linux
async def test_a_full_disk_leaves_the_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    async with body_in_file(LARGE) as handed:
        assert handed is LARGE


@linux
async def test_a_cancellation_while_it_is_written_leaves_nothing() -> None:
    before = left()

    async def hand_over() -> None:
        async with body_in_file(LARGE):
            raise AssertionError("it was cancelled before")

    task = asyncio.create_task(hand_over())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # The thread that writes goes on to its end.
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
    await asyncio.sleep(0)
    assert left() == before


async def test_a_worker_reads_what_was_handed_over() -> None:
    async with PagePool(1) as pool:
        scraped = await pool.scrape(LARGE, ConversionOptions())
    assert scraped.title == "Long"
    assert scraped.formats["markdown"].count("word") == WRITE_BYTES // 8
