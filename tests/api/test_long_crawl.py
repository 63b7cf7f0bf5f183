"""Crawls of more than 1,000 pages: refusals, and files that a killed call leaves for the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest

from tests.api.receipts import SITE, receipt_of
from tests.local_service import stop
from tests.site.graphs import large_tree
from tests.site.server import Site
from tests.wire_service import WireService
from webdata_nb import connect, crawl_df, crawl_job, settings
from webdata_nb.contract import paths
from webdata_nb.errors import InvalidArgument, NotSupported, OfflineError, OverBudget
from webdata_nb.toolkit.api import Session
from webdata_nb.toolkit.frames.storage import CRAWL_MANIFEST, CrawlManifest, CrawlParts

PAGES = 1100


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_pages": 2000}, "or up to 100000 with a folder or URL for the rows as out"),
        ({"max_pages": 2000, "out": "rows.parquet"}, "must name a directory"),
        ({"max_pages": 2000, "out": "nowhere://x"}, "does not support nowhere"),
        ({"max_pages": 2000, "out": "rows", "lazy": True}, "1,000 pages and lazy cannot be"),
        ({"max_pages": 2000, "out": "rows", "executor": "dask"}, "1,000 pages and a Dask exec"),
        ({"max_pages": 100_001, "out": "rows"}, "max_pages must be"),
        ({"max_pages": 2**63, "out": "rows"}, "max_pages must be"),
        ({"max_pages": 0, "out": "rows"}, "max_pages must be"),
        ({"max_pages": -1, "out": "rows"}, "max_pages must be"),
        ({"max_pages": True, "out": "rows"}, "max_pages must be"),
        ({"max_pages": 1000.5, "out": "rows"}, "max_pages must be"),
        ({"max_pages": 2000, "out": 7}, "out must be a path"),
        ({"max_pages": 2000, "out": "/proc/x"}, "out: '/proc/x' cannot be read and written: "),
    ],
)
def test_bad_input_is_refused_before_any_work(
    service: WireService, tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    if arguments.get("out") == "rows":
        arguments = {**arguments, "out": tmp_path / "rows"}
    with pytest.raises(InvalidArgument, match=message):
        crawl_df(SITE, **arguments)
    assert service.jobs == {}
    assert not (tmp_path / "rows").exists()


@pytest.mark.usefixtures("connected")
def test_several_sites_and_jobs_are_refused(service: WireService, tmp_path: Path) -> None:
    with pytest.raises(
        InvalidArgument, match="more than 1,000 pages and a list cannot be combined"
    ):
        crawl_df([SITE, SITE], max_pages=2000, out=tmp_path)
    with pytest.raises(InvalidArgument, match="max_pages must be"):
        crawl_job(SITE, max_pages=2000)
    with pytest.raises(OverBudget):
        crawl_df(SITE, max_pages=2000, out=tmp_path / "rows", budget=1500)
    assert service.jobs == {}


def test_a_service_without_long_crawls_refuses_before_it_starts(
    service: WireService, connected: Session, tmp_path: Path
) -> None:
    with pytest.raises(
        NotSupported, match=r"/v1/crawls, which max_pages=2000 needs; nothing was started"
    ):
        connected.crawl_df(SITE, max_pages=2000, out=tmp_path / "rows")
    assert service.jobs == {}
    assert service.posted(paths.CRAWL) == []
    assert list((tmp_path / "rows").iterdir()) == []


@pytest.mark.usefixtures("connected")
def test_files_of_something_else_are_kept(service: WireService, tmp_path: Path) -> None:
    (tmp_path / "mine.parquet").write_bytes(b"mine")
    for refresh in (False, True):
        with pytest.raises(InvalidArgument, match="has Parquet files of something else"):
            crawl_df(SITE, max_pages=2000, out=tmp_path, refresh=refresh)
    folder = tmp_path / "other"
    CrawlParts(folder).write_manifest(CrawlManifest("another digest", "key", "job"))
    with pytest.raises(InvalidArgument, match="has the rows of another call"):
        crawl_df(SITE, max_pages=2000, out=folder)
    with pytest.raises(OfflineError):
        crawl_df(SITE, max_pages=2000, out=tmp_path / "new", offline=True)
    assert service.jobs == {}
    assert (tmp_path / "mine.parquet").read_bytes() == b"mine"


@pytest.mark.usefixtures("connected")
def test_a_damaged_manifest_is_refused(service: WireService, tmp_path: Path) -> None:
    (tmp_path / CRAWL_MANIFEST).write_bytes(b"{")
    with pytest.raises(InvalidArgument, match="cannot be read and written: DecodeError"):
        crawl_df(SITE, max_pages=2000, out=tmp_path)
    assert service.jobs == {}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("WEBDATA_HOME", str(tmp_path / "home"))
    yield tmp_path / "home"
    stop(settings.current())


CALL = """
import sys
from webdata_nb import crawl_df
crawl_df(sys.argv[1], max_pages=int(sys.argv[2]), out=sys.argv[3], concurrency=10)
"""


def processes_of(home: Path) -> list[psutil.Process]:
    """Return the processes that run with a home of their own, which only this test has."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
        except psutil.Error:
            continue
        if environment.get("WEBDATA_HOME") == str(home) and process.pid != os.getpid():
            found.append(process)
    return found


def wait_for(path: Path, *, timeout_s: float = 300.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} was not written"
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("is_url", [False, True])
def test_a_killed_kernel_and_service_lose_and_repeat_nothing(
    home: Path, tmp_path: Path, *, is_url: bool
) -> None:
    folder = tmp_path / "rows"
    out: str | Path = f"file://{folder}" if is_url else folder
    with Site() as site, connect():
        url = site.at(large_tree(site))
        kernel = subprocess.Popen([sys.executable, "-c", CALL, url, str(PAGES), str(out)])
        wait_for(folder / "part-00000.parquet")
        kernel.send_signal(signal.SIGKILL)
        kernel.wait()
        for process in processes_of(home):
            process.kill()
        df = crawl_df(url, max_pages=PAGES, out=out, concurrency=10)
        expected = [site.at(f"/page/{number}") for number in range(PAGES)]
        assert df["url"].tolist() == expected
        assert "markdown" not in df.columns
        attrs = receipt_of(df)
        assert attrs["counts"]["rows"] == PAGES
        assert attrs["receipt"]["counts"] == {"fetched": PAGES, "over_max_pages": 7 * PAGES + 1}

        parts = sorted(file.name for file in folder.iterdir())
        assert parts == [CRAWL_MANIFEST, *(f"part-0000{n}.parquet" for n in range(3))]
        rows = pd.read_parquet(folder)
        assert rows["url"].tolist() == expected
        assert rows["markdown"].str.len().gt(100).all()

        requests = len(site.requests)
        assert requests <= PAGES + 3 * 10 + 5  # pages in flight at the kill, robots.txt
        again = crawl_df(url, max_pages=np.int64(PAGES).item(), out=out, concurrency=10)
        assert again["url"].tolist() == expected
        assert receipt_of(again)["cache"] == "hit"
        assert len(site.requests) == requests
        with pytest.raises(InvalidArgument, match="has the rows of another call"):
            crawl_df(url, max_pages=PAGES + 1, out=out, concurrency=10)
