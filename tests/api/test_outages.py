"""An outage is told as one: never as an empty result, and never as a success of nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from aiohttp import web

from tests.api.receipts import receipt_of
from tests.service.extract.stub_model import StubModel, always_reply
from tests.site.server import Site
from webdata_nb.contract.choices import ENGINES
from webdata_nb.errors import JobFailed
from webdata_nb.toolkit.api import (
    connect,
    crawl_df,
    crawl_job,
    jobs_df,
    retry_failed,
    scrape_df,
    search_df,
)


@pytest.fixture
def site(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Give a search provider that a local service asks before its own index."""
    with Site() as site:
        monkeypatch.setenv("WEBDATA_HOME", str(home))
        monkeypatch.setenv("WEBDATA_SEARXNG_URL", site.url)
        for engine in ENGINES:
            monkeypatch.setenv(f"WEBDATA_{engine.upper()}", "searxng,local")
        with connect():  # closes its connections at the end
            yield site


def fails(_request: web.BaseRequest) -> web.Response:
    return web.Response(status=500)


def answers(request: web.BaseRequest) -> web.Response:
    query = parse_qs(request.query_string)["q"][0]
    rows = [{"url": f"https://x.test/{query}/{n}", "title": f"{n}", "content": ""} for n in "ab"]
    return web.json_response({"results": rows})


def empty_results(_request: web.BaseRequest) -> web.Response:
    return web.json_response({"results": []})


def test_a_search_during_an_outage_fails_and_says_who_was_asked(site: Site) -> None:
    site.under("/search", fails)
    with pytest.raises(JobFailed, match="no search provider could answer") as failed:
        search_df("anything", formats=[])
    assert "searxng: error" in str(failed.value)
    assert "local" not in str(failed.value)  # which never stands in for the web
    assert jobs_df(limit=1)["status"].tolist() == ["failed"]


def test_a_list_during_an_outage_has_failed_rows_that_are_fetched_again(site: Site) -> None:
    site.under("/search", fails)
    df = search_df(["one", "two"], formats=[])
    assert df["query"].tolist() == ["one", "two"]
    assert df["success"].tolist() == [False, False]
    assert df["error"].str.contains("searxng: error").all()
    assert receipt_of(df)["inputs"] == {"total": 2, "failed": 2, "cached": 0}
    assert receipt_of(df)["counts"] == {"rows": 2, "ok": 0, "failed": 2}
    assert receipt_of(df)["status"] == "partial"
    assert "2 failed" in receipt_of(df)["line"]

    site.under("/search", answers)
    again = retry_failed(df)
    urls = [f"https://x.test/{query}/{n}" for query in ("one", "two") for n in "ab"]
    assert again["url"].tolist() == urls
    assert again["success"].all()
    assert receipt_of(again)["inputs"] == {"total": 2, "failed": 0, "cached": 0}
    assert receipt_of(again)["counts"] == {"rows": 4, "ok": 4, "failed": 0}

    site.under("/search", fails)
    with pytest.raises(JobFailed):
        search_df(["three", "four"], formats=[], on_error="raise")


@pytest.mark.filterwarnings("ignore:search:UserWarning")
def test_nothing_found_is_an_answer(site: Site) -> None:
    site.under("/search", empty_results)
    df = search_df("anything", formats=[])
    assert len(df) == 0
    assert receipt_of(df)["status"] == "completed"


# -------------------------------------------------------------------- receipts of lists, and crawls


def status_of(code: int) -> Callable[[web.BaseRequest], web.Response]:
    return lambda _request: web.Response(status=code, text="<p>an error</p>")


def page(text: str) -> Callable[[web.BaseRequest], web.Response]:
    return lambda _request: web.Response(text=f"<p>{text}</p>", content_type="text/html")


