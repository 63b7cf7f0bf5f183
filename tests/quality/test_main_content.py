"""The main content of a page: what each rule does, and how all of them do on labelled pages."""

from __future__ import annotations

import importlib.util
import json
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.requirements import require
from webdata_nb.page.content.block_tree import COMMENTS, RELATED, SHARING, SIDEBAR, traits_of
from webdata_nb.page.content.main_content import MainContent, clean_page, extract_main_content
from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse
from webdata_nb.page.content.parsed_page import parse_page
from webdata_nb.page.content.parser import collapse_whitespace, parse, text_of
from webdata_nb.page.scrape.page import scrape

if TYPE_CHECKING:
    from types import ModuleType

FLOORS: Final = json.loads((Path(__file__).parent / "floors.json").read_text())["main_content"]
SENTENCE: Final = (
    "The harbour was built long before anybody thought of the bridge that crosses it. "
)
PARAGRAPH: Final = f"<p>{SENTENCE * 3}</p>"
NOW: Final = datetime(2026, 1, 2, tzinfo=UTC)
ARTICLE: Final = '<meta property="og:type" content="article"><title>The old harbour of Elm</title>'


def main_content(html: str) -> MainContent:
    url, content_type = "https://e.example/", "text/html; charset=utf-8"
    page = parse_page(FetchedResponse(url, url, 200, content_type, html.encode(), (), NOW))
    return extract_main_content(page.document, page.head.json_ld)


def text_and_rung(html: str) -> tuple[str, str]:
    found = main_content(html)
    return collapse_whitespace(found.element.to_text()), found.rung


def test_article_contains_only_its_text() -> None:
    text, rung = text_and_rung(
        f"""{ARTICLE}<body><header><a href="/">Elm Daily</a></header>
        <nav><a href="/a">Sport</a> <a href="/b">Weather</a></nav>
        <main><article><h1>The old harbour of Elm</h1>
        <div class="byline">By Ann Author</div>
        <div class="article-body">{PARAGRAPH * 4}
          <figure><img src="x.jpg"><figcaption>Picture of a pier</figcaption></figure>
          <h2>A second part</h2>{PARAGRAPH}<div class="share-buttons">Tweet it</div>
          <p><a href="/more">Bridges that fell down last year</a></p></div>
        <div id="comments"><p>{"I remember it well, said a reader who lives there. " * 9}</p></div>
        </article><aside>{"Popular stories of the week are these. " * 9}</aside></main>
        <footer>All rights reserved</footer>"""
    )
    assert rung == "article"
    assert text.startswith("The old harbour of Elm The harbour was built")
    assert "A second part" in text
    assert text.count("The harbour was built") == 15
    for cut in ("Daily", "Sport", "Ann", "pier", "Tweet", "Bridges", "reader", "Popular", "rights"):
        assert cut not in text


def test_card_list_keeps_main_region_and_heading() -> None:
    cards = "".join(
        f'<li class="card"><a href="/{n}">Kettle number {n}</a><p>Holds {n} cups</p></li>'
        for n in range(30)
    )
    text, rung = text_and_rung(
        f'<body><nav><a href="/">Shop</a></nav><main><h1>Kettles</h1><ul>{cards}</ul></main>'
        '<div class="newsletter">Leave your address here</div>'
    )
    assert rung == "main"
    assert text.startswith("Kettles * Kettle number 0")
    assert "Holds 29 cups" in text
    assert "address" not in text


def test_page_without_main_region_is_full() -> None:
    text, rung = text_and_rung("<body><div>one two</div><div>three four</div>")
    assert (text, rung) == ("one two three four", "full")


def test_article_in_several_blocks_is_complete() -> None:
    parts = "".join(f'<div class="part">{PARAGRAPH * 2}</div>' for _ in range(4))
    text, rung = text_and_rung(f"{ARTICLE}<body><div><div>{parts}</div></div>")
    assert rung == "article"
    assert text.count("The harbour was built") == 24


