"""The block that holds the content: the page's main region, or the body of its article."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from webdata_nb.service.content.class_names import ARTICLE_BODY, NOT_CONTENT, word_set

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webdata_nb.service.content.block_tree import Block, BlockTree, TextRun
    from webdata_nb.service.content.page_kind import PageKind

ContentRung: TypeAlias = Literal["article", "main", "full"]

_MAIN_IDS: Final = frozenset({"main-content", "maincontent", "mw-content-text"})
_LEAST_MAIN = 30
_LEAST_ARTICLE = 40
_LEAST_NAMED_PROSE = 40
_LEAST_PROSE = 60
_LEAST_UNDECLARED_PROSE = 150
_PROSE_BY_TAG: Final = {"p": 1.0, "blockquote": 1.0, "pre": 1.0, "td": 0.6, "li": 0.5}
_PROSE_ELSEWHERE = 0.7
_BEFORE_HEADLINE = 0.3
_NAMED_BODY = 1.5
_UNDER_BOILERPLATE = 0.3
_PART_OF_TEXT: Final = word_set(
    "p blockquote li td span h2 h3 pre center font"
)  # their parent is what holds the text
_TOO_NARROW: Final = word_set(
    "ol ul li blockquote p table tbody thead tr td dl dd figure center span a pre"
)
_LEVELS_UP = 6


@dataclass(frozen=True, slots=True)
class ContentRegion:
    """A block that holds the content, and the rung of the ladder it was found on."""

    block: Block
    rung: ContentRung


def find_region(
    outline: BlockTree, kind: PageKind, headline: TextRun | None, *, scattered: bool = False
) -> ContentRegion:
    """Find the smallest block that still holds the content.

    Parameters
    ----------
    outline
        The page, without its boilerplate.
    kind
        What the page declares itself to be.
    headline
        The heading that repeats its title.
    scattered
        Parts of the content stand outside the main region, waiting for a script.
    """
    region = ContentRegion(outline.root, "full") if scattered else _main_region(outline, headline)
    body = find_body(outline, region.block, headline)
    if kind == "article":
        return ContentRegion(body, "article") if _holds_article(body, region.block) else region
    if kind == "other" and _is_one_text(body, region.block):
        return ContentRegion(body, "article")
    return region


def find_body(outline: BlockTree, top: Block, headline: TextRun | None) -> Block:
    """Find the block below `top` that holds most of its prose together."""
    scores = _prose_scores(outline.leaves_of(top), top, headline.index if headline else -1)
    best = max(scores, key=lambda block: _weigh(block, scores[block]), default=top)
    while best.tag in _TOO_NARROW and best is not top and best.parent is not None:
        best = best.parent
    return _widen(best, top)


def _main_region(outline: BlockTree, headline: TextRun | None) -> ContentRegion:
    root = outline.root
    best = max(filter(_is_main, outline.blocks), key=_words, default=root)
    if not (best.words > 0.3 * root.words and best.words > _LEAST_MAIN):
        best = root
    article = max(_outermost_articles(outline, best), key=_words, default=None)
    if article and article.words > 0.5 * best.words and article.words > _LEAST_ARTICLE:
        best = article
    if best is root:
        best = find_body(outline, root, headline)
        while best.parent is not None and best.words < 0.5 * root.words:
            best = best.parent
    return ContentRegion(best, "full" if best is root else "main")


def _is_main(block: Block) -> bool:
    return (
        block.tag == "main"
        or block.element.attr("role") == "main"
        or block.element.attr("id") in _MAIN_IDS
    )


def _words(block: Block) -> int:
    return block.words


def _outermost_articles(outline: BlockTree, top: Block) -> Iterable[Block]:
    skip = 0
    for block in outline.within(top):
        if block.index >= skip and block.tag == "article":
            yield block
            skip = block.end


def _holds_article(body: Block, region: Block) -> bool:
    if body.traits & ARTICLE_BODY:
        return body.prose > _LEAST_NAMED_PROSE and body.prose > 0.25 * region.prose
    return body.prose > _LEAST_PROSE and body.prose > 0.6 * region.prose


def _is_one_text(body: Block, region: Block) -> bool:
    """Tell whether a page that declares no article is one by the look of it."""
    return (
        body.prose > _LEAST_UNDECLARED_PROSE
        and body.prose > 0.75 * region.prose
        and body.prose > 0.6 * body.words
    )


def _prose_scores(leaves: list[TextRun], top: Block, headline: int) -> dict[Block, float]:
    """Give each paragraph's words to the blocks around it, half as many each level up."""
    scores: dict[Block, float] = {}
    for leaf in leaves:
        if not leaf.prose:
            continue
        tag = leaf.block.tag
        share = leaf.words * _PROSE_BY_TAG.get(tag, _PROSE_ELSEWHERE)
        if leaf.index < headline:
            share *= _BEFORE_HEADLINE
        block = leaf.block.parent if tag in _PART_OF_TEXT else leaf.block
        for _ in range(3):
            if block is None or block.index < top.index:
                break
            scores[block] = scores.get(block, 0.0) + share
            block = block.parent
            share /= 2
    return scores


def _weigh(block: Block, score: float) -> float:
    not_links = 1 - block.link_words / max(1, block.words)
    if block.traits & ARTICLE_BODY:
        not_links *= _NAMED_BODY
    return score * not_links * (_UNDER_BOILERPLATE if block.under & NOT_CONTENT else 1.0)


def _widen(body: Block, top: Block) -> Block:
    """Climb where the text goes on beside `body`: its parts may stand in several blocks."""
    outer = body
    for _ in range(_LEVELS_UP):
        if outer is top or outer.parent is None:
            break
        outer = outer.parent
        prose, words = outer.prose - body.prose, outer.words - body.words
        if prose > 0.1 * body.prose and prose >= 0.6 * words:
            body = outer
    return body
