"""Without a base URL the local service answers, and the cache knows what changes its answers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.api.receipts import frames_equal, receipt_of
from tests.local_service import stop
from webdata_nb import receive_webhooks, settings
from webdata_nb.demo.server import SampleSite
from webdata_nb.errors import InvalidArgument, JobFailed
from webdata_nb.toolkit import cache, local
from webdata_nb.toolkit.api import (
    Session,
    connect,
    crawl_df,
    crawl_job,
    jobs_df,
    search_df,
    search_job,
)
from webdata_nb.toolkit.bridge import synced


@pytest.fixture
def connected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """Give a session on a local service with a data directory of its own."""
    monkeypatch.setenv("WEBDATA_HOME", str(tmp_path))
    with connect() as made:
        yield made
    stop(settings.current())


@pytest.mark.usefixtures("connected")
def test_a_crawl_and_searches_over_its_pages(
    sample_site: SampleSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = crawl_df(sample_site.url, max_pages=12)
    assert receipt_of(pages)["service"] == "local"
    assert len(pages) == 12
    assert frames_equal(pages, crawl_df(sample_site.url, max_pages=12))

    found = search_df("aurora forecast", num_results=3, formats=[])
    assert receipt_of(found)["provider_used"] == "local"
    assert found["title"].str.contains("aurora forecast").any()
    again = search_df("aurora forecast", num_results=3, formats=[])
    assert receipt_of(again)["cache"] == "hit"
    assert frames_equal(found, again)

    # A crawl adds pages to the index that answered: the earlier answer may be wrong now.
    crawl_df(sample_site.url, max_pages=20)
    assert receipt_of(search_df("aurora forecast", num_results=3, formats=[]))["cache"] == "miss"
    assert receipt_of(search_df("aurora forecast", num_results=3, formats=[]))["cache"] == "hit"
    assert jobs_df()["type"].tolist() == ["search", "crawl", "search", "crawl"]

    monkeypatch.setenv("WEBDATA_OFFLINE", "1")
    assert receipt_of(search_df("aurora forecast", num_results=3, formats=[]))["cache"] == "hit"


@pytest.fixture
def default_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Configure no providers, and no way to the web."""
    for engine in ("ONE", "TWO", "THREE"):
        monkeypatch.delenv(f"WEBDATA_ENGINE_{engine}")
    monkeypatch.setenv("WEBDATA_PROXY", "http://127.0.0.1:9")


def notices(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for text in caplog.messages if text.startswith("Searches ask")]


def search_without_network(query: str, **options: Any) -> None:
    with suppress(JobFailed):
        search_df(query, num_results=1, formats=[], **options)


@pytest.mark.slow
@pytest.mark.usefixtures("connected", "default_providers")
def test_first_search_of_a_home_names_the_providers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "webdata_nb")
    search_without_network("a", progress=False)
    assert notices(caplog) == []
    search_without_network("b")
    search_without_network("c")
    [notice] = notices(caplog)
    names, _, rest = notice.removeprefix("Searches ask ").partition(", in this order. ")
    assert names == "startpage, duckduckgo, brave, mojeek, marginalia, mediawiki"
    assert rest.startswith("To add a provider, set its key, such as WEBDATA_BRAVE_KEY;")


@pytest.mark.slow
@pytest.mark.usefixtures("connected", "default_providers")
def test_several_inputs_name_the_providers_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "webdata_nb")
    search_df(["a", "b", "c"], num_results=1, formats=[])
    assert len(notices(caplog)) == 1


@pytest.mark.usefixtures("connected", "default_providers")
@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("WEBDATA_BRAVE_KEY", "k"),
        pytest.param("WEBDATA_ENGINE_ONE", "local", marks=pytest.mark.slow),
    ],
)
def test_home_with_own_providers_gets_no_notice(
    variable: str,
    value: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(variable, value)
    caplog.set_level(logging.INFO, "webdata_nb")
    search_without_network("a")
    assert notices(caplog) == []


def test_start_of_the_service_is_reported(tmp_path: Path) -> None:
    chosen = replace(settings.current(), data_dir=tmp_path / "data", log_dir=tmp_path)
    phases: list[str] = []

    async def ensure() -> None:
        service = await local.ensure(chosen, on_start=lambda: phases.append("start"))
        again = await local.ensure(chosen, on_start=lambda: phases.append("again"))
        await again.close()
        await service.close()

    synced(ensure)()
    stop(chosen)
    assert phases == ["start"]


@pytest.mark.usefixtures("connected")
def test_removed_site_is_neither_cached_nor_found(sample_site: SampleSite) -> None:
    crawl_df(sample_site.url, max_pages=5)
    assert len(search_df("aurora", num_results=3, formats=[])) > 0
    assert cache.clear(site="https://other.test/") == 0
    assert len(search_df("aurora", num_results=3, formats=[])) > 0
    assert cache.clear(site=sample_site.url + "articles/") == 1
    assert set(cache.ls()["op"]) == {"search"}
    with pytest.warns(UserWarning, match="no rows"):
        assert len(search_df("aurora", num_results=3, formats=[], refresh=True)) == 0


@pytest.mark.usefixtures("connected")
@pytest.mark.slow
def test_pages_of_a_site_that_is_gone_are_marked(sample_site: SampleSite) -> None:
    with SampleSite() as gone:
        crawl_df(gone.url, max_pages=12)
        gone_url = gone.url
    with pytest.raises(JobFailed):
        crawl_df(gone_url, max_pages=12, refresh=True)
    crawl_df(sample_site.url, max_pages=12)
    found = search_df("aurora", num_results=20, formats=[])
    is_gone = found["url"].str.startswith(gone_url)
    assert is_gone.any()
    assert is_gone.tolist() == sorted(is_gone)
    marked = found["snippet"].str.startswith("[site unreachable at its last visit]")
    assert marked.tolist() == is_gone.tolist()


@pytest.mark.parametrize("site", ["example.com", "ftp://a.test/", 7])
def test_site_to_remove_must_be_a_url(site: Any) -> None:
    with pytest.raises(InvalidArgument, match="site must be an absolute http"):
        cache.clear(site=site)


def test_a_cached_answer_starts_no_service(sample_site: SampleSite, connected: Session) -> None:
    crawl_df(sample_site.url, max_pages=2)
    connected.close()
    assert stop(settings.current())
    assert receipt_of(crawl_df(sample_site.url, max_pages=2))["cache"] == "hit"
    assert synced(local.find)(settings.current()) is None


@pytest.mark.slow
def test_a_service_that_went_away_is_started_again(
    sample_site: SampleSite, connected: Session
) -> None:
    assert len(connected.crawl_df(sample_site.url, max_pages=2)) == 2
    assert stop(settings.current())
    assert len(connected.crawl_df(sample_site.url, max_pages=3)) == 3


@pytest.mark.usefixtures("connected")
@pytest.mark.slow
def test_a_jobs_end_is_told_to_the_notebook_that_started_it(sample_site: SampleSite) -> None:
    for start, subject in ((crawl_job, sample_site.url), (search_job, "aurora forecast")):
        with receive_webhooks(timeout=60) as hooks:
            started_job = start(subject, webhook_url=hooks.url, webhook_secret=hooks.secret)
            notifications = list(hooks)
        assert [(each.event, each.job_id) for each in notifications] == [
            ("job.completed", started_job.job_id)
        ]
        assert started_job.status == "completed"
