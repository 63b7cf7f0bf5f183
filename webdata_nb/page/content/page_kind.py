"""Detects the type of a page (article, forum, product) and its headline from declarations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from webdata_nb.page.content.block_tree import TITLE, word_set
from webdata_nb.page.content.parser import HEADINGS, letters_and_digits
from webdata_nb.page.content.structured_data import microdata_types

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webdata_nb.page.content.block_tree import TextRun
    from webdata_nb.page.content.parser import Document
    from webdata_nb.page.content.structured_data import JsonLd

PageKind: TypeAlias = Literal["article", "forum", "product", "other"]

_FORUM_TYPES: Final = frozenset({"DiscussionForumPosting", "QAPage"})
_FORUM_SOFTWARE: Final = word_set("phpbb discourse vbulletin xenforo invision nodebb flarum smf")
_FORUM_ITEMS: Final = ("Question", "DiscussionForumPosting")
_ARTICLE: Final = re.compile(
    r"(?:Tech|Scholarly|Reportage|Analysis|Opinion|Review|Medical)?"
    r"(?:NewsArticle|Article|BlogPosting|Posting)"
)
_ARTICLE_ITEMS: Final = ("NewsArticle", "BlogPosting")
_SEPARATOR: Final = re.compile(r"\s[-–—|·•:»]+\s|\s*[|»]\s*|:\s")  # noqa: RUF001 - a dash
_WORD: Final = re.compile(r"\w+")
_MAX_HEADLINE_WORDS = 30
_MIN_COMMON_WORDS = 3
_MIN_HEADLINE_OVERLAP = 0.8
_MIN_TITLE_OVERLAP = 0.4
_PROMINENCE: Final = {"h1": 3, "h2": 2}


def detect_page_kind(document: Document, json_ld: JsonLd) -> PageKind:
    """Return the page type by generator, JSON-LD, microdata and og:type."""
    is_article = any(map(_ARTICLE.fullmatch, json_ld.types))
    # The generator, and the class and id of the body, name the software.
    body = document.select_one("body")
    body_names = [] if body is None else [body.attr("class") or "", body.attr("id") or ""]
    software = " ".join([_meta(document, 'meta[name="generator"]'), *body_names]).lower()
    types = microdata_types(document)
    if (
        any(name in software for name in _FORUM_SOFTWARE)
        or not _FORUM_TYPES.isdisjoint(json_ld.types)
        or _any_contains(_FORUM_ITEMS, types)
    ):
        return "forum"
    declared = _meta(document, 'meta[property="og:type"]').lower()
    if "Product" in json_ld.types and not is_article:
        return "product"
    if (
        declared == "article"
        or is_article
        or _any_contains(_ARTICLE_ITEMS, types)
        or document.select_one('[itemprop="articleBody"]') is not None
    ):
        return "article"
    if "product" in declared or any(name.endswith("/Product") for name in types):
        return "product"
    return "other"


def declared_title(document: Document) -> str:
    """Return the declared title, empty without one."""
    declared = _meta(document, 'meta[property="og:title"]')
    title = None if declared else document.select_one("title")
    return declared if title is None else title.text


def find_headline(text_runs: Iterable[TextRun], title: str) -> TextRun | None:
    """Return the most prominent heading that repeats the title.

    An ``h1`` that is the title or its first parts comes first: the rest of the title may name the
    site, which another heading repeats.
    """
    title_words = set(_WORD.findall(title.lower()))
    whole = letters_and_digits(title)
    names = {
        whole,
        *(letters_and_digits(title[: sign.start()]) for sign in _SEPARATOR.finditer(title)),
    }
    headline, best_rank = None, 0
    for run in text_runs:
        tag = run.block.tag
        if run.words > _MAX_HEADLINE_WORDS or not (tag in HEADINGS or run.block.traits & TITLE):
            continue
        rank = _PROMINENCE.get(tag, 1)
        if rank <= best_rank and tag != "h1":
            continue
        text = run.text
        letters = letters_and_digits(text) if run.link_words < run.words else ""
        if tag == "h1" and letters and letters in names:
            return run
        if rank <= best_rank:
            continue
        words = set(_WORD.findall(text.lower()))
        common = len(words & title_words)
        repeats_title = (
            common >= _MIN_COMMON_WORDS
            and common >= _MIN_HEADLINE_OVERLAP * len(words)
            and common >= _MIN_TITLE_OVERLAP * len(title_words)
        )
        if repeats_title or (letters and letters == whole):
            headline, best_rank = run, rank
    return headline


def _meta(document: Document, selector: str) -> str:
    meta = document.select_one(selector)
    return "" if meta is None else meta.attr("content") or ""


def _any_contains(names: tuple[str, ...], types: list[str]) -> bool:
    return any(name in item_type for item_type in types for name in names)
