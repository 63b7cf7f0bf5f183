"""Characters that no store takes as text: NUL, and halves of surrogate pairs."""

from __future__ import annotations

import orjson
import pytest
from aiohttp import web

from tests.service.conftest import Api
from tests.site.server import Site

ODD = "A &#xD83D; B &#0; C \0 D &#xDE00;"
IN_JSON = r'"A \ud83d B \u0000 C"'
FORMATS = ["markdown", "html", "raw_html", "links", "headings", "images", "structured_data"]


def serve(site: Site) -> str:
    link = '<a href="/b?q=%00&#xD83D;&#0;" title="&#xD83D;">x &#xD83D; y &#0;</a>'
    site.page(
        "/",
        f"<html lang='en'><title>{ODD}</title><meta name=description content='{ODD}'>"
        f"<meta property='og:title' content='{ODD}'><meta name='{ODD}' content=x>"
        f'<script type="application/ld+json">{{"@type": "Product", "name": {IN_JSON}}}</script>'
        f"<main><h1>{ODD}</h1><p>Northern lights {ODD}</p>{link}<a href='/feed'>f</a>"
        f"<a href='/data.json'>j</a><a href='/&#xD83D;'>n</a><img src='/i&#xD83D;.png' alt='{ODD}'>"
        "</main>",
    )
    site.page("/b?q=%00%EF%BF%BD%EF%BF%BD", "<title>B</title><p>b")
    feed = (
        f"<rss><channel><title>{ODD}</title><item><title>{ODD}</title><link>/b</link></item>"
        "</channel></rss>"
    )
    site.page("/feed", lambda _: web.Response(text=feed, content_type="application/rss+xml"))
    data = f'{{"title": {IN_JSON}, "n": NaN}}'
    site.page("/data.json", lambda _: web.Response(text=data, content_type="application/json"))
    urls = "".join(f"<url><loc>{site.at(p)}</loc></url>" for p in ("/b", "/s&#xD83D;&#0;", "/t\0"))
    sitemap = f"<urlset>{urls}</urlset>"
    site.page("/sitemap.xml", lambda _: web.Response(text=sitemap, content_type="text/xml"))
    return site.url


@pytest.mark.both_stores
async def test_characters_that_no_store_takes_cost_no_page(api: Api, site: Site) -> None:
    url = serve(site)
    extract = {"schema": {"type": "object", "properties": {"name": {"type": "string"}}}}
    options = {"formats": FORMATS, "extract": extract}
    crawl = await api.run_job(
        "crawl", url=url, scrape_options=options, audit=True, sitemap=True, check_links=True
    )
    assert crawl["status"] == "completed", crawl
    rows = {row["url"].removeprefix(url): row for row in crawl["data"]}
    for path in ("", "b?q=%00%EF%BF%BD%EF%BF%BD", "feed", "data.json"):
        assert rows[path]["success"], rows[path]
    assert rows[""]["extract"]["name"].startswith("A \ufffd B")
    for file_format in ("csv", "zip"):
        export = await api.http.get(
            f"/v1/crawl/{crawl['job_id']}/export", params={"format": file_format}
        )
        assert export.status_code == 200
    orjson.dumps(crawl).decode("utf-8")
    search = await api.run_job("search", query="northern lights", formats=["markdown"])
    assert [row["url"] for row in search["data"]] == [url]
