"""Searches and creatives as they arrive, and what all three streams have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]
import pandas as pd
import pyarrow.dataset as ds
import pytest
from starlette.responses import JSONResponse, Response

import webdata_nb
from tests.api.receipts import SITE, receipt_of
from tests.api.test_interrupts import interrupt_when_running
from tests.local_service import stop
from tests.wire.waiting import until
from tests.wire_service import JobScript, WireService, crawl_rows, creative_rows, search_rows
from webdata_nb import settings
from webdata_nb.contract import paths
from webdata_nb.demo.server import SampleSite
from webdata_nb.errors import IncompleteResult, InvalidArgument, JobCancelled, JobFailed, JobTimeout
from webdata_nb.toolkit.api import (
    FrameStream,
    Session,
    asearch_df,
    connect,
    crawl_df,
    creatives_df,
    record,
    replay,
    search_df,
    weights_df,
)
from webdata_nb.toolkit.bridge import PORTAL
from webdata_nb.toolkit.display.bars import View
from webdata_nb.toolkit.display.progress import Listener

SEVERAL = ["a", "b", "c"]


def unread(row: dict[str, Any]) -> dict[str, Any]:
    """Return a result whose page is not read yet."""
    found = {name: row[name] for name in ("id", "url", "rank", "title", "snippet")}
    return {**found, "success": True, "scraped": False}


def ranks(batch: pd.DataFrame) -> list[int]:
    return [int(rank) for rank in batch["rank"]]


# -------------------------------------------------------------------------------------- searches


@pytest.mark.usefixtures("connected")
def test_results_arrive_as_pages_are_read(service: WireService) -> None:
    rows = search_rows(3)
    script = JobScript([unread(rows[0]), rows[1], unread(rows[2])], running=True)
    script.reply_fields = {"completed_results": 1}
    service.search = script
    stream = search_df("q", stream=True)
    got: list[pd.DataFrame] = []
    for batch in stream:
        got.append(batch)
        if len(got) == 1:
            assert ranks(batch) == [2]
            script.rows[:] = rows
            script.running = False
    assert [ranks(batch) for batch in got] == [[2], [1, 3]]
    joined = pd.concat(got, ignore_index=True).sort_values("rank", ignore_index=True)
    assert joined.equals(search_df("q", cache=False))
    assert joined.dtypes.equals(search_df("q", cache=False).dtypes)
    receipt = stream.receipt
    assert receipt is not None
    assert receipt["counts"] == {"rows": 3, "total": 3, "ok": 3, "failed": 0}
    assert receipt["status"] == "completed"
    assert receipt["engine_used"] == "engine_one"
    assert receipt["job_id"] == receipt_of(got[0])["job_id"]


@pytest.mark.usefixtures("connected")
def test_search_batches_have_the_number_of_rows(service: WireService) -> None:
    service.search = JobScript(search_rows(5))
    batches = list(search_df("q", num_results=5, stream=2))
    assert [ranks(batch) for batch in batches] == [[1, 2], [3, 4], [5]]
    assert [receipt_of(batch)["first_row"] for batch in batches] == [0, 2, 4]


@pytest.mark.usefixtures("connected")
def test_queries_of_list_run_concurrently(service: WireService) -> None:
    rows = search_rows(2)
    script = JobScript(
        [rows[0], unread(rows[1])], running=True, reply_fields={"completed_results": 1}
    )
    service.search = script
    stream = search_df(SEVERAL, country=["us", "de"], stream=True)
    seen: list[tuple[str, str, int]] = []
    for batch in stream:
        columns = (batch[name].tolist() for name in ("query", "country", "rank"))
        seen += zip(*columns, strict=True)
        if len(seen) == 6:  # the first result of every input, while all of them still run
            assert {job.status for job in service.jobs.values()} == {"running"}
            script.rows[:] = rows
            script.running = False
    wanted = {(query, place, n) for query in SEVERAL for place in ("us", "de") for n in (1, 2)}
    assert len(seen) == len(wanted)
    assert set(seen) == wanted
    receipt = stream.receipt
    assert receipt is not None
    assert receipt["inputs"] == {"total": 6, "failed": 0, "cached": 0}
    assert receipt["counts"]["rows"] == 12
    assert {run["job_id"] for run in receipt["runs"]} == set(service.jobs)


@pytest.mark.usefixtures("connected")
def test_failed_input_is_row_or_ends_loop(service: WireService) -> None:
    def broken(path: str, _query: dict[str, str]) -> Response | None:
        failing = service.requests[-1].body or {}
        wrong = path == paths.SEARCH and failing.get("query") == "b"
        return JSONResponse({"detail": "a bad day"}, 422) if wrong else None

    service.fault = broken
    stream = search_df(SEVERAL, stream=True)
    joined = pd.concat(list(stream), ignore_index=True)
    assert joined.groupby("query").size().to_dict() == {"a": 3, "b": 1, "c": 3}
    assert "a bad day" in joined.loc[joined["query"] == "b", "error"].iloc[0]
    assert stream.receipt is not None
    assert stream.receipt["inputs"]["failed"] == 1
    with pytest.raises(Exception, match="a bad day"):
        list(search_df(SEVERAL, stream=True, on_error="raise"))


@pytest.mark.usefixtures("connected")
def test_search_error_follows_rows(service: WireService) -> None:
    service.search = JobScript(search_rows(2), status="failed", error="gone")
    got: list[pd.DataFrame] = []
    stream = search_df("q", stream=True)
    with pytest.raises(JobFailed, match="gone"):
        got.extend(stream)
    assert sum(map(len, got)) == 2
    assert stream.receipt is not None
    assert stream.receipt["status"] == "failed"
    service.search = JobScript(search_rows(2), total=5)
    with pytest.raises(IncompleteResult, match="2 of 5"):
        list(search_df("q", stream=True))
    with pytest.warns(UserWarning, match="2 of 5"):
        assert sum(map(len, search_df("q", stream=True, on_incomplete="warn"))) == 2
    service.search = JobScript(search_rows(1), running=True)
    late = search_df("q", stream=True, timeout=5)
    with pytest.raises(JobTimeout) as timed_out:
        list(late)
    assert service.jobs[timed_out.value.job_id].status == "running"
    assert late.receipt is not None
    assert late.receipt["status"] == "running"
    service.search = JobScript([])
    with pytest.warns(UserWarning, match="no rows"):
        assert list(search_df("none", stream=True)) == []


# ------------------------------------------------------------------------------------- creatives


@pytest.mark.usefixtures("connected")
def test_creatives_arrive_page_by_page(service: WireService) -> None:
    service.creatives = creative_rows(100)
    stream = creatives_df("AR1", stream=True)
    sizes = []
    for batch in stream:
        sizes.append(len(batch))
        PORTAL.run(asyncio.sleep(0))
        assert len(service.posted(paths.CREATIVES)) <= len(sizes) + 1
    assert sizes == [40, 40, 20]
    assert stream.receipt is not None
    assert stream.receipt["counts"]["rows"] == 100
    joined = pd.concat(list(creatives_df("AR1", stream=True, limit=100)), ignore_index=True)
    assert joined.equals(creatives_df("AR1", cache=False))
    for cut in (
        creatives_df("AR1", stream=True, refresh=True, limit=50),
        creatives_df("AR1", stream=True, refresh=True, max_rows=50),
    ):
        assert [len(batch) for batch in cut] == [40, 10]
    assert [len(batch) for batch in creatives_df("AR1", stream=True, limit=3)] == [3]
    assert service.posted(paths.CREATIVES)[-1]["limit"] == 3


@pytest.mark.usefixtures("connected")
def test_interrupted_listing_resumes(service: WireService) -> None:
    service.creatives = creative_rows(100)
    for _ in creatives_df("AR1", stream=True):
        break
    before = len(service.posted(paths.CREATIVES))
    got = pd.concat(list(creatives_df("AR1", stream=True)), ignore_index=True)
    assert got["position"].tolist() == list(range(1, 101))
    assert all(body.get("cursor") for body in service.posted(paths.CREATIVES)[before:])
    # It is whole now: the next one begins anew.
    list(creatives_df("AR1", stream=True))
    assert not service.posted(paths.CREATIVES)[-3].get("cursor")


@pytest.mark.usefixtures("connected")
def test_page_error_follows_earlier_pages(service: WireService) -> None:
    service.creatives = creative_rows(100)

    def broken(path: str, _query: dict[str, str]) -> Response | None:
        body = service.requests[-1].body or {}
        wrong = path == paths.CREATIVES and body.get("cursor") == "80"
        return JSONResponse({"detail": "down"}, 501) if wrong else None

    service.fault = broken
    got: list[pd.DataFrame] = []
    with pytest.raises(IncompleteResult, match="80 of an unknown number"):
        got.extend(creatives_df("AR1", stream=True))
    assert sum(map(len, got)) == 80
    service.fault = lambda _path, _query: None
    assert sum(map(len, creatives_df("AR1", stream=True))) == 100


@pytest.mark.usefixtures("connected")
def test_only_new_yields_new_creatives(service: WireService) -> None:
    service.creatives = creative_rows(50)
    creatives_df("AR1")
    service.creatives = creative_rows(55)
    new = pd.concat(list(creatives_df("AR1", stream=True, only_new=True)), ignore_index=True)
    assert new["position"].tolist() == [51, 52, 53, 54, 55]


@pytest.mark.usefixtures("connected")
def test_several_advertisers(service: WireService) -> None:
    service.creatives = creative_rows(50)
    stream = creatives_df(["AR1", "AR2"], region=["US", "DE"], stream=True)
    joined = pd.concat(list(stream), ignore_index=True)
    assert joined.groupby(["advertiser", "region"]).size().tolist() == [50] * 4
    assert joined["success"].all()


# ------------------------------------------------------------------------------------ all of them

Start = Callable[[], FrameStream]


def stream_starts() -> dict[str, tuple[Start, int]]:
    """Return how each kind of job is streamed, and how many jobs that makes."""
    return {
        "search": (lambda: search_df("q", stream=True), 1),
        "searches": (lambda: search_df(SEVERAL, stream=True), 3),
        "crawl": (lambda: crawl_df(SITE, stream=2), 1),
    }


@pytest.fixture(params=sorted(stream_starts()))
def endless(request: pytest.FixtureRequest, service: WireService) -> tuple[Start, int]:
    """Give a stream whose jobs have some rows, and run until they are cancelled."""
    rows = search_rows(2)
    one = {"completed_results": 1}
    service.search = JobScript([rows[0], unread(rows[1])], running=True, reply_fields=one)
    service.crawl = JobScript(crawl_rows(3), running=True)
    return stream_starts()[request.param]


class ReaderStopped(Exception):
    """The reader has had enough."""


def broken_off(start: Start) -> None:
    for _ in start():
        break


def raised(start: Start) -> None:
    def read() -> None:
        for _ in start():
            raise ReaderStopped

    with pytest.raises(ReaderStopped):
        read()


def closed(start: Start) -> None:
    frames = iter(start())
    next(frames)
    frames.close()  # type: ignore[attr-defined]


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("leave", [broken_off, raised, closed])
def test_leaving_loop_cancels_running_jobs(
    service: WireService, endless: tuple[Start, int], leave: Callable[[Start], None]
) -> None:
    start, count = endless
    leave(start)
    statuses = service.final_statuses()
    assert statuses == ["cancelled"] * len(statuses)
    assert 1 <= len(statuses) <= count


@pytest.mark.usefixtures("connected")
def test_ctrl_c_cancels_running_jobs(service: WireService, endless: tuple[Start, int]) -> None:
    start, count = endless
    thread = interrupt_when_running(service)
    stream = start()
    with pytest.raises(KeyboardInterrupt):
        for _ in stream:
            pass
    thread.join()
    assert set(service.final_statuses()) == {"cancelled"}
    assert len(service.jobs) <= count
    assert stream.receipt is not None
    assert stream.receipt["status"] in {"cancelled", "partial"}


@pytest.mark.usefixtures("connected")
async def test_async_loop_closed_or_cancelled(
    service: WireService, endless: tuple[Start, int]
) -> None:
    start, count = endless
    async with aclosing(aiter(start())) as frames:
        async for _ in frames:
            break
    assert set(await asyncio.to_thread(service.final_statuses)) == {"cancelled"}
    service.jobs.clear()

    async def read() -> None:
        async for _ in start():
            pass

    task = asyncio.create_task(read())
    await until(lambda: len(service.jobs) == count)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert set(await asyncio.to_thread(service.final_statuses)) == {"cancelled"}


@pytest.mark.usefixtures("connected")
def test_job_cancelled_elsewhere_ends_stream(service: WireService) -> None:
    rows = search_rows(2)
    one = {"completed_results": 1}
    service.search = JobScript([rows[0], unread(rows[1])], running=True, reply_fields=one)
    for how in ("raise", "partial"):
        got: list[int] = []

        def read(how: Any, got: list[int]) -> None:
            for batch in search_df("q", stream=True, on_cancel=how):
                got.append(len(batch))
                for job in service.jobs.values():
                    job.cancelled = True

        if how == "raise":
            with pytest.raises(JobCancelled):
                read(how, got)
        else:
            read(how, got)
        assert got == [1, 1]


@pytest.fixture
def clicks(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """Collect what the Cancel buttons of later calls do."""
    found: list[Callable[[], object]] = []

    def listener(
        view: View, want: Any, *, cancel: Callable[[], object], **options: Any
    ) -> Listener:
        found.append(cancel)
        return Listener(view, want, cancel=cancel, **options)

    monkeypatch.setattr("webdata_nb.toolkit.jobs.sources.Listener", listener)
    return found


@pytest.mark.usefixtures("connected")
def test_cancel_button_ends_every_job(
    service: WireService, endless: tuple[Start, int], clicks: list[Callable[[], object]]
) -> None:
    start, count = endless
    stream = start()

    def read() -> None:
        for _ in stream:
            clicks[0]()

    with pytest.raises(JobCancelled):
        read()
    assert set(service.final_statuses()) == {"cancelled"}
    assert len(service.jobs) <= count
    assert stream.receipt is not None
    assert stream.receipt["status"] in {"cancelled", "partial"}


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("how", ["raise", "partial"])
def test_cancel_button_ends_listing_between_pages(
    service: WireService, clicks: list[Callable[[], object]], how: Any
) -> None:
    service.creatives = creative_rows(400)
    got: list[int] = []

    def read() -> None:
        for batch in creatives_df("AR1", stream=True, on_cancel=how):
            got.append(len(batch))
            clicks[0]()
            PORTAL.run(asyncio.sleep(0))

    if how == "raise":
        with pytest.raises(JobCancelled):
            read()
    else:
        read()
    assert 1 <= len(got) <= 3


@pytest.mark.usefixtures("connected")
def test_slow_reader_limits_read_ahead(service: WireService) -> None:
    service.crawl = JobScript(crawl_rows(400))
    pages = []
    for number, _ in enumerate(crawl_df(SITE, stream=10)):
        weights_df()  # the portal has had its turn by now
        pages = [each for each in service.requests if each.query.get("per_page") == "10"]
        assert len(pages) <= number + 2
    assert len(pages) == 40


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("elsewhere", [False, True])
def test_out_writes_dataset_for_every_kind(
    service: WireService, tmp_path: Path, *, elsewhere: bool
) -> None:
    service.creatives = creative_rows(50)
    service.search = JobScript(search_rows(5))
    calls: list[Callable[..., FrameStream]] = [
        lambda **how: search_df(SEVERAL, stream=2, **how),
        lambda **how: crawl_df(SITE, stream=2, **how),
        lambda **how: creatives_df("AR1", stream=True, **how),
    ]
    for number, call in enumerate(calls):
        name = f"out{number}-{tmp_path.name}"
        out = f"memory://{name}" if elsewhere else tmp_path / name
        count = sum(len(batch) for batch in call(out=out))
        system = fsspec.filesystem("memory") if elsewhere else None
        location = f"/{name}" if elsewhere else tmp_path / name
        found = ds.dataset(location, filesystem=system, partitioning="hive")
        assert found.count_rows() == count == (15, 5, 50)[number]
        assert "job_id" in found.schema.names


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("elsewhere", [False, True])
def test_dataset_holds_each_job_once(tmp_path: Path, *, elsewhere: bool) -> None:
    crawl_df(SITE)
    out = f"memory://twice-{tmp_path.name}" if elsewhere else tmp_path / "twice"
    for size in (2, 5):
        list(crawl_df(SITE, stream=size, out=out))
    system = fsspec.filesystem("memory") if elsewhere else None
    location = f"/twice-{tmp_path.name}" if elsewhere else out
    assert ds.dataset(location, filesystem=system, partitioning="hive").count_rows() == 5


@pytest.mark.slow
@pytest.mark.usefixtures("connected")
def test_stream_from_cache_recording_and_stale_result(service: WireService, tmp_path: Path) -> None:
    whole = search_df(SEVERAL)
    before = len(service.requests)
    stream = search_df(SEVERAL, stream=True)
    rows = pd.concat(list(stream)).sort_values(["query", "rank"], ignore_index=True)
    assert rows.drop(columns="fetched_at").equals(whole.drop(columns="fetched_at"))
    assert len(service.requests) == before
    assert stream.receipt is not None
    assert stream.receipt["inputs"]["cached"] == 3

    with record(tmp_path / "tape"):
        fresh = list(search_df("x", stream=True, cache=False))
        creatives = list(creatives_df("AR1", stream=True, cache=False))
        service.crawl = JobScript(crawl_rows(45))
        for _ in crawl_df(SITE, stream=True, cache=False):
            break  # what was left early is not recorded
    service.fault = lambda _path, _query: JSONResponse({"detail": "down"}, 501)
    with replay(tmp_path / "tape"):
        assert pd.concat(list(search_df("x", stream=True))).equals(pd.concat(fresh))
        assert search_df("x").equals(pd.concat(fresh))
        assert pd.concat(list(creatives_df("AR1", stream=True))).equals(pd.concat(creatives))
        with pytest.raises(webdata_nb.errors.NotRecorded):
            list(crawl_df(SITE, stream=True))

    service.fault = lambda _path, _query: None
    search_df("old")
    service.fault = lambda _path, _query: JSONResponse({"detail": "down"}, 500)
    with pytest.warns(UserWarning, match="using a cached result"):
        old = list(search_df("old", stream=True, refresh=True, stale_if_error=True))
    assert receipt_of(old[0])["cache"] == "stale"


@pytest.mark.usefixtures("connected")
def test_meaningless_arguments_are_rejected(service: WireService, tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - for this line alone

    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (search_df, {"stream": 0}, "stream must be True, False or the rows of each frame"),
        (creatives_df, {"stream": 1}, "stream must be True or False"),
        (search_df, {"stream": True, "out": tmp_path / "x.parquet"}, "directory"),
        (search_df, {"stream": True, "out": "memory://x.parquet"}, "directory"),
        (search_df, {"stream": True, "out": "nosuch://x"}, "nosuch"),
        (creatives_df, {"stream": True, "out": 5}, "path"),
        (creatives_df, {"stream": True, "limit": 0}, "limit"),
        (creatives_df, {"stream": True, "executor": ThreadPoolExecutor()}, "stream=False"),
    ]
    for function, arguments, words in wrong:
        with pytest.raises(InvalidArgument, match=words):
            function("q", **arguments)
    assert service.requests == []


@pytest.fixture
def local_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """Give a session on a local service of its own."""
    monkeypatch.setenv("WEBDATA_HOME", str(tmp_path))
    with connect() as made:
        yield made
    stop(settings.current())


@pytest.mark.slow
async def test_with_the_events_of_a_real_service(
    sample_site: SampleSite, local_session: Session
) -> None:
    await local_session.acrawl_df(sample_site.url, max_pages=10)
    query = "aurora forecast"
    stream = await asearch_df(query, stream=3, session=local_session)
    batches = [batch async for batch in stream]
    joined = pd.concat(batches, ignore_index=True).sort_values("rank", ignore_index=True)
    whole = await local_session.asearch_df(query)
    assert joined["url"].tolist() == whole["url"].tolist()
    assert joined["markdown"].equals(whole["markdown"])
    assert joined["scraped"].all()
    assert stream.receipt is not None
    assert stream.receipt["counts"]["rows"] == len(whole) > 1
