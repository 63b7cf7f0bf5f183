"""A job in hand: watched, cancelled, retried, collected once, and found again."""

from __future__ import annotations

import asyncio
import gc
import pickle
import sys
import threading
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import polars as pl
import pytest
from starlette.responses import JSONResponse, Response

from tests.api.receipts import SECRET, SITE, frames_equal, receipt_of
from tests.service.exports import jobs as exported
from tests.wire_service import JobScript, WireService, crawl_rows, search_rows
from webdata_nb.contract import paths
from webdata_nb.contract.events import Done, Progress
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.errors import (
    ConnectionFailed,
    Expired,
    InvalidArgument,
    JobCancelled,
    JobTimeout,
    MissingExtra,
    NotFound,
    WrongState,
)
from webdata_nb.service.routes.results import FORMATS
from webdata_nb.toolkit import session
from webdata_nb.toolkit.api import (
    Job,
    Session,
    ajob,
    asearch_job,
    crawl_df,
    crawl_job,
    export_df,
    job,
    search_df,
    search_job,
)


@pytest.mark.usefixtures("connected")
def test_job_gives_frame_of_call_and_fills_its_cache(service: WireService) -> None:
    started_job = crawl_job(SITE, max_pages=5, scrape_options={"formats": ["links"]})
    assert started_job.wait() == started_job.status == "completed"
    assert (started_job.kind, started_job.subject, started_job.progress.completed) == (
        "crawl",
        SITE,
        5,
    )
    df = started_job.df()
    assert receipt_of(df)["job_id"] == started_job.job_id
    # The same question, asked by the function: the cache knows it already.
    crawled = crawl_df(SITE, max_pages=5, scrape_options={"formats": ["links"]})
    assert frames_equal(df, crawled)
    assert receipt_of(crawled)["cache"] == "hit"
    assert len(service.jobs) == 1


@pytest.mark.usefixtures("connected")
def test_waiting_and_then_collecting_shows_one_bar_that_ends_as_the_receipt(
    service: WireService, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "webdata_nb")
    service.crawl.rows = crawl_rows(5)
    started_job = crawl_job(SITE, max_pages=5)
    started_job.wait(progress="log")
    df = started_job.df(progress="log")
    messages = [each.getMessage() for each in caplog.records if SITE in each.getMessage()]
    assert messages[0] == f"crawl {SITE}: started"
    assert len(messages) == 2
    assert messages[1].startswith(f"crawl {SITE}: 5 rows; ")
    assert receipt_of(df)["line"].startswith(f"crawl {SITE}: 5 rows; ")


@pytest.mark.usefixtures("connected")
def test_collecting_without_waiting_shows_the_bar(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "webdata_nb")
    df = crawl_job(SITE, max_pages=5).df(progress="log")
    assert f"{receipt_of(df)['line'].split(';')[0]}; " in caplog.records[-1].getMessage()


