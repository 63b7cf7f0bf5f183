"""Receipts count the rows whose content may be missing, by reason, however a crawl is called."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from tests.api.receipts import receipt_of
from tests.page.documents.test_pdf import drawn_pdf
from tests.service.archives.warc_files import response, write_warc
from tests.site.document import document, prose
from tests.site.server import Site
from webdata_nb.toolkit.api import connect, crawl_df, crawl_job, scrape_df

SCANS = [drawn_pdf(f"{left} 50 200 200 re f") for left in (50, 90)]
PDF = {"Content-Type": "application/pdf"}
COUNTS = {"no text layer": 2, "refreshes": 1}
CLAUSE = "low confidence: 3 rows (no text layer: 2, refreshes: 1)"


@pytest.fixture
def site(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with Site() as site:
        monkeypatch.setenv("WEBDATA_HOME", str(home))
        for number, scan in enumerate(SCANS):
            site.page(f"/scan{number}.pdf", scan, headers=PDF)
        site.page("/moved", '<meta http-equiv="refresh" content="60;url=/">')
        links = ["/scan0.pdf", "/scan1.pdf", "/moved"]
        site.page("/", document("Ledger", text=prose("ledger", 250), links=links))
        with connect():
            yield site


def assert_counted(df: pd.DataFrame) -> None:
    receipt = receipt_of(df)
    assert receipt["low_confidence"] == COUNTS
    assert CLAUSE in receipt["line"]
    assert "low_confidence" in repr(receipt)
    assert CLAUSE in df.attrs["webdata"]._repr_html_()
    assert json.loads(json.dumps(receipt))["low_confidence"] == COUNTS


def test_one_crawl_fresh_and_cached(site: Site) -> None:
    assert_counted(crawl_df(site.url))
    again = crawl_df(site.url)
    assert receipt_of(again)["cache"] == "hit"
    assert_counted(again)


def test_lists_of_sites_and_of_pages(site: Site) -> None:
    with Site() as other:
        other.page("/", document("Other", text=prose("other", 250)))
        assert_counted(crawl_df([site.url, other.url]))
    urls = [site.at(path) for path in ("/scan0.pdf", "/", "/moved", "/scan1.pdf")]
    assert_counted(scrape_df(urls))


def test_streams_jobs_and_batches(site: Site, tmp_path: Path) -> None:
    stream = crawl_df(site.url, stream=2, cache=False)
    assert sum(map(len, stream)) == 4
    assert stream.receipt is not None
    assert stream.receipt["low_confidence"] == COUNTS
    job = crawl_job(site.url, max_pages=9)
    job.wait()
    assert_counted(job.df())
    written = crawl_df(site.url, out=tmp_path / "rows.parquet", cache=False)
    assert_counted(written)


def test_a_long_crawl(site: Site, tmp_path: Path) -> None:
    assert_counted(crawl_df(site.url, max_pages=2000, out=tmp_path / "rows"))
    assert_counted(crawl_df(site.url, max_pages=2000, out=tmp_path / "rows"))


@pytest.mark.usefixtures("site")
def test_an_archive(tmp_path: Path) -> None:
    url = "http://example.test/"
    links = ["/scan0.pdf", "/scan1.pdf", "/moved"]
    page = document("Ledger", text=prose("ledger", 250), links=links)
    moved = b'<meta http-equiv="refresh" content="60;url=/">'
    path = write_warc(
        tmp_path / "site.warc.gz",
        response(url, page.encode()),
        response(f"{url}scan0.pdf", SCANS[0], content_type="application/pdf"),
        response(f"{url}scan1.pdf", SCANS[1], content_type="application/pdf"),
        response(f"{url}moved", moved),
    )
    assert_counted(crawl_df(path))


def test_a_good_page_has_no_such_line(site: Site) -> None:
    receipt = receipt_of(crawl_df(site.url, max_pages=1))
    assert "low_confidence" not in receipt
    assert "low confidence" not in receipt["line"]