@pytest.mark.parametrize(
    "page",
    [
        f"<main><h1>Budget raised</h1><div class=entry-content>{PARAGRAPH * 4}</div></main>",
        f"<div><header><h1>Budget raised</h1></header><div>{PARAGRAPH * 4}</div></div>",
        f"<header><h1>Budget raised</h1></header><article>{PARAGRAPH * 4}</article>",
        f"<article><h1><a href=/b>Budget raised</a></h1><div>{PARAGRAPH * 4}</div></article>",
        f'<div class="post-title"><h1>Budget raised</h1></div><div class=post-body>{PARAGRAPH * 4}',
    ],
)
@pytest.mark.parametrize("kind", ["", '<meta property="og:type" content="article">'])
def test_headline_starts_the_content(page: str, kind: str) -> None:
    html = f"{kind}<title>Daily News</title><body><nav><a href=/>Sport</a></nav>{page}"
    formats = _formats(html.encode(), "https://example.org/", "markdown", "html", "headings")
    assert formats["markdown"].startswith("# Budget raised\n\nThe harbour")
    assert formats["markdown"].count("Budget raised") == 1
    assert "<h1>" in formats["html"]
    assert [heading["text"] for heading in formats["headings"]] == ["Budget raised"]


def test_header_with_text_is_content() -> None:
    text, _ = text_and_rung(
        f'<meta property="og:type" content="product"><body><main>{PARAGRAPH * 2}'
        f"<article><header><p>She jumped higher than anybody. {SENTENCE * 2}</p></header></article>"
        f"{PARAGRAPH * 2}</main>"
    )
    assert "She jumped higher" in text


def test_form_with_the_description_of_a_product_is_content() -> None:
    text, _ = text_and_rung(
        f'<meta property="og:type" content="product"><body><div><h1>Blanket</h1>{PARAGRAPH * 12}'
        f"<form><p>A soft blanket. {SENTENCE * 5}</p></form></div>"
    )
    assert "A soft blanket" in text


def test_tab_of_a_page_that_is_no_article_is_content() -> None:
    page = (
        f"<body><main><h1>Pumps</h1><ul>{'<li>Pump</li>' * 100}</ul>{PARAGRAPH * 4}"
        f'<div class="tab hidden"><p>The warranty lasts. {SENTENCE * 2}</p></div></main>'
    )
    text, _ = text_and_rung(page)
    assert "The warranty lasts" in text
    text, _ = text_and_rung(f"{ARTICLE}{page}")
    assert "The warranty lasts" not in text


@pytest.mark.parametrize("name", ["related_post", "sidebar", "sidebarright"])
def test_related_texts_longer_than_the_article_are_dropped(name: str) -> None:
    text, _ = text_and_rung(
        f"{ARTICLE}<body><div><h1>The old harbour of Elm</h1><div class=entry>{PARAGRAPH * 4}"
        f"<ul class={name}><li>Teaser: {SENTENCE * 6}</li><li>{SENTENCE * 7}</li></ul></div></div>"
    )
    assert "Teaser" not in text
    assert text.count("The harbour was built") == 12


def test_lead_is_found_if_the_whole_page_is_in_a_block_with_a_boilerplate_name() -> None:
    text, _ = text_and_rung(
        f"{ARTICLE}<body><div class=article-right-rail><div><h1>The old harbour of Elm</h1>"
        f"<p>The lead. {SENTENCE}</p></div><div class=article-body>{PARAGRAPH * 6}</div></div>"
    )
    assert text.startswith("The old harbour of Elm The lead.")


def test_body_named_as_that_of_an_article_is_an_article() -> None:
    page = f"<body><div><ul>{'<li>Entry</li>' * 160}</ul><div class=%s>{PARAGRAPH * 2}</div></div>"
    assert text_and_rung(page % "entry-content")[1] == "article"
    assert text_and_rung(page % "box")[1] != "article"


