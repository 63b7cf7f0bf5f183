"""Flattens a page into block elements with word counts and link density.

One walk without recursion fills lists in document order, so extraction stays linear on pages of
any depth.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.class_names import (
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
from webdata_nb.page.content.parser import (
    Element,
    Node,
    Text,
    node_after_last_child,
)
from webdata_nb.page.content.sections import is_named_by_subject
from webdata_nb.page.content.tables import is_data_table

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BLOCKS: Final = 200_000
"""A page with more blocks is a list of records or a crawler trap: it is not searched."""
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
_CODE_TAGS: Final = word_set("pre code samp kbd")
_WITHOUT_STATE: Final = _INLINE - _CODE_TAGS - {"a"}
# A code element with one of these is walked like any other.
_CODE_WITH_STRUCTURE: Final = "a,p,div,table,ul,ol,dl,h1,h2,h3,h4,h5,h6,img,[id]"
# Links, anchors and lines are parts of the code in a `pre`.
_PRE_WITH_STRUCTURE: Final = "p,table,ul,ol,dl,h1,h2,h3,h4,h5,h6,img"
_SENTENCE_ENDS: Final = frozenset('.!?…。！？:;"”’»)')  # noqa: RUF001 - full-width punctuation is intended
_MAX_NESTED_CODE = 4  # each level is searched for structure, which costs a pass
_MAX_SECTIONS = 300  # whose text is read one by one
_MIN_SENTENCE_WORDS = 10
_MIN_PARAGRAPH_WORDS = 40
_MAX_WORD_LENGTH = 12  # longer on average: a script without spaces
_MAX_CODE_WRAPPERS = 3  # elements around the text of short code
_UNSPACED_WORD_LENGTH = 6  # characters per word in a script without spaces


class TooManyBlocksError(Exception):
    """A page has more than `MAX_BLOCKS` blocks."""


class Block:
    """A block element with the word counts of its subtree."""

    __slots__ = (
        "anchors",
        "dropped",
        "element",
        "end",
        "first_text_run",
        "has_h1",
        "in_data",
        "index",
        "inherited_traits",
        "is_active",
        "link_words",
        "links",
        "parent",
        "prose",
        "tag",
        "traits",
        "words",
    )
    # Set by `BlockTree.count_words`.
    words: int
    link_words: int
    links: int
    prose: int

    def __init__(
        self, element: Element, parent: Block | None, traits: int, index: int, first_text_run: int
    ) -> None:
        self.element = element
        self.parent = parent
        self.tag = tag = element.tag
        self.traits = traits
        self.inherited_traits: int = traits if parent is None else traits | parent.inherited_traits
        self.index = index
        self.first_text_run = first_text_run  # index of the first text run in the subtree, if any
        self.end = index + 1  # index of the first block after the subtree
        self.is_active = True
        self.dropped = False
        self.has_h1 = tag == "h1"
        self.in_data = False  # a table with data, or a part of one
        self.anchors = 0  # links directly in this block


class TextRun:
    """Adjacent text directly in one block."""

    __slots__ = ("block", "index", "link_words", "pieces", "prose", "words")

    def __init__(self, block: Block, index: int) -> None:
        self.block = block
        self.index = index
        self.pieces: list[str] = []
        self.words = self.link_words = 0
        self.prose = False

    @property
    def text(self) -> str:
        """The text with collapsed white space."""
        return " ".join("".join(self.pieces).split())


class BlockTree:
    """The blocks and text runs of a page that were not dropped, in document order."""

    __slots__ = ("all_blocks", "all_text_runs", "blocks", "root", "text_runs")
    blocks: list[Block]
    """The blocks that have words and were not dropped."""
    text_runs: list[TextRun]
    """The text runs that were not dropped."""

    def __init__(self, root: Element, element_traits: Mapping[Element, int]) -> None:
        self.all_blocks, self.all_text_runs = _walk(root, element_traits)
        self.root = self.all_blocks[0]
        for run in self.all_text_runs:
            if run.words >= _MIN_SENTENCE_WORDS:
                run.prose = _is_prose(run)
        for block in reversed(self.all_blocks):
            parent = block.parent
            if parent is not None:
                if block.end > parent.end:  # noqa: PLR1730 - a call per block costs more
                    parent.end = block.end
                if block.has_h1:
                    parent.has_h1 = True
        self._keep_all()

    def mark_data_tables(self) -> None:
        """Mark tables with data, whose cells are no boilerplate whatever they hold."""
        skip = 0
        for block in self.all_blocks:
            if block.tag == "table" and block.index >= skip and is_data_table(block.element):
                skip = block.end
                for inner in self.all_blocks[block.index : block.end]:
                    inner.in_data = True

    def apply_drops(self) -> None:
        """Remove dropped blocks with their subtrees from the lists and count words anew."""
        active, skip = [], 0
        if not [block for block in self.blocks if block.dropped]:
            return
        for block in self.blocks:
            if block.index < skip:
                block.is_active = False
            elif block.dropped:
                block.is_active = False
                skip = block.end
            else:
                active.append(block)
        self.blocks = active
        self.text_runs = [run for run in self.text_runs if run.block.is_active]
        self.count_words()

    def restore(self) -> None:
        """Undo all drops."""
        for block in self.all_blocks:
            block.dropped, block.is_active = False, True
        self._keep_all()

    def _keep_all(self) -> None:
        self.blocks, self.text_runs = self.all_blocks, self.all_text_runs
        self.count_words()
        self.blocks = [block for block in self.blocks if block.words or block.parent is None]

    def count_words(self) -> None:
        """Sum the words, link words, links and prose of every block."""
        for block in self.blocks:
            block.words = block.link_words = block.prose = 0
            block.links = block.anchors
        for run in self.text_runs:
            block, words = run.block, run.words
            block.words += words
            if run.link_words:
                block.link_words += run.link_words
            if run.prose:
                block.prose += words
        for block in reversed(self.blocks):
            parent = block.parent
            if parent is None:
                break
            parent.words += block.words
            if block.links:
                parent.links += block.links
            if block.link_words:
                parent.link_words += block.link_words
            if block.prose:
                parent.prose += block.prose

    def blocks_below(self, block: Block) -> list[Block]:
        """Return the descendants of `block`."""
        first, last = block.index, block.end
        return [block for block in self.blocks if first < block.index < last]

    def text_runs_in(self, block: Block) -> list[TextRun]:
        """Return the text runs in the subtree of `block`."""
        if block is self.root:
            return self.text_runs
        first, last = block.index, block.end
        return [run for run in self.text_runs if first <= run.block.index < last]


class _ClassTraits(dict[str | None, int]):
    """Maps the class attributes of a page to their traits; a repeated one costs no call."""

    def __missing__(self, class_names: str | None) -> int:
        traits = traits_of(class_names[:MAX_NAME_LENGTH]) if class_names else 0
        self[class_names] = traits
        return traits


def _with_traits_of_ids(root: Element, element_traits: Mapping[Element, int]) -> dict[Element, int]:
    """Return `element_traits` with the traits of the ids below `root`."""
    all_traits, sections_left = dict(element_traits), _MAX_SECTIONS
    for element in root.select("[id]"):
        identifier = element.attr("id")
        traits = traits_of(identifier[:MAX_NAME_LENGTH]) if identifier else 0
        if not traits:
            continue
        if sections_left:
            sections_left -= 1
            if is_named_by_subject(element, identifier or ""):
                continue
        all_traits[element] = all_traits.get(element, 0) | traits
    return all_traits


def _walk(
    root: Element, element_traits: Mapping[Element, int]
) -> tuple[list[Block], list[TextRun]]:
    """List the blocks and text runs below `root`; `element_traits` adds to those of names.

    Only blocks, links and code have a state, which the first node after them restores. Other
    elements are passed over.
    """
    block = Block(root, None, 0, 0, 0)
    blocks, text_runs = [block], list[TextRun]()
    class_traits, element_traits = _ClassTraits(), _with_traits_of_ids(root, element_traits)
    # The innermost open element with a state, the first node after it, its block, whether it is in
    # a link, and its depth of nested code.
    innermost, following, in_link, code_depth = root, None, False, 0
    outer: list[tuple[Element, Node | None, Block, bool, int]] = []  # the same of those around
    run: TextRun | None = None  # extended by the next text of the same block
    nodes = iter(root.descendants)
    for node in nodes:
        while node is following:
            innermost, following, block, in_link, code_depth = outer.pop()
        if type(node) is Text:
            content = node.data
            text = content.strip()
            if not text:
                continue
            target = block
        elif type(node) is Element:
            tag, target = node.tag, block
            traits = class_traits[node.attr("class")]
            if element_traits and node in element_traits:
                traits |= element_traits[node]
            if tag not in _INLINE or traits & _BLOCK_TRAITS:
                run = None
                if len(blocks) == MAX_BLOCKS:
                    raise TooManyBlocksError
                target = Block(node, block, traits, len(blocks), len(text_runs))
                blocks.append(target)
            elif tag in _WITHOUT_STATE or (len(node) == 1 and type(node[0]) is Text and tag != "a"):
                continue
            is_code = tag in _CODE_TAGS
            if not is_code or code_depth >= _MAX_NESTED_CODE or not _is_plain_code(node):
                outer.append((innermost, following, block, in_link, code_depth))
                sibling = node.next_sibling
                following = sibling or node_after_last_child(node, innermost, following)
                innermost, block = node, target
                if tag == "a":
                    block.anchors += 1
                    in_link = True
                code_depth += is_code
                continue
            # Highlighted code consists of many small spans: take its text at once.
            content = node.text
            text = content.strip()
            deque(zip(node.descendants, nodes, strict=False), maxlen=0)  # skips the spans
            if not text:
                continue
        else:
            continue
        words = len(text.split()) if "  " in text else text.count(" ") + 1
        if len(text) > _MAX_WORD_LENGTH * words:
            words = len(text) // _UNSPACED_WORD_LENGTH
        if run is None or run.block is not target:
            run = TextRun(target, len(text_runs))
            text_runs.append(run)
        run.pieces.append(content)
        run.words += words
        if in_link:
            run.link_words += words
    return blocks, text_runs


def _is_plain_code(code: Element) -> bool:
    """Return whether a code element contains only text and highlighting."""
    part = code
    for _ in range(_MAX_CODE_WRAPPERS):
        if len(part) != 1:
            break
        inner = part[0]
        if type(inner) is Text:
            return True
        if type(inner) is not Element or inner.tag != "span" or inner.attr("id") is not None:
            break
        part = inner
    structure = _PRE_WITH_STRUCTURE if code.tag == "pre" else _CODE_WITH_STRUCTURE
    return code.select_one(structure) is None


def _is_prose(run: TextRun) -> bool:
    """Return whether a text run is a sentence rather than a label or a list of links."""
    words = run.words
    if words < _MIN_SENTENCE_WORDS or run.link_words * 2 >= words:
        return False
    if words >= _MIN_PARAGRAPH_WORDS:
        return True
    tag = run.block.tag
    if tag in HEADINGS or tag == "figcaption":
        return False
    return run.pieces[-1].rstrip()[-1] in _SENTENCE_ENDS
