"""Pages with more links than a crawl follows."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.service.conftest import Api
from tests.site.server import Site
from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse
from webdata_nb.page.scrape.page import MAX_OUTLINKS, scrape


def page_with_links(count: int) -> str:
    links = "".join(f"<a href=/{n}>x</a>\n" for n in range(count))
    return f"<title>Links</title><main>{links}</main>"


@pytest.mark.parametrize("over", [0, 1, 5000])
def test_excess_links_are_counted(over: int) -> None:
    body = page_with_links(MAX_OUTLINKS + over).encode()
    url = "http://a.test/"
    source = FetchedResponse(url, url, 200, "text/html", body, (), datetime.now(UTC))
    scraped = scrape(source, ConversionOptions(formats=("links",)))
    assert [each.url for each in scraped.outlinks] == [f"{url}{n}" for n in range(MAX_OUTLINKS)]
    assert scraped.metadata.get("links_omitted") == (over or None)
    # The format is the page's content, and whole.
    assert len(scraped.formats["links"]) == MAX_OUTLINKS + over


async def test_crawl_row_reports_omitted_links(api: Api, site: Site) -> None:
    site.page("/", page_with_links(MAX_OUTLINKS + 7))
    crawled = await api.run_job("crawl", url=site.url, max_pages=1)
    [row] = crawled["data"]
    assert row["metadata"]["links_omitted"] == 7
    receipt = await api.get(f"/v1/crawl/{crawled['job_id']}/receipt", params={"per_page": 10_000})
    assert receipt["total_results"] <= MAX_OUTLINKS + 2
