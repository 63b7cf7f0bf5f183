"""Without a base URL the local service answers, and the cache knows what changes its answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.receipts import receipt_of, same
from webdata_nb import local, receive_webhooks, settings
from webdata_nb.api import (
    Session,
    connect,
    crawl_df,
    crawl_job,
    jobs_df,
    search_df,
    search_job,
)
from webdata_nb.bridge import synced
from webdata_nb.demo.server import SampleSite

stop = synced(local.stop)


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
    assert same(pages, crawl_df(sample_site.url, max_pages=12))

    found = search_df("aurora forecast", num_results=3, formats=[])
    assert receipt_of(found)["provider_used"] == "local"
    assert found["title"].str.contains("aurora forecast").any()
    again = search_df("aurora forecast", num_results=3, formats=[])
    assert receipt_of(again)["cache"] == "hit"
    assert same(found, again)

    # A crawl adds pages to the index that answered: the earlier answer may be wrong now.
    crawl_df(sample_site.url, max_pages=20)
    assert receipt_of(search_df("aurora forecast", num_results=3, formats=[]))["cache"] == "miss"
    assert receipt_of(search_df("aurora forecast", num_results=3, formats=[]))["cache"] == "hit"
    assert jobs_df()["type"].tolist() == ["search", "crawl", "search", "crawl"]

    monkeypatch.setenv("WEBDATA_OFFLINE", "1")
    assert receipt_of(search_df("aurora forecast", num_results=3, formats=[]))["cache"] == "hit"


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
def test_a_jobs_end_is_told_to_the_notebook_that_started_it(sample_site: SampleSite) -> None:
    for start, subject in ((crawl_job, sample_site.url), (search_job, "aurora forecast")):
        with receive_webhooks(timeout=60) as hooks:
            begun = start(subject, webhook_url=hooks.url, webhook_secret=hooks.secret)
            told_of = list(hooks)
        assert [(each.event, each.job_id) for each in told_of] == [("job.completed", begun.job_id)]
        assert begun.status == "completed"
