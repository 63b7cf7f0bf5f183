from __future__ import annotations

import json
import re
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urldefrag, urljoin, urlsplit
from urllib.request import urlopen
from urllib.robotparser import RobotFileParser
from xml.etree import ElementTree as ET

import pytest

from tests.ports import free_port
from tests.site.reading import read_html, words
from webdata_nb.demo.server import SampleSite, SampleWeb

if TYPE_CHECKING:
    from collections.abc import Iterator

BROKEN = {
    "/articles/the-moss-garden-in-winter.html": 404,
    "/instruments/anemometer-3.html": 500,
}
# The resources that a browser would load by itself.
RESOURCES = re.compile(r'<(?:img|link|script|source|iframe)\b[^>]*?\b(?:src|href)="([^"]*)"')
JSON_LD = re.compile(r'<script type="application/ld\+json">(.*?)</script>', re.DOTALL)


@dataclass(frozen=True, slots=True)
class FetchedPage:
    url: str
    status: int
    content_type: str
    text: str


def fetch(url: str) -> FetchedPage:
    try:
        with urlopen(url) as reply:
            body, status, headers, final = reply.read(), 200, reply.headers, reply.url
    except HTTPError as failure:
        with failure:
            body, status, headers, final = failure.read(), failure.code, failure.headers, url
    charset = headers.get_content_charset()
    if charset is None:
        declared = re.search(rb'<meta charset="([\w-]+)">', body)
        charset = declared[1].decode() if declared else "utf-8"
    return FetchedPage(final, status, headers["Content-Type"], body.decode(charset, "replace"))


@pytest.fixture(scope="module")
def served() -> Iterator[SampleSite]:
    with SampleSite() as site:
        yield site


@pytest.fixture(scope="module")
def crawled(served: SampleSite) -> dict[str, FetchedPage]:
    """Everything that links lead to from the front page, robots.txt ignored."""
    waiting, pages = deque([served.url]), dict[str, FetchedPage]()
    while waiting:
        url = waiting.popleft()
        if url in pages:
            continue
        pages[url] = page = fetch(url)
        if page.content_type.startswith("text/html"):
            links = read_html(page.text, page.url).links
            waiting.extend(link for link in links if link.startswith(served.url))
    return pages


def path_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def json_ld(html: str) -> list[dict[str, Any]]:
    return [json.loads(block) for block in JSON_LD.findall(html)]


def test_every_page_is_linked_and_only_intended_links_fail(
    served: SampleSite, crawled: dict[str, FetchedPage]
) -> None:
    failing = {path_of(url): page.status for url, page in crawled.items() if page.status != 200}
    assert failing == BROKEN
    linked = {urlsplit(url).path for url in crawled}
    html = {path for path in SampleWeb(served.url).paths() if path.endswith((".html", "/"))}
    assert html <= linked
    assert 25 <= len(html) <= 30


def test_fragments_of_links_exist(served: SampleSite, crawled: dict[str, FetchedPage]) -> None:
    for page in crawled.values():
        for anchor in read_html(page.text, page.url).anchors:
            target, fragment = urldefrag(anchor)
            if fragment and target.startswith(served.url):
                assert f'id="{fragment}"' in crawled[target].text, anchor


def test_only_external_link_has_host_that_cannot_exist(
    served: SampleSite, crawled: dict[str, FetchedPage]
) -> None:
    links = {link for page in crawled.values() for link in read_html(page.text, page.url).links}
    outside = [link for link in links if not link.startswith(served.url)]
    assert outside == ["https://harbour.example/ferries"]


def test_pages_load_no_external_resources(
    served: SampleSite, crawled: dict[str, FetchedPage]
) -> None:
    resources = {
        urljoin(page.url, match)
        for page in crawled.values()
        for match in RESOURCES.findall(page.text)
        if not match.startswith("https://schema.org/")  # a term of the microdata, never loaded
    }
    assert all(resource.startswith(served.url) for resource in resources)
    assert all(fetch(resource).status == 200 for resource in resources)
    assert "url(" not in fetch(served.url + "style.css").text


