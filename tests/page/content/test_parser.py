"""Workarounds of the parser wrapper."""

from __future__ import annotations

import pytest

from webdata_nb.page.content import parser
from webdata_nb.page.content.parser import Element, parse


@pytest.mark.parametrize("tag", ["html", "head", "body"])
def test_root_elements_are_never_removed(tag: str) -> None:
    document = parse("<p>kept")
    parser.remove_all(document.select(tag))
    parser.unwrap_all(document.select(tag))
    assert document.html == "<html><head></head><body><p>kept</p></body></html>"


def test_removing_elements_twice_is_allowed() -> None:
    document = parse("<div><p><b>x</b></p></div>y")
    elements = document.select("div,p,b")
    parser.remove_all(elements)
    parser.remove_all(reversed(elements))
    parser.unwrap_all(elements)
    assert document.html == "<html><head></head><body>y</body></html>"


def test_shadow_roots_remain_templates() -> None:
    document = parse("<div><template shadowrootmode=open><b>x</b></template>y</div>")
    assert document.select_one("template") is not None


def test_encoding_label_is_used() -> None:
    assert parse(b"caf\xe9", "windows-1252").text == "café"
    assert parse("café", "windows-1252").text == "café"
    with pytest.raises(LookupError):
        parse(b"x", "no-such-encoding")


def test_resolver_may_keep_a_link() -> None:
    document = parse('<a href="http://[bad">x</a><a href="y">y</a>')
    document.rewrite_links({"http://[bad": None, "y": "/z"}.__getitem__)
    assert [each.attr("href") for each in document.select("a")] == ["http://[bad", "/z"]


@pytest.mark.parametrize("selector", ["a[", "a:nope", "", ">", "::before", "p:nth-child(x)"])
def test_invalid_selector_is_reported(selector: str) -> None:
    with pytest.raises(ValueError, match="invalid CSS selector"):
        parser.check_selector(selector)


def test_ancestor_search_is_bounded() -> None:
    document = parse("<li>" + "<div>" * 20 + "<b>x</b>")
    [bold] = document.select("b")
    assert parser.nearest_ancestor(bold, {"li"}) is None
    assert isinstance(parser.nearest_ancestor(bold, {"li"}, levels=30), Element)


def test_frameset_replaces_body() -> None:
    assert getattr(parser.body_of(parse("x")), "tag", None) == "body"
    assert getattr(parser.body_of(parse("<frameset><frame src=a>")), "tag", None) == "html"


def test_endlessly_nested_items_are_dropped() -> None:
    assert (
        parser.microdata_of(parse("<div itemscope id=a itemref=a itemprop=x>"), "http://x/") == []
    )
    deep = "<div typeof=a>" + "<div typeof=a property=b>" * 1000
    assert parser.rdfa_of(parse(deep), "http://x/") == []


def test_uncertain_language_is_none() -> None:
    assert parser.detect_language_code("Le port a été construit bien avant le pont. " * 3) == "fr"
    assert parser.detect_language_code("") is None
    assert parser.detect_language_code("0 1 2") is None


def test_malformed_feed_is_parsed() -> None:
    feed = parser.read_feed(
        "<rss version='2.0'><channel><title>T</title><item><title>a & b</title>"
    )
    assert feed is not None
    assert feed.title == "T"
    assert parser.read_feed("<p>no feed") is None


def test_white_space_is_folded_as_by_splitting_and_joining() -> None:
    for code in range(0x110000):
        text = f"{chr(code)} a{chr(code)}b {chr(code)}"
        assert parser.collapse_whitespace(text) == " ".join(text.split()), hex(code)
