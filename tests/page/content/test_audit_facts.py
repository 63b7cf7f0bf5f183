"""The facts of a page for an audit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse
from webdata_nb.page.scrape.page import scrape

OPTIONS = ConversionOptions(formats=(), facts=frozenset({"audit"}))


def audit_of(
    body: str, *, url: str = "https://a.test/", content_type: str = "text/html"
) -> dict[str, Any]:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return scrape(
        FetchedResponse(url, url, 200, content_type, body.encode(), (), at), OPTIONS
    ).audit


def test_xml_lang_counts_only_in_xhtml() -> None:
    page = '<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en"><title>x</title></html>'
    assert audit_of(page)["language"] is None
    assert audit_of(page, content_type="application/xhtml+xml")["language"] == "en"
    assert audit_of('<html lang=" de "><title>x</title>')["language"] == "de"


def test_insecure_resources_are_listed_in_order() -> None:
    body = """<link rel=stylesheet href=http://b.test/s.css><link rel=next href=http://b.test/2>
<img src=http://b.test/i.png><img src=http://b.test/i.png><img src=/own.png><img>
<script src=//b.test/inherited.js></script><script>1</script>
<iframe src=http://b.test/f></iframe><video src=http://b.test/v></video>
<form action=http://b.test/form></form><form></form><a href=http://b.test/linked>x</a>
<object data=http://b.test/o></object><img src="javascript:1">"""
    assert audit_of(body)["insecure"] == [
        f"http://b.test/{name}" for name in ("i.png", "s.css", "o", "f", "v", "form")
    ]
    assert audit_of(body, url="http://a.test/")["insecure"] == []


def test_rel_is_that_of_the_first_link() -> None:
    facts = audit_of(
        "<a href=/a>a</a><a href=/a rel=nofollow>again</a><a href=/b rel=' NoFollow  UGC '>b</a>"
        "<a href=/b>again</a><a href=/c rel>c</a>"
    )
    assert facts["rels"] == {"1": "nofollow ugc"}


def test_aria_label_is_the_text_of_an_empty_link() -> None:
    """Such as a link with an icon alone; WCAG's technique ARIA8."""
    facts = audit_of(
        "<a href=/a aria-label=' On  GitHub '><svg></svg></a><a href=/b title=Next></a>"
        "<a href=/c aria-label=Label>Text</a><a href=/d></a><a href=/d aria-label=Later></a>"
        f"<a href=/e aria-label=' '></a><a href=/f title={'x' * 900}></a>"
    )
    assert facts["anchors"] == ["On GitHub", "Next", "Text", "Later", "", "x" * 200]


def test_lists_are_bounded() -> None:
    many = "".join(f"<img src=http://b.test/{n}><link rel=canonical href=/{n}>" for n in range(90))
    facts = audit_of(f"<title>{'x' * 9999}</title>{many}")
    assert (facts["images"], facts["images_without_alt"]) == (90, 90)
    lists = ("examples_without_alt", "insecure", "canonicals")
    assert [len(facts[name]) for name in lists] == [20, 20, 20]
    assert len(facts["titles"][0]) == 500


def test_audit_facts_of_long_declarations_are_bounded() -> None:
    """A relative URL of few bytes becomes one of thousands by the page's base."""
    alternate = "<link rel=alternate hreflang=x href=b>"
    elements = f"{alternate}<meta name=description content=x><meta name=robots content=x><h1>x</h1>"
    facts = audit_of(f"<base href='http://a.test/{'x' * 1900}/'>{elements * 2000}")
    lists = ("hreflang", "descriptions", "robots", "h1s")
    assert [len(facts[name]) for name in lists] == [500] * 4
    titles = audit_of("<body>" + "<title>x</title>" * 2000)["titles"]
    assert len(titles) == 500


def test_an_empty_page_and_malformed_values() -> None:
    facts = audit_of(
        "<link rel=canonical><link rel=canonical href='file:///a.html'>"
        "<link rel=alternate hreflang=xx href='http://['>"
        "<meta name=description><title></title><h1> </h1>"
        '<script type="application/ld+json"></script>'
        f'<script type="application/ld+json">{"[" * 99_999}</script>'
    )
    assert facts["canonicals"] == [None, None]
    assert facts["malformed_canonicals"] == ["", "file:///a.html"]
    assert facts["hreflang"] == [{"language": "xx", "url": None}]
    assert (facts["titles"], facts["descriptions"], facts["h1s"]) == ([""], [""], [""])
    assert [each[:8] for each in facts["structured_data_errors"]] == ["block 1:", "block 2:"]
