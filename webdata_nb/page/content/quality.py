"""Rates the content of a page (text coverage, link density, language, score), and fingerprints it.

Fields of a rating
------------------
word_count
    Words of the content, counted by the spaces between them.
text_coverage
    The share of the visible text of the page that is content, 0 to 1.
boilerplate_ratio
    The link density of the content, 0 to 1: menus, teasers and tags consist of links.
language
    The declared language, else the detected one (ISO 639), else None.
score
    From 0 to 1: how likely a person would choose the same content. It combines the rung, the
    link density, the length of paragraphs, the pictures per word, and whether there is text.
low_confidence
    Whether the content may be wrong or missing: `reason` says why.
reason
    Null, or why the confidence is low: the page has no words (``no text layer`` in a PDF file,
    ``pictures only``, ``refreshes to URL``, ``no text``); the rules of the main content left next
    to nothing, so that the visible page replaces it; the content is less than a tenth of the
    visible text; or the score is below 0.45.

Fingerprints are bottom-k MinHash sketches of page texts, for near-duplicate detection: the smallest
hashes of pairs of neighbouring words (Broder, 1997). The share of common hashes of two sketches
estimates the share of common pairs. Only the start and the end of a long text are hashed.
"""

from __future__ import annotations

import math
import re
from struct import pack
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from webdata_nb.page.content.parser import (
    Element,
    Text,
    detached,
    detect_language_code,
    elements_with_tags,
    parse,
)
from webdata_nb.page.declared_refresh import parse_refresh

if TYPE_CHECKING:
    from webdata_nb.page.content.parsed_page import ParsedPage


_BASE_SCORE = 0.5
_RUNG_SCORES = {"article": 0.25, "main": 0.0, "full": 0.05}
_NOT_SEARCHED_SCORE = 0.2  # whole page or CSS selection
_LINK_DENSITY_WEIGHT = -0.2
_PROSE_WEIGHT = 0.15
_PICTURES_WEIGHT = -0.15
_PROSE_PARAGRAPH_LENGTH = 400  # characters of a full prose paragraph
_WORDS_PER_PICTURE = 20
_MIN_WORDS = 25
_FALLBACK_FACTOR = 0.5
_LOW_SCORE = 0.45
_LOW_COVERAGE = 0.1
_REFRESHES: Final = "refreshes to "
_WORD: Final = re.compile(r"[^\W_]")
_LANGUAGE_SAMPLE_LENGTH = 1000
_MAX_DETACHED = 1000  # code elements; copying the text of many small ones costs less
_CODE: Final = frozenset({"script", "style", "noscript", "template"})


def visible_text_length(page: ParsedPage) -> int:
    """Return the length of the text of a page without code."""
    code = elements_with_tags(page.elements_by_tag, _CODE)
    with detached(code[:_MAX_DETACHED]):
        return len(page.document.text) - sum(len(element.text) for element in code[_MAX_DETACHED:])


def rate_content(
    content: ParsedPage,
    text: str,
    *,
    visible: int | None,
    language: str | None,
    kind: str,
) -> dict[str, Any]:
    """Rate the content of a page.

    Parameters
    ----------
    content
        The page with its selected content.
    text
        Its text.
    visible
        Characters of text on the whole page; None when the main content was not searched.
    language
        The declared language.
    kind
        The type of the document.

    Returns
    -------
    dict
        The fields that the module docstring lists; ratios have three digits.
    """
    words = text.count(" ") + 1 if text else 0
    link_length = sum(map(len, content.anchors.texts))
    is_whole_page = visible is None or content.rung == "page"
    length = max(1, len(text) if is_whole_page else len(content.element.text))
    link_density = min(1.0, link_length / length)
    pictures = min(
        1.0, len(content.elements_by_tag.get("img", ())) * _WORDS_PER_PICTURE / max(1, words)
    )
    score = _BASE_SCORE + _LINK_DENSITY_WEIGHT * link_density + _PICTURES_WEIGHT * pictures
    if content.rung in _RUNG_SCORES:
        # How close the mean length of a paragraph is to that of prose.
        paragraph = len(text) / (text.count("\n\n") + 1)
        prose = min(1.0, math.log1p(paragraph) / math.log(_PROSE_PARAGRAPH_LENGTH))
        score += _RUNG_SCORES[content.rung] + _PROSE_WEIGHT * prose
    else:
        score += _NOT_SEARCHED_SCORE
    if content.is_fallback:
        score *= _FALLBACK_FACTOR
    score = round(max(0.0, score) * min(1.0, words / _MIN_WORDS), 3)
    coverage = 1.0 if is_whole_page else round(min(1.0, length / max(1, visible or 0)), 3)
    reason = _why_empty(content, kind)
    if reason is None and visible is not None:
        if content.is_fallback:
            reason = "the rules of the main content left next to nothing: this is the visible page"
        elif coverage < _LOW_COVERAGE:
            reason = "less than a tenth of the visible text"
        elif score < _LOW_SCORE:
            reason = f"a score below {_LOW_SCORE}"
    return {
        "word_count": words,
        "text_coverage": coverage,
        "boilerplate_ratio": round(link_density, 3),
        "language": language or detect_language_code(text[:_LANGUAGE_SAMPLE_LENGTH]),
        "score": score,
        "low_confidence": reason is not None,
        "reason": reason,
    }