def test_titles_and_canonical_urls_are_unique(
    served: SampleSite, crawled: dict[str, FetchedPage]
) -> None:
    titles: dict[str, str] = {}
    for page in crawled.values():
        if page.status == 200:
            canonical = re.search(r'<link rel="canonical" href="([^"]*)">', page.text)
            assert canonical is not None
            assert canonical[1] == served.url[:-1] + urlsplit(page.url).path
            title = read_html(page.text, page.url).title
            assert titles.setdefault(title, canonical[1]) == canonical[1]


def test_articles_are_described_in_json_ld_and_open_graph(
    served: SampleSite, crawled: dict[str, FetchedPage]
) -> None:
    articles = [
        page
        for page in crawled.values()
        if page.status == 200 and re.search(r"/articles/.+\.html$", page.url)
    ]
    assert len({page.url for page in articles}) == 7
    for page in articles:
        (data,) = json_ld(page.text)
        reading = read_html(page.text, page.url)
        assert data["@type"] == "Article"
        assert data["headline"] == reading.headings[0]
        assert data["author"]["name"] in page.text.partition("<body>")[2]
        assert data["image"].startswith(served.url)
        assert f'<meta property="og:title" content="{data["headline"]}">' in page.text
        assert 250 <= len(reading.main_words) <= 700


def test_json_ld_and_microdata_of_products_agree(
    served: SampleSite, crawled: dict[str, FetchedPage]
) -> None:
    shop = fetch(served.url + "shop/")
    (listing,) = json_ld(shop.text)
    urls = [item["url"] for item in listing["itemListElement"]]
    assert len(urls) == 4
    for url in urls:
        (data,) = json_ld(crawled[url].text)
        assert data["@type"] == "Product"
        assert f'itemprop="sku">{data["sku"]}<' in crawled[url].text
        assert f'itemprop="price" content="{data["offers"]["price"]}"' in crawled[url].text
        assert f'data-price="{data["offers"]["price"]}"' in shop.text


def test_json_ld_has_schema_org_context(crawled: dict[str, FetchedPage]) -> None:
    found = [data for page in crawled.values() for data in json_ld(page.text)]
    assert {data["@context"] for data in found} == {"https://schema.org"}
    kinds = {data["@type"] for data in found}
    assert {"Article", "Product", "WebSite", "BreadcrumbList", "ItemList"} <= kinds


def names(page: FetchedPage) -> list[str]:
    return list(read_html(page.text, page.url).headings[3:])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["Copper rain gauge", "Observer's wool hat", "Star chart for 62° north"]),
        ("?sort=price", ["Field notebook", "Star chart for 62° north", "Observer's wool hat"]),
        ("?sort=name", ["Copper rain gauge", "Field notebook", "Observer's wool hat"]),
        ("?color=red", ["Observer's wool hat"]),
        ("?color=blue&sort=price", ["Star chart for 62° north"]),
        ("?color=pink", []),
    ],
)
def test_facets_filter_and_sort(served: SampleSite, query: str, expected: list[str]) -> None:
    assert names(fetch(f"{served.url}shop/{query}"))[:3] == expected


def test_tracking_parameters_have_no_effect(served: SampleSite) -> None:
    plain, tracked = (fetch(f"{served.url}shop/{query}") for query in ("", "?utm_source=feed"))
    assert plain.text == tracked.text


@pytest.mark.parametrize(
    ("path", "content_type", "phrase"),
    [
        ("archive/1931-logbook.html", "text/html; charset=windows-1252", "Søren Bjørnvik"),
        ("archive/letter-from-gdansk.html", "text/html", "chmura kłębiasta"),
    ],
)
def test_pages_in_older_charsets(
    served: SampleSite, path: str, content_type: str, phrase: str
) -> None:
    page = fetch(served.url + path)
    assert page.content_type == content_type
    assert phrase in page.text


def test_old_url_redirects(served: SampleSite) -> None:
    page = fetch(served.url + "articles/aurora.html")
    assert page.url == served.url + "articles/reading-an-aurora-forecast.html"
    assert fetch(served.url + "shop").url == served.url + "shop/"


def test_robots_txt_excludes_private_pages(served: SampleSite) -> None:
    robots = RobotFileParser(served.url + "robots.txt")
    robots.read()
    assert robots.can_fetch("webdata_nb", served.url)
    assert not robots.can_fetch("webdata_nb", served.url + "private/duty-roster.html")
    assert robots.site_maps() == [served.url + "sitemap.xml"]


