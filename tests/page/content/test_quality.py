"""Content quality fields."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.page.pages import page_source, scrape_page
from webdata_nb.page.scrape.page import ConversionOptions, scrape

SENTENCE = "The harbour was built long before anybody thought of the bridge that crosses it. "
ARTICLE = '<meta property="og:type" content="article">'


def rate(body: str) -> dict[str, Any]:
    return scrape(page_source(body), ConversionOptions()).quality


@pytest.mark.parametrize("name", ["metadata", "quality"])
def test_guide_describes_every_field(name: str) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "guide" / "pages.md").read_text("utf-8")
    section = guide.partition(f"## `{name}`")[2].partition("\n## ")[0]
    described = re.findall(r"^\| `(\w+)` \| \S", section, re.MULTILINE)
    of_pictures = {"page_height", "screenshot_truncated"}
    of_documents = {"page_count", "sheet_count", "truncated"}
    others = of_pictures | of_documents if name == "metadata" else set()
    assert set(getattr(scrape_page(ARTICLE), name)) | others == set(described)


def test_article_scores_above_link_list() -> None:
    article = rate(f"{ARTICLE}<main><article><h1>Harbour</h1>{f'<p>{SENTENCE * 4}</p>' * 8}")
    links = rate("<main>" + "<p><a href='/x'>A teaser of some words</a></p>" * 60)
    assert article["score"] > 0.8
    assert links["score"] < 0.6
    assert links["boilerplate_ratio"] > 0.9
    assert article["boilerplate_ratio"] == 0


def test_text_coverage() -> None:
    menu = "<nav>" + "<a href='/x'>Menu entry</a> " * 60 + "</nav>"
    found = rate(f"{menu}<main><h1>Harbour</h1>{f'<p>{SENTENCE * 4}</p>' * 3}</main>")
    assert 0.4 < found["text_coverage"] < 0.7
    assert scrape_page(menu).quality["text_coverage"] == 1
    page = f"{menu}<main><h1>Harbour</h1>{f'<p>{SENTENCE * 4}</p>' * 3}</main>"
    assert scrape_page(page, markdown_mode="article").quality == found
    assert scrape_page(page, only_main_content=True, markdown_mode="full").quality != found
    assert (
        scrape_page(page, "markdown", "links", markdown_mode="article").quality["text_coverage"]
        == 1
    )


def test_low_confidence_of_a_fallback() -> None:
    comment = f'<div class="comment"><p>{SENTENCE * 4}</p></div>'
    assert rate(comment * 3)["low_confidence"] is True
    assert (
        rate(f"{ARTICLE}<main><article>{f'<p>{SENTENCE * 4}</p>' * 8}")["low_confidence"] is False
    )
    assert scrape_page(comment * 3).quality["low_confidence"] is False


def test_page_without_words_scores_zero() -> None:
    assert scrape_page("<p>one two three").quality["word_count"] == 3
    assert scrape_page("").quality | {"word_count": 0, "score": 0} == scrape_page("").quality


@pytest.mark.parametrize(
    ("page", "language"),
    [
        ("<html lang=de><p>text", "de"),
        (f"<p>{SENTENCE * 3}", "en"),
        ("<p>これは日本語の文章です。", "ja"),
        ("<p>12 34 56", None),
    ],
)
def test_language_is_declared_or_detected(page: str, language: str | None) -> None:
    assert scrape_page(page).quality["language"] == language


def test_text_coverage_counts_nested_code_once() -> None:
    page = (
        f"<nav>{SENTENCE * 2}</nav>{{}}<main><h1>Harbour</h1>{f'<p>{SENTENCE * 4}</p>' * 3}</main>"
    )
    code = f"<noscript><style>p::after {{ content: '{SENTENCE * 2}' }}</style></noscript>"
    assert rate(page.format(code))["text_coverage"] == rate(page.format(""))["text_coverage"]


PICTURE = '<p><img src="/a.png" alt="A chart of tides"></p>'


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("<p>word", None),
        ("<p>字", None),
        ("", "no text"),
        ("<script>words()</script><p> - </p>", "no text"),
        (PICTURE, "pictures only"),
        ('<meta http-equiv="refresh" content="9; url=b">', "refreshes to http://site.test/dir/b"),
    ],
)
def test_wordless_pages_report_a_reason(body: str, reason: str | None) -> None:
    for options in ({}, {"only_main_content": True}, {"markdown_mode": "full"}):
        found = scrape_page(body, "markdown", **options).quality
        if reason is None:
            assert found["reason"] in {None, "a score below 0.45"}
        else:
            assert (found["low_confidence"], found["reason"]) == (True, reason)


def test_small_share_of_the_text_reports_low_confidence() -> None:
    rest = f"<div class=comments>{f'<div class=comment><p>{SENTENCE * 5}</p></div>' * 40}</div>"
    found = rate(f"{ARTICLE}<main><article><h1>Harbour</h1><p>{SENTENCE * 9}</p></article>{rest}")
    assert found["text_coverage"] < 0.1
    assert (found["low_confidence"], found["reason"]) == (
        True,
        "less than a tenth of the visible text",
    )
