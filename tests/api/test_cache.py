"""The second call is answered by a file, and only where that is right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import webdata_nb
from tests.api.receipts import SECRET, SITE, frames_equal, receipt_of
from tests.wire_service import KEY, JobScript, WireService, crawl_rows
from webdata_nb.contract import paths
from webdata_nb.errors import (
    AuthError,
    OfflineError,
)
from webdata_nb.toolkit.api import (
    connect,
    crawl_df,
    creatives_df,
    jobs_df,
    search_df,
    weights_df,
)


@pytest.mark.parametrize("backend", ["pandas", "pyarrow"])
@pytest.mark.usefixtures("connected")
def test_second_call_comes_from_cache_and_is_equal(service: WireService, backend: Any) -> None:
    calls: list[Callable[[], pd.DataFrame]] = [
        lambda: search_df("q", dtype_backend=backend),
        lambda: crawl_df(SITE, scrape_options={"formats": ["links"]}, dtype_backend=backend),
        lambda: creatives_df("AR1", dtype_backend=backend),
    ]
    for call in calls:
        fresh = call()
        before = len(service.requests)
        again = call()
        assert len(service.requests) == before
        assert (receipt_of(fresh)["cache"], receipt_of(again)["cache"]) == ("miss", "hit")
        assert frames_equal(fresh, again)
        assert Path(receipt_of(again)["file"]).is_file()


@pytest.mark.usefixtures("connected")
def test_explicit_contract_default_shares_cache_entry(service: WireService) -> None:
    search_df("q")
    search_df("q", num_results=10, formats=["markdown"])
    assert len(service.posted(paths.SEARCH)) == 1
    # The contract leaves a crawl's defaults to the service, so ours may not stand for them.
    crawl_df(SITE)
    crawl_df(SITE, max_pages=100)
    assert len(service.posted(paths.CRAWL)) == 2


def test_each_service_and_key_has_its_own_cache(service: WireService) -> None:
    with WireService() as other, connect(base_url=other.url, api_key=KEY) as second:
        with connect(base_url=service.url, api_key=KEY) as first:
            first.crawl_df(SITE)
            second.crawl_df(SITE)
        assert len(other.jobs) == 1
        with (
            connect(base_url=other.url, api_key="wrong") as unauthorized,
            pytest.raises(AuthError, match="WEBDATA_API_KEY"),
        ):
            unauthorized.crawl_df(SITE)


@pytest.mark.usefixtures("connected")
def test_refresh_fetches_and_caches_new_result(service: WireService) -> None:
    crawl_df(SITE)
    service.crawl = JobScript(crawl_rows(2))
    assert len(crawl_df(SITE)) == 5
    assert len(crawl_df(SITE, refresh=True)) == 2
    assert len(crawl_df(SITE)) == 2
    assert len(webdata_nb.cache.ls()) == 2


@pytest.mark.usefixtures("connected")
def test_cache_false_reads_and_writes_nothing(service: WireService, cached: Path) -> None:
    df = crawl_df(SITE, cache=False)
    crawl_df(SITE, cache=False)
    assert len(service.jobs) == 2
    assert (receipt_of(df)["cache"], receipt_of(df)["file"]) == ("off", None)
    assert not cached.exists()


@pytest.mark.usefixtures("connected")
def test_result_older_than_ttl_is_fetched_again(
    service: WireService, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl_df(SITE)
    crawl_df(SITE, ttl=0)
    assert len(service.jobs) == 2
    monkeypatch.setenv("WEBDATA_TTL", "0")
    crawl_df(SITE)
    assert len(service.jobs) == 3
    crawl_df(SITE, ttl=3600)
    assert len(service.jobs) == 3


@pytest.mark.usefixtures("connected")
def test_offline_uses_cache_of_any_age(service: WireService) -> None:
    with pytest.raises(OfflineError, match="no result of this crawl"):
        crawl_df(SITE, offline=True)
    fresh = crawl_df(SITE)
    before = len(service.requests)
    assert frames_equal(fresh, crawl_df(SITE, offline=True, ttl=0))
    with pytest.raises(OfflineError, match="rule the cache out"):
        crawl_df(SITE, offline=True, refresh=True)
    with pytest.raises(OfflineError, match="WEBDATA_OFFLINE"):
        search_df("q", offline=True)
    assert len(service.requests) == before


@pytest.mark.usefixtures("connected")
def test_offline_from_environment_applies_to_listings(
    service: WireService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBDATA_OFFLINE", "1")
    for call in (jobs_df, weights_df):
        with pytest.raises(OfflineError):
            call()
    assert service.requests == []


@pytest.mark.usefixtures("connected")
def test_file_has_the_columns_of_the_frame() -> None:
    for df in (
        crawl_df(SITE, formats=["links"]),
        search_df("q", formats=[]),
        search_df("q", formats=["markdown"]),
    ):
        file = receipt_of(df)["file"]
        assert pq.read_schema(file).names == list(df.columns)


@pytest.mark.usefixtures("connected")
def test_damaged_file_is_fetched_again(service: WireService) -> None:
    path = Path(receipt_of(crawl_df(SITE))["file"])
    path.write_bytes(path.read_bytes()[:-10])
    assert receipt_of(crawl_df(SITE))["cache"] == "miss"
    assert len(service.jobs) == 2


@pytest.mark.usefixtures("connected")
def test_headers_and_cookies_change_cache_key_and_are_not_stored(
    service: WireService, cached: Path
) -> None:
    private: Any = {"headers": {"X-Key": SECRET}, "cookies": {"session": SECRET}}
    df = search_df("q", **private)
    crawl_df("https://user:" + SECRET + "@site.test/", scrape_options=private)
    search_df("q", headers={"X-Key": SECRET + "2"}, cookies={"session": SECRET})
    assert len(service.posted(paths.SEARCH)) == 2
    assert service.posted(paths.SEARCH)[0]["headers"] == {"X-Key": SECRET}
    assert receipt_of(df)["request"] == {"query": "q"}
    files = [path for path in cached.rglob("*") if path.is_file()]
    assert len([path for path in files if path.suffix == ".parquet"]) == 3
    # What a Parquet file tells of itself is not compressed.
    assert not any(SECRET.encode() in path.read_bytes() for path in files)
    assert not any(KEY.encode() in path.read_bytes() for path in files)
    assert not any(SECRET in line for line in webdata_nb.cache.ls()["subject"])


@pytest.mark.usefixtures("connected")
def test_unwritable_cache_warns_once(
    service: WireService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("")
    monkeypatch.setenv("WEBDATA_CACHE", str(occupied))
    with pytest.warns(UserWarning, match="cannot be written") as caught:
        df = crawl_df(SITE)
    assert len(caught) == 1
    assert (len(df), receipt_of(df)["file"]) == (5, None)
    crawl_df(SITE)  # without a second warning, which would be an error here
    assert len(service.jobs) == 2


@pytest.mark.usefixtures("connected")
def test_an_offline_miss_names_the_closest_cached_request() -> None:
    with pytest.raises(OfflineError, match=r"no result of this crawl of https://site\.test/: .*ls"):
        crawl_df(SITE, offline=True)
    crawl_df(SITE, max_pages=5)
    search_df("moss")
    with pytest.raises(OfflineError, match=r"is crawl https://site\.test/ .*max_pages=5 \(not 7\)"):
        crawl_df(SITE, max_pages=7, offline=True)
    with pytest.raises(OfflineError, match=r"is crawl https://site\.test/ of \d{4}-\d\d-\d\d"):
        crawl_df(f"{SITE}docs", max_pages=5, offline=True)
    with pytest.raises(OfflineError, match="with another key or headers"):
        crawl_df(SITE, max_pages=5, scrape_options={"headers": {"X-Key": "secret"}}, offline=True)
    with pytest.raises(OfflineError, match=r"search of ferns and lichen: .*cache\.ls\(\)"):
        search_df("ferns and lichen", offline=True)