def test_trailer_line_is_dropped_unless_it_is_a_sentence() -> None:
    text, _ = text_and_rung(
        f"{ARTICLE}<body><div class=article-body>{PARAGRAPH * 4}<p>Related articles:</p>"
        f"{PARAGRAPH}<p>More on that later.</p>{PARAGRAPH}</div>"
    )
    assert "Related articles" not in text
    assert "More on that later." in text
    assert text.count("The harbour was built") == 18


def test_section_headings_of_level_1_are_kept() -> None:
    text, rung = text_and_rung(
        f"{ARTICLE}<body><article><h1>The old harbour of Elm</h1>{PARAGRAPH * 3}"
        f"<h1>A second part</h1>{PARAGRAPH * 3}</article>"
    )
    assert rung == "article"
    assert text.startswith("The old harbour of Elm The harbour")
    assert "A second part" in text


@pytest.mark.parametrize("tag", ["div", "section"])
@pytest.mark.parametrize("kind", ["", '<meta property="og:type" content="article">'])
def test_short_page_keeps_all_headings_and_code(tag: str, kind: str) -> None:
    parts = [
        "<h1>Harbour tool</h1><p>Short intro.</p>",
        "<h2>Usage</h2><pre><code>pip install harbour</code></pre>",
        f"<h2>Notes</h2><p>{SENTENCE * 7}</p>",
    ]
    sections = "".join(f"<{tag}>{part}</{tag}>" for part in parts)
    text, _ = text_and_rung(f"{kind}<title>Tool</title><body><main>{sections}</main>")
    for phrase in ("Harbour tool Short intro.", "Usage pip install harbour", "Notes"):
        assert phrase in text


def _documentation(*sections: str, title: str = "Working with forms") -> str:
    parts = "".join(f'<div class="section" {section}</div>' for section in sections)
    return (
        f"<title>{title} | Elm documentation</title><body><div class=document>"
        f"<h1>{title}</h1>{PARAGRAPH * 12}{parts}</div>"
    )


@pytest.mark.parametrize(
    ("identifier", "heading"),
    [
        ("s-form-fields", "Form fields"),
        ("template-tags", "4.2. Template tags"),
        ("related-objects", "Related objects"),
        ("SQL-FOR-UPDATE-SHARE", "The locking clause"),
        ("syntax-comments", "Comments"),
    ],
)
@pytest.mark.parametrize("wrapper", ["{}", "<div class=titlepage><div>{}</div></div>"])
def test_section_of_documentation_is_no_boilerplate_by_its_id(
    identifier: str, heading: str, wrapper: str
) -> None:
    first = wrapper.format("<h2>Variables</h2>")
    second = wrapper.format(f"<h2>{heading}</h2>")
    text, _ = text_and_rung(
        _documentation(
            f'id="variables">{first}{PARAGRAPH}',
            f'id="{identifier}"><span id="x"></span>{second}<p>It holds.</p><pre>x = 1</pre>',
        )
    )
    assert f"{heading} It holds. x = 1" in text


@pytest.mark.parametrize("name", ["related", "comments"])
def test_section_of_links_beside_sections_is_boilerplate(name: str) -> None:
    links = "".join(f"<li><a href=/{n}>Another page with a name {n}</a></li>" for n in range(9))
    text, _ = text_and_rung(
        _documentation(
            f'id="variables"><h2>Variables</h2>{PARAGRAPH}',
            f'id="{name}"><h2>{name.title()}</h2><ul>{links}</ul>',
        )
    )
    assert "Variables" in text
    assert "Another page" not in text


def test_code_beside_the_longest_section_is_kept() -> None:
    text, rung = text_and_rung(
        "<title>CREATE HARBOUR</title><body><ul><li><a href=/>Up</a><li><a href=/n>Next</a></ul>"
        "<div class=entry><div class=synopsis><h2>Synopsis</h2><pre>CREATE HARBOUR name</pre></div>"
        f"<div class=part><h2>Description</h2>{PARAGRAPH * 8}</div>"
        "<div class=part><h2>Examples</h2><pre>CREATE HARBOUR elm;</pre></div></div>"
    )
    assert rung == "article"
    assert "CREATE HARBOUR name" in text
    assert "CREATE HARBOUR elm;" in text
    assert "Next" not in text


