"""Link resolution and outlinks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.page.pages import page_source, scrape_page
from webdata_nb.page.content.links import MAX_ANCHOR_TEXT_LENGTH, LinkResolver, Outlink
from webdata_nb.page.scrape.page import ConversionOptions, scrape
from webdata_nb.page.urls import join_url

BASE = "http://site.test/dir/page.html?q=/a/b"


def test_outlinks_are_unique_and_ordered_with_first_anchor_text() -> None:
    page = (
        '<a href="/a#one">  First\n text </a><a href="#top">no</a><a href="/b"><img alt="Pic"></a>'
        '<a href="/a">second</a><map><area href="/c" alt="Area"></map><a href="/d"></a>'
        '<a href="/d">late</a><a href="mailto:x">m</a><a href="http://[bad">x</a>'
    )
    assert scrape_page(page).outlinks == (
        Outlink("http://site.test/a", "First text", nofollow=False),
        Outlink("http://site.test/b", "Pic", nofollow=False),
        Outlink("http://site.test/c", "Area", nofollow=False),
        Outlink("http://site.test/d", "late", nofollow=False),
    )


def test_nofollow_requires_all_links_to_a_url() -> None:
    page = (
        '<a rel="NoFollow ugc" href="/a">a</a><a rel="nofollow" href="/b">b</a>'
        '<a href="/b">b</a><a rel="noopener" href="/c">c</a>'
    )
    assert [(each.url[-2:], each.nofollow) for each in scrape_page(page).outlinks] == [
        ("/a", True),
        ("/b", False),
        ("/c", False),
    ]


def test_anchor_text_is_truncated() -> None:
    [outlink] = scrape_page(f'<a href="/x">{"word " * 100}</a>').outlinks
    assert len(outlink.anchor) <= MAX_ANCHOR_TEXT_LENGTH
    assert outlink.anchor.startswith("word word")


def test_outlinks_are_optional() -> None:
    assert (
        scrape(page_source('<a href="/a">a</a>'), ConversionOptions(), outlinks=False).outlinks
        == ()
    )


def test_base_without_web_url_is_ignored() -> None:
    page = '<base href="javascript:x"><base href="/ignored/"><a href="a">a</a>'
    assert scrape_page(page).outlinks[0].url == "http://site.test/dir/a"


@pytest.mark.parametrize(
    "href",
    [
        "a.html",
        "a/b.c-d_e.html",
        "a#b.c:d",
        "../x",
        "./x",
        ".hidden",
        "a..b/c",
        "a//b",
        "a/",
        "?q",
        "",
        "#x",
        "a:b",
        "a b",
        "a%2e/b",
        "\ta\n",
        "//host/x",
        "http:\\\\evil.test",
        "http://[::1",
        "é",
    ],
)
def test_href_is_joined_like_url_standard(href: str) -> None:
    page, mark, fragment = href.partition("#")
    expected = join_url(BASE, page) if page else join_url(BASE, BASE)
    if not page and not mark:
        expected = join_url(BASE, "")
    found = LinkResolver(BASE)[href]
    assert found == (f"{expected}#{fragment}" if expected and fragment else expected)


def test_fragment_is_encoded_like_in_a_browser() -> None:
    assert LinkResolver(BASE)['x#a b"<c>\n`'] == "http://site.test/dir/x#a%20b%22%3Cc%3E%60"


def test_unusual_fragment_does_not_affect_batch_resolution() -> None:
    links = LinkResolver(BASE)
    links.resolve_plain(["a#b", "a#\u00e9", "a#b c", "#d", "#<"])
    assert dict(links) == {
        **dict(LinkResolver(BASE)),
        "a": "http://site.test/dir/a",
        "a#b": "http://site.test/dir/a#b",
        "a#\u00e9": "http://site.test/dir/a#\u00e9",
        "a#b c": "http://site.test/dir/a#b%20c",
        "#d": f"{BASE}#d",
        "#<": f"{BASE}#%3C",
    }


_MARKS = [
    "..",
    ".",
    "/",
    "//",
    "../",
    "#",
    "?",
    ":",
    "-",
    "~",
    "%2e",
    "é",
    " ",
    "\n",
    "@",
    "'",
    "^",
]
_WORDS = [
    "a",
    "b.c",
    "a%20b",
    "%",
    "~c",
    "x=1",
    "http://",
    "https://",
    "host.test",
    "host",
    "1.2",
    "xn--a",
    "_",
    "&",
]
PIECES = st.sampled_from(_MARKS) | st.sampled_from(_WORDS)


@given(
    hrefs=st.lists(st.lists(PIECES, max_size=6).map("".join), max_size=6),
    base=st.sampled_from(
        [BASE, "http://site.test", "https://u:p@site.test:81/a//b/", "http://h/?"]
    ),
)
def test_batch_resolution_equals_single_resolution(hrefs: list[str], base: str) -> None:
    together, alone = LinkResolver(base), LinkResolver(base)
    together.resolve_plain(hrefs)
    assert dict(together) == {href: alone[href] for href in together}
    assert [together[href] for href in hrefs] == [alone[href] for href in hrefs]


def test_frames_and_long_refreshes_lead_to_pages() -> None:
    page = (
        '<head><meta http-equiv=Refresh content="60; url=/later"><meta name=refresh content="/no">'
        '</head><a href="/a">A</a><iframe src="frame.html"></iframe><iframe src="about:blank">'
        '</iframe><iframe src="https://video.test/x"></iframe><iframe></iframe>'
    )
    scraped = scrape_page(page, "links")
    assert [each.url for each in scraped.outlinks] == [
        "http://site.test/later",
        "http://site.test/a",
        "http://site.test/dir/frame.html",
    ]
    assert scraped.formats["links"] == ["http://site.test/a"]
    frames = '<frameset><frame src="/menu"><frame src="https://other.test/"></frameset>'
    assert [each.url for each in scrape_page(frames).outlinks] == [
        "http://site.test/menu",
        "https://other.test/",
    ]
