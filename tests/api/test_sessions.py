"""Which service is asked, from where a call may come, and what `out` writes."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.api.receipts import SITE, frames_equal, receipt_of
from tests.wire_service import KEY, WireService
from webdata_nb.errors import (
    AuthError,
    InvalidArgument,
)
from webdata_nb.toolkit import session
from webdata_nb.toolkit.api import (
    Session,
    acrawl_df,
    acreatives_df,
    asearch_df,
    connect,
    crawl_df,
    search_df,
    weights_df,
)


async def test_the_async_names_run_on_the_callers_loop(
    service: WireService, connected: Session
) -> None:
    found, crawled, ads = await asyncio.gather(
        asearch_df("q"), acrawl_df(SITE), acreatives_df("AR1")
    )
    assert (len(found), len(crawled), len(ads)) == (3, 5, 5)
    assert frames_equal(crawled, await connected.acrawl_df(SITE))
    assert frames_equal(crawled, crawl_df(SITE))  # blocking, inside the running loop
    assert len(service.jobs) == 2


@pytest.mark.usefixtures("connected")
def test_many_threads_may_call_at_once(service: WireService) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        frames = list(pool.map(lambda n: search_df(f"q{n}"), range(16)))
    assert [receipt_of(df)["request"]["query"] for df in frames] == [f"q{n}" for n in range(16)]
    assert len(service.jobs) == 16


def test_connect_sends_nothing_sets_the_default_and_hides_the_key(service: WireService) -> None:
    with connect(base_url=service.url + "/", api_key=KEY) as made:
        assert service.requests == []
        assert KEY not in repr(made) + str(vars(made))
        assert session.default_connection() is made
        search_df("q")
        made.crawl_df(SITE)
        Session(base_url=service.url, api_key="other")
        assert session.default_connection() is made
    assert {each.headers["authorization"] for each in service.requests} == {f"Bearer {KEY}"}


def test_a_closed_session_opens_again_when_it_is_used(service: WireService) -> None:
    made = connect(base_url=service.url, api_key=KEY)
    made.weights_df()
    made.close()
    made.close()
    assert len(made.weights_df()) == 1
    made.close()


def test_the_settings_name_the_service_at_each_call(
    service: WireService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBDATA_BASE_URL", service.url)
    monkeypatch.setenv("WEBDATA_API_KEY", "wrong")
    with Session() as made:
        with pytest.raises(AuthError):
            weights_df(session=made)
        monkeypatch.setenv("WEBDATA_API_KEY", KEY)
        assert len(weights_df(session=made)) == 1
        assert receipt_of(crawl_df(SITE, session=made))["service"] == service.url


@pytest.mark.parametrize(
    "given",
    [
        {"base_url": "service.test"},
        {"base_url": "https://user:pw@service.test"},
        {"base_url": "https://service.test/?a=b"},
        {"base_url": ""},
        {"api_key": ""},
        {"api_key": 5},
    ],
)
def test_a_service_that_cannot_be_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(given))):
        connect(**given)
    assert session._DEFAULT.connection is None


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("name", ["pages.parquet", "pages.jsonl"])
def test_out_writes_the_rows_as_well_fresh_and_cached(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for _ in range(2):
        df = crawl_df(SITE, out=path)
        read = (
            pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_json(path, lines=True)
        )
        assert list(read.columns) == list(df.columns)
        assert read["url"].tolist() == df["url"].tolist()
        path.unlink()


@pytest.mark.usefixtures("connected")
def test_rows_that_cannot_be_written_out_are_still_in_the_cache(
    service: WireService, tmp_path: Path
) -> None:
    target = tmp_path / "pages.parquet"

    def occupied(_path: str, _query: dict[str, str]) -> None:
        target.mkdir(exist_ok=True)  # while the job runs

    service.fault = occupied
    with pytest.raises(OSError, match="pages") as raised:
        crawl_df(SITE, out=target)
    [note] = raised.value.__notes__
    path = Path(note.removeprefix("the rows themselves are safe in "))
    assert len(pd.read_parquet(path)) == 5


def run_script(body: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `body` in a fresh interpreter in which every warning is an error."""
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(body), *arguments],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_script_that_closes_nothing_leaves_nothing_open(service: WireService) -> None:
    script = """
        import sys
        from webdata_nb import connect, crawl_df
        connect(base_url=sys.argv[1], api_key=sys.argv[2])
        print(len(crawl_df("https://site.test/", progress=False)))
    """
    done = run_script(script, service.url, KEY)
    assert (done.stdout.strip(), done.returncode) == ("5", 0)
    complaints = [line for line in done.stderr.splitlines() if "Warning" in line]
    assert complaints == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_opens_connections_of_its_own(service: WireService) -> None:
    script = """
        import os, sys, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # threads and fork, which is the point
        from webdata_nb import connect, weights_df
        connect(base_url=sys.argv[1], api_key=sys.argv[2])
        def tell(*words):  # in one write, which the two processes' lines cannot share
            os.write(1, (" ".join(map(str, words)) + "\\n").encode())
        tell(len(weights_df()))
        child = os.fork()
        tell(len(weights_df()))
        if child == 0:
            os._exit(0)
        _, status = os.waitpid(child, 0)
        tell(status, len(weights_df()))
    """
    done = run_script(script, service.url, KEY)
    assert done.stdout.split() == ["1", "1", "1", "0", "1"], done.stderr
