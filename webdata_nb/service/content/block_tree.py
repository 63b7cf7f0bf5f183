"""A page's tree as a flat list of blocks, with how much text each holds.

One walk over the tree, no recursion: everything that judges blocks afterwards works on lists in
document order, so it stays linear on the deepest and the widest page.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from webdata_nb.service.content.class_names import (
    ADVERTISING,
    AUTHOR,
    CAPTION,
    COMMENTS,
    DATELINE,
    HIDDEN,
    MAX_NAME_LENGTH,
    NAVIGATION,
    SHARING,
    TAGS,
    UNSEEN,
    traits_of,
    word_set,
)
from webdata_nb.service.content.parser import Element, Node, Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_BLOCKS: Final = 200_000
"""Blocks of a page beyond which it is not searched: a list of records, or a trap."""
HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_INLINE: Final = word_set(
    "a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd label mark q s"
    " samp small span strike strong sub sup time tt u var wbr input"
)
_BLOCK_TRAITS: Final = (
    UNSEEN
    | HIDDEN
    | SHARING
    | COMMENTS
    | ADVERTISING
    | NAVIGATION
    | DATELINE
    | AUTHOR
    | CAPTION
    | TAGS
)
_VERBATIM: Final = word_set("pre code samp kbd")
# What makes such an element more than a run of text: links, blocks, parts with a name.
_NOT_VERBATIM: Final = "a,p,div,table,ul,ol,dl,h1,h2,h3,h4,h5,h6,img,[id]"
_SENTENCE_ENDS: Final = frozenset('.!?…。！？:;"”’»)')  # noqa: RUF001 - full-width marks are meant
_MOST_MIXED = 4  # code within code: each time the rest of it is looked through
_LEAST_SENTENCE = 10
_LEAST_PARAGRAPH = 40
_LONGEST_WORD = 12
_WRAPPED = 3  # elements that stand around the text of short code
_DENSE_WORD = 6  # characters counted as one word where a script has no spaces


class TooLargeError(Exception):
    """A page has too many blocks to be judged one by one."""


class Block:
    """An element that stands apart in the page, and the text below it."""

    __slots__ = (
        "alive",
        "anchors",
        "dropped",
        "element",
        "end",
        "first_leaf",
        "has_h1",
        "index",
        "link_words",
        "links",
        "parent",
        "prose",
        "tag",
        "traits",
        "under",
        "words",
    )

    def __init__(
        self, element: Element, parent: Block | None, traits: int, index: int, first_leaf: int
    ) -> None:
        self.element = element
        self.parent = parent
        self.tag = tag = element.tag
        self.traits = traits
        self.under: int = traits if parent is None else traits | parent.under  # and those above
        self.index = index
        self.first_leaf = first_leaf  # index of the first leaf below, if there is one
        self.end = index + 1  # index of the first block after this one's subtree
        self.alive = True
        self.dropped = False
        self.has_h1 = tag == "h1"
        self.anchors = 0  # links that start here, in no block below
        self.words = self.link_words = self.links = self.prose = 0


class TextRun:
    """A run of text directly in one block."""

    __slots__ = ("block", "index", "link_words", "pieces", "prose", "words")

    def __init__(self, block: Block, index: int) -> None:
        self.block = block
        self.index = index
        self.pieces: list[str] = []
        self.words = self.link_words = 0
        self.prose = False

    @property
    def text(self) -> str:
        """The text, white space folded."""
        return " ".join("".join(self.pieces).split())


class BlockTree:
    """The blocks and leaves of a page that are still in play, in document order."""

    __slots__ = ("blocks", "everything", "leaves", "root")

    def __init__(self, root: Element, marks: Mapping[Element, int]) -> None:
        self.everything, self.leaves = _walk(root, marks)
        self.blocks = self.everything  # narrowed when blocks are dropped
        self.root = self.blocks[0]
        for leaf in self.leaves:
            leaf.prose = _is_prose(leaf)
        _close(self.everything)
        self.measure()
        self.blocks = [block for block in self.blocks if block.words or block.parent is None]

    def settle(self) -> None:
        """Take dropped blocks out of play, with all below them, and measure what is left."""
        alive, skip = [], 0
        if not any(block.dropped for block in self.blocks):
            return
        for block in self.blocks:
            if block.index < skip:
                block.alive = False
            elif block.dropped:
                block.alive = False
                skip = block.end
            else:
                alive.append(block)
        self.blocks = alive
        self.leaves = [leaf for leaf in self.leaves if leaf.block.alive]
        self.measure()

    def measure(self) -> None:
        """Add up the text of every block from its leaves."""
        for block in self.blocks:
            block.words = block.link_words = block.prose = 0
            block.links = block.anchors
        for leaf in self.leaves:
            block, words = leaf.block, leaf.words
            block.words += words
            block.link_words += leaf.link_words
            if leaf.prose:
                block.prose += words
        for block in reversed(self.blocks):
            parent = block.parent
            if parent is not None:
                parent.words += block.words
                parent.link_words += block.link_words
                parent.links += block.links
                parent.prose += block.prose

    def within(self, block: Block) -> list[Block]:
        """Return the blocks below `block`."""
        first, last = block.index, block.end
        return [each for each in self.blocks if first < each.index < last]

    def leaves_of(self, block: Block) -> list[TextRun]:
        """Return the leaves of `block` and all below it."""
        first, last = block.index, block.end
        return [leaf for leaf in self.leaves if first <= leaf.block.index < last]


def _walk(  # noqa: C901, PLR0912, PLR0915 - the one hot loop: calls would double its cost
    root: Element, marks: Mapping[Element, int]
) -> tuple[list[Block], list[TextRun]]:
    """List the blocks and leaves below `root`; `marks` adds traits to single elements."""
    block = Block(root, None, 0, 0, 0)
    blocks, leaves = [block], list[TextRun]()
    above: list[tuple[Node | None, Block, bool, int]] = []  # what is open around `top`
    top: Node | None = root  # the innermost open element, its block, whether it is in a link
    in_link, mixed = False, 0  # and how many elements of code with more than text in them
    leaf: TextRun | None = None  # the run of text that may still grow
    nodes = iter(root.descendants)
    for node in nodes:
        if type(node) is Text:
            data = node.data
            text = data.strip()
            if not text:
                continue
            parent = node.parent
            while top is not parent:
                top, block, in_link, mixed = above.pop()
            inside, linked = block, in_link
        elif type(node) is Element:
            parent = node.parent
            while top is not parent:
                top, block, in_link, mixed = above.pop()
            tag, inside, linked = node.tag, block, in_link
            name, label = node.attr("class"), node.attr("id")
            traits = traits_of(name[:MAX_NAME_LENGTH]) if name else 0
            if label:
                traits |= traits_of(label[:MAX_NAME_LENGTH])
            if marks:
                traits |= marks.get(node, 0)
            if tag not in _INLINE or traits & _BLOCK_TRAITS:
                leaf = None
                inside = Block(node, block, traits, len(blocks), len(leaves))
                blocks.append(inside)
                if len(blocks) > MAX_BLOCKS:
                    raise TooLargeError
            if tag == "a":
                inside.anchors += 1
                linked = True
            if tag not in _VERBATIM or mixed >= _MOST_MIXED or not _is_text(node):
                above.append((top, block, in_link, mixed))
                top, block, in_link = node, inside, linked
                mixed += tag in _VERBATIM
                continue
            # Highlighted code is a text of many small spans: take it whole.
            data = node.text
            text = data.strip()
            _skip(nodes, sum(1 for _ in node.descendants))
            if not text:
                continue
        else:
            continue
        if leaf is None or leaf.block is not inside:
            leaf = TextRun(inside, len(leaves))
            leaves.append(leaf)
        words = text.count(" ") + 1
        if len(text) > _LONGEST_WORD * words:
            words = len(text) // _DENSE_WORD
        leaf.pieces.append(data)
        leaf.words += words
        if linked:
            leaf.link_words += words
    return blocks, leaves


def _is_text(verbatim: Element) -> bool:
    """Tell whether an element of code holds nothing but text and the marks of its syntax."""
    part = verbatim
    for _ in range(_WRAPPED):
        if len(part) != 1:
            break
        inner = part[0]
        if type(inner) is Text:
            return True
        if type(inner) is not Element or inner.tag != "span" or inner.attr("id") is not None:
            break
        part = inner
    return verbatim.select_one(_NOT_VERBATIM) is None


def _skip(nodes: Iterator[Node], count: int) -> None:
    next(islice(nodes, count, count), None)


def _close(blocks: list[Block]) -> None:
    """Set what a block can know only once all below it are known."""
    for block in reversed(blocks):
        parent = block.parent
        if parent is not None:
            parent.end = max(parent.end, block.end)
            if block.has_h1:
                parent.has_h1 = True


def _is_prose(leaf: TextRun) -> bool:
    """Tell whether a leaf reads like a sentence rather than a label or a list of links."""
    words = leaf.words
    if words < _LEAST_SENTENCE or leaf.link_words * 2 >= words:
        return False
    if words >= _LEAST_PARAGRAPH:
        return True
    tag = leaf.block.tag
    if tag in HEADINGS or tag == "figcaption":
        return False
    return leaf.pieces[-1].rstrip()[-1] in _SENTENCE_ENDS
