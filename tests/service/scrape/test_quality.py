"""The quality of a page's content, field by field."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.service.scrape.pages import fetched, scraped
from webdata_nb.service.scrape.page import ConversionOptions, scrape

SENTENCE = "The harbour was built long before anybody thought of the bridge that crosses it. "
ARTICLE = '<meta property="og:type" content="article">'


def quality(body: str) -> dict[str, float]:
    return scrape(fetched(body), ConversionOptions()).quality


@pytest.mark.parametrize("name", ["metadata", "quality"])
def test_guide_describes_every_field(name: str) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "guide" / "pages.md").read_text("utf-8")
    section = guide.partition(f"## `{name}`")[2].partition("\n## ")[0]
    described = re.findall(r"^\| `(\w+)` \| \S", section, re.MULTILINE)
    of_pictures = {"page_height", "screenshot_truncated"} if name == "metadata" else set()
    assert set(getattr(scraped(ARTICLE), name)) | of_pictures == set(described)


def test_article_scores_above_link_list() -> None:
    article = quality(f"{ARTICLE}<main><article><h1>Harbour</h1>{f'<p>{SENTENCE * 4}</p>' * 8}")
    links = quality("<main>" + "<p><a href='/x'>A teaser of some words</a></p>" * 60)
    assert article["score"] > 0.8
    assert links["score"] < 0.6
    assert links["boilerplate_ratio"] > 0.9
    assert article["boilerplate_ratio"] == 0


def test_text_coverage() -> None:
    menu = "<nav>" + "<a href='/x'>Menu entry</a> " * 60 + "</nav>"
    found = quality(f"{menu}<main><h1>Harbour</h1>{f'<p>{SENTENCE * 4}</p>' * 3}</main>")
    assert 0.4 < found["text_coverage"] < 0.7
    assert scraped(menu).quality["text_coverage"] == 1
    page = f"{menu}<main><h1>Harbour</h1>{f'<p>{SENTENCE * 4}</p>' * 3}</main>"
    assert scraped(page, markdown_mode="article").quality == found
    assert scraped(page, only_main_content=True, markdown_mode="full").quality != found
    assert scraped(page, "markdown", "links", markdown_mode="article").quality["text_coverage"] == 1


def test_page_without_words_scores_zero() -> None:
    assert scraped("<p>one two three").quality["word_count"] == 3
    assert scraped("").quality | {"word_count": 0, "score": 0} == scraped("").quality


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
    assert scraped(page).quality["language"] == language
