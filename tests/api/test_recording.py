"""A notebook's calls recorded and replayed, files elsewhere, and the cache within its size."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import fsspec  # type: ignore[import-untyped]
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import webdata_nb
from tests.api.receipts import SECRET, SITE, receipt_of
from tests.wire_service import KEY, JobScript, WireService, crawl_rows, search_rows
from webdata_nb.errors import InvalidArgument, MissingExtra, NotRecorded
from webdata_nb.settings import options
from webdata_nb.toolkit.api import (
    advertisers_df,
    crawl_df,
    crawl_job,
    engines_df,
    estimate,
    export_df,
    jobs_df,
    record,
    replay,
    search_df,
    search_job,
    to_parquet,
    usage_df,
    weights_df,
    why,
)


@pytest.mark.usefixtures("connected")
def test_recording_replays_without_service(
    service: WireService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tape"
    with record(folder):
        first = search_df("a", headers={"X-Key": SECRET})
        service.search = JobScript(search_rows(2))
        second = search_df("a", headers={"X-Key": SECRET}, refresh=True)
        both = crawl_df([SITE, SITE + "b"])
    assert options.record is None
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 4
    assert names[2].startswith("search-a-")
    assert not any(
        secret.encode() in path.read_bytes()
        for path in folder.iterdir()
        for secret in (SECRET, KEY)
    )
    # Another machine: no key, no cache, no service.
    monkeypatch.setenv("WEBDATA_CACHE", str(tmp_path / "elsewhere"))
    webdata_nb.connect()
    before = len(service.requests)
    with replay(folder):
        assert search_df("a", headers={"X-Key": SECRET}).equals(first)
        again = search_df("a", headers={"X-Key": SECRET})
        assert again.equals(second)
        assert receipt_of(again)["cache"] == "replay"
        assert search_df("a", headers={"X-Key": SECRET}).equals(second)  # the last one stays
        several = crawl_df([SITE, SITE + "b"])
        assert several.equals(both)
        assert receipt_of(several)["cache"] == "replay"
        assert "2 from the recording" in receipt_of(several)["line"]
        with pytest.raises(NotRecorded, match="record the notebook again"):
            search_df("b")
        for call in (jobs_df, lambda: search_job("a"), lambda: webdata_nb.job("x")):
            with pytest.raises(NotRecorded, match="record the notebook again"):
                call()
    assert len(service.requests) == before


@pytest.mark.usefixtures("connected")
def test_listings_replay(
    service: WireService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search_df("a")
    calls: list[Callable[[], pd.DataFrame]] = [
        jobs_df,
        weights_df,
        usage_df,
        engines_df,
        lambda: advertisers_df("fulmar"),
    ]
    with record(tmp_path):
        first = [call() for call in calls]
        bound = estimate(crawl_df, SITE, max_pages=5)
    elsewhere(monkeypatch, tmp_path)
    before = len(service.requests)
    with replay(tmp_path):
        again = [call() for call in calls]
        assert estimate(crawl_df, SITE, max_pages=5) == bound
        with pytest.raises(NotRecorded, match="jobs"):
            jobs_df(limit=3)
        with pytest.raises(NotRecorded, match="other"):
            advertisers_df("other")
    assert len(service.requests) == before
    for one, other in zip(first, again, strict=True):
        assert len(one)
        assert one.equals(other)
        assert one.dtypes.equals(other.dtypes)
        assert receipt_of(other)["cache"] == "replay"


def elsewhere(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    """Go on as on another machine: no key, no cache, no service."""
    monkeypatch.setenv("WEBDATA_CACHE", str(place / "elsewhere"))
    monkeypatch.setenv("WEBDATA_HOME", str(place / "elsewhere"))
    webdata_nb.connect()


@pytest.mark.usefixtures("connected")
def test_jobs_replay(service: WireService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service.has_receipts = True
    folder = tmp_path / "tape"
    with record(folder):
        started_job = crawl_job(SITE, max_pages=3)
        crawled = started_job.df()
        searched = search_job("a").arrow()
        uncollected = search_job("never collected")
        cause = why(crawled, crawled["url"][0])
    elsewhere(monkeypatch, tmp_path)
    before = len(service.requests)
    with replay(folder):
        again = crawl_job(SITE, max_pages=3)
        assert again.job_id == started_job.job_id
        assert again.wait() == again.status == "completed"
        assert (again.progress.completed, again.progress.total) == (3, 3)
        assert again.df().equals(crawled)
        assert again.df().dtypes.equals(crawled.dtypes)
        assert webdata_nb.job(started_job.job_id).kind == "crawl"
        assert export_df(started_job.job_id).equals(crawled)
        assert search_job("a").arrow().equals(searched)
        # The whole receipt is in the recording as well.
        assert why(again.df(), crawled["url"][0]) == cause
        with pytest.raises(NotRecorded, match=uncollected.job_id):
            search_job("never collected").df()
        for refused in (again.cancel, again.retry, lambda: list(again.events())):
            with pytest.raises(NotRecorded, match="nothing was sent"):
                refused()
        # What is replayed costs nothing, and asks for no price.
        with pytest.raises(NotRecorded, match="record the notebook again"):
            crawl_df(SITE, max_pages=3, budget=0)
    assert len(service.requests) == before


@pytest.mark.usefixtures("connected")
def test_new_recording_replaces_old_and_omits_failures(
    service: WireService, tmp_path: Path
) -> None:
    for count in (3, 2):
        service.search = JobScript(search_rows(count))
        tape = record(tmp_path)
        search_df("a", cache=False)
        search_df("a", cache=False)
        tape.stop()
    service.search = JobScript(search_rows(1), total=2)
    with record(tmp_path):
        search_df("short", on_incomplete="ignore")
    with replay(tmp_path):
        assert len(search_df("a")) == 2
        with pytest.raises(NotRecorded):
            search_df("short")
    assert len(list(tmp_path.glob("*.parquet"))) == 2
    with record(tmp_path), pytest.raises(InvalidArgument, match="is active"):
        replay(tmp_path)
    for wrong in (5, "", tmp_path / "none"):
        with pytest.raises(InvalidArgument, match="folder"):
            replay(wrong)  # type: ignore[arg-type]
    for stored in tmp_path.glob("*.parquet"):
        stored.write_bytes(b"no")
    with replay(tmp_path), pytest.raises(NotRecorded, match="cannot be read"):
        search_df("a")


@pytest.mark.usefixtures("connected")
def test_replay_from_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBDATA_RECORD", str(tmp_path))
    recorded = search_df("q")
    monkeypatch.delenv("WEBDATA_RECORD")
    monkeypatch.setenv("WEBDATA_REPLAY", str(tmp_path))
    assert search_df("q").equals(recorded)


@pytest.mark.usefixtures("connected")
@pytest.mark.slow
def test_frame_round_trip_through_any_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    df = crawl_df(SITE, scrape_options={"formats": ["markdown", "links"]})
    df["mine"] = range(len(df))
    for target in (str(tmp_path / "x.parquet"), "memory://x.parquet"):
        to_parquet(df, target)
    with fsspec.open("memory://x.parquet", "rb") as file:
        assert file.read() == (tmp_path / "x.parquet").read_bytes()
    back = pd.read_parquet(tmp_path / "x.parquet")
    assert back.attrs == df.attrs
    assert back["mine"].tolist() == df["mine"].tolist()
    assert pl.read_parquet(tmp_path / "x.parquet")["links"].to_list() == df["links"].tolist()
    crawl_df(SITE, out="memory://pages.parquet")
    with fsspec.open("memory://pages.parquet", "rb") as file:
        assert len(pd.read_parquet(file)) == 5
    with pytest.raises(InvalidArgument, match="nosuch"):
        crawl_df(SITE, out="nosuch://x.parquet")
    with pytest.raises(InvalidArgument, match="end in"):
        crawl_df(SITE, out="memory://x.txt")
    with pytest.raises(InvalidArgument, match="storage_options"):
        to_parquet(df, tmp_path / "x.parquet", storage_options={"key": "x"})
    with pytest.raises(InvalidArgument, match="directory"):
        to_parquet(df, tmp_path / "no" / "x.parquet")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtra, match=r"webdata_nb\[remote\]"):
        crawl_df(SITE, out="memory://x.parquet")


@pytest.mark.usefixtures("connected")
def test_frames_reach_polars_duckdb_and_arrow() -> None:
    df = crawl_df(SITE, formats=["markdown", "links"], dtype_backend="pyarrow")
    table = rows_ = pa.Table.from_pandas(df, preserve_index=False)
    # The very buffers: nothing was copied on the way.
    held: Any = df["markdown"].array
    (chunk,) = held.__arrow_array__().chunks
    (taken,) = table["markdown"].chunks
    held_at, taken_at = (each.buffers()[2] for each in (chunk, taken))
    assert held_at is not None
    assert taken_at is not None
    assert taken_at.address == held_at.address
    assert pl.from_arrow(table).height == 5  # type: ignore[union-attr]
    assert rows_.num_rows == 5  # DuckDB finds it by its name
    found = duckdb.sql("select count(*), min(depth) from rows_")
    assert found is not None
    assert found.fetchall() == [(5, 0)]


@pytest.mark.usefixtures("connected")
def test_eviction_removes_oldest_results_first(
    service: WireService, cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [Path(receipt_of(crawl_df(f"{SITE}{n}"))["file"]) for n in range(3)]
    size = files[0].stat().st_size
    monkeypatch.setattr(options, "cache_bytes", int(size * 2.5))
    files.append(Path(receipt_of(crawl_df(SITE + "3"))["file"]))
    assert [file.exists() for file in files] == [False, False, True, True]
    assert not files[0].parent.exists()
    # A result that alone is too large is kept: it is the one in use.
    monkeypatch.setattr(options, "cache_bytes", 0)
    service.crawl = JobScript(crawl_rows(9))
    last = Path(receipt_of(crawl_df(SITE + "4"))["file"])
    assert [path for path in cached.rglob("*.parquet") if path.parent.parent.name == "crawl"] == [
        last
    ]
    monkeypatch.setenv("WEBDATA_CACHE_BYTES", "much")
    with pytest.raises(InvalidArgument, match="WEBDATA_CACHE_BYTES"):
        crawl_df(SITE)
