"""Detects boilerplate blocks by tag, role and class name, weighed by their share of the text.

A class name alone never decides: a block with much of the text of the page stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.class_names import (
    ADVERTISING,
    ASIDE,
    CAPTION,
    COMMENTS,
    CONSENT,
    CONTENT,
    FOOTER,
    HIDDEN,
    MEMBER,
    NAVIGATION,
    OVERLAY,
    PAGE_CHROME,
    PROMOTION,
    RELATED,
    SHARING,
    SIDEBAR,
    SIGN_UP,
    TAGS,
    UNSEEN,
    word_set,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from webdata_nb.page.content.block_tree import Block, BlockTree
    from webdata_nb.page.content.page_kind import PageKind

_EXEMPT_TAGS: Final = word_set("body main article h1 p td tr tbody dt code pre em strong a")
_BESIDE_CONTENT: Final = SIDEBAR | RELATED
_STRONG_SIGNS: Final = OVERLAY | FOOTER | SIGN_UP | SHARING | ASIDE
_BOILERPLATE_TRAITS: Final = (
    NAVIGATION | SIDEBAR | FOOTER | CONSENT | OVERLAY | SHARING | RELATED | ADVERTISING
) | (TAGS | COMMENTS | SIGN_UP | UNSEEN)
_HIDDEN_BOILERPLATE: Final = OVERLAY | NAVIGATION | SIGN_UP | SIDEBAR
_NOTE_ROLES: Final = frozenset({"note", "doc-footnote", "doc-endnote", "doc-endnotes"})
_ROWS_OF_LINKS: Final = NAVIGATION | SHARING | TAGS
_MAX_LINKS_BESIDE_CODE = 0.1  # of the words
_SENTENCE_WORDS = 15
_MIN_SECTION_WORDS = 60
_MAX_BOILERPLATE_PROSE = 200
_MAX_HEADLINE_WORDS = 100
_MAX_FORM_PROSE = 60
_MAX_MEMBER_WORDS = 40


@dataclass(frozen=True, slots=True)
class PageTotals:
    """The totals of a page, against which a block is weighed."""

    kind: PageKind
    words: int
    prose: int
    comments_are_content: bool = False
    hidden_is_content: bool = False


def drop_page_chrome(tree: BlockTree, kind: PageKind) -> bool:
    """Drop navigation, dialogs, footers, hidden blocks; return whether most content is hidden."""
    root = tree.root
    # Blocks with the hidden attribute wait for a script to show them.
    hidden_prose = sum(
        block.prose
        for block in _outermost(tree, HIDDEN)
        if block.element.attr("hidden") is not None
    )
    hidden = hidden_prose >= _MIN_SECTION_WORDS and hidden_prose > 0.5 * root.prose
    _drop(tree, PageTotals(kind, root.words, root.prose, hidden_is_content=hidden), _is_page_chrome)
    return hidden


def drop_by_name(tree: BlockTree, kind: PageKind) -> None:
    """Drop asides, sharing bars, teasers, comments and sign-up forms by tag and class name."""
    root = tree.root
    comments = sum(block.prose for block in _outermost(tree, COMMENTS))
    comments_are_content = comments >= _MIN_SECTION_WORDS and comments >= 0.6 * root.prose
    _drop(tree, PageTotals(kind, root.words, root.prose, comments_are_content), _is_boilerplate)


def is_wordless_boilerplate(block: Block) -> bool:
    """Return whether a block without text is boilerplate: sharing icons, an advertisement."""
    return (
        not block.words
        and bool(block.traits & _BOILERPLATE_TRAITS)
        and block.tag not in _EXEMPT_TAGS
    )


def _drop(
    tree: BlockTree, totals: PageTotals, is_dropped: Callable[[Block, PageTotals], bool]
) -> None:
    skip = 1  # the root stays
    for block in tree.blocks:
        if block.index >= skip and block.words and is_dropped(block, totals):
            block.dropped = True
            skip = block.end
    tree.apply_drops()


def _is_page_chrome(block: Block, totals: PageTotals) -> bool:
    words, traits = block.words, block.traits
    if traits & PAGE_CHROME:
        return words < 0.6 * totals.words
    if traits & HIDDEN and (
        (totals.kind == "article" and not totals.hidden_is_content)
        or block.prose < _SENTENCE_WORDS
        or traits & _HIDDEN_BOILERPLATE
    ):
        return words < 0.5 * totals.words and block.prose <= 0.5 * totals.prose
    return block.tag == "footer" and _at_most(block, 0.4, totals)


def _is_boilerplate(block: Block, totals: PageTotals) -> bool:
    tag = block.tag
    if block.in_data and tag != "table":
        return False
    if tag == "aside":
        is_small = block.words < 0.75 * totals.words and not block.has_h1
        return is_small and not (_is_note(block) or _holds_code(block))
    if tag == "header":
        holds_text = block.prose >= _SENTENCE_WORDS
        holds_headline = block.has_h1 and block.words < _MAX_HEADLINE_WORDS
        return not (holds_text or holds_headline) and _at_most(block, 0.4, totals)
    if tag == "form":
        return block.words < 0.3 * totals.words and block.prose < _MAX_FORM_PROSE
    return tag not in _EXEMPT_TAGS and _is_boilerplate_by_name(block, totals)


def _is_note(aside: Block) -> bool:
    """Return whether an aside is a footnote."""
    role, class_names = aside.element.attr("role"), aside.element.attr("class")
    return role in _NOTE_ROLES or (class_names is not None and "footnote" in class_names.lower())


def _holds_code(block: Block) -> bool:
    """Return whether a block is an example or a text about code rather than links."""
    few_links = block.link_words <= _MAX_LINKS_BESIDE_CODE * block.words
    return few_links and block.element.select_one("pre") is not None


def _is_boilerplate_by_name(block: Block, totals: PageTotals) -> bool:
    traits = block.traits & _boilerplate_traits(totals.kind)
    if _is_forum_member(block, totals):
        return True
    if not traits or block.has_h1:
        return False
    if traits & COMMENTS:
        if _are_comments_beside_content(block, totals):
            return True
        traits &= ~COMMENTS
        if not traits or totals.kind == "article":
            return False
    return not _is_tab(block, traits, totals) and _is_small(block, traits, totals)


def _is_forum_member(block: Block, totals: PageTotals) -> bool:
    """Return whether a block shows the author of a forum message."""
    return (
        bool(block.traits & MEMBER)
        and (totals.kind == "forum" or totals.comments_are_content)
        and not block.prose
        and block.words < _MAX_MEMBER_WORDS
    )


def _boilerplate_traits(kind: PageKind) -> int:
    if kind == "article":
        return _BOILERPLATE_TRAITS | PROMOTION
    return _BOILERPLATE_TRAITS | ASIDE if kind == "forum" else _BOILERPLATE_TRAITS | ASIDE | CAPTION


def _are_comments_beside_content(block: Block, totals: PageTotals) -> bool:
    if totals.kind == "article":
        return totals.prose - block.prose > _MIN_SECTION_WORDS
    if totals.kind == "forum" and totals.comments_are_content:
        return False
    return block.prose < 0.5 * totals.prose


def _is_tab(block: Block, traits: int, totals: PageTotals) -> bool:
    """Return whether a block with text waits for a click: a tab, an accordion."""
    return traits == UNSEEN and totals.kind != "article" and block.prose >= _SENTENCE_WORDS


def _is_small(block: Block, traits: int, totals: PageTotals) -> bool:
    if traits & CONSENT:
        return block.words < 0.8 * totals.words
    if traits == NAVIGATION and block.prose and block.link_words < 0.4 * block.words:
        return False
    if not traits & ~_ROWS_OF_LINKS and _holds_code(block):
        return False
    if block.traits & CONTENT and block.tag not in {"ul", "ol"}:
        return False
    if traits & (_BESIDE_CONTENT | _STRONG_SIGNS):
        return _at_most(block, 0.6 if traits & _BESIDE_CONTENT else 0.4, totals)
    return (
        block.words <= 0.35 * totals.words
        and block.prose <= 0.3 * totals.prose
        and block.prose <= _MAX_BOILERPLATE_PROSE
    )


def _at_most(block: Block, share: float, totals: PageTotals) -> bool:
    return block.words <= share * totals.words and block.prose <= share * totals.prose


def _outermost(tree: BlockTree, trait: int) -> Iterator[Block]:
    """Yield the outermost blocks with `trait`."""
    skip = 1
    for block in tree.blocks:
        if block.index >= skip and block.traits & trait and block.tag not in _EXEMPT_TAGS:
            yield block
            skip = block.end
