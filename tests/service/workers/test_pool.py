"""Page workers: pages that misbehave fail alone, and no process outlives its parent."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import zlib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from tests.processes import arguments_of
from tests.wire.waiting import until
from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse, FileSlice
from webdata_nb.page.errors import ScrapeError
from webdata_nb.page.extract import structured
from webdata_nb.page.extract.results import EXTRACTION, Extraction
from webdata_nb.page.scrape.scraped import Scraped
from webdata_nb.service.observability.operations import record_operations
from webdata_nb.service.runtime.fair_scheduler import on_behalf_of
from webdata_nb.service.workers import pool
from webdata_nb.service.workers.pool import ABANDONED_S, PagePool

FULL_PAGE = ConversionOptions(only_main_content=False)
CHECKOUT = Path(__file__).resolve().parents[3]


def source(body: bytes, content_type: str = "text/html; charset=utf-8") -> FetchedResponse:
    url = "http://x.test/"
    return FetchedResponse(url, url, 200, content_type, body, (), datetime(2026, 1, 1, tzinfo=UTC))


# What a worker loads at its start: a parser that one page brings down, with its process.
FATAL_PAGE = """
import os, signal, sys
from webdata_nb.page.scrape import page

whole = page.scrape

def scrape(source, *rest, **options):
    if b"Fatal" in source.body:
        with open({deaths!r}, "a") as file:
            file.write("x")
        {ends}
    return whole(source, *rest, **options)