@pytest.mark.usefixtures("connected")
def test_webhook_is_sent_but_not_stored(service: WireService, cached: Path) -> None:
    hook: Any = {"webhook_url": "https://hooks.test/t0ken", "webhook_secret": SECRET}
    starts: list[tuple[Any, Any, str]] = [
        (crawl_job, crawl_df, SITE),
        (search_job, search_df, "q"),
    ]
    for start, ask, subject in starts:
        started_job = start(subject, **hook)
        sent = service.jobs[started_job.job_id].body
        assert {name: sent[name] for name in hook} == hook
        df = started_job.df()
        # It decides nothing about the answer.
        again = ask(subject)
        assert receipt_of(again)["cache"] == "hit"
        assert frames_equal(df, again)
        for text in (repr(started_job), repr(df.attrs), repr(again.attrs)):
            assert SECRET not in text
            assert "t0ken" not in text
    files = [path for path in cached.rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert SECRET.encode() not in path.read_bytes()
        assert b"t0ken" not in path.read_bytes()
    with pytest.raises(InvalidArgument, match="webhook_secret has a meaning only with"):
        crawl_job(SITE, webhook_secret=SECRET)
    with pytest.raises(InvalidArgument, match="webhook_url"):
        search_job("q", webhook_url="hooks.test")


@pytest.mark.usefixtures("connected")
def test_start_returns_at_once_and_cancel_ends_job(service: WireService) -> None:
    service.crawl = JobScript(crawl_rows(2), running=True)
    started_job = crawl_job(SITE)
    assert started_job.status == "running"
    with pytest.raises(JobTimeout):
        started_job.wait(timeout=0.2)
    assert service.jobs[started_job.job_id].status == "running"
    assert started_job.cancel() is started_job
    assert started_job.cancel().status == service.jobs[started_job.job_id].status == "cancelled"
    with pytest.raises(JobCancelled) as raised:
        started_job.df()
    assert len(raised.value.partial) == 2
    assert len(started_job.df(on_cancel="partial")) == 2


@pytest.mark.usefixtures("connected")
def test_ended_job_is_deleted_at_the_service(service: WireService) -> None:
    service.crawl = JobScript(crawl_rows(2), running=True)
    started_job = crawl_job(SITE)
    with pytest.raises(WrongState):
        started_job.delete()
    started_job.cancel()
    started_job.delete()
    assert started_job.job_id not in service.jobs
    with pytest.raises(NotFound):
        started_job.delete()


@pytest.mark.usefixtures("connected")
def test_ended_job_cannot_be_cancelled_and_only_failed_job_retried(
    service: WireService,
) -> None:
    done = search_job("q")
    with pytest.raises(WrongState):
        done.cancel()
    with pytest.raises(WrongState):
        done.retry()
    service.search = JobScript([], status="failed")
    failed = search_job("q", headers={"X-Key": SECRET})
    service.search = JobScript(search_rows(3))
    again = failed.retry()
    assert again.job_id != failed.job_id
    assert len(again.df()) == 3
    assert len(export_df(again.job_id)) == 3


@pytest.mark.usefixtures("connected")
def test_job_is_found_after_kernel_restart(service: WireService, cached: Path) -> None:
    started_job = search_job("q", formats=["links"], headers={"X-Key": SECRET})
    found = job(started_job.job_id)
    assert (found.kind, found.subject, found.status) == ("search", "q", "completed")
    df = found.df()
    assert list(df.columns) == list(search_df("q", formats=["links"], cache=False).columns)
    # Collected once: later on nobody needs the service.
    before = len(service.requests)
    assert frames_equal(df, export_df(started_job.job_id))
    assert receipt_of(export_df(started_job.job_id))["cache"] == "hit"
    assert len(service.requests) == before
    cache_json = b"".join(path.read_bytes() for path in cached.rglob("*.json"))
    assert b"links" in cache_json
    assert SECRET.encode() not in cache_json


@pytest.mark.usefixtures("connected")
def test_foreign_job_shows_every_column(service: WireService, cached: Path) -> None:
    started_job = crawl_job(SITE)
    for ticket in cached.rglob("*.json"):
        ticket.unlink()
    df = job(started_job.job_id).df()
    assert {"markdown", "links", "screenshot", "extra"} <= set(df.columns)
    assert df["url"].tolist() == [row["url"] for row in service.crawl.rows]
    before = len(service.requests)
    assert frames_equal(df, export_df(started_job.job_id))
    assert len(service.requests) == before


@pytest.mark.usefixtures("connected")
def test_damaged_job_reference_is_ignored(cached: Path) -> None:
    started_job = crawl_job(SITE)
    for ticket in cached.rglob("*.json"):
        ticket.write_text("{")
    assert len(export_df(started_job.job_id)) == 5


@pytest.mark.usefixtures("connected")
def test_unknown_jobs_raise_not_found(service: WireService) -> None:
    with pytest.raises(NotFound):
        job("5c8d4a48-9d33-4d52-8c1c-3a5d1f0b0a11")
    with pytest.raises(NotFound):
        export_df("5c8d4a48-9d33-4d52-8c1c-3a5d1f0b0a11")
    for wrong in ("", 5, None):
        with pytest.raises(InvalidArgument, match="job_id"):
            job(wrong)  # type: ignore[arg-type]
    service.search = JobScript(
        [], total=3, reply_fields={"result_expired": True, "retention_hours": 48}
    )
    with pytest.raises(Expired, match="48 hours"):
        search_job("q").df()


@pytest.mark.usefixtures("connected")
def test_a_job_as_arrow_and_polars() -> None:
    started_job = crawl_job(SITE, max_pages=5)
    table = started_job.arrow()
    df = started_job.df()
    assert table.column_names == list(df.columns)
    assert b"PANDAS_ATTRS" in (table.schema.metadata or {})
    made = started_job.pl()
    assert isinstance(made, pl.DataFrame)
    assert made["url"].to_list() == df["url"].tolist()
    assert made.schema["depth"] == pl.Int16


@pytest.mark.usefixtures("connected")
def test_without_polars_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtra, match=r"webdata_nb\[polars\]") as raised:
        crawl_job(SITE).pl()
    assert isinstance(raised.value, ImportError)


