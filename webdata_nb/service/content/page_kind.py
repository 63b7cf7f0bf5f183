"""What kind of page this is, and its headline, by what the page declares about itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from webdata_nb.service.content.block_tree import HEADINGS
from webdata_nb.service.content.class_names import TITLE, word_set
from webdata_nb.service.content.parser import group_by_tag

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webdata_nb.service.content.block_tree import TextRun
    from webdata_nb.service.content.parser import Document

PageKind: TypeAlias = Literal["article", "forum", "product", "other"]

_MOST_JSON = 40_000  # characters of JSON-LD that are searched
_FORUM_TYPES: Final = ("DiscussionForumPosting", "QAPage")
_FORUM_SOFTWARE: Final = word_set("phpbb discourse vbulletin xenforo invision nodebb flarum smf")
_FORUM_ITEMS: Final = ("Question", "DiscussionForumPosting")
_ARTICLE: Final = re.compile(
    r'"@type"\s*:\s*(?:\[\s*)?"(?:Tech|Scholarly|Reportage|Analysis|Opinion|Review|Medical)?'
    r'(?:NewsArticle|Article|BlogPosting|Posting)"'
)
_ARTICLE_ITEMS: Final = ("NewsArticle", "BlogPosting")
_PRODUCT: Final = re.compile(r'"@type"\s*:\s*(?:\[\s*)?"Product"')
_ITEMS = '[itemtype],[itemprop="articleBody"]'
_WORD: Final = re.compile(r"\w+")
_LONGEST_HEADLINE = 30
_LEAST_HEADLINE = 3
_OF_THE_HEADLINE = 0.8
_OF_THE_TITLE = 0.4
_RANKS: Final = {"h1": 3, "h2": 2}


def detect_page_kind(document: Document) -> PageKind:
    """Return the kind of page that the document's own declarations speak of."""
    linked_data = _linked_data(document)
    software = _software(document).lower()
    items = document.select(_ITEMS)
    types = [each.attr("itemtype") or "" for each in items]
    if (
        any(name in software for name in _FORUM_SOFTWARE)
        or any(name in linked_data for name in _FORUM_TYPES)
        or _any_of(_FORUM_ITEMS, types)
    ):
        return "forum"
    declared = _meta(document, 'meta[property="og:type"]').lower()
    if _PRODUCT.search(linked_data) and not _ARTICLE.search(linked_data):
        return "product"
    if (
        declared == "article"
        or _ARTICLE.search(linked_data)
        or _any_of(_ARTICLE_ITEMS, types)
        or any(each.attr("itemprop") == "articleBody" for each in items)
    ):
        return "article"
    if "product" in declared or any(each.endswith("/Product") for each in types):
        return "product"
    return "other"


def declared_title(document: Document) -> str:
    """Return the title a page declares, empty when it declares none."""
    declared = _meta(document, 'meta[property="og:title"]')
    title = None if declared else document.select_one("title")
    return declared if title is None else title.text


def find_headline(leaves: Iterable[TextRun], title: str) -> TextRun | None:
    """Return the heading that repeats the page's title, the most prominent one."""
    wanted = set(_WORD.findall(title.lower()))
    best, best_rank = None, 0
    if len(wanted) < _LEAST_HEADLINE:
        return None
    for leaf in leaves:
        tag = leaf.block.tag
        if leaf.words > _LONGEST_HEADLINE or not (tag in HEADINGS or leaf.block.traits & TITLE):
            continue
        rank = _RANKS.get(tag, 1)
        if rank > best_rank and _repeats(leaf.text, wanted):
            best, best_rank = leaf, rank
    return best


def _repeats(text: str, wanted: set[str]) -> bool:
    words = set(_WORD.findall(text.lower()))
    common = len(words & wanted)
    return (
        common >= _LEAST_HEADLINE
        and common >= _OF_THE_HEADLINE * len(words)
        and common >= _OF_THE_TITLE * len(wanted)
    )


def _linked_data(document: Document) -> str:
    scripts = group_by_tag(document, ("script",)).get("script", ())
    blocks = [
        each for each in scripts if (each.attr("type") or "").lower() == "application/ld+json"
    ]
    return " ".join(block.text for block in blocks)[:_MOST_JSON]


def _software(document: Document) -> str:
    """Return what names the software behind a page: its generator, its body's class and id."""
    body = document.select_one("body")
    named = [] if body is None else [body.attr("class") or "", body.attr("id") or ""]
    return " ".join([_meta(document, 'meta[name="generator"]'), *named])


def _meta(document: Document, selector: str) -> str:
    meta = document.select_one(selector)
    return "" if meta is None else meta.attr("content") or ""


def _any_of(names: tuple[str, ...], types: list[str]) -> bool:
    return any(name in each for each in types for name in names)