def test_aside_with_an_example_is_content() -> None:
    text, _ = text_and_rung(
        f"<title>Loops</title><body><div><h1>Loops</h1>{PARAGRAPH * 5}"
        "<aside class=sidebar><p>Hello World!</p><pre>run(main())</pre></aside>"
        f"<aside class=sidebar><p>Popular</p></aside>{PARAGRAPH * 5}</div>"
    )
    assert "Hello World! run(main())" in text
    assert "Popular" not in text


def test_code_is_verbatim_with_no_break_spaces_and_repeats() -> None:
    code = "<Location>\n\xa0\xa0Log  on a line of five words\n</Location>"
    block = f"<pre>{code.replace('<', '&lt;').replace(chr(0xA0), '&nbsp;')}</pre>"
    markdown = _markdown(
        f"<main><h1>Logs&nbsp;on</h1>{PARAGRAPH}<div>{block}</div><div>{block}</div></main>".encode(),
        "https://example.org/",
    )
    assert markdown.count(f"```\n{code}\n```") == 2
    assert "# Logs on\n" in markdown


def test_h1_that_the_title_begins_with_is_the_headline() -> None:
    text, _ = text_and_rung(
        "<title>Custom Types — Elm 1.4 Documentation</title><body>"
        "<div class=box><h3><a href=/>Elm 1.4 Documentation</a></h3></div>"
        f"<div role=main><section><h1>Custom Types</h1>{PARAGRAPH * 4}</section></div>"
    )
    assert text.startswith("Custom Types The harbour")


MENU: Final = "<p><a href=/m>Modules</a> | <a href=/d>Directives</a> | <a href=/f>FAQ</a></p>"


@pytest.mark.parametrize("words", [1, 6])
def test_rows_of_links_above_the_heading_are_no_content(words: int) -> None:
    text, _ = text_and_rung(
        f"<title>Echo server</title><body><div id=top>{MENU}<p>Elm Server 2.4</p></div>"
        f"<div id=path><a href=/>Elm</a> &gt; <a href=/d>Docs</a></div><div><h1>Echo server</h1>"
        f"<p>{'It echoes what you type. ' * words}</p>"
        "<p><a href=/a>A</a> | <a href=/b>B</a></p></div>"
    )
    assert text.startswith("Echo server It echoes")
    assert "A | B" in text


def test_heading_in_a_heading_keeps_its_row_of_links() -> None:
    text, _ = text_and_rung(
        "<title>Mills of Elm</title><body><main><h2>Guide"
        " <div><div><h3>Old town</h3><p><a href=/a>A</a> | <a href=/b>B</a></p></div></div>"
        f" to mills <div>by foot</div> or by boat</h2><h1>Mills of Elm</h1>{PARAGRAPH}</main>"
    )
    assert text.startswith("Guide Old town to mills")


def test_stub_stays_without_its_navigation() -> None:
    links = "".join(f"<a href=/{n}>Entry {n}</a> " for n in range(12))
    text, _ = text_and_rung(
        f"<title>Elm 2.2 notes</title><body><div class=nav>{links}</div>"
        "<div><h1>Elm 2.2 notes</h1><p>Adds a harbour.</p></div>"
    )
    assert text == "Elm 2.2 notes Adds a harbour."


def test_closing_paragraph_with_link_and_picture_is_kept() -> None:
    closing = '<p><a href="/s"><img src="/plan.png"></a> <a href="/r">Download the report</a></p>'
    html = f"{ARTICLE}<article>{PARAGRAPH * 3}{closing}<p><a href=/x>Another page</a></p></article>"
    markdown = _markdown(html.encode(), "https://example.org/")
    assert "[Download the report](https://example.org/r)" in markdown
    assert "plan.png" in markdown
    assert "Another page" not in markdown


