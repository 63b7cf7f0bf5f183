"""What is cut from inside the content: trailing teasers, credits, link lists, control labels."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from webdata_nb.service.content.block_tree import HEADINGS
from webdata_nb.service.content.class_names import AUTHOR, CAPTION, DATELINE, word_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.service.content.block_tree import Block, BlockTree, TextRun

_TAIL: Final = re.compile(
    r"\W*(?:\d+\s+)?(?:"
    r"(?:top rated |recent |latest |user |reader |facebook )?"
    r"(?:comments?|responses?|replies|thoughts?)\b.{0,60}"
    r"|leave a (?:reply|comment).*|join the conversation.*|(?:post|add) a comment.*"
    r"|(?:most|top) (?:popular|read|viewed|shared|stories|rated).*|trending.*"
    r"|popular (?:posts|stories|now).*|recent (?:posts|articles|stories|news|comments)?"
    r"|breaking news|latest (?:news|stories|articles|posts|from).*|our latest stories"
    r"|more (?:from|news|stories|in|on|articles|like|posts)\b.*|related(?: \w+){0,3}:?"
    r"|you (?:may|might) (?:also )?.*like.*|recommended.*|read (?:more|next|also).*"
    r"|keep reading.*|continue reading.*|what to read next.*|up next.*|top stories.*"
    r"|share (?:this|on).*|follow us.*|sign up.*|subscribe.*|newsletter.*|about the author.*"
    r"|sponsored.*|advertisement.*|tags?:?|categor(?:y|ies):?|arquivos|archives?|filed under.*"
    r"|editor.?s picks?.*|don.t miss.*)",
    re.IGNORECASE,
)
_POINTER: Final = re.compile(
    r"\W*(?:related|read (?:more|also|next)|see (?:more|also)|more(?: on| from)?\s*:|also read"
    r"|watch\s*:|watch now|listen\s*:|recommended|don.t miss|keep reading|continue reading"
    r"|up next|you (?:may|might) (?:also )?like|sponsored|advertisement"
    r"|leia|veja (?:mais|tamb)|saiba mais|lire (?:aussi|plus)|lees (?:ook|meer)|lesen sie"
    r"|mehr zum|leer m|lea tamb|ver m)\b",
    re.IGNORECASE,
)
_CONTROL: Final = re.compile(
    r"\W*(?:learn more|read more|see (?:more|all)|view (?:more|all|details)"
    r"|show (?:more|less|all)|shop (?:now|all)|buy now|add to|sign (?:up|in)|log ?in|subscribe"
    r"|get started|contact us|try (?:it )?(?:for )?free|find out more|load more|next|previous"
    r"|prev|back|share|reply|report|quote|follow|like|save|print|email|download|filter|sort"
    r"|clear|reset|apply|close|menu|search|skip|compare|more|less|edit|cancel|submit"
    r"|advertisement|ad|sponsored|home|all|permalink|link)\b",
    re.IGNORECASE,
)
_TAIL_TAGS: Final = word_set("h2 h3 h4 h5 h6 strong div span p")
_TAIL_WORDS = 12
_TAIL_CHARACTERS = 70
_SECTION_HEADINGS: Final = frozenset({"h1", "h2", "h3"})
_MOST_SIBLINGS = 100  # a section that goes on longer is not a trailer
_POINTER_TAGS: Final = word_set("p div h4 h5 h6 center strong em b")
_POINTER_WORDS = 30
_CONTROL_WORDS = 4
_NOT_CONTROLS: Final = HEADINGS | word_set("figcaption td th dt dd pre")
_LINK_LISTS: Final = word_set("ul ol div section table dl")
_LEAST_LINKS = 4
_REPEATED_WORDS = 5
_CREDIT_WORDS = 60


def trim_article(outline: BlockTree, region: Block) -> None:
    """Cut what surrounds the text of an article: trailers, headline, byline, captions."""
    _drop_tails(outline, region)
    outline.settle()
    for block in _each_below(outline, region):
        block.dropped = _is_around_text(block, region)
    outline.settle()


def trim_links(outline: BlockTree, region: Block, *, article: bool) -> None:
    """Cut lists of bare links: in an article of teasers, elsewhere of menu entries only."""
    longest = 6 if article else 3  # words a link
    for block in _each_below(outline, region):
        block.dropped = (
            block.tag in _LINK_LISTS
            and block.links >= _LEAST_LINKS
            and 0 < block.words < 0.35 * region.words
            and block.link_words > 0.85 * block.words
            and block.words < longest * block.links
        )


def trim_pointers(outline: BlockTree, region: Block) -> None:
    """Cut lines of an article that only lead elsewhere."""
    for leaf in _only_texts(outline, region, _POINTER_WORDS):
        block = leaf.block
        only_link = leaf.link_words >= leaf.words and block.tag in _POINTER_TAGS
        if only_link and _is_in_row(block):
            continue
        if only_link or (
            leaf.link_words and block.tag != "li" and _POINTER.match(leaf.text) is not None
        ):
            block.dropped = True


def _is_in_row(block: Block) -> bool:
    """Tell whether a block stands in a cell of a table, beside cells with text."""
    cell = block.parent
    if cell is None or cell.tag not in {"td", "th"} or cell.parent is None:
        return False
    return cell.words < cell.parent.words


def trim_repeats(outline: BlockTree, region: Block) -> None:
    """Cut text that stands in the region a second time, for another width of screen."""
    seen: set[str] = set()
    for leaf in outline.leaves_of(region):
        if leaf.words < _REPEATED_WORDS or leaf.block.dropped:
            continue
        text, block = leaf.text, leaf.block
        if text in seen and block.words == leaf.words and block.tag not in {"td", "th"}:
            block.dropped = block is not region
        seen.add(text)


def trim_controls(outline: BlockTree, region: Block) -> None:
    """Cut labels of what a page does rather than says: "reply", "add to cart"."""
    for leaf in _only_texts(outline, region, _CONTROL_WORDS):
        text = leaf.text
        # "Follow the rules." is said by the page; "Follow us" is what it does.
        said = leaf.words > 1 and text[-1:] in ".!?"
        if leaf.block.tag not in _NOT_CONTROLS and _CONTROL.match(text) and not said:
            leaf.block.dropped = True


def _each_below(outline: BlockTree, region: Block) -> Iterator[Block]:
    """Give the blocks below `region`, passing over what is below a dropped one."""
    skip = 0
    for block in outline.within(region):
        if block.index < skip:
            continue
        if not block.dropped:
            yield block
        if block.dropped:
            skip = block.end


def _only_texts(outline: BlockTree, region: Block, most: int) -> Iterator[TextRun]:
    """Give the leaves of at most `most` words that are all the text of their block."""
    for leaf in outline.leaves_of(region):
        block = leaf.block
        if leaf.words <= most and block.words == leaf.words and block is not region:
            yield leaf


def _is_around_text(block: Block, region: Block) -> bool:
    if block.tag in {"h1", "figcaption"}:
        return True
    if block.tag == "header":
        return block.words < 0.3 * region.words
    return (
        bool(block.traits & (AUTHOR | DATELINE | CAPTION))
        and block.words < 0.2 * region.words
        and block.words < _CREDIT_WORDS
        and block.tag != "blockquote"
    )


def _drop_tails(outline: BlockTree, region: Block) -> None:
    """Drop sections headed "Related", "Comments" and the like, unless they hold much."""
    most = 0.35 * region.words
    for leaf in outline.leaves_of(region):
        block = leaf.block
        if leaf.words > _TAIL_WORDS or block is region or block.tag not in _TAIL_TAGS:
            continue
        text = leaf.text
        if len(text) <= _TAIL_CHARACTERS and _TAIL.fullmatch(text):
            _drop_tail(outline, leaf, region, most)


def _drop_tail(outline: BlockTree, leaf: TextRun, region: Block, most: float) -> None:
    """Drop the widest block that begins with `leaf`, or what follows up to the next heading."""
    section = heading = leaf.block
    while (
        section.parent is not None
        and section.parent is not region
        and section.parent.words < most
        and section.parent.first_leaf == leaf.index
    ):
        section = section.parent
    if section is not heading:
        section.dropped = True
    elif heading.tag in HEADINGS:
        following = list(islice(_section_after(outline, heading), _MOST_SIBLINGS))
        if len(following) < _MOST_SIBLINGS and sum(each.words for each in following) < most:
            for each in (heading, *following):
                each.dropped = True


def _section_after(outline: BlockTree, heading: Block) -> Iterator[Block]:
    """Give the blocks beside `heading` that follow it, up to the next heading of a section."""
    end = heading.parent.end if heading.parent else 0
    index = heading.end
    while index < end:
        block = outline.everything[index]
        if block.tag in _SECTION_HEADINGS:
            return
        if block.alive:
            yield block
        index = block.end
