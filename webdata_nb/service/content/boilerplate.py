"""Which blocks of a page are not content: judged by tag, role and name, weighed by their text.

A name alone never decides: a block that holds much of a page's text stays, whatever it is called.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from webdata_nb.service.content.class_names import (
    ADVERTISING,
    ASIDE,
    CAPTION,
    COMMENTS,
    CONSENT,
    CONTENT,
    FOOTER,
    FURNITURE,
    HIDDEN,
    MEMBER,
    NAVIGATION,
    OVERLAY,
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

    from webdata_nb.service.content.block_tree import Block, BlockTree
    from webdata_nb.service.content.page_kind import PageKind

_NEVER_BY_NAME: Final = word_set("body main article h1 p td tr tbody dt code pre em strong a")
_FIRM: Final = OVERLAY | FOOTER | SIGN_UP | SIDEBAR | RELATED | SHARING | ASIDE
_NAMED: Final = (
    NAVIGATION | SIDEBAR | FOOTER | CONSENT | OVERLAY | SHARING | RELATED | ADVERTISING
) | (TAGS | COMMENTS | SIGN_UP | UNSEEN)
_HIDDEN_FOR_GOOD: Final = OVERLAY | NAVIGATION | SIGN_UP | SIDEBAR
_NOTES: Final = frozenset({"note", "doc-footnote", "doc-endnote", "doc-endnotes"})
_A_SENTENCE = 15
_FEW_WORDS = 60
_LONG_PROSE = 200
_HEADLINE_WORDS = 100
_FORM_PROSE = 100
_MEMBER_WORDS = 40


@dataclass(frozen=True, slots=True)
class PageTotals:
    """What a block is weighed against."""

    kind: PageKind
    words: int
    prose: int
    comments_are_content: bool = False
    hidden_is_content: bool = False


def drop_page_chrome(outline: BlockTree, kind: PageKind) -> bool:
    """Drop navigation, dialogs, footers, hidden parts; tell whether content was hidden."""
    root = outline.root
    held_back = sum(each.prose for each in _outermost(outline, HIDDEN) if _is_held_back(each))
    hidden = held_back >= _FEW_WORDS and held_back > 0.5 * root.prose
    _drop(
        outline, PageTotals(kind, root.words, root.prose, hidden_is_content=hidden), _is_furniture
    )
    return hidden


def drop_by_name(outline: BlockTree, kind: PageKind) -> None:
    """Drop what tags and names give away: asides, sharing, teasers, comments, sign-up forms."""
    root = outline.root
    comments = sum(each.prose for each in _outermost(outline, COMMENTS))
    lively = comments >= _FEW_WORDS and comments >= 0.6 * root.prose
    _drop(outline, PageTotals(kind, root.words, root.prose, lively), _is_boilerplate)


def is_wordless_boilerplate(block: Block) -> bool:
    """Tell whether a block without text is one by name: the icons of a sharing bar, an advert."""
    return not block.words and bool(block.traits & _NAMED) and block.tag not in _NEVER_BY_NAME


def _drop(
    outline: BlockTree, scale: PageTotals, judge: Callable[[Block, PageTotals], bool]
) -> None:
    skip = 1  # the root stays
    for block in outline.blocks:
        if block.index >= skip and block.words and judge(block, scale):
            block.dropped = True
            skip = block.end
    outline.settle()


def _is_furniture(block: Block, scale: PageTotals) -> bool:
    words, traits = block.words, block.traits
    if traits & FURNITURE:
        return words < 0.6 * scale.words
    if traits & HIDDEN and (
        (scale.kind == "article" and not scale.hidden_is_content)
        or block.prose < _A_SENTENCE
        or traits & _HIDDEN_FOR_GOOD
    ):
        return words < 0.5 * scale.words and block.prose <= 0.5 * scale.prose
    return block.tag == "footer" and _at_most(block, 0.4, scale)


def _is_boilerplate(block: Block, scale: PageTotals) -> bool:
    tag = block.tag
    if tag == "aside":
        return block.words < 0.75 * scale.words and not block.has_h1 and not _is_note(block)
    if tag == "header":
        return not (block.has_h1 and block.words < _HEADLINE_WORDS) and _at_most(block, 0.4, scale)
    if tag == "form":
        return block.words < 0.3 * scale.words and block.prose < _FORM_PROSE
    return tag not in _NEVER_BY_NAME and _is_named(block, scale)


def _is_note(aside: Block) -> bool:
    """Tell whether an aside holds notes that the text refers to."""
    role, name = aside.element.attr("role"), aside.element.attr("class")
    return role in _NOTES or (name is not None and "footnote" in name.lower())


def _is_named(block: Block, scale: PageTotals) -> bool:
    """Judge by the block's own names."""
    traits = block.traits & _names_that_count(scale.kind)
    if _is_member(block, scale):
        return True
    if not traits or block.has_h1:
        return False
    if traits & COMMENTS:
        if _are_comments_beside_content(block, scale):
            return True
        traits &= ~COMMENTS
        if not traits or scale.kind == "article":
            return False
    return _weighs_little(block, traits, scale)


def _is_member(block: Block, scale: PageTotals) -> bool:
    """Tell whether a block shows who wrote a message, on a page of messages."""
    return (
        bool(block.traits & MEMBER)
        and (scale.kind == "forum" or scale.comments_are_content)
        and not block.prose
        and block.words < _MEMBER_WORDS
    )


def _names_that_count(kind: PageKind) -> int:
    if kind == "article":
        return _NAMED | PROMOTION
    return _NAMED | ASIDE if kind == "forum" else _NAMED | ASIDE | CAPTION


def _are_comments_beside_content(block: Block, scale: PageTotals) -> bool:
    if scale.kind == "article":
        return scale.prose - block.prose > _FEW_WORDS
    if scale.kind == "forum" and scale.comments_are_content:
        return False
    return block.prose < 0.5 * scale.prose


def _weighs_little(block: Block, traits: int, scale: PageTotals) -> bool:
    if traits & CONSENT:
        return block.words < 0.8 * scale.words
    if traits == NAVIGATION and block.prose and block.link_words < 0.4 * block.words:
        return False
    if block.traits & CONTENT and block.tag not in {"ul", "ol"}:
        return False
    if traits & _FIRM:
        return _at_most(block, 0.4, scale)
    return (
        block.words <= 0.35 * scale.words
        and block.prose <= 0.3 * scale.prose
        and block.prose <= _LONG_PROSE
    )


def _at_most(block: Block, share: float, scale: PageTotals) -> bool:
    return block.words <= share * scale.words and block.prose <= share * scale.prose


def _is_held_back(block: Block) -> bool:
    """Tell whether a hidden block waits for a script that moves it to its place."""
    return block.element.attr("hidden") is not None


def _outermost(outline: BlockTree, trait: int) -> Iterator[Block]:
    """Give the blocks with `trait`, of nested ones the outer one."""
    skip = 1
    for block in outline.blocks:
        if block.index >= skip and block.traits & trait and block.tag not in _NEVER_BY_NAME:
            yield block
            skip = block.end