def _why_empty(content: ParsedPage, kind: str) -> str | None:
    """Return why a page has no words; None for one that has some."""
    if any(map(_WORD.search, content.element.strings)):
        return None
    if kind == "pdf":
        return "no text layer"
    if "img" in content.elements_by_tag:
        return "pictures only"
    refreshes = map(parse_refresh, content.head.metas.get("refresh", ()))
    if (refresh := next(filter(None, refreshes), None)) is not None:
        return f"{_REFRESHES}{content.link_resolver[refresh.url] or refresh.url}"
    return "no text"


_FIRST_BYTES: Final = 1 << 16
_ENOUGH_LETTERS: Final = 400
_FEW_LETTERS: Final = 100
# Bytes of UTF-8, so that a sign of Chinese counts as three letters; no space without a break.
_LETTER: Final = re.compile(r"[0-9A-Za-z\x80-\x9f\xa1-\xff]")


def is_empty_without_javascript(html: bytes) -> bool:
    """Return whether a page has almost no text until its scripts have run.

    True for a page with scripts and little text when there is hardly any text at all, an empty
    element for scripts to fill, or a notice in ``<noscript>`` that asks for JavaScript. What
    ``<noscript>`` says counts as text.

    Parameters
    ----------
    html : bytes
        The document as fetched, in any encoding that writes tags as ASCII does.

    Examples
    --------
    >>> is_empty_without_javascript(b'<div id="root"></div><script src="app.js"></script>')
    True
    >>> is_empty_without_javascript(b"<h1>Hello</h1>")
    False
    """
    for part in (html[:_FIRST_BYTES], html):  # the start of most pages has enough text
        document = parse(part.decode("latin-1"))
        has_scripts = document.select_one("script") is not None
        notices = document.select("noscript")
        has_notice = any("javascript" in notice.text.lower() for notice in notices)
        document.remove("script,style,template,title,svg")
        letters = len(_LETTER.findall(document.text))
        if letters >= _ENOUGH_LETTERS:
            return False
        if len(part) == len(html):
            break
    if not has_scripts:
        return False
    if has_notice or any(_waits_for_script(each) for each in document.iter_elements()):
        return True
    has_picture = document.select_one("img,picture,video,object,embed") is not None
    return letters < _FEW_LETTERS and not has_picture


def _waits_for_script(element: Element) -> bool:
    """Return whether scripts fill an element: ``<div id="root">``, or one of a framework's own."""
    is_empty = not len(element) or (
        len(element) == 1 and type(element[0]) is Text and element[0].data.isspace()
    )
    return is_empty and (
        "-" in element.tag
        or (element.tag in {"div", "main", "section"} and element.attr("id") is not None)
    )


SKETCH_SIZE: Final = 48
_SAMPLE_LENGTH: Final = 2000  # characters from each end
_LINK_TARGET: Final = re.compile(r"\]\([^)\s]*\)")
_BARE_URL: Final = re.compile(r"https?://\S+")
_DIGIT: Final = re.compile(r"\d")
_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")
# First bytes of the UTF-8 of digits outside ASCII, and of other characters.
_OTHER_DIGIT_LEADS: Final = tuple(bytes([lead]) for lead in b"\xd9\xdb\xdf\xe0\xe1\xea\xef\xf0")
_CALENDAR_NAMES: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December", "Jan", "Feb", "Mar", "Apr", "Jun", "Jul", "Aug", "Sep"),
    *("Oct", "Nov", "Dec", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
    "Sunday",
)
_MASKED_NAMES: Final = {
    variant.encode(): b"0"
    for name in _CALENDAR_NAMES
    for variant in (name, name.lower(), name.upper())
}


def sample_text(title: str | None, text: str) -> str:
    """Return the title and the hashed part of a text, without link targets.

    Link targets may contain session identifiers.
    """
    if len(text) > 2 * _SAMPLE_LENGTH:
        text = f"{text[:_SAMPLE_LENGTH]}\n{text[-_SAMPLE_LENGTH:]}"
    text = _LINK_TARGET.sub("]", text)
    if "://" in text:
        text = _BARE_URL.sub("]", text)
    return f"{title or ''}\n{text}"


def compute_sketch(sample: str) -> bytes:
    """Return up to 48 hashes of 4 bytes, ascending.

    A text of less than two words has an empty sketch, which is similar to none.
    """
    return _bottom_k(sample.encode("utf-8", "replace").split())


def compute_masked_sketch(sample: str) -> bytes:
    """Sketch a text with masked numbers, months and weekdays, to detect calendar pages."""
    data = sample.encode("utf-8", "replace")
    if any(lead in data for lead in _OTHER_DIGIT_LEADS):
        data = _DIGIT.sub("0", sample).encode("utf-8", "replace")
    # Each number becomes 0, without separators; this is faster than a regex.
    data = data.translate(_ZEROS, b"/.:,;-")
    while b"00" in data:
        data = data.replace(b"00", b"0")
    words = data.split()
    return _bottom_k(list(map(_MASKED_NAMES.get, words, words)))


def _bottom_k(words: list[bytes]) -> bytes:
    # crc32 continues the hash of a word with the next word, without joining the strings.
    hashes = sorted(set(map(crc32, words[1:], map(crc32, words))))[:SKETCH_SIZE]
    return pack(f">{len(hashes)}I", *hashes)