@pytest.mark.usefixtures("connected")
def test_export_writes_complete_file(service: WireService, tmp_path: Path) -> None:
    started_job = crawl_job(SITE)
    file = started_job.export("json", tmp_path / "pages.json")
    assert file.read_bytes() == b'{"format": "json"}'
    started_job.export("parquet", tmp_path / "pages")
    assert len(pd.read_parquet(tmp_path / "pages")) == 5
    started_job.export("jsonl", tmp_path / "lines.txt")
    assert len((tmp_path / "lines.txt").read_text().splitlines()) == 5
    with pytest.raises(InvalidArgument, match=r"path must end in \.csv; it is .*x\.json"):
        started_job.export("csv", tmp_path / "x.json")
    with pytest.raises(InvalidArgument, match=r"path must end in \.parquet"):
        started_job.export("parquet", tmp_path / "x.CSV")
    with pytest.raises(InvalidArgument, match="'parquet'"):
        started_job.export("xlsx", tmp_path / "x.xlsx")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="directory that exists"):
        started_job.export("csv", tmp_path / "nowhere" / "x.csv")
    service.cut_exports = True
    with pytest.raises(ConnectionFailed):
        started_job.export("zip", tmp_path / "half.zip")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [
        "lines.txt",
        "pages",
        "pages.json",
    ]


@pytest.mark.parametrize("form", ["json", "csv", "zip"])
@pytest.mark.usefixtures("connected")
def test_partial_export_warns(
    service: WireService, tmp_path: Path, form: Literal["json", "csv", "zip"]
) -> None:
    started_job, path = crawl_job(SITE), tmp_path / f"pages.{form}"
    write, _ = FORMATS[form]
    for state in JobStatus:
        job = replace(exported.job_of("crawl"), state=state)
        rows = exported.RowsInMemory(exported.crawl_row(1), exported.crawl_row(2))
        service.exported = asyncio.run(exported.read_all(write(job, rows)))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert started_job.export(form, path).read_bytes() == service.exported
        messages = [str(each.message) for each in caught if "partial export" in str(each.message)]
        assert len(messages) == (state is not JobStatus.COMPLETED)


@pytest.mark.usefixtures("connected")
def test_events_in_plain_loop_end_with_done(service: WireService) -> None:
    started_job = crawl_job(SITE)
    events = list(started_job.events())
    assert isinstance(events[0], Progress)
    assert isinstance(events[-1], Done)
    service.crawl = JobScript(crawl_rows(2), running=True)
    running = crawl_job(SITE)
    for _ in running.events():
        break
    assert service.jobs[running.job_id].status == "running"


async def test_every_method_has_async_twin(connected: Session) -> None:
    started_job = await connected.acrawl_job(SITE)
    assert [event async for event in started_job.events()]
    assert await started_job.await_() == (await started_job.apoll()).status == "completed"
    df = await started_job
    assert frames_equal(df, await started_job.adf())
    assert frames_equal(df, await (await ajob(started_job.job_id, session=connected)).adf())
    both = await asyncio.gather(
        asearch_job("a", session=connected), asearch_job("b", session=connected)
    )
    assert [await each.await_() for each in both] == ["completed"] * 2


@pytest.mark.usefixtures("connected")
def test_display_sends_no_request_and_escapes_markup(service: WireService) -> None:
    started_job = search_job("<script>alert(1)</script>")
    before = len(service.requests)
    bundle: dict[str, Any] = started_job._repr_mimebundle_()
    assert started_job.job_id in repr(started_job)
    assert bundle["text/plain"] == repr(started_job)
    assert "<script>" not in bundle["text/html"]
    assert "&lt;script&gt;" in bundle["text/html"]
    assert len(service.requests) == before


@pytest.mark.usefixtures("connected")
def test_pickled_job_is_same_job() -> None:
    started_job = crawl_job(SITE)
    before = set(session._OPEN)
    copy: Job = pickle.loads(pickle.dumps(started_job))
    assert copy.job_id == started_job.job_id
    assert frames_equal(copy.df(), started_job.df())
    # The copy has a connection of its own, which ends with it. Those of earlier tests may end, too.
    assert set(session._OPEN) - before
    del copy
    gc.collect()
    for _ in range(600):
        if set(session._OPEN) <= before:
            break
        time.sleep(0.05)
    assert set(session._OPEN) <= before


@pytest.mark.usefixtures("connected")
def test_interrupted_wait_leaves_job_running(service: WireService) -> None:
    import _thread  # noqa: PLC0415 - the one test that needs it

    service.crawl = JobScript(crawl_rows(2), running=True)
    started_job = crawl_job(SITE)

    def press() -> None:
        if service.polled.wait(30):
            _thread.interrupt_main()

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        started_job.wait()
    thread.join()
    assert service.jobs[started_job.job_id].status == "running"


@pytest.mark.usefixtures("connected")
def test_rejected_start_raises_service_message(service: WireService) -> None:
    def full(path: str, _query: dict[str, str]) -> Response | None:
        return JSONResponse({"detail": "no"}, 422) if path == paths.CRAWL else None

    service.fault = full
    with pytest.raises(Exception, match="the service refuses the request: no"):
        crawl_job(SITE)
