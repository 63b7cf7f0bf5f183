"""Crawls of several sites with `spread=True`: rows, refusals, and calls that continue."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest

from tests.api.receipts import SITE, receipt_of
from tests.local_service import stop
from tests.site.server import Site
from tests.site.several_sites import expected_rows, linked_sites
from tests.wire_service import WireService
from webdata_nb import connect, crawl_df, jobs_df, settings
from webdata_nb.api import Session
from webdata_nb.contract import paths
from webdata_nb.errors import InvalidArgument, NotSupported, OfflineError, OverBudget
from webdata_nb.frames.crawl_parts import MANIFEST

OTHER = "https://other.example/"


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    ("url", "arguments", "message"),
    [
        (SITE, {}, "needs a list of 2 to 100 sites as url; it is 'http"),
        ([SITE], {}, "needs a list of 2 to 100 sites as url; it is a list of 1"),
        ([SITE] * 101, {}, "it is a list of 101"),
        ([], {}, "at least one entry"),
        ([SITE, OTHER, "https://www.other.example:443/x"], {}, "are of one site"),
        ([SITE, SITE], {}, "are of one site"),
        ([SITE, "ftp://x/"], {}, "site 2 of 2: url must be"),
        ([SITE, None], {}, "site 2 of 2: url is required"),
        ([SITE, OTHER], {"stream": True}, "stream has no effect with spread=True"),
        ([SITE, OTHER], {"lazy": True}, "lazy has no effect with spread=True"),
        ([SITE, OTHER], {"executor": "dask"}, "executor has no effect with spread=True"),
        ([SITE, OTHER], {"partition": 5}, "partition has no effect with spread=True"),
        ([SITE, OTHER], {"batch_rows": 5}, "batch_rows has a meaning only with stream"),
        ([SITE, OTHER], {"spread": "yes"}, "spread must be"),
        ([SITE, OTHER], {"spread": 1}, "spread must be"),
        ([SITE, OTHER], {"max_pages": 2000}, "with a folder or URL for the rows as out"),
        ([SITE, OTHER], {"max_pages": 0}, "max_pages must be"),
        ([SITE, OTHER], {"max_pages": 2**63, "out": "rows"}, "max_pages must be"),
        ([SITE, OTHER], {"max_pages": True}, "max_pages must be"),
        ([SITE, OTHER], {"out": "rows.parquet"}, "must name a directory"),
        ([SITE, OTHER], {"out": "/proc/x"}, "cannot be read and written"),
        ([SITE, OTHER], {"out": "rows", "offline": True}, "offline"),
    ],
)
def test_bad_input_is_refused_before_any_work(
    service: WireService, tmp_path: Path, url: Any, arguments: dict[str, Any], message: str
) -> None:
    if arguments.get("out") == "rows":
        arguments = {**arguments, "out": tmp_path / "rows"}
    with pytest.raises((InvalidArgument, OfflineError), match=message):
        crawl_df(url, **{"spread": True, **arguments})
    assert service.jobs == {}
    assert service.posted(paths.SITE_CRAWLS) == []
    assert not (tmp_path / "rows").exists()


def test_a_service_that_hands_nothing_over_refuses_before_it_starts(
    service: WireService, connected: Session, tmp_path: Path
) -> None:
    for out in (None, tmp_path / "rows"):
        with pytest.raises(NotSupported, match=r"no crawls that hand links over.*nothing was"):
            connected.crawl_df([SITE, OTHER], max_pages=5, out=out, spread=True)
    with pytest.raises(OverBudget):
        connected.crawl_df([SITE, OTHER], max_pages=5, spread=True, budget=9)
    assert service.jobs == {}
    assert service.posted(paths.CRAWL) == []
    assert list((tmp_path / "rows").iterdir()) == []


@pytest.mark.usefixtures("connected")
def test_files_of_something_else_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "site-001"
    folder.mkdir()
    (folder / "mine.parquet").write_bytes(b"mine")
    with pytest.raises(InvalidArgument, match="has Parquet files of something else"):
        crawl_df([SITE, OTHER], out=tmp_path, spread=True, refresh=True)
    assert (folder / "mine.parquet").read_bytes() == b"mine"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("WEBDATA_HOME", str(tmp_path / "home"))
    yield tmp_path / "home"
    stop(settings.current())


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_rows_of_a_frame_without_and_with_files(tmp_path: Path) -> None:
    with linked_sites(3, pages=24, seed=6) as web, connect():
        wanted = expected_rows(web.links, web.starts, max_pages=1000)
        df = crawl_df(list(web.starts), max_pages=1000, spread=True)
        alone = crawl_df(list(web.starts), max_pages=1000, cache=False)
        assert df.columns.tolist() == alone.columns.tolist()
        assert df.groupby("start_url", sort=False)["url"].apply(list).tolist() == wanted
        assert df["markdown"].str.len().gt(100).all()
        assert len(alone) < len(df)
        attrs = receipt_of(df)
        assert attrs["counts"] == {"rows": len(df), "ok": len(df), "failed": 0}
        assert [run["rows"] for run in attrs["runs"]] == list(map(len, wanted))

        out = tmp_path / "rows"
        arguments: dict[str, Any] = {"max_pages": 1000, "spread": True, "out": out}
        filed = crawl_df(list(web.starts), **arguments)
        assert filed["url"].tolist() == df["url"].tolist()
        assert "markdown" not in filed.columns
        assert sorted(each.name for each in out.iterdir()) == [
            MANIFEST, "site-000", "site-001", "site-002",
        ]  # fmt: skip
        rows = pd.read_parquet(out)
        assert sorted(rows["url"]) == sorted(df["url"])
        assert rows["markdown"].str.len().gt(100).all()
        requests = len(web.hits())
        again = crawl_df(list(web.starts), **arguments, offline=True)
        assert again["url"].tolist() == df["url"].tolist()
        assert receipt_of(again)["cache"] == "hit"
        with pytest.raises(InvalidArgument, match="has the rows of another call"):
            crawl_df(list(web.starts)[::-1], **arguments)
        assert len(web.hits()) == requests
        anew = crawl_df(list(web.starts), **arguments, refresh=True)
        assert anew["url"].tolist() == df["url"].tolist()
        assert len(web.hits()) > requests


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_a_site_that_fails_is_a_row_or_an_error() -> None:
    with Site() as good, Site() as refusing, connect():
        good.page("/", f"<p>good <a href='{refusing.at('/')}'>other</a>")
        refusing.robots("User-agent: *\nDisallow: /")
        urls = [refusing.at("/"), good.at("/")]
        df = crawl_df(urls, max_pages=5, spread=True)
        assert df["start_url"].tolist() == urls
        assert df["success"].tolist() == [False, True]
        assert "robots" in df["error"][0]
        with pytest.raises(Exception, match="robots"):
            crawl_df(urls, max_pages=5, spread=True, on_error="raise")


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_interrupt_cancels_every_crawl(tmp_path: Path) -> None:
    out = tmp_path / "rows"
    with linked_sites(20, pages=3, seed=1) as web, connect():
        with web.sites[-1].hold("/p0"):
            kernel = subprocess.Popen([sys.executable, "-c", CALL, str(out), *web.starts])
            # The last site is one of those that are not followed yet.
            web.sites[-1].wait_for("/p0")
            kernel.send_signal(signal.SIGINT)
            assert kernel.wait(timeout=60) != 0
            # The interrupted call waits for the cancellations for a few seconds only. No crawl
            # ends before them: while the page is held, its links may add pages to any of them.
            deadline = time.monotonic() + 60
            while (states := states_of_jobs()) != {"cancelled": 20}:
                assert time.monotonic() < deadline, states
                time.sleep(0.1)
        df = crawl_df(
            list(web.starts), max_pages=2000, out=out, spread=True, concurrency=5, refresh=True
        )
        assert df["success"].all()
        assert df["start_url"].nunique() == 20


def states_of_jobs() -> dict[str, int]:
    """Return how many jobs are in each state."""
    return dict(jobs_df(limit=100)["status"].value_counts())


CALL = """
import sys
from webdata_nb import crawl_df
out, *urls = sys.argv[1:]
crawl_df(urls, max_pages=2000, out=out, spread=True, concurrency=5)
"""


def processes_of(home: Path) -> list[psutil.Process]:
    """Return the services that run with a home of their own, which only this test has."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("WEBDATA_HOME") == str(home) and "serve" in process.cmdline():
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.slow
def test_killed_kernels_and_services_lose_and_repeat_nothing(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows"
    with linked_sites(4, pages=160, seed=9, foreign=0.1, latency=0.02) as web, connect():
        wanted = expected_rows(web.links, web.starts, max_pages=2000)
        total = sum(map(len, wanted))
        for share in (0.0, 0.3, 0.6, 0.95):
            kernel = subprocess.Popen([sys.executable, "-c", CALL, str(out), *web.starts])
            deadline = time.monotonic() + 200
            while len(web.hits()) < share * total or not (out / MANIFEST).exists():
                assert time.monotonic() < deadline
                assert kernel.poll() is None or share > 0.9
                time.sleep(0.01)
            kernel.send_signal(signal.SIGKILL)
            kernel.wait()
            for process in processes_of(home):
                process.kill()
                process.wait()
        df = crawl_df(list(web.starts), max_pages=2000, out=out, spread=True, concurrency=5)
        assert df.groupby("start_url", sort=False)["url"].apply(list).tolist() == wanted
        # At most the pages in flight at a kill are fetched again.
        assert len(web.hits()) <= total + 4 * 4 * 5
        assert receipt_of(df)["counts"]["rows"] == total
