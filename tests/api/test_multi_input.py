"""Lists multiply into one tidy frame: in order, side by side, and without losing an input."""

from __future__ import annotations

import asyncio
import concurrent.futures
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from starlette.responses import JSONResponse, Response

from tests.api.receipts import SITE, receipt_of
from tests.api.test_interrupts import interrupt_when_running
from tests.wire.waiting import until
from tests.wire_service import JobScript, WireService, crawl_rows, creative_rows, search_rows
from webdata_nb.contract import paths
from webdata_nb.errors import AuthError, InvalidArgument, JobFailed, ServiceFault, WorkerLost
from webdata_nb.toolkit.api import Session, connect, crawl_df, creatives_df, search_df
from webdata_nb.toolkit.bridge import CLEANUP_S, PARTIAL_RESULT_S, PORTAL
from webdata_nb.toolkit.calls import lists


@pytest.mark.usefixtures("connected")
def test_lists_become_combinations_in_order_with_label_columns(service: WireService) -> None:
    df = search_df(["a", "b"], country=["us", "de"], engine=["engine_one", "engine_two"])
    combinations = list(
        df[["query", "engine", "country"]].drop_duplicates().itertuples(index=False)
    )
    assert [tuple(row) for row in combinations] == [
        (query, engine, country)
        for query in ("a", "b")
        for engine in ("engine_one", "engine_two")
        for country in ("us", "de")
    ]
    assert df["rank"].tolist() == [1, 2, 3] * 8
    assert list(df.columns)[:5] == ["query", "engine", "country", "fetched_at", "rank"]
    assert str(df["fetched_at"].dtype) == "datetime64[us, UTC]"
    assert len(service.posted(paths.SEARCH)) == 8
    receipt = receipt_of(df)
    assert receipt["inputs"] == {"total": 8, "failed": 0, "cached": 0}
    assert receipt["counts"]["rows"] == len(df) == 24
    assert {run["job_id"] for run in receipt["runs"]} == set(service.jobs)


@pytest.mark.usefixtures("connected")
def test_each_input_is_cached_separately(service: WireService) -> None:
    search_df("b")
    first = search_df(["a", "b"])
    assert receipt_of(first)["inputs"]["cached"] == 1
    again = search_df(["a", "b"])
    assert first.equals(again)
    assert first.dtypes.equals(again.dtypes)
    assert receipt_of(again)["cache"] == "hit"
    assert len(service.posted(paths.SEARCH)) == 2
    # A single one is the same question as one of a list.
    assert receipt_of(search_df("a"))["cache"] == "hit"


@pytest.mark.usefixtures("connected")
def test_repeated_input_runs_once_and_is_shown_twice(service: WireService) -> None:
    df = search_df(["a", "a", "b"])
    assert df["query"].tolist() == ["a"] * 6 + ["b"] * 3
    assert len(service.posted(paths.SEARCH)) == 2


@pytest.mark.usefixtures("connected")
def test_an_input_that_fails_is_a_row_with_its_error(service: WireService) -> None:
    def broken(path: str, query: dict[str, str]) -> Response | None:
        _ = query
        failing = service.requests[-1].body or {}
        if path == paths.SEARCH and failing.get("query") == "b":
            return JSONResponse({"detail": "a bad day"}, 422)
        return None

    service.fault = broken
    df = search_df(["a", "b", "c"])
    assert df["query"].tolist() == ["a"] * 3 + ["b"] + ["c"] * 3
    row = df[df["query"] == "b"].iloc[0]
    assert row["success"] is False or not row["success"]
    assert row["error"].startswith("InvalidRequest: ")
    assert "a bad day" in row["error"]
    assert pd.isna(row["rank"])
    assert receipt_of(df)["inputs"]["failed"] == 1
    assert receipt_of(df)["status"] == "partial"
    assert df.dtypes.equals(search_df(["a", "c"]).dtypes)
    with pytest.raises(Exception, match="a bad day"):
        search_df(["a", "b", "c"], on_error="raise")