def test_a_list_of_pages_that_all_failed_says_so(site: Site) -> None:
    site.under("/gone", status_of(404))
    with pytest.warns(UserWarning, match=r"2 inputs: no row succeeded, .*HTTP 404 Not Found"):
        df = scrape_df([site.at("/gone/1"), site.at("/gone/2")])
    assert receipt_of(df)["inputs"] == {"total": 2, "failed": 2, "cached": 0}
    assert receipt_of(df)["counts"] == {"rows": 2, "ok": 0, "failed": 2}
    assert [each["failed"] for each in receipt_of(df)["runs"]] == [1, 1]
    assert "2 rows (0 ok, 2 failed); 2 of 2 inputs failed" in receipt_of(df)["line"]
    assert "0 failed" not in receipt_of(df)["line"]
    site.under("/fine", page("fine"))
    some = scrape_df([site.at("/gone/1"), site.at("/fine")])
    assert receipt_of(some)["inputs"]["failed"] == 1
    assert "2 rows (1 ok, 1 failed); 1 of 2 inputs failed" in receipt_of(some)["line"]
    assert receipt_of(retry_failed(some))["inputs"] == {"total": 2, "failed": 1, "cached": 0}


def test_a_list_whose_extractions_failed_says_so(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.under("/fine", page("fine"))
    model = StubModel(site, usual=always_reply("no JSON at all"))
    monkeypatch.setenv("WEBDATA_LLM_CUSTOM_URL", model.url)
    monkeypatch.setenv("WEBDATA_LLM_CUSTOM_MODEL", "m1")
    extract = {"prompt": "anything"}
    urls = [site.at("/fine/1"), site.at("/fine/2")]
    with pytest.warns(UserWarning, match="no row succeeded, .*extraction failed"):
        df = scrape_df(urls, scrape_options={"formats": ["markdown"], "extract": extract})
    assert df["success"].tolist() == [False, False]
    receipt = receipt_of(df)
    assert receipt["extraction"]["failed"] == {"invalid": 2}
    assert receipt["extraction"]["providers"] == {"custom": 2}
    assert receipt["extraction"]["calls"] == 4
    assert receipt["inputs"]["failed"] == 2
    assert "2 rows (0 ok, 2 failed)" in receipt["line"]
    assert "extraction failed: 2 invalid" in receipt["line"]


@pytest.mark.slow
@pytest.mark.parametrize(("code", "kind"), [(404, "http_404"), (500, "http_500")])
def test_a_start_page_that_cannot_be_read_is_a_row_and_a_warning(
    site: Site, code: int, kind: str
) -> None:
    site.under("/start", status_of(code))
    warning = f"no page could be read (1 {kind})"
    with pytest.warns(UserWarning, match=re.escape(warning)):
        df = crawl_df(site.at("/start"))
    assert receipt_of(df)["status"] == "completed"
    assert df["status_code"].tolist() == [code]
    assert receipt_of(df)["warning"] == warning
    assert warning in receipt_of(df)["line"]
    with pytest.warns(
        UserWarning, match=re.escape(f"2 inputs: no row succeeded, such as {site.url}")
    ):
        crawl_df([site.at("/start/1"), site.at("/start/2")])
    with pytest.warns(UserWarning, match="no page could be read"):
        crawl_job(site.at("/start")).df()


@pytest.mark.slow
def test_filters_that_nothing_matches_are_a_warning_each_time(site: Site) -> None:
    links = "".join(f'<a href="/docs/{n}">{n}</a>' for n in range(3))
    site.under("/start", page(links))
    site.under("/docs", lambda request: page(f"about {request.path}")(request))
    match = "leave nothing but the start page .3 URLs filtered"
    with pytest.warns(UserWarning, match=match):
        df = crawl_df(site.at("/start"), include_paths=["/doc/**"])
    assert len(df) == 1
    with pytest.warns(UserWarning, match=match):
        assert receipt_of(crawl_df(site.at("/start"), include_paths=["/doc/**"]))["cache"] == "hit"
    assert len(crawl_df(site.at("/start"), include_paths=["/docs/**"])) == 4
    assert len(crawl_df(site.at("/start"), include_paths=["/docs/**"], max_pages=1)) == 1