def test_sitemap_lists_every_public_page(served: SampleSite) -> None:
    tree = ET.fromstring(fetch(served.url + "sitemap.xml").text)
    listed = {loc.text for loc in tree.iter("{http://www.sitemaps.org/schemas/sitemap/0.9}loc")}
    paths = SampleWeb(served.url).paths()
    assert listed == {
        served.url[:-1] + path
        for path in paths
        if path.endswith((".html", "/")) and not path.startswith("/private/")
    }


def test_feed_lists_the_articles_newest_first(served: SampleSite) -> None:
    atom = "{http://www.w3.org/2005/Atom}"
    entries = ET.fromstring(fetch(served.url + "feed.xml").text).findall(f"{atom}entry")
    dates = [entry.findtext(f"{atom}updated", "") for entry in entries]
    assert len(dates) == 7
    assert dates == sorted(dates, reverse=True)
    for entry in entries:
        assert fetch(entry.findtext(f"{atom}id", "")).status == 200


def test_one_page_mentions_aurora_forecast_most(
    crawled: dict[str, FetchedPage],
) -> None:
    def mentions(page: FetchedPage) -> int:
        text = " ".join(words(page.text)).lower()
        return text.count("aurora forecast")

    best = max((page for page in crawled.values() if page.status == 200), key=mentions)
    assert best.url.endswith("/articles/reading-an-aurora-forecast.html")


def test_documentation_has_code_with_its_language_and_tables_with_spans(
    crawled: dict[str, FetchedPage],
) -> None:
    docs = "".join(page.text for url, page in crawled.items() if "/docs/" in url)
    assert set(re.findall(r'<code class="language-(\w+)">', docs)) >= {"python", "ini", "json"}
    assert 'colspan="4"' in docs
    assert docs.count("<dl>") >= 2


def test_one_connection_serves_pages_and_heads(served: SampleSite) -> None:
    connection = HTTPConnection(urlsplit(served.url).netloc, timeout=10)
    lengths = []
    for method in ("GET", "HEAD", "GET"):
        connection.request(method, "/about.html")
        answer = connection.getresponse()
        assert answer.version == 11
        assert len(answer.read()) == (
            0 if method == "HEAD" else int(answer.headers["Content-Length"])
        )
        lengths.append(answer.headers["Content-Length"])
        assert connection.sock is not None
    connection.close()
    assert len(set(lengths)) == 1


def test_close_ends_idle_connections_and_is_idempotent() -> None:
    site = SampleSite()
    with pytest.raises(RuntimeError, match="not running"):
        _ = site.url
    url = site.start().start().url
    connection = HTTPConnection(urlsplit(url).netloc, timeout=10)
    connection.request("GET", "/")
    connection.getresponse().read()
    site.close()
    site.close()
    assert connection.sock is not None
    assert connection.sock.recv(1) == b""
    connection.close()
    with pytest.raises(URLError, match="refused"):
        urlopen(url)


def test_each_site_uses_its_own_origin(sample_site: SampleSite, served: SampleSite) -> None:
    assert sample_site.url != served.url
    assert sample_site.url in fetch(sample_site.url).text
    assert served.url not in fetch(sample_site.url).text


def test_port_can_be_chosen_and_a_taken_one_is_replaced_by_the_next() -> None:
    chosen = free_port()
    with SampleSite(port=chosen) as first:
        assert urlsplit(first.url).port == chosen
        with SampleSite(port=chosen) as second, SampleSite(port=chosen) as third:
            ports = [urlsplit(site.url).port or 0 for site in (second, third)]
            assert chosen < ports[0] < ports[1] < chosen + 100
    with SampleSite(port=chosen) as again:
        assert urlsplit(again.url).port == chosen


def test_without_a_free_port_after_the_chosen_one_any_is_taken() -> None:
    with ExitStack() as stack:
        for _ in range(2):  # no port follows this one
            site = stack.enter_context(SampleSite(port=65_535))
        assert urlsplit(site.url).port not in {65_535, 0}


def test_a_number_that_is_no_port_is_refused() -> None:
    for port in (-1, 65_536):
        with pytest.raises(OverflowError, match="port must be 0-65535"):
            SampleSite(port=port).start()