def test_teaser_lines_in_several_languages_are_dropped() -> None:
    lines = ("Lesen Sie auch: ", "Auch interessant: ", "À lire : ", "Leggi anche: ", "Czytaj: ")
    teasers = "".join(f"<p>{line}<a href=/x>Another bridge fell</a></p>" for line in lines)
    text, _ = text_and_rung(f"{ARTICLE}<article>{PARAGRAPH * 2}{teasers}{PARAGRAPH}</article>")
    assert "fell" not in text
    assert text.count("The harbour was built") == 9


def test_box_of_teaser_links_is_dropped_and_lead_is_kept() -> None:
    box = '<div class="teaser"><p>Another bridge <a href="/x">fell down</a></p></div>'
    lead = '<div class="teaser">The town wants to sell its quay.</div>'
    text, _ = text_and_rung(
        f"{ARTICLE}<article><h1>The old harbour of Elm</h1>{lead}{PARAGRAPH * 3}{box}</article>"
    )
    assert "sell its quay" in text
    assert "fell" not in text


def test_lead_above_the_body_is_kept() -> None:
    text, rung = text_and_rung(
        f"""{ARTICLE}<body><article><header><h1>The old harbour of Elm</h1>
        <p class="byline">By Ann Author, who has lived in this town for forty years now.</p>
        <p>The town council wants to sell the quay, and its fishermen protest.</p>
        <h2 class="article-subheadline">Fishermen want to keep the quay</h2></header>
        <div class="article-body">{PARAGRAPH * 4}</div></article>"""
    )
    assert rung == "article"
    assert text.startswith(
        "The old harbour of Elm The town council wants to sell the quay, and its fishermen"
        " protest. Fishermen want to keep the quay The harbour was built"
    )
    assert "Ann" not in text


def test_undeclared_article_is_detected() -> None:
    _, rung = text_and_rung(f"<body><div><div>{PARAGRAPH * 8}</div><div>Menu</div></div>")
    assert rung == "article"


def test_prose_above_headline_is_excluded() -> None:
    teasers = "".join(f"<li>{SENTENCE * 2}</li>" for _ in range(9))
    text, _ = text_and_rung(
        f"{ARTICLE}<body><div><div><ul>{teasers}</ul></div><h1>The old harbour of Elm</h1>"
        f"<div>{'<p>Only this is the article, and it goes on for a while.</p>' * 12}</div></div>"
    )
    assert text.count("Only this") == 12
    assert "bridge" not in text


def test_class_name_alone_never_decides() -> None:
    text, _ = text_and_rung(f'<body><div class="sidebar">{PARAGRAPH * 9}</div><div>Menu</div>')
    assert text.count("The harbour was built") == 27


def test_consent_dialog_longer_than_page_is_dropped() -> None:
    text, _ = text_and_rung(
        f'<body><div id="cookie-banner">{"We value your privacy, as you know. " * 20}</div>'
        f"<div><h1>Harbour</h1>{PARAGRAPH * 2}</div>"
    )
    assert "privacy" not in text
    assert "harbour" in text


def test_comments_are_kept_as_main_content() -> None:
    posts = "".join(f'<div class="comment"><p>{SENTENCE * n}</p></div>' for n in range(2, 9))
    text, _ = text_and_rung(
        f'<body class="phpbb"><h1>Which bridge?</h1><div class="thread">{posts}</div>'
    )
    assert text.count("The harbour was built") == sum(range(2, 9))


def test_hidden_section_with_prose_is_kept() -> None:
    found = main_content(
        f"<body><main><h1>Help</h1>{PARAGRAPH}<h2><button>How?</button></h2>"
        f'<div hidden style="display:none"><p>{"Turn it off and on again. " * 5}</p></div>'
    )
    assert "Turn it off" in text_of(found.element)
    assert "How?" in text_of(found.element)
    assert not found.element.select("[hidden],[style]")


