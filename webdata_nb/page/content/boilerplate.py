"""Detects boilerplate: around the content by tag, role and class name, and inside it.

Inside the content, trailing teasers, credits, link lists and labels of controls are dropped.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.block_tree import (
    ASIDE,
    AUTHOR,
    CAPTION,
    COMMENTS,
    CONSENT,
    CONTENT,
    DATELINE,
    FOOTER,
    HIDDEN,
    LEAD,
    MEMBER,
    NAVIGATION,
    NOT_CONTENT,
    OVERLAY,
    PAGE_CHROME,
    PROMOTION,
    RELATED,
    SHARING,
    SIDEBAR,
    SIGN_UP,
    TAGS,
    UNSEEN,
    is_one_of_sections,
    is_trailer_heading,
    word_pattern,
    word_set,
)
from webdata_nb.page.content.parser import HEADINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from webdata_nb.page.content.block_tree import Block, BlockTree, TextRun
    from webdata_nb.page.content.page_kind import PageKind

_EXEMPT_TAGS: Final = word_set("body main article h1 p td tr tbody dt code pre em strong a")
_BOILERPLATE_TAGS: Final = word_set("aside figcaption footer form header")
_BESIDE_CONTENT: Final = SIDEBAR | RELATED
_STRONG_SIGNS: Final = OVERLAY | FOOTER | SIGN_UP | SHARING | ASIDE
_BOILERPLATE_TRAITS: Final = NOT_CONTENT & ~PROMOTION
_TRAITS_BY_KIND: Final[dict[PageKind, int]] = {
    "article": NOT_CONTENT,
    "forum": _BOILERPLATE_TRAITS | ASIDE,
    "product": _BOILERPLATE_TRAITS | ASIDE | CAPTION,
    "other": _BOILERPLATE_TRAITS | ASIDE | CAPTION,
}
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
    for block in filter(_may_be_boilerplate, tree.blocks):
        if block.index >= skip and block.words and is_dropped(block, totals):
            block.dropped = True
            skip = block.end
    tree.apply_drops()


def _may_be_boilerplate(block: Block) -> bool:
    """Return whether the rules below need to look at a block."""
    return bool(block.traits) or block.tag in _BOILERPLATE_TAGS


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
        role, class_names = block.element.attr("role"), block.element.attr("class")
        is_footnote = role in _NOTE_ROLES or "footnote" in (class_names or "").lower()
        return is_small and not (is_footnote or _holds_code(block))
    if tag == "header":
        holds_text = block.prose >= _SENTENCE_WORDS
        holds_headline = block.has_h1 and block.words < _MAX_HEADLINE_WORDS
        return not (holds_text or holds_headline) and _at_most(block, 0.4, totals)
    if tag == "form":
        return block.words < 0.3 * totals.words and block.prose < _MAX_FORM_PROSE
    return tag not in _EXEMPT_TAGS and _is_boilerplate_by_name(block, totals)


def _holds_code(block: Block) -> bool:
    """Return whether a block is an example or a text about code rather than links."""
    few_links = block.link_words <= _MAX_LINKS_BESIDE_CODE * block.words
    return few_links and block.element.select_one("pre") is not None


def _is_boilerplate_by_name(block: Block, totals: PageTotals) -> bool:
    traits = block.traits & _TRAITS_BY_KIND[totals.kind]
    if (  # the author of a forum message
        block.traits & MEMBER
        and (totals.kind == "forum" or totals.comments_are_content)
        and not block.prose
        and block.words < _MAX_MEMBER_WORDS
    ):
        return True
    if not traits or block.has_h1:
        return False
    if traits & COMMENTS:
        if totals.kind == "article":
            is_beside_content = totals.prose - block.prose > _MIN_SECTION_WORDS
        else:
            is_content = totals.kind == "forum" and totals.comments_are_content
            is_beside_content = not is_content and block.prose < 0.5 * totals.prose
        if is_beside_content:
            return True
        traits &= ~COMMENTS
        if not traits or totals.kind == "article":
            return False
    if traits == UNSEEN and totals.kind != "article" and block.prose >= _SENTENCE_WORDS:
        return False  # a tab or an accordion, whose text waits for a click
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


_TEASER: Final = word_pattern("teasers", r"\W*(?:%s)\b")
_CONTROL_LABEL: Final = word_pattern("controls", r"\W*(?:%s)\b")
_TRAILER_TAGS: Final = word_set("h2 h3 h4 h5 h6 strong div span p")
_MAX_TRAILER_WORDS = 12
_SENTENCE_ENDS: Final = frozenset(".!?")
_MAX_TRAILER_LENGTH = 70
_SECTION_HEADINGS: Final = frozenset({"h1", "h2", "h3"})
_MAX_TRAILER_BLOCKS = 100
_TEASER_TAGS: Final = word_set("p div h4 h5 h6 center strong em b")
_MAX_TEASER_WORDS = 30
_MAX_CONTROL_WORDS = 4
_NOT_CONTROLS: Final = HEADINGS | word_set("figcaption td th dt dd pre")
_LINK_LISTS: Final = word_set("ul ol div section table dl")
_MIN_LINKS = 4
_MIN_ROW_LINKS = 2
_MAX_HEADER_WORDS = 60
_MAX_HEADER_SHARE = 0.35
_MIN_REPEATED_WORDS = 5
_MAX_CREDIT_WORDS = 60
_TEASER_LINK_SHARE = 0.25
_MIN_SECTION_PROSE = 40  # words
_MAX_PROSE_LINKS = 0.05  # of the words of a section
_REPEATABLE: Final = frozenset({"p", "li", "blockquote"})


def trim_article(tree: BlockTree, region: Block, headline: TextRun | None) -> None:
    """Drop trailers, headline, byline and captions of an article.

    Trailers are small sections with a heading such as "Related" or "Comments".
    """
    max_words = 0.35 * region.words
    for run in tree.text_runs_in(region):
        block = run.block
        if run.words > _MAX_TRAILER_WORDS or block is region or block.tag not in _TRAILER_TAGS:
            continue
        text = run.text
        if len(text) <= _MAX_TRAILER_LENGTH and is_trailer_heading(text):
            _drop_trailer(tree, run, region, max_words)
    tree.apply_drops()
    title = None if headline is None else headline.block
    for block in _remaining_blocks(tree, region):
        block.dropped = block is title or (
            _may_be_boilerplate(block) and _is_article_frame(block, region)
        )
    tree.apply_drops()


def trim_links(tree: BlockTree, region: Block, *, article: bool) -> None:
    """Drop lists of links: of teasers in an article, of menu entries elsewhere."""
    max_words_per_link = 6 if article else 3
    for block in _remaining_blocks(tree, region):
        block.dropped = (
            block.tag in _LINK_LISTS
            and block.links >= _MIN_LINKS
            and 0 < block.words < 0.35 * region.words
            and block.link_words > 0.85 * block.words
            and block.words < max_words_per_link * block.links
            and not any(inner.in_data for inner in tree.blocks_below(block))
        )


def trim_teasers(tree: BlockTree, region: Block) -> None:
    """Drop lines of an article that only link elsewhere."""
    for run in _short_texts(tree, region, _MAX_TEASER_WORDS):
        block = run.block
        only_link = run.link_words >= run.words and block.tag in _TEASER_TAGS
        if only_link and (
            (
                (cell := block.parent) is not None
                and cell.tag in {"td", "th"}
                and (row := cell.parent) is not None
                and cell.words < row.words  # beside cells with text
            )
            or block.element.select_one("img,picture") is not None
        ):
            continue
        if only_link or (
            run.link_words and block.tag != "li" and _TEASER.match(run.text) is not None
        ):
            block.dropped = True


def trim_repeats(tree: BlockTree, region: Block) -> None:
    """Drop repeated text, written again for another screen width.

    A paragraph that repeats its neighbour, such as a refrain, and repeated code are meant.
    """
    parents: dict[str, Block | None] = {}
    for run in tree.text_runs_in(region):
        if run.words < _MIN_REPEATED_WORDS or run.block.dropped or run.block.in_data:
            continue
        text, block = run.text, run.block
        is_copy = text in parents and (
            block.tag not in _REPEATABLE or parents[text] is not block.parent
        )
        if is_copy and block.words == run.words and block.tag not in {"td", "th", "pre"}:
            block.dropped = block is not region
        parents.setdefault(text, block.parent)


def trim_controls(tree: BlockTree, region: Block) -> None:
    """Drop labels of controls: "reply", "add to cart"."""
    for run in _short_texts(tree, region, _MAX_CONTROL_WORDS):
        text = run.text
        # "Follow the rules." is text; "Follow us" is a control.
        is_sentence = run.words > 1 and text[-1:] in ".!?"
        if run.block.tag not in _NOT_CONTROLS and _CONTROL_LABEL.match(text) and not is_sentence:
            run.block.dropped = True


def trim_header(tree: BlockTree, region: Block, headline: TextRun | None) -> None:
    """Drop rows of links above the headline, each with the page header around it."""
    if headline is not None and not region.contains(headline.block):
        headline = None  # the first ``h1`` takes its place
    above: list[TextRun] = []
    for run in tree.text_runs:
        if run.block.index < region.index:
            continue
        if run.block.index >= region.end:
            return
        if run is headline or (headline is None and run.block.tag == "h1"):
            end = run.block.index
            break
        above.append(run)
    else:
        return
    words = sum(run.words for run in above)
    if words > max(_MAX_HEADER_WORDS, _MAX_HEADER_SHARE * region.words):
        return
    # The text of a heading goes on after a heading in it.
    headings = sorted(run.block.index for run in above if run.block.tag in HEADINGS)
    skip = 0
    for run in above:
        header = run.block
        if header is region or header.index < skip:
            continue
        if header.links < _MIN_ROW_LINKS or not run.link_words or header.words != run.words:
            continue
        # Nothing but signs stands between the links.
        signs = sum(not any(map(str.isalnum, word)) for word in run.text.split())
        if run.link_words + signs < run.words:
            continue
        while (
            (parent := header.parent) is not None
            and parent is not region
            and parent.end <= end
            and not parent.prose
            and (
                (at := bisect_left(headings, parent.index)) == len(headings)
                or headings[at] >= parent.end
            )
        ):
            header = parent
        header.dropped, skip = True, header.end


def _remaining_blocks(tree: BlockTree, region: Block) -> Iterator[Block]:
    """Yield the descendants of `region` without those of dropped blocks and in data tables."""
    skip = 0
    for block in tree.blocks_below(region):
        if block.index < skip:
            continue
        if not (block.dropped or block.in_data):
            yield block
        if block.dropped:
            skip = block.end


def _short_texts(tree: BlockTree, region: Block, max_words: int) -> Iterator[TextRun]:
    """Yield text runs of at most `max_words` words that are the only text of their block.

    Those in data tables are left out.
    """
    for run in tree.text_runs_in(region):
        block = run.block
        is_only_text = block.words == run.words and not block.in_data
        if run.words <= max_words and is_only_text and block is not region:
            yield run


def _is_article_frame(block: Block, region: Block) -> bool:
    if block.tag == "figcaption":
        return True
    if block.tag == "header":
        return block.words < 0.3 * region.words
    if block.traits & LEAD and block.link_words > _TEASER_LINK_SHARE * block.words:
        in_text = region.link_words < _TEASER_LINK_SHARE * region.words  # not a list of teasers
        return in_text and block.words < 0.2 * region.words
    return (
        bool(block.traits & (AUTHOR | DATELINE | CAPTION))
        and block.words < 0.2 * region.words
        and block.words < _MAX_CREDIT_WORDS
        and block.tag != "blockquote"
    )


def _drop_trailer(tree: BlockTree, run: TextRun, region: Block, max_words: float) -> None:
    """Drop the largest block that starts with `run`, or the blocks up to the next heading.

    A line that is no heading is dropped alone, unless it is a sentence.
    """
    section = heading = run.block
    while (
        section.parent is not None
        and section.parent is not region
        and section.parent.words < max_words
        and section.parent.first_text_run == run.index
    ):
        section = section.parent
    if section is not heading:
        section.dropped = not (
            _is_in_prose(tree, [section], region) or is_one_of_sections(section.element)
        )
    elif heading.tag in HEADINGS:
        following: list[Block] = []  # siblings up to the next heading of a section
        index, end = heading.end, heading.parent.end if heading.parent else 0
        while index < end and len(following) < _MAX_TRAILER_BLOCKS:
            block = tree.all_blocks[index]
            if block.tag in _SECTION_HEADINGS:
                break
            if block.is_active:
                following.append(block)
            index = block.end
        if (
            len(following) < _MAX_TRAILER_BLOCKS
            and sum(block.words for block in following) < max_words
            and not _is_in_prose(tree, following, region)
        ):
            for block in (heading, *following):
                block.dropped = True
    elif heading.words == run.words and run.text[-1:] not in _SENTENCE_ENDS:
        heading.dropped = True


def _is_in_prose(tree: BlockTree, section: list[Block], region: Block) -> bool:
    """Return whether a section is prose, with more of the article after it."""
    if not section:
        return False
    prose, words = (sum(getattr(block, name) for block in section) for name in ("prose", "words"))
    links = sum(block.link_words for block in section)
    if prose < _MIN_SECTION_PROSE or links > _MAX_PROSE_LINKS * words:
        return False
    end = section[-1].end
    later = (run for run in tree.text_runs_in(region) if run.prose and run.block.index >= end)
    return sum(run.words for run in later if not run.block.dropped) >= _MIN_SECTION_PROSE
