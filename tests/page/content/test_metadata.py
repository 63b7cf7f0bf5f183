"""Metadata of a page and its fetch."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.page.pages import WHOLE_PAGE, page_source, scrape_page
from webdata_nb.page.content.page_source import Redirect
from webdata_nb.page.scrape.page import FetchedResponse, scrape


def read_metadata(head: str, body: str = "<p>x", **more: Any) -> dict[str, Any]:
    return scrape(page_source(f"<head>{head}</head>{body}", **more), WHOLE_PAGE).metadata


def test_undeclared_fields_are_none() -> None:
    body = "<p>x"
    assert scrape_page(body).metadata == {
        "title": None,
        "description": None,
        "language": None,
        "canonical": None,
        "author": None,
        "published": None,
        "modified": None,
        "sources": {},
        "site_name": None,
        "charset": "UTF-8",
        "content_hash": hashlib.sha256(body.encode()).hexdigest()[:32],
        "rung": "page",
        "status_code": 200,
        "content_type": "text/html; charset=utf-8",
        "final_url": "http://site.test/dir/page.html",
        "redirects": [],
        "fetched_at": "2026-01-02T03:04:05+00:00",
    }


def test_declared_metadata() -> None:
    found = read_metadata(
        '<title> A\n title </title><meta name="Description" content="About">'
        '<link rel="alternate canonical" href="/c#x"><meta name="author" content="Ann">'
        '<meta property="article:published_time" content="2024-05-06T07:08:09Z">'
        '<meta property="og:site_name" content="Site">'
        '<meta http-equiv="content-language" content="de">'
    )
    assert found["title"] == "A title"
    assert found["description"] == "About"
    assert found["canonical"] == "http://site.test/c"
    assert found["author"] == "Ann"
    assert found["published"] == "2024-05-06T07:08:09+00:00"
    assert found["site_name"] == "Site"
    assert found["language"] == "de"


def test_json_ld_fills_fields_without_meta_tags() -> None:
    found = read_metadata(
        '<script type="application/ld+json">{"@graph": [{"@type": "Person", "name": "No"}, '
        '{"@type": ["NewsArticle"], "datePublished": "2024-05-06", "author": '
        '[{"name": "Ann"}, {"name": "Bob"}], "publisher": {"name": "Daily"}}]}</script>'
    )
    assert (found["author"], found["published"], found["site_name"]) == (
        "Ann, Bob",
        "2024-05-06",
        "Daily",
    )


def test_title_fallbacks() -> None:
    assert read_metadata('<meta property="og:title" content="Shared">')["title"] == "Shared"
    assert scrape_page("<svg><title>Icon</title></svg><h1>Heading</h1>").title == "Heading"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("Mon, 06 May 2024 07:08:09 GMT", "2024-05-06T07:08:09+00:00"),
        ("2024-05-06", "2024-05-06"),
        ("6th of May 2024", "2024-05-06"),
        ("6th of May", None),
        ("Sat, 99 Xyz 99999999999 00:00:00", None),
    ],
)
def test_publication_date_formats(written: str, read: str | None) -> None:
    assert read_metadata(f'<meta name="date" content="{written}">')["published"] == read


def test_page_language_precedes_header() -> None:
    header = (("Content-Language", "fr, en"),)
    assert read_metadata("", headers=header)["language"] == "fr"
    page = page_source('<html lang="pt_BR"><p>x', headers=header)
    assert scrape(page, WHOLE_PAGE).metadata["language"] == "pt-BR"


@pytest.mark.parametrize(
    ("meta", "header", "found"),
    [
        ("", "", set()),
        ("NOINDEX, follow", "", {"noindex"}),
        ("none", "", {"none", "noindex", "nofollow"}),
        ("", "nofollow", {"nofollow"}),
        ("", "otherbot: noindex, nofollow", set()),
        ("noindex", "unavailable_after: 1 Jan 2030, nofollow", {"noindex", "nofollow"}),
    ],
)
def test_robots_directives_of_page_and_server(meta: str, header: str, found: set[str]) -> None:
    page = page_source(
        f'<meta name="robots" content="{meta}">', headers=(("X-Robots-Tag", header),)
    )
    assert scrape(page, WHOLE_PAGE).robots == found


@pytest.mark.parametrize(
    ("page", "header", "canonical"),
    [
        ("<p>x", '</h?a=1>; rel="canonical"', "http://site.test/h?a=1"),
        ("<p>x", '</n>; rel=next, </h#f>; rel="x CANONICAL"', "http://site.test/h"),
        (
            '<head><link rel=canonical href="/c"></head>',
            "</h>; rel=canonical",
            "http://site.test/c",
        ),
        ('<p>x<link rel=canonical href="/evil">', "", None),
    ],
)
def test_canonical_of_head_and_header(page: str, header: str, canonical: str | None) -> None:
    source = page_source(page, headers=(("Link", header),))
    assert scrape(source, WHOLE_PAGE).metadata["canonical"] == canonical


@pytest.mark.parametrize(
    ("head", "body", "author"),
    [
        (
            (
                '<script type="application/ld+json">{"@graph": [{"@type": "Article", "author": '
                '[{"@id": "#p"}, {"@id": "#q"}]}, {"@type": "Person", "@id": "#p", "name": "Ivo"}'
                "]}</script>"
            ),
            "",
            "Ivo",
        ),
        ("", '<a rel="external Author" href="/ann"><b>Ann</b> B</a>', "Ann B"),
        ('<meta name="author" content="Cid">', '<a rel="author">Ann</a>', "Cid"),
    ],
)
def test_author_by_reference_or_link(head: str, body: str, author: str) -> None:
    assert read_metadata(f"{head}</head><body>{body}")["author"] == author


@pytest.mark.parametrize(
    ("text", "published"),
    [
        ("Received: 3 May 2022. Accepted: 16 December 2022.", "2023-01-02"),
        ("Received: 3 May 2022. Published: 16 December 2022.", "2022-12-16"),
    ],
)
def test_steps_before_publication_are_not_its_date(text: str, published: str) -> None:
    found = read_metadata(
        '<title>A study of tides</title><meta name="dc.date" content="2023-01-02">',
        body=f"<h1>A study of tides</h1><p>{text}</p>",
    )
    assert found["published"] == published


def test_redirects_and_content_type_are_reported() -> None:
    source = FetchedResponse(
        "http://site.test/old",
        "http://site.test/new",
        203,
        None,
        b"<p>x",
        (Redirect("http://site.test/old", 301),),
        datetime(2026, 1, 1, tzinfo=UTC),
    )
    found = scrape(source, WHOLE_PAGE).metadata
    assert found["redirects"] == [{"url": "http://site.test/old", "status_code": 301}]
    assert (found["final_url"], found["status_code"], found["content_type"]) == (
        "http://site.test/new",
        203,
        None,
    )


@pytest.mark.parametrize(
    "data",
    [
        '"text"',
        "[1, null]",
        '{"@type": 7}',
        '{"@type": "Article", "author": {"name": {}}}',
        "1e999",
    ],
)
def test_json_ld_of_any_shape_is_accepted(data: str) -> None:
    found = read_metadata(f'<script type="application/ld+json">{data}</script>')
    assert found["author"] is None
