"""Finds the block that holds the content: the main region of a page or the body of its article."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from webdata_nb.page.content.class_names import ARTICLE_BODY, NOT_CONTENT, word_set

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webdata_nb.page.content.block_tree import Block, BlockTree, TextRun
    from webdata_nb.page.content.page_kind import PageKind

ContentRung: TypeAlias = Literal["article", "main", "full"]

_MAIN: Final = 'main,[role="main"],[id="main-content"],[id="maincontent"],[id="mw-content-text"]'
_MIN_MAIN_WORDS = 30
_SHORT_PAGE = 150  # words; shorter pages are kept whole
_SHORT_TEXT = 300  # words; shorter texts keep sections without prose
_MAX_SECTION_LINK_SHARE = 0.1
_MAX_CODE_LINK_SHARE = 0.25  # references link more than other texts
_SECTION_TAGS: Final = word_set("pre h2 h3 h4")
_MIN_ARTICLE_WORDS = 40
_MIN_BODY_PROSE = 30
_MIN_UNDECLARED_PROSE = 150
_MIN_UNDECLARED_NAMED_PROSE = 60
_TAG_WEIGHTS: Final = {"p": 1.0, "blockquote": 1.0, "pre": 1.0, "td": 0.6, "li": 0.5}
_OTHER_TAG_WEIGHT = 0.7
_WEIGHT_BEFORE_HEADLINE = 0.3
_NAMED_BODY_WEIGHT = 1.5
_WEIGHT_IN_BOILERPLATE = 0.3
# The parent of these counts as the container of the text.
_TEXT_TAGS: Final = word_set("p blockquote li td span h2 h3 pre center font")
_NEVER_BODY: Final = word_set(
    "ol ul li blockquote p table tbody thead tr td dl dd figure center span a pre"
)
_MAX_WIDENING_LEVELS = 6


@dataclass(frozen=True, slots=True)
class ContentRegion:
    """The block that holds the content, and its rung."""

    block: Block
    rung: ContentRung


def find_region(
    tree: BlockTree, kind: PageKind, headline: TextRun | None, *, content_hidden: bool = False
) -> ContentRegion:
    """Find the smallest block that still holds the content.

    Parameters
    ----------
    tree
        The page without boilerplate.
    kind
        The declared type of the page.
    headline
        The heading that repeats the title.
    content_hidden
        Most content is hidden, often outside the main region, until a script shows it.
    """
    region = ContentRegion(tree.root, "full") if content_hidden else _main_region(tree, headline)
    body = find_body(tree, region.block, headline)
    if kind == "article":
        is_article = _holds_article(body, region.block)
    else:
        is_article = kind == "other" and _is_undeclared_article(body, region.block)
    if not is_article:
        return region
    return ContentRegion(_with_code(tree, body, region.block), "article")


def find_body(tree: BlockTree, top: Block, headline: TextRun | None) -> Block:
    """Find the descendant of `top` with the highest prose score."""
    scores = _prose_scores(tree.text_runs_in(top), top, headline.index if headline else -1)
    body = max(scores, key=lambda block: _weighted_score(block, scores[block]), default=top)
    while body.tag in _NEVER_BODY and body is not top and body.parent is not None:
        body = body.parent
    return _widen(tree, body, top)


def _main_region(tree: BlockTree, headline: TextRun | None) -> ContentRegion:
    root = tree.root
    region = max(_main_blocks(tree), key=_words, default=root)
    if not (region.words > 0.3 * root.words and region.words > _MIN_MAIN_WORDS):
        region = root
    article = max(_outermost_articles(tree, region), key=_words, default=None)
    if article and article.words > 0.5 * region.words and article.words > _MIN_ARTICLE_WORDS:
        region = article
    if region is root and root.words > _SHORT_PAGE:
        region = _with_code(tree, find_body(tree, root, headline), root)
        while region.parent is not None and region.words < 0.5 * root.words:
            region = region.parent
    return ContentRegion(region, "full" if region is root else "main")


def _main_blocks(tree: BlockTree) -> list[Block]:
    """Return the blocks that declare themselves the main region, in document order."""
    root = tree.root.element
    elements = set(root.select(_MAIN))
    if root.matches(_MAIN):
        elements.add(root)
    return [block for block in tree.blocks if block.element in elements] if elements else []


def _words(block: Block) -> int:
    return block.words


def _outermost_articles(tree: BlockTree, top: Block) -> Iterable[Block]:
    skip = 0
    for block in [block for block in tree.blocks_below(top) if block.tag == "article"]:
        if block.index >= skip:
            yield block
            skip = block.end


def _holds_article(body: Block, region: Block) -> bool:
    min_share = 0.25 if body.traits & ARTICLE_BODY else 0.6
    return body.prose > _MIN_BODY_PROSE and body.prose > min_share * region.prose


def _is_undeclared_article(body: Block, region: Block) -> bool:
    """Return whether a page without a declared type is one text."""
    if (
        body.prose > _MIN_UNDECLARED_PROSE
        and body.prose > 0.75 * region.prose
        and body.prose > 0.4 * body.words
    ):
        return True
    return (
        bool(body.traits & ARTICLE_BODY)
        and body.prose > _MIN_UNDECLARED_NAMED_PROSE
        and body.prose > 0.6 * region.prose
        and body.prose > 0.5 * body.words
    )


def _prose_scores(text_runs: list[TextRun], top: Block, headline: int) -> dict[Block, float]:
    """Add the words of each paragraph to its three closest ancestors, halved at each level."""
    scores: dict[Block, float] = {}
    for run in text_runs:
        if not run.prose:
            continue
        tag = run.block.tag
        share = run.words * _TAG_WEIGHTS.get(tag, _OTHER_TAG_WEIGHT)
        if run.index < headline:
            share *= _WEIGHT_BEFORE_HEADLINE
        block = run.block.parent if tag in _TEXT_TAGS else run.block
        for _ in range(3):
            if block is None or block.index < top.index:
                break
            scores[block] = scores.get(block, 0.0) + share
            block = block.parent
            share /= 2
    return scores


def _weighted_score(block: Block, score: float) -> float:
    text_density = 1 - block.link_words / max(1, block.words)
    if block.traits & ARTICLE_BODY:
        text_density *= _NAMED_BODY_WEIGHT
    return (
        score
        * text_density
        * (_WEIGHT_IN_BOILERPLATE if block.inherited_traits & NOT_CONTENT else 1.0)
    )


def _widen(tree: BlockTree, body: Block, top: Block) -> Block:
    """Return the ancestor that also holds the rest of a text in several blocks."""
    outer = body
    for _ in range(_MAX_WIDENING_LEVELS):
        if outer is top or outer.parent is None:
            break
        outer = outer.parent
        prose, words = outer.prose - body.prose, outer.words - body.words
        is_continued = prose > 0.1 * body.prose and prose >= 0.6 * words
        if is_continued or (outer.words < _SHORT_TEXT and _has_sections(tree, outer, body)):
            body = outer
    return body


def _with_code(tree: BlockTree, body: Block, top: Block) -> Block:
    """Return the ancestor of a text that also holds the code beside it."""
    if body is top or len(top.element.select("pre")) == len(body.element.select("pre")):
        return body
    code = [block.index for block in tree.blocks if block.tag == "pre"]
    outer = body
    for _ in range(_MAX_WIDENING_LEVELS):
        if outer is top or outer.parent is None:
            break
        outer = outer.parent
        is_beside = any(
            outer.index < index < outer.end and not body.index <= index < body.end for index in code
        )
        if is_beside and _adds_few_links(outer, body, _MAX_CODE_LINK_SHARE):
            body = outer
    return body


def _has_sections(tree: BlockTree, outer: Block, body: Block) -> bool:
    """Return whether `outer` has headings or code beside `body`, and few links."""
    return _adds_few_links(outer, body, _MAX_SECTION_LINK_SHARE) and any(
        block.tag in _SECTION_TAGS and not body.index <= block.index < body.end
        for block in tree.blocks_below(outer)
    )


def _adds_few_links(outer: Block, body: Block, max_share: float) -> bool:
    words, link_words = outer.words - body.words, outer.link_words - body.link_words
    return link_words <= max_share * words