def test_content_hidden_until_script_is_found() -> None:
    waiting = "".join(f'<div hidden id="S:{n}"><p>{SENTENCE * n}</p></div>' for n in range(2, 9))
    text, _ = text_and_rung(f"{ARTICLE}<body><main>{PARAGRAPH}</main>{waiting}")
    assert text.count("The harbour was built") == 3 + sum(range(2, 9))


def test_short_hidden_block_is_dropped() -> None:
    text, _ = text_and_rung(f"<body><main><p hidden>Loading</p>{PARAGRAPH}</main>")
    assert "Loading" not in text


COMMENT_THREAD: Final = "".join(
    f'<div class="comment"><h3>author-{n}</h3><div class="comment-body">{PARAGRAPH}</div></div>'
    for n in range(3)
)


@pytest.mark.parametrize(
    "body",
    [
        f'<div class="timeline">{COMMENT_THREAD}</div>',
        f'<div class="sidebar">{PARAGRAPH}</div><div class="comments">{PARAGRAPH}</div>',
        f'<nav>{PARAGRAPH}</nav><footer>{PARAGRAPH}</footer><div role="search">{PARAGRAPH}</div>',
        f'<dialog open>{PARAGRAPH}</dialog><div role="dialog">{PARAGRAPH * 2}</div>',
        f"<header>{PARAGRAPH}</header><aside>{PARAGRAPH}</aside><form>{PARAGRAPH}</form>",
        "".join(f"<button>Choose part {n} of the harbour</button>" for n in range(20)),
        f'<nav><nav>{PARAGRAPH}</nav></nav><div class="share">Share</div>',
        '<div class="pager">' + "<a href=x>The harbour</a>" * 30 + "</div>",
    ],
)
def test_no_page_with_text_is_empty(body: str) -> None:
    text, _ = text_and_rung(f"<title>Harbour</title><body>{body}")
    assert len(text) > 100
    assert "harbour" in text


def test_fallback_excludes_navigation() -> None:
    menu = "<nav>" + '<a href="/m">Menu entry</a> ' * 9 + "</nav>"
    found = main_content(
        f'<body>{menu}<div class="a">{COMMENT_THREAD}</div><footer>Imprint</footer>'
    )
    text = found.element.to_text()
    assert found.is_fallback
    assert "author-2" in text
    assert "Menu entry" not in text
    assert "Imprint" not in text


def test_indented_source_does_not_count_as_words() -> None:
    filler = "(" + "\n          " * 9 + "8 results" + "\n          " * 9 + ")"
    found = main_content(f'<body><div class="sidebar">{PARAGRAPH * 2}</div><div>{filler}</div>')
    assert "harbour" in found.element.to_text()


def test_noscript_replaces_script_built_page() -> None:
    text, _ = text_and_rung(f"<body><div>Loading</div><noscript>{PARAGRAPH * 4}</noscript>")
    assert text.count("The harbour was built") == 12


def test_links_and_images_of_boilerplate_are_excluded() -> None:
    element = main_content(
        f'<body><nav><a href="/n">n</a></nav><main>{PARAGRAPH}<a href="/k">kept</a>'
        '<img src="kept.png"><div class="social-icons"><img src="icon.png"></div></main>'
    ).element
    assert [link.attr("href") for link in element.select("a")] == ["/k"]
    assert [image.attr("src") for image in element.select("img")] == ["kept.png"]


def test_repeated_text_is_kept_once() -> None:
    card = "<div><span>Five words and then some</span></div>"
    text, _ = text_and_rung(f"<body><main><h1>Cards</h1>{card}{card}<p>Closing</p></main>")
    assert text == "Cards Five words and then some Closing"


