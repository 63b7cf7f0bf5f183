"""Why a URL is, or is not, a row: from the receipt beside the file, or from the service."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.api.receipts import receipt_of
from tests.site.server import Site
from tests.wire_service import WireService
from webdata_nb.contract import outcomes
from webdata_nb.contract.replies import ReceiptEntry
from webdata_nb.errors import InvalidArgument, NotFound, NotSupported, OfflineError
from webdata_nb.toolkit import cache
from webdata_nb.toolkit.api import Session, awhy, crawl_df, crawl_job, search_df, why
from webdata_nb.toolkit.cache import result_cache


@pytest.fixture
def crawled(site: Site) -> Site:
    links = ["/a", "/private/x", "/gone", "/Twice", "http://other.test/", "/moved"]
    site.page("/", "".join(f'<a href="{link}">{link}</a>' for link in links))
    site.page("/a", "<title>A</title><p>All about A.")
    site.page("/Twice", "<title>A</title><p>All about A.")
    site.redirect("/moved", "/a")
    site.robots("User-agent: *\nDisallow: /private/\n")
    return site


@pytest.mark.usefixtures("local_session")
async def test_each_url_has_outcome_also_offline(
    crawled: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    df = crawl_df(crawled.url)
    monkeypatch.setenv("WEBDATA_OFFLINE", "1")
    expected = {
        "/": ("fetched", ""),
        "/gone": ("failed:http_404", "HTTP 404 Not Found"),
        "/private/x": ("robots", ""),
        "/moved": ("redirect", crawled.at("/a")),
        "/Twice": ("duplicate", crawled.at("/a")),
    }
    for path, (outcome, detail) in expected.items():
        found = why(df, crawled.at(path))
        assert (found.outcome, found.detail, found.looked_up) == (outcome, detail, "")
        assert found.is_row is outcomes.is_row(outcome)
        assert outcomes.meaning(outcome) in str(found)
    assert (await awhy(df, "http://other.test/")).outcome == "scope"
    near = why(df, crawled.at("/TWICE/#part"))
    assert (near.outcome, near.looked_up) == ("duplicate", crawled.at("/Twice"))
    unseen = why(df, crawled.at("/never"))
    assert (unseen.outcome, unseen.is_row) == (None, False)
    assert "no page of the crawl links to it" in str(unseen)
    assert (
        pd.read_parquet(result_cache.receipt_path(Path(receipt_of(df)["file"])))["outcome"]
        .notna()
        .all()
    )


@pytest.mark.slow
def test_service_is_asked_without_receipt_file(
    crawled: Site, local_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    df = crawl_df(crawled.url, cache=False)
    assert receipt_of(df)["file"] is None
    assert why(df, crawled.at("/private/x")).outcome == "robots"
    job = crawl_job(crawled.url, max_pages=1)
    job.wait()
    url_variant = crawled.at("/a").replace("http:", "HTTP:") + "#top"
    for which in (job, job.job_id):
        found = local_session.why(which, url_variant)
        assert (found.outcome, found.looked_up) == ("over_max_pages", crawled.at("/a"))
        assert found.url == url_variant
    with pytest.raises(NotFound):
        why("no-such-job", crawled.url)
    monkeypatch.setenv("WEBDATA_OFFLINE", "1")
    with pytest.raises(OfflineError, match="no receipt"):
        why(job, crawled.url)


def test_frame_of_several_crawls_searches_all_receipts(
    crawled: Site, local_session: Session
) -> None:
    crawled.page("/other", "<title>Other</title><a href='/gone'>x</a><a href='/a'>y</a>")
    df = local_session.crawl_df([crawled.at("/other"), crawled.url], max_pages=9)
    assert local_session.why(df, crawled.at("/other")).outcome == "fetched"
    assert local_session.why(df, crawled.at("/a")).is_row
    assert local_session.why(df, crawled.at("/private/x")).outcome == "robots"
    assert local_session.why(df, crawled.at("/never")).outcome is None


def test_receipt_is_removed_with_its_rows(crawled: Site, local_session: Session) -> None:
    df = local_session.crawl_df(crawled.url)
    file = Path(receipt_of(df)["file"])
    assert cache.size() == file.stat().st_size + result_cache.receipt_path(file).stat().st_size
    assert cache.ls()["file"].tolist() == [str(file)]
    result_cache.receipt_path(file).write_bytes(b"damaged")
    assert why(df, crawled.url).outcome == "fetched"  # the service knows it too
    assert cache.clear() == 1
    assert not result_cache.receipt_path(file).exists()


def test_service_without_receipts_is_supported(service: WireService, connected: Session) -> None:
    df = connected.crawl_df("https://site.test/", max_pages=2)
    assert not result_cache.receipt_path(Path(receipt_of(df)["file"])).exists()
    with pytest.raises(NotSupported, match="does not offer receipts"):
        connected.why(df, "https://site.test/1")
    service.has_receipts = True
    again = connected.crawl_df("https://site.test/", max_pages=2, refresh=True)
    assert connected.why(again, "https://site.test/1").is_row
    assert result_cache.receipt_path(Path(receipt_of(again)["file"])).exists()


@pytest.mark.usefixtures("connected")
def test_frames_of_other_kinds_are_rejected() -> None:
    with pytest.raises(InvalidArgument, match="crawl must be"):
        why(search_df("x"), "https://site.test/")
    for wrong in (pd.DataFrame(), 3):
        with pytest.raises(InvalidArgument, match="crawl must be"):
            why(wrong, "https://site.test/")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="absolute"):
        why("job", "site.test")


def test_url_variants() -> None:
    seen = [
        "http://a.test/x",
        "https://www.a.test/X/",
        "http://a.test/x?q=%C3%A9",
        "http://b.test/x",
    ]
    entries = [ReceiptEntry(url=url, outcome="fetched") for url in seen]
    exact, near = result_cache.find_receipt_entry(entries, "http://a.test/x")
    assert exact is entries[0]
    assert near == (entries[1],)
    exact, near = result_cache.find_receipt_entry(entries, "https://a.test:443/x?q=é#f")
    assert (exact, near) == (None, (entries[2],))
    assert result_cache.find_receipt_entry(entries, "http://a.test/y") == (None, ())
