"""Batches through Dask: parts, repeated calls, lazy frames, errors, cancellation."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from distributed import Client
from starlette.responses import JSONResponse, Response

from tests.api.receipts import receipt_of
from tests.wire.waiting import until
from tests.wire_service import KEY, JobScript, WireService, search_rows
from webdata_nb.contract import paths
from webdata_nb.errors import (
    AuthError,
    ConnectionFailed,
    InvalidArgument,
    InvalidRequest,
    OfflineError,
    OverBudget,
)
from webdata_nb.toolkit.api import Session, connect
from webdata_nb.toolkit.frames.frame import NestedDtype

pytestmark = pytest.mark.slow

QUERIES = [f"query {number}" for number in range(11)]


def parts_in(out: str) -> list[str]:
    return sorted(path.name for path in Path(out).glob("part-*"))


@pytest.mark.smoke
def test_frame_of_partitions_equals_frame_of_call_here(
    session: Session, cluster: Client, out: str, service: WireService
) -> None:
    queries = [*QUERIES, "", "query 3"]  # one is invalid, one a duplicate
    here = session.search_df(queries, cache=False)
    service.jobs.clear()
    df = session.search_df(queries, executor=cluster, out=out, partition=4)
    pd.testing.assert_frame_equal(
        df.drop(columns="fetched_at"), here.drop(columns="fetched_at"), check_dtype=True
    )
    assert parts_in(out) == [f"part-{number:06d}.parquet" for number in range(4)]
    assert len(service.jobs) == len(QUERIES)  # a duplicate shares the job of the other one
    receipt, expected = receipt_of(df), receipt_of(here)
    assert receipt["counts"] == expected["counts"]
    assert receipt["inputs"] == {"total": 13, "failed": 1, "cached": 0, "found": 0}
    assert [run["query"] for run in receipt["runs"]] == queries
    assert {run["job_id"] for run in receipt["runs"]} - {None} == set(service.jobs)
    # Every part is a Parquet file that others read as well.
    assert pq.read_table(Path(out, "part-000003.parquet")).num_rows == 3


def test_repeated_call_sends_nothing_and_missing_part_alone_runs_again(
    session: Session, cluster: Client, out: str, service: WireService
) -> None:
    first = session.search_df(QUERIES, executor=cluster, out=out, partition=4)
    sent = len(service.requests)
    again = session.search_df(QUERIES, executor=cluster, out=out)
    assert again.equals(first)
    assert len(service.requests) == sent
    assert receipt_of(again)["inputs"]["found"] == len(QUERIES)
    assert receipt_of(again)["counts"] == receipt_of(first)["counts"]
    # From another machine: no copy of the figures, and no cluster.
    Path(out, "_figures.json").unlink()
    Path(out, "part-000001.parquet").unlink()
    elsewhere = session.search_df(QUERIES, lazy=True, out=out)
    assert elsewhere.compute().drop(columns="fetched_at").equals(first.drop(columns="fetched_at"))
    # The jobs of the part were found by their keys.
    assert len(service.jobs) == len(QUERIES)


def test_lazy_frame_has_types_divisions_and_length_without_reading_rows(
    session: Session, cluster: Client, out: str
) -> None:
    queries = [*QUERIES[:5], ""]
    formats: list[Any] = ["markdown", "links", "headings"]
    lazy = session.search_df(
        queries, formats=formats, executor=cluster, out=out, partition=2, lazy=True
    )
    frame = session.search_df(queries, formats=formats, cache=False)
    assert lazy.divisions == (0, 6, 12, 15)
    assert lazy.dtypes.equals(frame.dtypes)
    assert len(lazy) == len(frame) == 16
    computed = lazy.compute()
    pd.testing.assert_frame_equal(
        computed.drop(columns="fetched_at"), frame.drop(columns="fetched_at")
    )
    assert lazy["title"].compute().tolist() == frame["title"].tolist()
    assert lazy.loc[6:8].compute()["query"].tolist() == ["query 2"] * 3
    # No row is read: the parts may be damaged.
    for name in parts_in(out):
        Path(out, name).write_bytes(b"")
    unread = session.search_df(queries, formats=formats, out=out, lazy=True)
    assert unread.divisions == lazy.divisions
    arrow = session.search_df(queries, formats=formats, out=out, lazy=True, dtype_backend="pyarrow")
    assert {type(dtype) for dtype in arrow.dtypes} == {pd.ArrowDtype, NestedDtype}


def test_parts_without_rows_have_no_division(
    session: Session, cluster: Client, out: str, service: WireService
) -> None:
    service.search = JobScript([])
    lazy = session.search_df(["a", "b"], executor=cluster, out=out, partition=1, lazy=True)
    assert len(lazy) == 0
    assert lazy.compute().dtypes.equals(lazy.dtypes)


def test_crawls_pages_and_creatives_run_in_partitions(
    session: Session, cluster: Client, tmp_path: Path
) -> None:
    urls = [f"https://site.test/{number}" for number in range(3)]
    outs = [str(tmp_path / name) for name in ("crawl", "scrape", "creatives", "single")]
    pages = session.crawl_df(urls, executor=cluster, out=outs[0])
    assert pages["start_url"].tolist() == [url for url in urls for _ in range(5)]
    assert session.scrape_df(urls, executor=cluster, out=outs[1])["url"].size == 3
    found = session.creatives_df(["AR1", "AR2"], executor=cluster, out=outs[2])
    assert found["advertiser"].tolist() == ["AR1"] * 5 + ["AR2"] * 5
    single = session.search_df("a", out=outs[3], lazy=True)
    assert single.compute()["query"].tolist() == ["a"] * 3


def test_input_that_fails_is_row_or_ends_call(
    session: Session, cluster: Client, tmp_path: Path, service: WireService
) -> None:
    def broken(path: str, _query: dict[str, str]) -> Response | None:
        body = service.requests[-1].body or {}
        is_bad = path == paths.SEARCH and body.get("query") == "query 5"
        return JSONResponse({"detail": "a bad day"}, 422) if is_bad else None

    service.fault = broken
    df = session.search_df(QUERIES, executor=cluster, out=str(tmp_path / "a"), partition=3)
    failed = df[df["success"] == False]  # noqa: E712 - a nullable column
    assert failed["query"].tolist() == ["query 5"]
    assert failed["error"].str.contains("a bad day").all()
    with pytest.raises(InvalidRequest, match="a bad day"):
        session.search_df(
            QUERIES, executor=cluster, out=str(tmp_path / "b"), partition=3, on_error="raise"
        )


async def test_key_is_in_no_task_and_no_file(
    session: Session, cluster: Client, out: str, service: WireService
) -> None:
    service.search = JobScript(search_rows(3), running=True)
    calling = session.asearch_df(QUERIES, executor=cluster, out=out, partition=2)
    task = asyncio.create_task(calling)
    await until(service.polled.is_set)

    def scheduler_state(dask_scheduler: Any) -> bytes:
        tasks = [task.run_spec for task in dask_scheduler.tasks.values()]
        return pickle.dumps((tasks, dask_scheduler.get_logs(), dask_scheduler.get_events()))

    state = await asyncio.to_thread(cluster.run_on_scheduler, scheduler_state)
    assert b"query 3" in state  # the partitions are there
    assert KEY.encode() not in state
    service.search.running = False
    await task
    for path in Path(out).iterdir():  # noqa: ASYNC240 - small files
        assert KEY.encode() not in path.read_bytes()
    logs = await asyncio.to_thread(cluster.get_worker_logs)
    assert not any(KEY in repr(lines) for lines in logs.values())


def test_worker_with_other_key_is_refused_before_work(
    cluster: Client, out: str, service: WireService
) -> None:
    service.api_keys = {KEY, "wd-other-tenant"}
    with (
        connect(base_url=service.url, api_key="wd-other-tenant") as other,
        pytest.raises(InvalidArgument, match="WEBDATA_API_KEY is another one"),
    ):
        other.search_df(QUERIES, executor=cluster, out=out)
    assert not service.requests
    service.api_keys = {"wd-other-tenant"}
    with connect(base_url=service.url, api_key=KEY) as refused, pytest.raises(AuthError):
        refused.search_df(QUERIES, executor=cluster, out=out)


@pytest.mark.parametrize("on_cancel", ["raise", "partial"])
async def test_cancellation_reaches_workers_and_next_call_continues(
    session: Session, cluster: Client, out: str, service: WireService, on_cancel: Any
) -> None:
    queries = QUERIES[:6]
    first = await session.asearch_df(queries, executor=cluster, out=out, partition=1)
    Path(out, "part-000005.parquet").unlink()  # noqa: ASYNC240 - a small file
    Path(out, "_figures.json").unlink()  # noqa: ASYNC240 - a small file
    service.jobs.clear()
    service._jobs_by_key.clear()
    service.search = JobScript(search_rows(3), running=True)
    calling = session.asearch_df(queries, executor=cluster, out=out, on_cancel=on_cancel)
    task = asyncio.create_task(calling)
    await until(lambda: len(service.jobs) == 1 and service.polled.is_set())
    task.cancel()
    if on_cancel == "raise":
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        partial = await task
        assert partial["query"].unique().tolist() == queries[:5]
        assert receipt_of(partial)["status"] == "partial"
    await until(lambda: all(job.cancelled for job in service.jobs.values()))
    # The cancelled job is not taken for the result.
    service.search = JobScript(search_rows(3))
    again = await session.asearch_df(queries, executor=cluster, out=out)
    assert again.drop(columns="fetched_at").equals(first.drop(columns="fetched_at"))
    assert len(service.jobs) == 2


async def test_limit_of_call_holds_over_all_workers(
    session: Session, cluster: Client, out: str, service: WireService
) -> None:
    service.search = JobScript(search_rows(1), running=True)
    queries = [f"query {number}" for number in range(60)]
    task = asyncio.create_task(session.asearch_df(queries, executor=cluster, out=out, partition=30))
    await until(lambda: len(service.jobs) == 16)
    await asyncio.sleep(1)
    assert len(service.jobs) == 16
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: all(job.cancelled for job in service.jobs.values()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"out": None}, "needs out="),
        ({"out": "rows.parquet"}, "must name a directory"),
        ({"out": "/proc/parts"}, "'/proc/parts' cannot be read and written"),
        ({"out": "nothing://parts"}, "fsspec does not support nothing:// URLs"),
        ({"partition": 0}, "partition must be a whole number, 1 or more; it is 0"),
        ({"stream": True}, "stream=True runs its inputs here"),
        ({"headers": {"X-A": "b"}}, "headers are secrets"),
        ({"executor": "ray"}, "executor must be .* a Dask client, 'dask' or None; it is 'ray'"),
    ],
)
def test_invalid_options_are_refused_before_work(
    session: Session,
    cluster: Client,
    out: str,
    *,
    service: WireService,
    options: Mapping[str, Any],
    message: str,
) -> None:
    arguments: dict[str, Any] = {"executor": cluster, "out": out, **options}
    with pytest.raises(InvalidArgument, match=message):
        session.search_df(QUERIES, **arguments)
    assert not service.requests


def test_parts_of_another_call_are_refused_before_work(
    session: Session, cluster: Client, out: str, service: WireService
) -> None:
    session.search_df(QUERIES[:2], executor=cluster, out=out)
    sent = len(service.requests)
    for queries, options in ((["other", "b"], {}), (QUERIES[:2], {"num_results": 3})):
        with pytest.raises(InvalidArgument, match="parts of another call"):
            session.search_df(queries, executor=cluster, out=out, **options)  # type: ignore[call-overload]
    with pytest.raises(InvalidArgument, match="partition must be 10 or None"):
        session.search_df(QUERIES[:2], executor=cluster, out=out, partition=7)
    Path(out, "_manifest.json").unlink()
    with pytest.raises(InvalidArgument, match=r"has part-000000\.parquet and no _manifest"):
        session.search_df(QUERIES[:2], executor=cluster, out=out)
    Path(out, "_manifest.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(InvalidArgument, match="not of this version"):
        session.search_df(QUERIES[:2], executor=cluster, out=out)
    assert len(service.requests) == sent


def test_budget_counts_missing_inputs_only(
    session: Session, cluster: Client, out: str, service: WireService
) -> None:
    service.weights = [{"platform": "search", "operation": "discovery", "weight": 1.0}]
    with pytest.raises(OverBudget):
        session.search_df(QUERIES, formats=[], executor=cluster, out=out, partition=4, budget=5)
    assert not service.jobs
    session.search_df(QUERIES, formats=[], executor=cluster, out=out)
    Path(out, "part-000001.parquet").unlink()
    session.search_df(QUERIES, formats=[], executor=cluster, out=out, budget=5)


def test_offline_mode_reads_complete_parts(session: Session, cluster: Client, out: str) -> None:
    first = session.search_df(QUERIES, executor=cluster, out=out, partition=6)
    assert session.search_df(QUERIES, executor=cluster, out=out, offline=True).equals(first)
    Path(out, "part-000001.parquet").unlink()
    with pytest.raises(OfflineError, match="1 of 2 parts are missing"):
        session.search_df(QUERIES, executor=cluster, out=out, offline=True)


@pytest.mark.usefixtures("cluster")
def test_dask_names_client_of_process_or_configured_scheduler(
    session: Session, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(session.search_df(QUERIES, executor="dask", out=out)) == 33
    monkeypatch.setattr(Client, "current", classmethod(_no_client))
    with pytest.raises(InvalidArgument, match="needs a Dask client in this process"):
        session.search_df(["a"], executor="dask", out=f"{out}-b")


def _no_client(_cls: type[Client]) -> Client:
    raise ValueError("no client")


def test_closed_client_is_refused(session: Session, cluster: Client, out: str) -> None:
    assert cluster.scheduler is not None
    with Client(cluster.scheduler.address, set_as_default=False) as closed:
        pass
    with pytest.raises(ConnectionFailed, match="is closed"):
        session.search_df(["a"], executor=closed, out=out)