def test_a_refrain_is_no_copy() -> None:
    refrain = "<p>And the bells of Elm they ring and ring</p>"
    verses = "".join(f"<p>Verse {number} of the old song of Elm</p>{refrain}" for number in "123")
    text, _ = text_and_rung(f"<main><h1>Song</h1><div>{verses}</div><aside>x</aside></main>")
    assert text.count("And the bells") == 3
    other = f"<div><h1>Song</h1>{refrain}</div><div class=mobile>{refrain}</div>"
    assert text_and_rung(f"<main>{other}<p>Closing words</p></main>")[0].count("And the") == 1


SHORT: Final = ("Up to nine days.", "The keeper, at dusk.", "Only coins are taken.")


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("<h3><button aria-controls=a{0}>{1}</button></h3>", "<div id=a{0} hidden><p>{1}</div>"),
        ("<h3>{1}</h3>\n", "<div style='display: none'>{1}</div>"),
        ("<dt>{1}</dt>", "<dd hidden>{1}</dd>"),
        ("<a role=tab>{1}</a>", "<div role=tabpanel aria-hidden=true>{1}</div>"),
    ],
)
def test_short_panels_are_content(question: str, answer: str) -> None:
    items = "".join(
        question.format(number, f"Question {number} of the harbour?") + answer.format(number, text)
        for number, text in enumerate(SHORT)
    )
    page = f"<title>Questions</title><main><h1>Questions</h1>{items}</main>"
    menu = '<button aria-controls=menu></button><ul id=menu hidden><li><a href="/x">Sport</a></ul>'
    for text in (text_of_page(menu + page, main=True), text_of_page(page, main=False)):
        assert all(answer in text for answer in SHORT)
        assert "Sport" not in text


def text_of_page(html: str, *, main: bool) -> str:
    source = FetchedResponse(
        "http://a.test/", "http://a.test/", 200, "text/html", html.encode(), (), NOW
    )
    return str(scrape(source, ConversionOptions(only_main_content=main)).formats["markdown"])


def test_an_article_among_tabs_is_no_row_of_tabs() -> None:
    text, _ = text_and_rung(
        f'{ARTICLE}<main><div role="tablist"><h1>The old harbour of Elm</h1>{PARAGRAPH * 5}</div>'
        f"<div>{PARAGRAPH.replace('harbour', 'market') * 12}</div></main>"
    )
    assert text.count("The harbour was built") == 15


@pytest.mark.parametrize("name", ["sidebar-grid", "has sidebar-layout", "page-sidebar-wrapper"])
def test_a_layout_with_a_sidebar_is_no_sidebar(name: str) -> None:
    assert not traits_of(name) & SIDEBAR
    assert traits_of("sidebar-left") & SIDEBAR


def test_prose_under_a_heading_of_trailers_stays_in_the_middle() -> None:
    page = (
        f"{ARTICLE}<article><h1>The old harbour of Elm</h1>{PARAGRAPH * 3}<h2>Mehr zum Thema</h2>"
        f"{PARAGRAPH.replace('harbour', 'market')}<h2>Outlook</h2>{PARAGRAPH}%s</article>"
    )
    assert "market" in text_and_rung(page % "")[0]
    links = "<h2>Mehr zum Thema</h2>" + "<p><a href='/x'>Bridges that fell</a></p>" * 3
    assert "fell" not in text_and_rung(page % links)[0]


def test_definitions_tables_and_footnotes_are_kept() -> None:
    text, rung = text_and_rung(
        f'<article>{PARAGRAPH * 3}<dl><dt class="sig sig-object">bisect(a, x)<dd>{PARAGRAPH}</dl>'
        '<table><tr><td><p><a href="#n">Neither</a></p><td><p>Negation</p>'
        '<tr><td><p><a href="#o">Either</a></p><td><p>Alternative</p></table>'
        f'{PARAGRAPH}<aside role="note" class="footnote">Noted below.</aside></article>'
        "<aside>Elsewhere</aside>"
    )
    assert rung == "article"
    for phrase in ("bisect(a, x)", "Neither", "Negation", "Either", "Alternative", "Noted below."):
        assert phrase in text
    assert "Elsewhere" not in text