page.scrape = scrape
"""


def html(title: str, size: int = 0) -> FetchedResponse:
    words = b"<p>some <b>words</b> here</p>" * (size // 28)
    return source(b"<title>%s</title><body><h1>%s</h1>" % (title.encode(), title.encode()) + words)


def workers() -> list[psutil.Process]:
    """The page workers of this process that are alive."""
    children = psutil.Process().children()
    return [each for each in children if "webdata_nb.service.workers.worker" in arguments_of(each)]


async def test_pages_come_back_as_data_each_to_its_caller() -> None:
    async with PagePool(2) as pages:
        tasks = [pages.scrape(html(f"Page {n}", n * 500), FULL_PAGE) for n in range(40)]
        titles = [scraped.title for scraped in await asyncio.gather(*tasks)]
        assert titles == [f"Page {n}" for n in range(40)]
        assert 1 <= len(workers()) <= 2
    assert workers() == []


async def test_a_page_that_lies_in_a_file_is_read_there_or_fails_alone(tmp_path: Path) -> None:
    whole, path = html("Kept"), tmp_path / "0"
    path.write_bytes(b"head" + whole.body + b"tail")

    def source_of_size(size: int) -> FetchedResponse:
        return replace(whole, body=b"", body_slice=FileSlice(str(path), len(b"head"), size))

    async with PagePool(1) as pages:
        scraped = await pages.scrape(source_of_size(len(whole.body)), FULL_PAGE)
        assert scraped.formats == (await pages.scrape(whole, FULL_PAGE)).formats
        with pytest.raises(ScrapeError, match="cut short"):
            await pages.scrape(source_of_size(len(whole.body) + 5), FULL_PAGE)
        path.unlink()
        with pytest.raises(ScrapeError, match="is gone"):
            await pages.scrape(source_of_size(1), FULL_PAGE)
        assert (await pages.scrape(whole, FULL_PAGE)).title == "Kept"


async def test_workers_are_started_only_when_there_is_work_for_them() -> None:
    async with PagePool(2) as pages:
        assert workers() == []
        for _ in range(3):
            await pages.scrape(html("One"), FULL_PAGE)
        assert len(workers()) == 1


async def wait_for_workers(count: int) -> list[psutil.Process]:
    """Wait until so many workers run."""
    async with asyncio.timeout(60):
        while len(found := workers()) != count:  # noqa: ASYNC110 - processes send no event
            await asyncio.sleep(0.02)
    return found


async def test_workers_that_are_kept_ready_start_before_the_first_page() -> None:
    async with PagePool(2) as pages:
        ready = asyncio.create_task(pages.keep_ready())
        before = {each.pid for each in await wait_for_workers(2)}
        await asyncio.gather(*(pages.scrape(html(f"Page {n}"), FULL_PAGE) for n in range(4)))
        assert {each.pid for each in workers()} == before
        ready.cancel()
    assert workers() == []


async def test_idle_workers_stop_and_a_job_starts_them_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with PagePool(2) as pages:
        ready = asyncio.create_task(pages.keep_ready())
        before = {each.pid for each in await wait_for_workers(2)}
        monkeypatch.setattr(pool, "IDLE_S", 0.2)
        ready.cancel()
        ready = asyncio.create_task(pages.keep_ready())
        await wait_for_workers(0)
        monkeypatch.setattr(pool, "IDLE_S", 60.0)
        pages.start_soon()
        again = {each.pid for each in await wait_for_workers(2)}
        assert before.isdisjoint(again)
        assert (await pages.scrape(html("Back"), FULL_PAGE)).title == "Back"
        ready.cancel()


async def test_killed_worker_is_replaced_although_kept_ready() -> None:
    async with PagePool(1) as pages:
        ready = asyncio.create_task(pages.keep_ready())
        [worker] = await wait_for_workers(1)
        worker.kill()
        assert (await pages.scrape(html("Next"), FULL_PAGE)).title == "Next"
        assert [each.pid for each in workers()] != [worker.pid]
        ready.cancel()


async def test_closing_a_pool_that_starts_leaves_no_worker() -> None:
    async with PagePool(2) as pages:
        pages.start_soon()
        await asyncio.sleep(0)
    assert workers() == []


async def test_close_waits_for_an_exit_that_is_reported_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "END_S", 0.0)  # pages do not wait for the exit code
    for is_stopped in (False, True):
        async with PagePool(1) as pages:
            await pages.scrape(html("Page"), FULL_PAGE)
            [worker] = pages._workers
            if is_stopped:
                workers()[0].suspend()
        assert worker._process.returncode is not None


async def test_closed_pool_starts_no_worker() -> None:
    async with PagePool(1) as pages:
        _, [page] = await suspended_with(pages, "Page")
    with pytest.raises(ScrapeError, match="were stopped"):
        await page
    assert workers() == []


async def test_extraction_runs_in_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    # A worker is an interpreter of its own, which this does not reach.
    monkeypatch.setattr(structured, "extract_structured", pytest.fail)
    item = {"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(480)}}
    items = {"type": "array", "items": item}
    schema = json.dumps({"type": "object", "properties": {"headline": {}, "items": items}})
    nodes = json.dumps([{"@type": f"T{n % 50}", "name": f"p{n}"} for n in range(5000)])
    page = f'<title>T</title><script type="application/ld+json">{nodes}</script>'
    options = ConversionOptions(formats=(EXTRACTION,), schema=schema)
    async with PagePool(1) as pages:
        scraped = await pages.scrape(source(page.encode()), options)
        assert msgspec.convert(scraped.formats[EXTRACTION], Extraction).data["headline"] == "p0"


async def test_a_page_over_its_processor_time_fails_alone() -> None:
    async with PagePool(1, cpu_seconds=0.2) as pages:
        await pages.scrape(html("Warm"), FULL_PAGE)
        slow = pages.scrape(html("Slow", 15_000_000), FULL_PAGE)
        others = [pages.scrape(html(f"Page {n}"), FULL_PAGE) for n in range(5)]
        [failure, *rest] = await asyncio.gather(slow, *others, return_exceptions=True)
        assert isinstance(failure, ScrapeError)
        assert failure.kind == "cpu_limit"
        assert [scraped.title for scraped in rest] == [f"Page {n}" for n in range(5)]  # type: ignore[union-attr]


async def test_a_page_over_its_memory_fails_alone() -> None:
    async with PagePool(1, memory_bytes=64 * 1024 * 1024) as pages:
        hungry = pages.scrape(html("Hungry", 15_000_000), FULL_PAGE)
        other = pages.scrape(html("Other"), FULL_PAGE)
        [failure, scraped] = await asyncio.gather(hungry, other, return_exceptions=True)
        assert isinstance(failure, ScrapeError)
        assert failure.kind == "memory_limit"
        assert scraped.title == "Other"  # type: ignore[union-attr]


def pdf_with(content: bytes, filters: int = 1) -> FetchedResponse:
    """Return a PDF document of one page with this content, compressed so many times."""
    for _ in range(filters):
        content = zlib.compress(content, 9)
    stream = b"<</Length %d/Filter[%b]>>stream\n%b\nendstream"
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R>>",
        stream % (len(content), b"/FlateDecode " * filters, content),
    )
    numbered = (b"%d 0 obj\n%b\nendobj\n" % each for each in enumerate(objects, start=1))
    body = b"%PDF-1.7\n" + b"".join(numbered) + b"trailer<</Root 1 0 R>>\n%%EOF"
    return source(body, "application/pdf")


@pytest.mark.parametrize(
    ("part", "count", "filters"), [(b" ", 300_000_000, 2), (b"BT (a) Tj ET ", 5_000_000, 1)]
)
async def test_a_document_that_unpacks_to_too_much_is_read_once(
    caplog: pytest.LogCaptureFixture, part: bytes, count: int, filters: int
) -> None:
    """Its library aborts where it gets no memory."""
    async with PagePool(1, memory_bytes=64 * 1024 * 1024) as pages:
        with pytest.raises(ScrapeError, match="needs more memory") as caught:
            await pages.scrape(pdf_with(part * count, filters), FULL_PAGE)
        assert caught.value.kind == "memory_limit"
        assert "read again" not in caplog.text
        assert (await pages.scrape(html("Next"), FULL_PAGE)).title == "Next"


async def test_a_worker_that_is_killed_takes_no_page_with_it() -> None:
    async with PagePool(1) as pages:
        await pages.scrape(html("Warm"), FULL_PAGE)
        [worker] = workers()
        os.kill(worker.pid, signal.SIGSTOP)
        tasks = [asyncio.create_task(pages.scrape(html(f"P{n}"), FULL_PAGE)) for n in range(6)]
        await asyncio.sleep(0)
        os.kill(worker.pid, signal.SIGKILL)
        answers = await asyncio.gather(*tasks)
        assert [each.title for each in answers] == [f"P{n}" for n in range(6)]


@pytest.mark.slow
async def test_killing_workers_again_and_again_loses_no_page() -> None:
    chance, killed = random.Random(14), 0
    async with PagePool(2) as pages:
        tasks = [
            asyncio.create_task(pages.scrape(html(f"P{n}", 60_000), FULL_PAGE)) for n in range(80)
        ]
        for _ in range(8):
            await asyncio.sleep(chance.uniform(0.1, 0.6))
            if alive := workers():
                sent = chance.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
                os.kill(chance.choice(alive).pid, sent)
                killed += 1
        answers = await asyncio.gather(*tasks)
        assert [each.title for each in answers] == [f"P{n}" for n in range(80)]
    assert killed >= 2
    assert workers() == []


@pytest.mark.slow
async def test_a_worker_that_is_stopped_is_replaced_and_its_page_read_again() -> None:
    async with PagePool(1) as pages:
        stopped, waiting = await suspended_with(pages, "First", "Second")
        assert [(await each).title for each in waiting] == ["First", "Second"]
        await until(lambda: stopped.pid not in {each.pid for each in workers()})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ends", "tries"), [("os._exit(3)", 3), ("os.kill(os.getpid(), signal.SIGKILL)", 10)]
)
async def test_a_page_that_ends_every_worker_is_blamed(
    ends: str, tries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaths = tmp_path / "deaths"
    (tmp_path / "sitecustomize.py").write_text(FATAL_PAGE.format(ends=ends, deaths=str(deaths)))
    monkeypatch.syspath_prepend(tmp_path)
    async with PagePool(1) as pages:
        fatal = pages.scrape(html("Fatal"), FULL_PAGE)
        others = [pages.scrape(html(f"Page {n}"), FULL_PAGE) for n in range(3)]
        [failure, *rest] = await asyncio.gather(fatal, *others, return_exceptions=True)
        assert isinstance(failure, ScrapeError)
        assert failure.kind == "worker_died"
        assert str(tries) in str(failure)
        assert deaths.read_text() == "x" * tries
        assert [each.title for each in rest] == [f"Page {n}" for n in range(3)]  # type: ignore[union-attr]


async def test_what_a_page_fails_with_is_told() -> None:
    async with PagePool(1) as pages:
        with pytest.raises(ScrapeError) as raised:
            await pages.scrape(
                source(b"Rar!\x1a\x07" + bytes(50), "application/vnd.rar"), FULL_PAGE
            )
        assert raised.value.kind == "unsupported_type"


async def suspended_with(
    pages: PagePool, *titles: str
) -> tuple[psutil.Process, list[asyncio.Task[Scraped]]]:
    """Suspend the only worker, and give it pages; return it, and those who wait for them."""
    await pages.scrape(html("Warm"), FULL_PAGE)
    [worker] = workers()
    worker.suspend()
    waiting = [asyncio.create_task(pages.scrape(html(title), FULL_PAGE)) for title in titles]
    await until(lambda: pages._workers[0].load == len(titles))
    return worker, waiting


async def test_a_worker_that_ends_at_its_start_loses_no_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, started = asyncio.create_subprocess_exec, []

    async def start_and_kill_first(*command: str, **options: Any) -> asyncio.subprocess.Process:
        started.append(await start(*command, **options))
        if len(started) == 1:
            started[0].kill()
            await started[0].wait()
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_and_kill_first)
    async with PagePool(1) as pages:
        assert (await pages.scrape(html("Page"), FULL_PAGE)).title == "Page"
    assert len(started) == 2


async def test_a_page_that_nobody_waits_for_does_not_keep_its_worker() -> None:
    async with PagePool(1) as pages:
        stuck, (left, behind) = await suspended_with(pages, "Left", "Behind")
        left.cancel()
        assert (await behind).title == "Behind"
        assert left.cancelled()
        assert stuck.pid not in {each.pid for each in workers()}


async def test_a_page_left_behind_another_does_not_end_the_worker_of_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "STEP_S", 60.0)  # until a stopped worker is found
    async with PagePool(1) as pages:
        worker, (first, left) = await suspended_with(pages, "First", "Left")
        left.cancel()
        await asyncio.sleep(ABANDONED_S * 1.5)
        assert [each.pid for each in workers()] == [worker.pid]
        worker.resume()
        assert (await first).title == "First"
        assert (await pages.scrape(html("Next"), FULL_PAGE)).title == "Next"


async def test_wait_for_place_has_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "PLACE_S", 0.5)
    async with PagePool(1) as pages:
        titles = [str(number) for number in range(pool.PAGES_AHEAD)]
        worker, waiting = await suspended_with(pages, *titles)
        with pytest.raises(ScrapeError, match="no page worker was free") as raised:
            await pages.scrape(html("Late"), FULL_PAGE)
        assert raised.value.kind == "worker_timeout"
        worker.resume()
        assert [scraped.title for scraped in await asyncio.gather(*waiting)] == titles
        assert (await pages.scrape(html("Next"), FULL_PAGE)).title == "Next"


async def test_reading_has_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    async with PagePool(1) as pages:
        await pages.scrape(html("Warm"), FULL_PAGE)
        monkeypatch.setattr(pool, "READ_S", 0.5)
        [worker] = workers()
        worker.suspend()
        with pytest.raises(ScrapeError, match="did not read the page") as raised:
            await pages.scrape(html("Late"), FULL_PAGE)
        assert raised.value.kind == "worker_timeout"
        monkeypatch.undo()
        assert (await pages.scrape(html("Next"), FULL_PAGE)).title == "Next"


async def test_watchdog_knows_limit_of_each_wait() -> None:
    async with PagePool(1) as pages:
        titles = [str(number) for number in range(pool.PAGES_AHEAD)]
        worker, waiting = await suspended_with(pages, *titles)
        with record_operations() as operations:
            late = asyncio.create_task(pages.scrape(html("Late"), FULL_PAGE))
            await until(lambda: operations.changes > 0)
            assert operations.longest_limit_s == pool.PLACE_S <= 300
            worker.resume()
            await asyncio.gather(late, *waiting)


async def test_a_caller_that_leaves_does_not_disturb_the_others() -> None:
    async with PagePool(1) as pages:
        leaving = asyncio.create_task(pages.scrape(html("Leaving", 300_000), FULL_PAGE))
        staying = asyncio.create_task(pages.scrape(html("Staying"), FULL_PAGE))
        await asyncio.sleep(0.01)
        leaving.cancel()
        assert (await staying).title == "Staying"
        assert (await pages.scrape(html("After"), FULL_PAGE)).title == "After"


PARENT = """
import asyncio, sys
from tests.service.workers.test_pool import FULL_PAGE, html, workers
from webdata_nb.service.workers import pool
from webdata_nb.service.workers.pool import ABANDONED_S, PagePool

