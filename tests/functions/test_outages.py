"""An outage is told as one: never as an empty result, and never as a success of nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from aiohttp import web

from tests.functions.receipts import told
from tests.site.server import Site
from webdata_nb import local, settings
from webdata_nb.bridge import synced
from webdata_nb.contract.fields import ENGINES
from webdata_nb.errors import JobFailed
from webdata_nb.functions import jobs_df, retry_failed, search_df

stop = synced(local.stop)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Give a search provider that a local service asks before its empty index."""
    with Site() as site:
        monkeypatch.setenv("WEBDATA_HOME", str(tmp_path))
        monkeypatch.setenv("WEBDATA_SEARXNG_URL", site.url)
        for engine in ENGINES:
            monkeypatch.setenv(f"WEBDATA_{engine.upper()}", "searxng,local")
        yield site
        stop(settings.current())


def fails(_request: web.BaseRequest) -> web.Response:
    return web.Response(status=500)


def answers(request: web.BaseRequest) -> web.Response:
    query = parse_qs(request.query_string)["q"][0]
    rows = [{"url": f"https://x.test/{query}/{n}", "title": f"{n}", "content": ""} for n in "ab"]
    return web.json_response({"results": rows})


def has_nothing(_request: web.BaseRequest) -> web.Response:
    return web.json_response({"results": []})


def test_a_search_during_an_outage_fails_and_says_who_was_asked(site: Site) -> None:
    site.under("/search", fails)
    with pytest.raises(JobFailed, match="no search provider could answer") as failed:
        search_df("anything", formats=[])
    assert "searxng: error" in str(failed.value)
    assert "local: empty" in str(failed.value)
    assert jobs_df()["status"].tolist() == ["failed"]


def test_a_list_during_an_outage_has_failed_rows_that_are_fetched_again(site: Site) -> None:
    site.under("/search", fails)
    df = search_df(["one", "two"], formats=[])
    assert df["query"].tolist() == ["one", "two"]
    assert df["success"].tolist() == [False, False]
    assert df["error"].str.contains("searxng: error").all()
    assert told(df)["inputs"] == {"total": 2, "failed": 2, "cached": 0}
    assert told(df)["counts"] == {"rows": 2, "ok": 0, "failed": 2}
    assert told(df)["status"] == "partial"
    assert "2 failed" in told(df)["line"]

    site.under("/search", answers)
    again = retry_failed(df)
    urls = [f"https://x.test/{query}/{n}" for query in ("one", "two") for n in "ab"]
    assert again["url"].tolist() == urls
    assert again["success"].all()

    site.under("/search", fails)
    with pytest.raises(JobFailed):
        search_df(["three", "four"], formats=[], on_error="raise")


@pytest.mark.filterwarnings("ignore:search:UserWarning")
def test_nothing_found_is_an_answer(site: Site) -> None:
    site.under("/search", has_nothing)
    df = search_df("anything", formats=[])
    assert len(df) == 0
    assert told(df)["status"] == "completed"