def test_clean_page_removes_only_non_content() -> None:
    body = clean_page(
        parse(
            "<body><nav>Menu</nav><script>code()</script><style>p{}</style><svg><text>s</text></svg>"
            "<select><option>o</select><p>Text</p><footer>Foot</footer>"
        )
    )
    assert body.tag == "body"
    assert text_of(body) == "MenuTextFoot"


@pytest.mark.parametrize(
    ("name", "traits"),
    [
        ("share-buttons", SHARING),
        ("postComments", COMMENTS),
        ("you-may-also-like-box", RELATED),
        ("ad1 has-sidebar no-comments", traits_of("ad")),
        ("text-v2-8d75ad3b", traits_of("text")),
        ("kommentare-liste", COMMENTS),
        ("shariff", SHARING),
        ("", 0),
    ],
)
def test_class_name_traits(name: str, traits: int) -> None:
    assert traits_of(name) == traits


@pytest.mark.slow
@pytest.mark.parametrize(
    "html",
    [
        "",
        "just text",
        "<frameset><frame src=a></frameset>",
        "<body hidden>" + PARAGRAPH,
        "<nav>" * 50_000 + PARAGRAPH,
        "<div class='share comments'>" * 100_000 + PARAGRAPH,
        "<section><h4>Related</h4>" * 20_000 + PARAGRAPH,
        PARAGRAPH * 100 + "<h4>Related</h4><p>one</p>" * 20_000,
        "<button><marquee><h2>a</h2>" * 10_000,
        "<a href=x>link</a> " * 100_000,
        "<p>" + "w" * 1_000_000,
        f'<p class="{"a" * 1_000_000}">text',
    ],
    ids=lambda html: html[:20] or "empty",
)
def test_hostile_pages_are_fast(html: str) -> None:
    found = main_content(html)
    assert found.rung in {"article", "main", "full"}
    assert isinstance(found.element.html, str)


def _formats(html: bytes, url: str, *names: str) -> dict[str, Any]:
    source = FetchedResponse(url, url, 200, "text/html", html, (), datetime.now(UTC))
    return scrape(source, ConversionOptions(formats=names), outlinks=False).formats


def _markdown(html: bytes, url: str) -> str:
    written = _formats(html, url, "markdown")["markdown"]
    assert isinstance(written, str)
    return written


@pytest.fixture(scope="module")
def scoring() -> ModuleType:
    """Give the program that scores extractors on the labelled pages."""
    spec = importlib.util.spec_from_file_location(
        "score_main_content", require("corpora") / "content" / "score.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _scored(scoring: ModuleType, name: str) -> list[tuple[str, dict[str, Any]]]:
    pages = scoring.load(str(require("corpora") / "content" / f"{name}.tar.gz"))
    return [(_text_without_title(scoring, html, row), row) for html, row in pages.values()]


def _text_without_title(scoring: ModuleType, html: bytes, row: dict[str, Any]) -> str:
    """Return the text as the scorer compares it: the labels lack the headline of most pages."""
    markdown = _markdown(html, row["url"])
    text = scoring.plain(scoring.untitled(markdown, html, row["text"]))
    assert isinstance(text, str)
    return text


@pytest.mark.slow
def test_news_article_quality_floor(scoring: ModuleType) -> None:
    pairs = [(found, row["text"]) for found, row in _scored(scoring, "aeb")]
    assert scoring.shingle_scores(pairs)["shingle_f1"] >= FLOORS["aeb shingle_f1"]


@pytest.mark.slow
def test_page_type_quality_floor(scoring: ModuleType) -> None:
    scores = [scoring.word_f1(found, row["text"]) for found, row in _scored(scoring, "wcxb_dev")]
    assert mean(scores) >= FLOORS["wcxb_dev word_f1"]
