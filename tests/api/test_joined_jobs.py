"""Calls join the job that a dead call of the same request has left, and no other one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pytest
from starlette.responses import JSONResponse

import webdata_nb
from tests.api.receipts import SITE, receipt_of
from tests.local_service import stop
from tests.preloaded import ForkedProcess, PreloadedInterpreter
from tests.site.graphs import link_tree
from tests.site.server import Site
from tests.site.versions import text_page, varied_site
from tests.wire.waiting import until
from tests.wire_service import KEY, JobScript, WireService, crawl_rows, search_rows
from webdata_nb import connect, crawl_df, job, settings, watch_df
from webdata_nb.contract import paths
from webdata_nb.errors import JobFailed, JobTimeout
from webdata_nb.toolkit.api import Session

# One call of each form; `stream` reads the rows of its frames.
FORMS: Final = {
    "crawl": "session.crawl_df(url)",
    "crawl to a file": "session.crawl_df(url, out=out)",
    "crawl with extract": "session.crawl_df(url, extract={'price': {'type': 'number'}})",
    "stream": "pd.concat(session.crawl_df(url, stream=2))",
    "scrape": "session.scrape_df(url)",
    "list": "session.crawl_df([url])",
    "search": "session.search_df('rain')",
    "brief search": "session.search_df('rain', formats=[])",
    "search stream": "pd.concat(session.search_df('rain', stream=True))",
    "watch": "session.watch_df(url, out=out)",
}
USUAL_FORMS: Final = {"crawl", "stream", "list", "search", "watch"}
INTERPRETER: Final = PreloadedInterpreter("import pandas, webdata_nb.toolkit.api")
SCRIPT: Final = """
import sys
import pandas as pd
from webdata_nb import connect
url, out = sys.argv[3:5]
session = connect(base_url=sys.argv[1] or None, api_key=sys.argv[2] or None)
"""


def run_form(code: str, session: Any, url: str, out: str | Path) -> pd.DataFrame:
    names = {"session": session, "url": url, "out": out, "pd": pd}
    df: pd.DataFrame = eval(code, names)
    return df


@contextmanager
def caller(
    code: str, out: Path, *, base_url: str = "", key: str = "", url: str = SITE
) -> Iterator[ForkedProcess]:
    """Run a call in another process, which is killed at the end of the block."""
    process = INTERPRETER.start(SCRIPT + code, base_url, key, url, str(out))
    try:
        yield process
    finally:
        process.kill()
        process.wait(60)


def wait_for_poll(service: WireService, process: ForkedProcess) -> None:
    """Wait until the call of a process waits for its job."""
    while not service.polled.wait(0.1):
        assert process.poll() is None, "the call failed"


def abandon(
    service: WireService, code: str, out: Path, *, end: signal.Signals = signal.SIGKILL
) -> str:
    """Kill a call while its job runs, and return the id of the job."""
    service.search.running = service.crawl.running = True
    before = set(service.jobs)
    service.polled.clear()
    with caller(code, out, base_url=service.url, key=KEY) as process:
        wait_for_poll(service, process)
        process.send_signal(end)
        process.wait(60)
    (job_id,) = set(service.jobs) - before
    assert service.jobs[job_id].status == ("cancelled" if end == signal.SIGINT else "running")
    service.polled.clear()
    return job_id


def finish(service: WireService) -> None:
    service.search.running = service.crawl.running = False


def finish_after_poll(service: WireService) -> None:
    assert service.polled.wait(60)
    finish(service)


def has_joined(df: pd.DataFrame) -> bool:
    return bool(receipt_of(df).get("joined"))


# What is joined


@pytest.mark.parametrize(
    ("form", "runs_on"),
    [
        pytest.param(
            *(form, runs_on), marks=() if runs_on and form in USUAL_FORMS else pytest.mark.slow
        )
        for form in FORMS
        for runs_on in (False, True)
    ],
)
def test_same_call_joins_the_job_of_a_killed_one(
    service: WireService, connected: Session, tmp_path: Path, form: str, *, runs_on: bool
) -> None:
    service.offers_extended_crawls = True
    service.crawl.rows = crawl_rows(1 if form == "scrape" else 5)
    out = tmp_path / ("changes.parquet" if form == "watch" else "rows.parquet")
    end = signal.SIGKILL if runs_on else signal.SIGTERM
    job_id = abandon(service, FORMS[form], out, end=end)
    timers: list[threading.Thread] = []
    if runs_on:
        timers.append(threading.Thread(target=finish_after_poll, args=[service]))
        timers[0].start()
    else:
        finish(service)
    df = run_form(FORMS[form], connected, SITE, out)
    for timer in timers:
        timer.join()
    assert list(service.jobs) == [job_id]
    if form == "watch":
        assert receipt_of(df)["job_id"] == job_id
        assert df.empty
    else:
        assert len(df) == len((service.search if "search" in form else service.crawl).rows)
    if form in {"scrape", "list"}:
        assert receipt_of(df)["runs"][0]["joined"]
    elif "stream" not in form:
        assert has_joined(df)
        assert "joined the job of an earlier call" in receipt_of(df)["line"]
    assert not list(webdata_nb.cache.path().rglob("*.claim"))
    assert not list(webdata_nb.cache.path().glob("v1/*/*/*.lock"))


@pytest.mark.slow
def test_a_stream_says_that_it_joined_and_reads_from_the_first_row(
    service: WireService, connected: Session, tmp_path: Path
) -> None:
    abandon(service, FORMS["stream"], tmp_path)
    finish(service)
    stream = connected.crawl_df(SITE, stream=2, out=tmp_path / "rows")
    assert [len(batch) for batch in stream] == [2, 2, 1]
    assert stream.receipt is not None
    assert stream.receipt["joined"]
    assert len(pd.read_parquet(tmp_path / "rows")) == 5


def test_the_form_of_the_call_does_not_matter(
    service: WireService, connected: Session, tmp_path: Path
) -> None:
    job_id = abandon(service, FORMS["stream"], tmp_path)
    finish(service)
    joined = connected.crawl_df(SITE, out=tmp_path / "rows.parquet", dtype_backend="pyarrow")
    assert has_joined(joined)
    assert list(service.jobs) == [job_id]


@pytest.mark.slow
def test_a_call_that_is_killed_while_it_joins_leaves_the_job_to_the_next(
    service: WireService, connected: Session, tmp_path: Path
) -> None:
    job_id = abandon(service, FORMS["crawl"], tmp_path)
    with caller(FORMS["crawl"], tmp_path, base_url=service.url, key=KEY) as process:
        wait_for_poll(service, process)
        process.kill()
    finish(service)
    assert has_joined(connected.crawl_df(SITE))
    assert list(service.jobs) == [job_id]


@pytest.mark.slow
def test_a_call_joins_the_job_that_its_timeout_left_running(
    service: WireService, connected: Session
) -> None:
    service.crawl = JobScript(crawl_rows(2), running=True)
    for stream in (False, True):
        service.jobs.clear()
        job_ids = set()
        for _ in range(2):
            with pytest.raises(JobTimeout) as raised:
                list(connected.crawl_df(SITE, stream=stream, timeout=1))
            job_ids.add(raised.value.job_id)
        assert job_ids == set(service.jobs)
        assert len(job_ids) == 1
    finish(service)
    assert has_joined(connected.crawl_df(SITE))


@pytest.mark.slow
def test_a_start_without_an_answer_is_found_by_its_key(
    service: WireService, connected: Session, tmp_path: Path
) -> None:
    service.honours_idempotency_keys = True
    job_id = abandon(service, FORMS["crawl"], tmp_path)
    (path,) = webdata_nb.cache.path().rglob("*.claim")
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "job_id": None}))
    finish(service)
    assert len(connected.crawl_df(SITE)) == 5
    assert list(service.jobs) == [job_id]


def test_the_notice_names_the_job(
    service: WireService,
    connected: Session,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    job_id = abandon(service, FORMS["crawl"], tmp_path)
    finish(service)
    caplog.set_level("INFO", logger="webdata_nb")
    connected.crawl_df(SITE, progress=True)
    shown = capsys.readouterr().err + caplog.text
    assert f"joins job {job_id}" in shown
    assert "refresh=True" in shown


# What is not


def set_failed(service: WireService, job_id: str) -> None:
    service.jobs[job_id].script = JobScript([], status="failed", error="down")


def set_cancelled(service: WireService, job_id: str) -> None:
    service.jobs[job_id].cancelled = True


def set_expired(service: WireService, job_id: str) -> None:
    expired = {"result_expired": True, "retention_hours": 48}
    service.jobs[job_id].script = JobScript([], reply_fields=expired)


def forget(service: WireService, job_id: str) -> None:
    del service.jobs[job_id]


@pytest.mark.slow
@pytest.mark.parametrize("lost", [set_failed, set_cancelled, set_expired, forget])
@pytest.mark.parametrize("form", ["crawl", "search"])
def test_a_job_without_rows_is_not_joined(
    service: WireService,
    connected: Session,
    tmp_path: Path,
    form: str,
    lost: Callable[[WireService, str], None],
) -> None:
    job_id = abandon(service, FORMS[form], tmp_path)
    finish(service)
    service.search, service.crawl = JobScript(search_rows(3)), JobScript(crawl_rows(5))
    lost(service, job_id)
    df = run_form(FORMS[form], connected, SITE, tmp_path)
    assert df["success"].all()
    assert receipt_of(df)["job_id"] != job_id
    assert not has_joined(df)


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "session.crawl_df(url, refresh=True)",
        "session.crawl_df(url, cache=False)",
        "session.crawl_df(url, ttl=0.001)",
        "session.crawl_df(url, max_pages=7)",
        "pd.concat(session.crawl_df(url, stream=True, refresh=True))",
    ],
)
def test_a_call_that_the_rows_would_not_answer_starts_a_job(
    service: WireService, connected: Session, tmp_path: Path, code: str
) -> None:
    service.crawl.reply_fields["time_taken"] = 0.0
    abandon(service, FORMS["crawl"], tmp_path)
    finish(service)
    assert len(run_form(code, connected, SITE, tmp_path)) == 5
    assert len(service.jobs) == 2


@pytest.mark.slow
def test_a_job_of_another_key_or_service_is_not_joined(
    service: WireService, tmp_path: Path
) -> None:
    abandon(service, FORMS["crawl"], tmp_path)
    finish(service)
    service.api_keys.add("another-key")
    with connect(base_url=service.url, api_key="another-key") as other:
        assert not has_joined(other.crawl_df(SITE))
    with WireService() as another, connect(base_url=another.url, api_key=KEY) as session:
        assert not has_joined(session.crawl_df(SITE))
        assert len(another.jobs) == 1
    assert len(service.jobs) == 2


@pytest.mark.slow
def test_refresh_forgets_what_dead_calls_left(
    service: WireService, connected: Session, tmp_path: Path
) -> None:
    abandon(service, FORMS["crawl"], tmp_path)
    finish(service)
    connected.crawl_df(SITE, refresh=True)
    assert not has_joined(connected.crawl_df(SITE, ttl=0))
    abandon(service, "session.crawl_df(url, refresh=True)", tmp_path)
    webdata_nb.cache.clear(site=SITE)
    finish(service)
    assert not has_joined(connected.crawl_df(SITE))


def test_an_interrupted_call_cancels_its_job_and_leaves_none(
    service: WireService, connected: Session, tmp_path: Path
) -> None:
    abandon(service, FORMS["crawl"], tmp_path, end=signal.SIGINT)
    assert not list(webdata_nb.cache.path().rglob("*.claim"))
    finish(service)
    assert not has_joined(connected.crawl_df(SITE))
    assert len(service.jobs) == 2


async def test_cancelling_the_joining_call_cancels_the_job(
    service: WireService, connected: Session, tmp_path: Path
) -> None:
    job_id = await asyncio.to_thread(abandon, service, FORMS["crawl"], tmp_path)
    joining = asyncio.create_task(connected.acrawl_df(SITE))
    await until(service.polled.is_set)
    joining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await joining
    assert service.jobs[job_id].status == "cancelled"
    finish(service)
    assert not has_joined(await connected.acrawl_df(SITE))


def test_the_job_of_a_living_call_is_its_own(service: WireService, connected: Session) -> None:
    stream = iter(connected.crawl_df(SITE, stream=2))
    next(stream)
    assert not has_joined(connected.crawl_df(SITE))
    assert len(service.jobs) == 2
    assert sum(map(len, stream)) == 3


@pytest.mark.usefixtures("connected")
def test_a_job_that_failed_under_the_call_is_not_joined(service: WireService) -> None:
    service.crawl = JobScript([], status="failed", error="down")
    for _ in range(2):
        with pytest.raises(JobFailed):
            crawl_df(SITE)
    assert len(service.jobs) == 2
    service.fault = lambda path, _query: (
        JSONResponse({"detail": "no"}, 422) if path == paths.CRAWL else None
    )
    with pytest.raises(Exception, match="no"):
        crawl_df(SITE)
    assert not list(webdata_nb.cache.path().rglob("*.claim"))


@pytest.mark.slow
@pytest.mark.usefixtures("connected")
def test_a_damaged_claim_and_a_cache_that_cannot_be_written_are_no_obstacle(
    service: WireService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    abandon(service, FORMS["crawl"], tmp_path)
    finish(service)
    (path,) = webdata_nb.cache.path().rglob("*.claim")
    for text in ("{", "[]", '{"a": 1}'):
        path.write_text(text)
        assert len(crawl_df(SITE, ttl=0)) == 5
        assert not path.exists()
    monkeypatch.setenv("WEBDATA_CACHE", "/proc/none")
    with pytest.warns(UserWarning, match="cannot be written"):
        assert len(crawl_df(SITE)) == 5


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_the_children_of_a_killed_call_do_not_hold_its_claim(
    service: WireService, connected: Session, tmp_path: Path
) -> None:
    code = """