@pytest.mark.usefixtures("connected")
def test_partial_rows_precede_error_row(service: WireService) -> None:
    service.crawl = JobScript(crawl_rows(2), status="failed", error="gone")
    df = crawl_df([SITE, SITE + "b"])
    assert df["start_url"].tolist() == [SITE] * 3 + [SITE + "b"] * 3
    assert df["success"].tolist() == [True, True, False] * 2
    assert df["error"].tolist()[2].endswith("gone")
    with pytest.raises(JobFailed):
        crawl_df([SITE, SITE + "b"], on_error="raise")
    service.crawl = JobScript(crawl_rows(2), total=5)
    short = crawl_df([SITE, SITE + "b"])
    assert short["error"].tolist()[2].startswith("IncompleteResult: 2 of 5 rows")
    with pytest.warns(UserWarning, match="2 of 5 rows"):
        assert len(crawl_df([SITE, SITE + "b"], on_incomplete="warn")) == 4


def test_wrong_key_ends_call(service: WireService) -> None:
    with connect(base_url=service.url, api_key="wrong") as unauthorized, pytest.raises(AuthError):
        unauthorized.search_df(["a", "b"])


@pytest.mark.usefixtures("connected")
def test_creatives_of_several_advertisers_and_regions(service: WireService) -> None:
    service.creatives = creative_rows(3)
    df = creatives_df(["AR1", "AR2"], region=["US", "DE"], max_rows=2)
    assert list(df.columns)[:6] == [
        "advertiser",
        "region",
        "fetched_at",
        "success",
        "position",
        "advertiser_id",
    ]
    assert df["region"].tolist() == ["US", "US", "DE", "DE"] * 2
    assert df["success"].all()


@pytest.mark.usefixtures("connected")
def test_invalid_input_is_rejected_before_any_request(service: WireService) -> None:
    wrong: Any
    for wrong in ([], {"a", "b"}):
        with pytest.raises(InvalidArgument, match="query"):
            search_df(wrong)
    with pytest.raises(InvalidArgument, match="executor"):
        search_df(["a"], executor="threads")  # type: ignore[call-overload]
    with pytest.raises(InvalidArgument, match="on_error"):
        search_df(["a"], on_error="ignore")  # type: ignore[call-overload]
    with pytest.raises(InvalidArgument, match="inputs"):
        search_df([f"q{n}" for n in range(200)], country=[f"{n}" for n in range(200)])
    assert service.requests == []


@pytest.mark.usefixtures("connected")
def test_frame_column_counts_as_list() -> None:
    table = pd.DataFrame({"q": ["x", "y"]})
    df = search_df(table["q"])  # type: ignore[call-overload]
    assert df["query"].unique().tolist() == ["x", "y"]


@pytest.mark.usefixtures("connected")
def test_empty_inputs_warn_once_and_give_typed_frame(service: WireService) -> None:
    full = search_df(["a", "b"], cache=False)
    service.search = JobScript([])
    with pytest.warns(UserWarning, match="2 of 2 inputs gave no rows") as caught:
        empty = search_df(["a", "b"])
    assert len(caught) == 1
    assert empty.dtypes.equals(full.dtypes)


@pytest.mark.usefixtures("connected")
def test_out_writes_rows_of_all_inputs(tmp_path: Path) -> None:
    df = search_df(["a", "b"], out=tmp_path / "all.parquet", dtype_backend="pyarrow")
    assert pd.read_parquet(tmp_path / "all.parquet")["query"].tolist() == df["query"].tolist()


def test_inputs_queue_at_concurrency_limit(service: WireService, connected: Session) -> None:
    turned_away = threading.Event()

    def full(path: str, _query: dict[str, str]) -> Response | None:
        if path == paths.SEARCH and not turned_away.is_set():
            turned_away.set()
            headers = {
                "Retry-After": "0",
                "X-Concurrency-Limit": "2",
                "X-Concurrency-Active": "2",
            }
            return JSONResponse({"detail": "2 of 2 active jobs"}, 429, headers)
        return None

    service.fault = full
    df = connected.search_df(["a", "b", "c"])
    assert turned_away.is_set()
    assert df["success"].all()
    assert len(df) == 9


