"""Sitemaps are parsed, and seed a crawl."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from tests.cpu_deadline import cpu_deadline
from tests.requirements import require
from tests.service.conftest import Api, open_service
from tests.site.server import Site
from webdata_nb.page import sitemap as reading
from webdata_nb.service.crawl.sitemaps import SitemapSeeds
from webdata_nb.service.store.records import UrlOutcome

A, B = "http://a.test/a", "http://a.test/b"
NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"


def urlset(*urls: str, root: str = "urlset", item: str = "url", attributes: str = "") -> str:
    items = "".join(f"<{item}><loc>{url}</loc></{item}>" for url in urls)
    return f'<?xml version="1.0" encoding="UTF-8"?><{root}{attributes}>{items}</{root}>'


def index(*urls: str) -> str:
    return urlset(*urls, root="sitemapindex", item="sitemap")


@pytest.mark.parametrize(
    "text",
    [
        urlset(A, B),
        urlset(A, B, attributes=f' xmlns="{NAMESPACE}"'),
        urlset(A, B, attributes=' xmlns="urn:some:thing:else"'),
        urlset(f"\n  {A}\n", f"<![CDATA[{B}]]>"),
        urlset(A, A, B, "nowhere", "ftp://a.test/"),
        (
            f"<s:urlset xmlns:s='{NAMESPACE}' xmlns:i='urn:i'><s:url><s:loc>{A}</s:loc><i:image>"
            f"<i:loc>http://a.test/p.png</i:loc></i:image></s:url><s:url><s:loc>{B}</s:loc></s:url>"
            "</s:urlset>"
        ),
        (
            f"<rss><channel><link>http://a.test/</link><item><link>{A}</link></item>"
            f"<item><link>{B}</link></item></channel></rss>"
        ),
        (
            f"<feed xmlns='http://www.w3.org/2005/Atom'><link href='http://a.test/'/><entry>"
            f"<link href='{A}'/><link rel='edit' href='http://a.test/e'/></entry><entry>"
            f"<link rel='alternate' href='{B}'/></entry></feed>"
        ),
        f"{A}\r\n\r\n{B}\r\n# no URL\r\n",
        f"\ufeff{A}\n{B}",
    ],
)
def test_all_sitemap_formats_are_read(text: str) -> None:
    for body in (text.encode(), gzip.compress(text.encode(), mtime=0)):
        listing = reading.parse_sitemap(body)
        assert (listing.pages, listing.sitemaps, listing.problem) == ((A, B), (), "")


def test_sitemap_index_is_read() -> None:
    assert reading.parse_sitemap(index(A, B).encode()).sitemaps == (A, B)
    assert reading.parse_sitemap(index(A).encode("utf-16")).problem  # it says UTF-8 and is not


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (urlset(A, B).encode()[:-20], "no valid XML"),
        (gzip.compress(urlset(A, B).encode() + b" " * 99, mtime=0)[:-12], "cut off"),
        (b"\x1f\x8b rubbish", "damaged gzip"),
        (b"\x00\x01 rubbish", "no sitemap"),
        (
            b"<!DOCTYPE u [<!ENTITY e 'boom'>]><urlset><url><loc>&e;</loc></url></urlset>",
            "entities",
        ),
        (b"<!DOCTYPE u [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><urlset>&e;</urlset>", "entities"),
        *(
            (f'<?xml version="1.0" encoding="{name}"?><urlset/>'.encode(), "encoding")
            for name in ("UTF-2", "base64", "big5", "idna", "cp037")
        ),
    ],
)
def test_broken_sitemaps_have_a_problem(body: bytes, problem: str) -> None:
    listing = reading.parse_sitemap(body)
    assert problem in listing.problem
    assert set(listing.pages) <= {A, B}


def test_sitemap_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    many = urlset(*(f"http://a.test/{i}" for i in range(reading.MAX_URLS + 1)))
    listing = reading.parse_sitemap(many.encode())
    assert len(listing.pages) == reading.MAX_URLS
    assert "more than 50,000 URLs" in listing.problem
    monkeypatch.setattr(reading, "MAX_BYTES", 1000)
    assert "unpacks" in reading.parse_sitemap(gzip.compress(many.encode(), mtime=0)).problem


def many_attributes() -> bytes:
    return b"<urlset><url " + b" ".join(b"a%d=''" % n for n in range(2_000_000)) + b">"


@pytest.mark.parametrize(
    ("build_body", "problem"),
    [
        (lambda: b"<urlset>" + b"<a>" * 5_000_000, "nests deeper than 64"),
        (many_attributes, "a tag of"),
        (lambda: b"<urlset><!--" + b"x" * 5_000_000, "a tag of"),
    ],
    ids=["open tags", "attributes", "a comment"],
)
def test_hostile_files_are_rejected_early(build_body: Callable[[], bytes], problem: str) -> None:
    body = build_body()
    # A few milliseconds each; without the bounds 1 to 6 s.
    with cpu_deadline():
        for _ in range(100):
            assert problem in reading.parse_sitemap(body).problem


def test_pages_before_hostile_tag_are_listed() -> None:
    body = urlset(A, B).encode().replace(b"</urlset>", b"<url " + b"x" * 1_000_000)
    assert reading.parse_sitemap(body).pages == (A, B)


def test_url_length_is_bounded() -> None:
    longest = "http://a.test/" + "x" * (reading.MAX_URL_LENGTH - 14)
    assert reading.parse_sitemap(urlset(A, longest, longest + "x").encode()).pages == (A, longest)


def test_overlong_text_is_not_a_url() -> None:
    long = "\n" * 100_000
    body = urlset(f"{long}{A}", "http://a.test/q?" + "&amp;".join("abcdefgh" * 30), B).encode()
    pages = reading.parse_sitemap(body).pages
    assert pages == ("http://a.test/q?" + "&".join("abcdefgh" * 30), B)


@given(st.binary(max_size=200))
def test_parser_accepts_any_body(body: bytes) -> None:
    for start in (b"", b"<urlset>", b"\x1f\x8b\x08"):
        reading.parse_sitemap(start + body)


def test_corpus_sitemaps() -> None:
    folder = require("corpora") / "crawler-commons/sitemaps"
    files = [file for file in sorted(folder.rglob("*.*")) if file.is_file()]
    listings = {file.name: reading.parse_sitemap(file.read_bytes()) for file in files}
    assert len(listings) == 18
    read = [name for name, each in listings.items() if each.pages or each.sitemaps]
    assert len(read) >= 14, {name: each.problem for name, each in listings.items()}


def chain(site: Site) -> None:
    """Serve a start page with one link, and sitemaps with more."""
    site.page("/", "<title>Home</title><a href='/linked'>x</a>")
    for name in ("linked", "one", "two", "three"):
        site.page(f"/{name}", f"<title>{name}</title><p>All about {name}.")
    site.robots("Sitemap: /index.xml\nUser-agent: *\nDisallow: /two\n")
    site.page("/index.xml", index(site.at("/pages.xml.gz"), site.at("/gone.xml")))
    pages = urlset(site.at("/one"), site.at("/two"), site.at("/linked"), "http://other.test/")
    site.page(
        "/pages.xml.gz",
        lambda _: web.Response(body=gzip.compress(pages.encode()), content_type="application/gzip"),
    )
    site.page("/sitemap.xml", urlset(site.at("/three")))


@pytest.mark.parametrize(
    "strategy",
    [
        "bfs",
        pytest.param("dfs", marks=pytest.mark.slow),
        pytest.param("bff", marks=pytest.mark.slow),
    ],
)
async def test_seeds_follow_start_page_links(api: Api, site: Site, strategy: str) -> None:
    chain(site)
    reply = await api.run_job("crawl", url=site.url, sitemap=True, crawl_strategy=strategy)
    rows = [(row["title"], row["depth"]) for row in reply["data"]]
    assert rows[0] == ("Home", 0)
    assert sorted(rows[1:]) == [("linked", 1), ("one", 1), ("three", 1)]
    if strategy == "bfs":
        assert [title for title, _ in rows] == ["Home", "linked", "three", "one"]
    counts = reply["receipt"]["counts"]
    assert counts == {"fetched": 4, "robots": 1, "scope": 1, "sitemap": 1}
    receipt = await api.get(
        f"/v1/crawl/{reply['job_id']}/receipt", params={"url": site.at("/gone.xml")}
    )
    assert receipt["data"][0]["detail"] == "HTTP 404"


async def test_sitemaps_are_not_requested_without_option(api: Api, site: Site) -> None:
    chain(site)
    reply = await api.run_job("crawl", url=site.url)
    assert [row["title"] for row in reply["data"]] == ["Home", "linked"]
    assert not {path for path in site.paths if "xml" in path}


async def test_missing_default_sitemap_is_not_a_problem(api: Api, site: Site) -> None:
    site.page("/", "<title>Home</title>")
    reply = await api.run_job("crawl", url=site.url, sitemap=True)
    assert reply["receipt"]["counts"] == {"fetched": 1}
    assert site.hits("/sitemap.xml")


async def test_sitemap_index_cycle_ends(api: Api, site: Site) -> None:
    site.page("/", "<title>Home</title>")
    site.page("/sitemap.xml", index(site.at("/sitemap.xml"), site.at("/other.xml")))
    site.page("/other.xml", index(site.at("/sitemap.xml")))
    await api.run_job("crawl", url=site.url, sitemap=True)
    assert len(site.hits("/sitemap.xml")) == 1


async def test_seeds_are_kept_after_restart(tmp_path: Path, site: Site) -> None:
    chain(site)
    with site.hold("/one"):
        async with open_service(tmp_path) as api:
            job_id = await api.start_job("crawl", {"url": site.url, "sitemap": True})
            await asyncio.to_thread(site.wait_for, "/one")
        site.page("/sitemap.xml", urlset(site.at("/never")))
    requests = len(site.hits("/sitemap.xml"))
    async with open_service(tmp_path) as api:
        reply = await api.wait_for_end("crawl", job_id)
    assert [row["title"] for row in reply["data"]] == ["Home", "linked", "three", "one"]
    assert len(site.hits("/sitemap.xml")) == requests == 1


def llms_site(site: Site) -> None:
    """Serve a start page, and an llms.txt that lists two Markdown pages."""
    site.page("/", "<title>Home</title><a href='/linked'>x</a>")
    site.page("/linked", "<title>linked</title><p>Linked text.")
    site.page("/sitemap.xml", urlset(site.at("/mapped")))
    site.page("/mapped", "<title>mapped</title><p>Mapped text.")
    text = (
        "# Site\n\n> Summary\n\n## Docs\n\n- [One](/docs/one.md): first\n"
        f"- [Two]({site.at('/docs/two.md')})\n- [Secret](/secret)\n- [Other](http://other.test/)\n"
    )
    site.page("/llms.txt", text_reply(text, "text/plain"))
    site.page("/docs/one.md", text_reply("# One\n\n[more](more.md)\n", "text/markdown"))
    site.page("/docs/two.md", text_reply("# Two\n", "text/plain"))
    site.page("/docs/more.md", text_reply("# More\n", "application/octet-stream"))


def text_reply(text: str, content_type: str) -> Callable[[web.BaseRequest], web.Response]:
    return lambda _: web.Response(body=text.encode(), content_type=content_type)


async def test_links_of_llms_txt_follow_those_of_sitemaps(api: Api, site: Site) -> None:
    llms_site(site)
    site.robots("User-agent: *\nDisallow: /secret\n")
    reply = await api.run_job("crawl", url=site.url, llms_txt=True, sitemap=True)
    rows = [(row["title"], row["depth"]) for row in reply["data"]]
    assert rows == [("Home", 0), ("linked", 1), ("mapped", 1), ("One", 1), ("Two", 1), ("More", 2)]
    assert reply["receipt"]["counts"] == {"fetched": 6, "robots": 1, "scope": 1}
    assert len(site.hits("/llms.txt")) == 1
    site.forget()
    reply = await api.run_job("crawl", url=site.url, llms_txt=True)
    assert [row["title"] for row in reply["data"]] == ["Home", "linked", "One", "Two", "More"]
    assert not site.hits("/sitemap.xml")


async def test_llms_txt_is_not_requested_without_option(api: Api, site: Site) -> None:
    llms_site(site)
    await api.run_job("crawl", url=site.url, sitemap=True)
    assert not site.hits("/llms.txt")


async def test_llms_txt_that_robots_txt_disallows_is_not_read(api: Api, site: Site) -> None:
    llms_site(site)
    site.robots("User-agent: *\nDisallow: /llms.txt\n")
    reply = await api.run_job("crawl", url=site.at("/linked"), llms_txt=True, max_depth=1)
    assert not site.hits("/llms.txt")
    assert reply["receipt"]["counts"] == {"fetched": 1}


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        pytest.param(404, "no", None, marks=pytest.mark.slow),
        (403, "no", "HTTP 403"),
        (200, "<!DOCTYPE html><title>x</title><a href=/never>x</a>", "it is no Markdown"),
    ],
)
async def test_unreadable_llms_txt_is_in_the_receipt(
    api: Api, site: Site, status: int, body: str, problem: str | None
) -> None:
    site.page("/", "<title>Home</title>")
    site.page("/llms.txt", body, status=status)
    reply = await api.run_job("crawl", url=site.url, llms_txt=True)
    expected = {"fetched": 1} if problem is None else {"fetched": 1, "llms_txt": 1}
    assert reply["receipt"]["counts"] == expected
    found = await api.get(
        f"/v1/crawl/{reply['job_id']}/receipt", params={"url": site.at("/llms.txt")}
    )
    assert [each["detail"].startswith(problem or "") for each in found["data"]] == [True] * len(
        expected.keys() - {"fetched"}
    )


def test_seeds_are_read_from_their_snapshot() -> None:
    problem = UrlOutcome("http://a.test/s", "sitemap", "gone")
    seeds = SitemapSeeds(("http://a.test/",), (problem,))
    assert SitemapSeeds.from_snapshots(dict([seeds.snapshot()])) == seeds
