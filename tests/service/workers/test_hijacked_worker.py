"""A page that takes over its worker: the service takes data from it or nothing, and goes on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.processes import arguments_of
from tests.service.forked_workers import forked_workers
from tests.service.workers.test_pool import FULL_PAGE, html, workers
from tests.wire.waiting import until
from webdata_nb.page.content.page_source import FetchedResponse
from webdata_nb.page.errors import ScrapeError
from webdata_nb.service.creatives.enrich import OcrPool
from webdata_nb.service.runtime.event_loop import run_cooperatively
from webdata_nb.service.runtime.process import INHERITED
from webdata_nb.service.workers import pool
from webdata_nb.service.workers.messages import PageReply
from webdata_nb.service.workers.pool import PagePool

HIJACKED = "tests.service.workers.hijacked_worker"
BROKEN = (
    *("/pickle", "/pickle-behind", "/old-frame", "/garbage", "/zeros", "/huge"),
    *("/truncated", "/other-formats", "/nothing"),
)
SECRETS = {
    "WEBDATA_BRAVE_API_KEY": "secret-of-brave",
    "WEBDATA_SECRET_KEY": "secret-of-secrets",
    "WEBDATA_DATABASE_URL": "postgresql://u:secret-of-database@h/d",
    "OPENAI_API_KEY": "secret-of-openai",
    "AWS_SECRET_ACCESS_KEY": "secret-of-aws",
    "HTTPS_PROXY": "http://u:secret-of-proxy@h:1",
}
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def hijacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_MODULE", HIJACKED)


@pytest.fixture
def forked_hijacked() -> Iterator[None]:
    with forked_workers(HIJACKED):
        yield


def at(path: str, title: str = "Title") -> FetchedResponse:
    return replace(html(title), url=f"http://x.test{path}")


def environment_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def running() -> set[int]:
    below = psutil.Process().children(recursive=True)
    return {each.pid for each in below if HIJACKED in arguments_of(each)}


def pipes() -> set[str]:
    """Return the pipes that this process has open."""
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(str(each.readlink()))
    return {target for target in found if target.startswith("pipe:")}


@pytest.mark.slow
@pytest.mark.usefixtures("forked_hijacked")
@pytest.mark.parametrize("path", BROKEN)
async def test_what_is_no_answer_fails_the_page_and_ends_the_worker(
    path: str, tmp_path: Path
) -> None:
    trap = tmp_path / "unpickled"
    async with PagePool(1) as pages:
        assert (await pages.scrape(at("/good"), FULL_PAGE)).title == "Title"
        [before] = running()
        with pytest.raises(ScrapeError) as raised:
            await pages.scrape(at(f"{path}?{trap}"), FULL_PAGE)
        assert raised.value.kind == "worker_died"
        assert (await pages.scrape(at("/good", "After"), FULL_PAGE)).title == "After"
        assert before not in running()
    assert running() == set()
    assert not trap.exists()


@pytest.mark.usefixtures("hijacked")
@pytest.mark.parametrize("path", ["/twice", "/flood"])
async def test_an_answer_nobody_asked_for_ends_the_worker(path: str) -> None:
    async with PagePool(1) as pages:
        await pages.scrape(at("/good"), FULL_PAGE)
        [before] = running()
        assert (await pages.scrape(at(path), FULL_PAGE)).title == "Title"
        await until(lambda: before not in running())
        assert (await pages.scrape(at("/good", "After"), FULL_PAGE)).title == "After"


@linux
@pytest.mark.usefixtures("hijacked")
async def test_no_pipe_stays_open_after_a_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    async def decode_late(steps: Generator[None, None, PageReply]) -> PageReply:
        # The buffer becomes full, so no end of the pipe is read.
        await asyncio.sleep(1)
        return await run_cooperatively(steps)

    monkeypatch.setattr(pool, "run_cooperatively", decode_late)
    before = pipes()
    async with PagePool(1) as pages:
        await pages.scrape(at("/flood"), FULL_PAGE)
        await until(lambda: not running())
        await until(lambda: pipes() == before)


@pytest.mark.usefixtures("hijacked")
async def test_an_announced_size_is_not_read(caplog: pytest.LogCaptureFixture) -> None:
    held = psutil.Process().memory_info().rss
    async with PagePool(1) as pages:
        with pytest.raises(ScrapeError):
            await pages.scrape(at("/huge"), FULL_PAGE)
    assert psutil.Process().memory_info().rss - held < 50_000_000
    assert "a reply that is too large" in caplog.text


@linux
async def test_page_workers_know_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    async with PagePool(1) as pages:
        await pages.scrape(html("One"), FULL_PAGE)
        [worker] = workers()
        environ = environment_of(worker.pid)
    variables = {each.partition(b"=")[0].decode() for each in environ.split(b"\0") if each}
    assert not [value for value in SECRETS.values() if value.encode() in environ]
    assert {
        name for name in variables if name.upper() not in INHERITED and not name.startswith("LC_")
    } == {"PYTHONPATH"}


@linux
async def test_ocr_process_inherits_no_secrets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    program = tmp_path / "ocr"
    program.write_text("#!/bin/sh\nexec sleep 60\n")  # lives until its environment has been read
    program.chmod(0o700)
    process = await OcrPool()._start(str(program))
    try:
        # The child is a copy of this process until it has become its own program.
        await until(lambda: b"OMP_THREAD_LIMIT=1" in environment_of(process.pid))
        assert b"secret-of" not in environment_of(process.pid)
    finally:
        process.kill()
        await process.communicate()


async def test_what_a_page_prints_is_no_part_of_its_answer() -> None:
    code = (
        "import os, sys; from webdata_nb.service.workers import worker;"
        "answers = worker.take_standard_output(); os.write(1, b'printed');"
        "print('printed too', flush=True);"
        "answers.write(b'answer'); answers.flush()"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code),
        env=dict(os.environ),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert (out, err) == (b"answer", b"printedprinted too\n")