SEVERAL = ["a", "b", "c", "d", "e", "f"]


def pool(kind: str) -> Executor:
    if kind == "threads":
        return concurrent.futures.ThreadPoolExecutor(2)
    spawn = multiprocessing.get_context("spawn")
    return concurrent.futures.ProcessPoolExecutor(2, mp_context=spawn)


@pytest.fixture(params=["threads", "processes"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    with pool(request.param) as made:
        yield made


@pytest.mark.slow
def test_executor_gives_same_frame(
    service: WireService, connected: Session, executor: Executor
) -> None:
    plain = connected.search_df(["a", "b", "c"], cache=False)
    spread = connected.search_df(["a", "b", "c"], executor=executor)
    assert spread.drop(columns="fetched_at").equals(plain.drop(columns="fetched_at"))

    def broken(path: str, _query: dict[str, str]) -> Response | None:
        return JSONResponse({"detail": "no"}, 422) if path == paths.SEARCH else None

    service.fault = broken
    failed = connected.search_df(["x", "y"], executor=executor)
    assert failed["success"].tolist() == [False, False]
    assert failed["error"].str.contains("refuses the request: no").all()


class Cluster(Executor):
    """Runs what it is given elsewhere, as a cluster does: nothing of it is told to its futures.

    What goes there and what comes back is pickled, and a future that is cancelled says so although
    its work goes on.
    """

    def __init__(self) -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(2)

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        work = pickle.dumps((fn, args, kwargs))

        def run() -> None:
            function, arguments, named = pickle.loads(work)
            result = pickle.dumps(function(*arguments, **named))
            if not future.cancelled():
                future.set_result(pickle.loads(result))

        self._pool.submit(run)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.shutdown(wait, cancel_futures=cancel_futures)


@pytest.mark.slow
@pytest.mark.parametrize("on_cancel", ["raise", "partial"])
@pytest.mark.parametrize("kind", ["threads", "processes", "cluster"])
async def test_cancellation_reaches_executor_workers(
    service: WireService, connected: Session, kind: str, on_cancel: Any
) -> None:
    with Cluster() if kind == "cluster" else pool(kind) as executor:
        service.search = JobScript(search_rows(2), running=True)
        calling = connected.asearch_df(SEVERAL, executor=executor, on_cancel=on_cancel)
        task = asyncio.create_task(calling)
        await until(lambda: len(service.jobs) == 2 and service.polled.is_set())
        task.cancel()
        if on_cancel == "raise":
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            assert set((await task)["query"]) <= set(SEVERAL)
        # Whoever had begun ends his job; whoever had not never begins.
        await until(lambda: all(job.cancelled for job in service.jobs.values()))
        assert len(service.jobs) == 2
        # The executor is free again, and nothing of the call is left.
        service.search = JobScript(search_rows(2))
        again = await connected.asearch_df(SEVERAL, executor=executor)
        assert again["success"].all()
        assert len(again) == 2 * len(SEVERAL)
        assert len(service.jobs) == 2 + len(SEVERAL)


@pytest.mark.slow
def test_killed_worker_gives_rows_with_errors(service: WireService, connected: Session) -> None:
    service.search = JobScript(search_rows(2), running=True)
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as executor:
        worker = executor.submit(os.getpid).result()
        calling = threading.Thread(target=lambda: kill_when_running(service, worker))
        calling.start()
        df = connected.search_df(["a", "b"], executor=executor)
        calling.join()
        again = connected.search_df(["a"], executor=executor)
        with pytest.raises(WorkerLost):
            connected.search_df(["a"], executor=executor, on_error="raise")
    assert df["query"].tolist() == ["a", "b"]
    assert df["success"].tolist() == [False, False]
    assert df["error"].str.startswith("WorkerLost: a worker process of the executor ended").all()
    assert again["success"].tolist() == [False]


def kill_when_running(service: WireService, worker: int) -> None:
    service.polled.wait(60)
    os.kill(worker, signal.SIGKILL)


@pytest.mark.slow
def test_ctrl_c_reaches_executor_workers(service: WireService, connected: Session) -> None:
    service.crawl = JobScript(crawl_rows(2), running=True)
    with pool("processes") as executor:
        thread = interrupt_when_running(service)
        df = connected.crawl_df([SITE, SITE + "b"], executor=executor, on_cancel="partial")
        thread.join()
    # The rows so far, of those that had some.
    assert receipt_of(df)["status"] == "partial"
    assert df["success"].all()
    assert set(service.final_statuses()) == {"cancelled"}


class BlockingExecutor(Executor):
    """Runs the first input in a thread; the others begin and never end."""

    def __init__(self) -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(1)
        self._submitted = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        self._submitted += 1
        if self._submitted == 1:
            return self._pool.submit(fn, *args, **kwargs)
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        future.set_running_or_notify_cancel()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.shutdown(wait, cancel_futures=cancel_futures)


@pytest.mark.slow
def test_worker_that_does_not_end_costs_no_rows_of_others(
    service: WireService, connected: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert PARTIAL_RESULT_S < CLEANUP_S  # after which an interrupted call has no result
    monkeypatch.setattr(lists, "PARTIAL_RESULT_S", 5.0)
    service.crawl = JobScript(crawl_rows(2), running=True)
    with BlockingExecutor() as executor:
        thread = interrupt_when_running(service)
        df = connected.crawl_df([SITE, SITE + "b"], executor=executor, on_cancel="partial")
        thread.join()
    assert df["start_url"].unique().tolist() == [SITE]
    assert len(df) == 2
    assert receipt_of(df)["status"] == "partial"
    assert service.final_statuses() == ["cancelled"]


@pytest.mark.slow
def test_fatal_error_of_one_input_cancels_the_others(
    service: WireService, connected: Session, executor: Executor
) -> None:
    service.crawl = JobScript(crawl_rows(2), running=True)

    def broken(path: str, _query: dict[str, str]) -> Response | None:
        body = service.requests[-1].body or {}
        bad = path == paths.CRAWL and body.get("url") == SITE + "bad"
        if bad and not service.polled.is_set():  # not before the other one runs
            return JSONResponse({"detail": "full"}, 429, {"Retry-After": "1"})
        return JSONResponse({"detail": "a bad day"}, 422) if bad else None

    service.fault = broken
    with pytest.raises(Exception, match="a bad day"):
        connected.crawl_df([SITE, SITE + "bad"], executor=executor, on_error="raise")
    PORTAL.run(until(lambda: all(job.cancelled for job in service.jobs.values())))


@pytest.mark.parametrize("on_cancel", ["raise", "partial"])
async def test_cancellation_cancels_every_job(
    service: WireService, connected: Session, on_cancel: Any
) -> None:
    service.search = JobScript(search_rows(2), running=True)
    task = asyncio.create_task(connected.asearch_df(["a", "b"], on_cancel=on_cancel))
    await until(lambda: len(service.jobs) == 2 and service.polled.is_set())
    task.cancel()
    if on_cancel == "partial":
        df = await task
        assert set(df["query"]) <= {"a", "b"}
    else:
        with pytest.raises(asyncio.CancelledError):
            await task
    assert set(await asyncio.to_thread(service.final_statuses)) == {"cancelled"}


@pytest.mark.usefixtures("connected")
def test_service_error_of_one_input_is_a_row(service: WireService) -> None:
    def down(path: str, _query: dict[str, str]) -> Response | None:
        return JSONResponse({"detail": "down"}, 501) if path == paths.CRAWL else None

    service.fault = down
    with pytest.warns(UserWarning, match="does not offer this: down"):
        df = crawl_df([SITE])
    assert df["success"].tolist() == [False]
    with pytest.raises((ServiceFault, Exception), match="does not offer this: down"):
        crawl_df(SITE)
