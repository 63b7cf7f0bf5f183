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
from webdata_nb.service.content.class_names import COMMENTS, RELATED, SHARING, traits_of
from webdata_nb.service.content.main_content import clean_page, extract_main_content
from webdata_nb.service.content.page_source import ConversionOptions, PageSource
from webdata_nb.service.content.parser import collapse_whitespace, parse, text_of, to_text
from webdata_nb.service.scrape.page import scrape

if TYPE_CHECKING:
    from types import ModuleType

FLOORS: Final = json.loads((Path(__file__).parent / "floors.json").read_text())["main_content"]
SENTENCE: Final = (
    "The harbour was built long before anybody thought of the bridge that crosses it. "
)
PARAGRAPH: Final = f"<p>{SENTENCE * 3}</p>"
ARTICLE: Final = '<meta property="og:type" content="article"><title>The old harbour of Elm</title>'


def text_and_rung(html: str) -> tuple[str, str]:
    found = extract_main_content(parse(html))
    return collapse_whitespace(to_text(found.element)), found.rung


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
    assert "A second part" in text
    assert text.count("The harbour was built") == 15
    for cut in ("Elm", "Sport", "Ann", "pier", "Tweet", "Bridges", "reader", "Popular", "rights"):
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
    found = extract_main_content(
        parse(
            f"<body><main><h1>Help</h1>{PARAGRAPH}<h2><button>How?</button></h2>"
            f'<div hidden style="display:none"><p>{"Turn it off and on again. " * 5}</p></div>'
        )
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


def test_noscript_replaces_script_built_page() -> None:
    text, _ = text_and_rung(f"<body><div>Loading</div><noscript>{PARAGRAPH * 4}</noscript>")
    assert text.count("The harbour was built") == 12


def test_links_and_images_of_boilerplate_are_excluded() -> None:
    element = extract_main_content(
        parse(
            f'<body><nav><a href="/n">n</a></nav><main>{PARAGRAPH}<a href="/k">kept</a>'
            '<img src="kept.png"><div class="social-icons"><img src="icon.png"></div></main>'
        )
    ).element
    assert [link.attr("href") for link in element.select("a")] == ["/k"]
    assert [image.attr("src") for image in element.select("img")] == ["kept.png"]


def test_repeated_text_is_kept_once() -> None:
    card = "<div><span>Five words and then some</span></div>"
    text, _ = text_and_rung(f"<body><main><h1>Cards</h1>{card}{card}<p>Closing</p></main>")
    assert text == "Cards Five words and then some Closing"


def test_definitions_tables_and_footnotes_are_kept() -> None:
    text, rung = text_and_rung(
        f'<article>{PARAGRAPH * 3}<dl><dt class="sig sig-object">bisect(a, x)<dd>{PARAGRAPH}</dl>'
        '<table><tr><td><p><a href="#n">Neither</a></p><td><p>Negation</p>'
        '<tr><td><p><a href="#o">Either</a></p><td><p>Alternative</p></table>'
        f'{PARAGRAPH}<aside role="note" class="footnote">Noted below.</aside></article>'
        "<aside>Elsewhere</aside>"
    )
    assert rung == "article"
    for kept in ("bisect(a, x)", "Neither", "Negation", "Either", "Alternative", "Noted below."):
        assert kept in text
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
    found = extract_main_content(parse(html))
    assert found.rung in {"article", "main", "full"}
    assert isinstance(found.element.html, str)


def _markdown(html: bytes, url: str) -> str:
    source = PageSource(url, url, 200, "text/html", html, (), datetime.now(UTC))
    written = scrape(source, ConversionOptions(), outlinks=False).formats["markdown"]
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
    return [(scoring.plain(_markdown(html, row["url"])), row) for html, row in pages.values()]


@pytest.mark.slow
def test_news_article_quality_floor(scoring: ModuleType) -> None:
    pairs = [(found, row["text"]) for found, row in _scored(scoring, "aeb")]
    assert scoring.shingle_scores(pairs)["shingle_f1"] >= FLOORS["aeb shingle_f1"]


@pytest.mark.slow
def test_page_type_quality_floor(scoring: ModuleType) -> None:
    scores = [scoring.word_f1(found, row["text"]) for found, row in _scored(scoring, "wcxb_dev")]
    assert mean(scores) >= FLOORS["wcxb_dev word_f1"]