async def main():
    async with PagePool(2) as pages:
        await asyncio.gather(*(pages.scrape(html("x", 90_000), FULL_PAGE) for _ in range(8)))
        print(*(worker.pid for worker in workers()), flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_workers_end_when_only_their_parent_is_killed() -> None:
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, stdout=asyncio.subprocess.PIPE, cwd=CHECKOUT
    )
    assert parent.stdout is not None
    pids = [int(pid) for pid in (await parent.stdout.readline()).split()]
    assert pids
    parent.kill()
    await parent.wait()
    await until(lambda: not any(psutil.pid_exists(pid) for pid in pids))


async def test_pages_of_one_account_do_not_wait_for_all_of_anothers() -> None:
    ended: list[str] = []

    async def read(pages: PagePool, name: str, size: int) -> None:
        await pages.scrape(html(name, size), FULL_PAGE)
        ended.append(name)

    async with PagePool(2) as pages, asyncio.timeout(300):
        with on_behalf_of("alice"):
            many = [asyncio.create_task(read(pages, "alice", 200_000)) for _ in range(40)]
        while len(ended) < 2:  # noqa: ASYNC110 - both workers are busy with hers
            await asyncio.sleep(0.01)
        for _ in range(3):
            with on_behalf_of("bob"):
                await asyncio.create_task(read(pages, "bob", 0))
        await asyncio.gather(*many)
    last = max(place for place, name in enumerate(ended) if name == "bob")
    assert ended[last + 1 :], "Bob's pages waited until all of Alice's were read"
