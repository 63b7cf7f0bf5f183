"""The `quality` of a scraped page: how much of it is content, and how sure that is.

Fields
------
word_count
    Words of the content, counted by the spaces between them.
text_coverage
    The content's share of the text that the page shows, 0 to 1.
boilerplate_ratio
    The share of the content's text that is links, 0 to 1: what a page repeats (menus, teasers,
    tags) is made of links, what it says is not.
language
    The language of the page: as declared, else as the text is written (ISO 639), else None.
score
    From 0 to 1, the higher the likelier the content is what a person would have chosen. Made of
    signals that hold on any page: how the content was found, its share of links, how long its
    paragraphs are, how many pictures it has for its words, and whether there is text at all.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from webdata_nb.service.content.parser import detect_language_code, elements_with_tags

if TYPE_CHECKING:
    from webdata_nb.service.content.page_content import PageContent
    from webdata_nb.service.content.parsed_page import ParsedPage

_START = 0.5
_BY_RUNG = {"article": 0.25, "main": 0.0, "full": 0.05}
_NOT_SEARCHED = 0.2  # the page was wanted whole, or by selector
_LINKS = -0.2
_PROSE = 0.15
_PICTURES = -0.15
_LONG_PARAGRAPH = 400  # characters of a paragraph that counts as prose in full
_WORDS_A_PICTURE = 20
_FEW_WORDS = 25
_SAMPLE = 1000  # characters from which the language is told


def visible_text_length(page: ParsedPage) -> int:
    """Return the characters of text on a page that are not code."""
    code = elements_with_tags(page.elements_by_tag, {"script", "style", "noscript", "template"})
    return len(page.document.text) - sum(len(each.text) for each in code)


def content_quality(
    content: PageContent, text: str, *, visible: int | None, language: str | None
) -> dict[str, Any]:
    """Judge the content of a page.

    Parameters
    ----------
    content
        What was chosen.
    text
        Its text.
    visible
        Characters of text on the whole page; None when it was not searched.
    language
        The language that the page declares.

    Returns
    -------
    dict
        The fields that the module describes; ratios are rounded to three digits.
    """
    words = text.count(" ") + 1 if text else 0
    linked = sum(map(len, content.anchors.texts))
    whole = visible is None or content.rung == "page"
    shown = max(1, len(text) if whole else len(content.element.text))
    links = min(1.0, linked / shown)
    return {
        "word_count": words,
        "text_coverage": 1.0 if whole else _ratio(shown, visible or 0),
        "boilerplate_ratio": round(links, 3),
        "language": language or detect_language_code(text[:_SAMPLE]),
        "score": _score(content, text, words, links),
    }


def _score(content: PageContent, text: str, words: int, links: float) -> float:
    pictures = min(
        1.0, len(content.elements_by_tag.get("img", ())) * _WORDS_A_PICTURE / max(1, words)
    )
    score = _START + _LINKS * links + _PICTURES * pictures
    if content.rung in _BY_RUNG:
        score += _BY_RUNG[content.rung] + _PROSE * _prose(text)
    else:
        score += _NOT_SEARCHED
    return round(max(0.0, score) * min(1.0, words / _FEW_WORDS), 3)


def _prose(text: str) -> float:
    """Return how near the paragraphs of a text come to those of prose, by their length."""
    paragraph = len(text) / (text.count("\n\n") + 1)
    return min(1.0, math.log1p(paragraph) / math.log(_LONG_PARAGRAPH))


def _ratio(part: int, whole: int) -> float:
    return round(min(1.0, part / max(1, whole)), 3)