import os, threading, time
from webdata_nb import crawl_df
threading.Thread(target=lambda: session.crawl_df(url), daemon=True).start()
time.sleep(2)
child = os.fork()
if child == 0:
    time.sleep(60)
    os._exit(0)
open(out, "w").write(str(child))
time.sleep(60)
"""
    service.crawl.running = True
    child = tmp_path / "child"
    with caller(code, child, base_url=service.url, key=KEY) as process:
        while not (child.exists() and child.read_text()):
            time.sleep(0.05)
        process.kill()
    finish(service)
    try:
        assert has_joined(connected.crawl_df(SITE, timeout=20))
    finally:
        os.kill(int(child.read_text()), signal.SIGKILL)
    assert len(service.jobs) == 1


# With the local service, and a site that counts requests


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("home")
        patch.setenv("WEBDATA_HOME", str(folder))
        yield folder
        stop(settings.current())


@pytest.fixture
def tree(home: Path) -> Iterator[tuple[Site, tuple[str, ...]]]:
    assert home  # of the service
    with Site() as site:
        yield site, link_tree(site, depth=2, fanout=7)


LOCAL_FORMS: Final = {
    "crawl": "session.crawl_df(url)",
    "out": "session.crawl_df(url, out=out + '.parquet')",
    "stream": "pd.concat(session.crawl_df(url, stream=True))",
    "stream with out": "pd.concat(session.crawl_df(url, stream=True, out=out))",
    "extract": "session.crawl_df(url, extract={'price': {'type': 'number'}})",
    "audit": "session.crawl_df(url, audit=True)",
}


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("form", LOCAL_FORMS)
def test_a_killed_crawl_asks_the_site_for_each_page_once(
    tree: tuple[Site, tuple[str, ...]], tmp_path: Path, form: str, end: signal.Signals
) -> None:
    site, pages = tree
    url, gate = site.at(pages[0]), site.hold(pages[20])
    with caller(LOCAL_FORMS[form], tmp_path / "rows", url=url) as process:
        site.wait_for(pages[20])
        process.send_signal(end)
        process.wait(60)
    gate.release()
    with connect() as session:
        df = run_form(LOCAL_FORMS[form], session, url, f"{tmp_path}/rows")
    assert sorted(df["url"]) == sorted(map(site.at, pages))
    assert sorted(path for path in site.paths if path in pages) == sorted(pages)


@pytest.mark.slow
def test_refresh_asks_the_site_again(tree: tuple[Site, tuple[str, ...]], tmp_path: Path) -> None:
    site, pages = tree
    url, gate = site.at(pages[0]), site.hold(pages[20])
    with caller(LOCAL_FORMS["crawl"], tmp_path, url=url) as process:
        site.wait_for(pages[20])
        process.kill()
    gate.release()
    with connect() as session:
        df = session.crawl_df(url, refresh=True)
        assert len(df) == len(pages)
        assert not has_joined(df)
    assert len(site.hits(pages[0])) == 2


@pytest.mark.slow
def test_a_crawl_that_ended_without_its_caller_is_found_after_a_restart(
    tree: tuple[Site, tuple[str, ...]], tmp_path: Path
) -> None:
    site, pages = tree
    url, gate = site.at(pages[0]), site.hold(pages[20])
    with caller(LOCAL_FORMS["crawl"], tmp_path, url=url) as process:
        site.wait_for(pages[20])
        process.kill()
    gate.release()
    with connect() as session:
        (claim,) = webdata_nb.cache.path().rglob("*.claim")
        job_id = json.loads(claim.read_bytes())["job_id"]
        assert job(job_id, session=session).wait() == "completed"
    stop(settings.current())
    with connect() as session:
        df = session.crawl_df(url)
        assert has_joined(df)
        assert receipt_of(df)["job_id"] == job_id
        assert receipt_of(session.crawl_df(url))["cache"] == "hit"
    assert sorted(path for path in site.paths if path in pages) == sorted(pages)


@pytest.mark.slow
@pytest.mark.parametrize("has_file", [True, False])
def test_a_killed_watch_asks_the_site_for_each_page_once(
    home: Path, tmp_path: Path, *, has_file: bool
) -> None:
    assert home
    with Site() as site:
        versions = varied_site(site)
        out = tmp_path / "changes.parquet" if has_file else None
        watch_df(site.url, out=out, columns=["title"])
        versions.change("/p3", text_page(3, "/p7", "/p8", words="other"))
        site.forget()
        gate = site.hold("/p9")
        file = str(out) if has_file else None
        code = f"session.watch_df(url, out={file!r}, columns=['title'])"
        with caller(code, tmp_path, url=site.url) as process:
            site.wait_for("/p9", 2)
            process.kill()
        gate.release()
        found = watch_df(site.url, out=out, columns=["title"])
        assert found["url"].tolist() == [site.at("/p3")]
        assert receipt_of(found)["joined"]
        assert len(site.hits("/p9")) == len(site.hits("/")) == 1
        assert watch_df(site.url, out=out, columns=["title"]).empty
