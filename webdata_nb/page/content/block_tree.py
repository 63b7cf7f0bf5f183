"""Flattens a page into block elements with word counts, link density and traits.

One walk without recursion fills lists in document order, so extraction stays linear on pages of
any depth. Traits are bit flags by the words in class and id: names such as ``post-footer``,
``relatedPosts`` or ``js-comment-list`` are split into words, which one vocabulary for all sites
maps to traits.

The sections of a text carry names that elsewhere mean boilerplate: generators of documentation name
a section after its subject, such as ``sharing-state``, ``related-objects``, ``form-fields``.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.page.content.parser import (
    HEADINGS,
    Element,
    Node,
    Text,
    collapse_whitespace,
    letters_and_digits,
    node_after_last_child,
    text_of,
)
from webdata_nb.page.content.tables import is_data_table

if TYPE_CHECKING:
    from collections.abc import Mapping


NAVIGATION: Final = 1 << 0
SIDEBAR: Final = 1 << 1
FOOTER: Final = 1 << 2
CONSENT: Final = 1 << 3
OVERLAY: Final = 1 << 4
SHARING: Final = 1 << 5
RELATED: Final = 1 << 6
ADVERTISING: Final = 1 << 7
AUTHOR: Final = 1 << 8
DATELINE: Final = 1 << 9
TAGS: Final = 1 << 10
COMMENTS: Final = 1 << 11
CAPTION: Final = 1 << 12
SIGN_UP: Final = 1 << 13
UNSEEN: Final = 1 << 14
ASIDE: Final = 1 << 15
MEMBER: Final = 1 << 16
TITLE: Final = 1 << 17
CONTENT: Final = 1 << 18
ARTICLE_BODY: Final = 1 << 19
PAGE_CHROME: Final = 1 << 20
HIDDEN: Final = 1 << 21
PROMOTION: Final = 1 << 22
LEAD: Final = 1 << 23


def word_set(text: str) -> frozenset[str]:
    """Split a string of words into a set."""
    return frozenset(text.split())


MAX_NAME_LENGTH = 300
"""Characters of class and id that are read; longer values are generated."""

_WORD_LISTS: Final[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("boilerplate_words.toml").read_text("utf-8")
)


def _traits_by_word() -> dict[str, int]:
    """Return the traits of each word in a name; the list has them by the constants above."""
    traits: dict[str, int] = {}
    for trait, words in _WORD_LISTS["names"].items():
        for word in words.split():
            traits[word] = traits.get(word, 0) | globals()[trait]
    return traits


_WORDS: Final = _traits_by_word()


def word_pattern(name: str, form: str) -> re.Pattern[str]:
    """Compile a list of alternatives in the word lists into one pattern."""
    return re.compile(form % "|".join(_WORD_LISTS[name]["patterns"]), re.IGNORECASE)


NOT_CONTENT: Final = (
    NAVIGATION | SIDEBAR | FOOTER | CONSENT | OVERLAY | SHARING | RELATED | ADVERTISING
) | (TAGS | COMMENTS | SIGN_UP | UNSEEN | PROMOTION)
_PAGE_PREFIXES: Final = word_set(  # has-sidebar, no-comments, js-modal describe the whole page
    "has with without no is not overflow js single page body layout theme elementor col wp block"
    " hide"
)
_LAYOUT_WORDS: Final = word_set("grid layout wrapper")
_UNSEEN_TOKENS: Final = word_set("sr-only hidden hide d-none invisible is-hidden u-hidden")
_RELATED_PHRASES: Final = ("also-like", "most-read", "most-popular", "more-from")
_MAX_WORDS = 5
_CAMEL_CASE: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WORD_BOUNDARY: Final = re.compile(rf"[^a-zA-Z0-9]+|{_CAMEL_CASE.pattern}")
_SEPARATORS: Final = "".join(chr(code) if chr(code).isalnum() else " " for code in range(128))
_DIGITS = "0123456789"  # a trailing number is ignored; a word with digits inside is a random id
_RESPONSIVE_DISPLAY: Final = re.compile(r":(?:block|flex|grid|inline|visible|contents|table)")
_ARTICLE_BODY: Final = re.compile(
    r"(?:[a-z]{1,4}[-_]+)?(?:article|story|entry|post|news|blog|single)[-_]*"
    r"(?:main|full|page|detail)?[-_]*(?:body|content|contents|text|copy|paragraphs?)"
    r"(?:[-_]+(?:text|content|inner|wrapper|main|copy))?"
    r"|(?:body|rich)[-_]*(?:copy|text)|articletext|storytext|postarea|maintext"
)


@lru_cache(maxsize=1 << 15)
def traits_of(name: str) -> int:
    """Return the traits of a class attribute or an id."""
    traits = 0
    for token in name.split():
        if ":" not in token and "[" not in token:
            traits |= _traits_of_token(token)
    if traits & UNSEEN and _RESPONSIVE_DISPLAY.search(name):
        traits &= ~UNSEEN
    return traits


@lru_cache(maxsize=1 << 15)
def _traits_of_token(token: str) -> int:
    lower = token.lower()
    if not token.isascii():
        parts = _WORD_BOUNDARY.split(token)
    else:
        spaced = token if token.islower() else _CAMEL_CASE.sub(" ", token)
        parts = spaced.lower().translate(_SEPARATORS).split()
    words = [word for part in parts if (word := part.rstrip(_DIGITS).lower())]
    if not 0 < len(words) <= _MAX_WORDS:
        return 0
    traits = ARTICLE_BODY if _ARTICLE_BODY.fullmatch(lower) else 0
    if lower in _UNSEEN_TOKENS:
        return traits | UNSEEN
    if words[0] in _PAGE_PREFIXES and len(words) > 1:
        return traits
    for word in words:
        if word in _WORDS:
            traits |= _WORDS[word]
    if "-" in lower or "visually" in words:
        if "screen-reader" in lower or ("visually" in words and "hidden" in words):
            traits |= UNSEEN
        if any(phrase in lower for phrase in _RELATED_PHRASES):
            traits |= RELATED
    if traits & SIDEBAR and words[-1] in _LAYOUT_WORDS:
        traits &= ~SIDEBAR  # the grid of the page and its sidebar
    if "embed" in words or "embedded" in words:
        traits &= ~SHARING
    return traits & ~CONTENT if traits & NOT_CONTENT else traits


_SECTION_NUMBER: Final = re.compile(r"\W*(?:[A-Z]\.|\d+\.|\d+\b)[\d.]*\s+")
_MAX_NODES_BEFORE_HEADING = 24  # wrappers, white space and anchors in a section
_MAX_SPACES = 8  # nodes without words between two sections
_MIN_TEXT_LENGTH = 250  # characters
_MAX_LINK_SHARE = 0.1
_NEVER_TEXT: Final = SIGN_UP | CONSENT | OVERLAY


def is_named_by_subject(section: Element, identifier: str) -> bool:
    """Return whether an element is a section of a text and its id says what it is about.

    Its id is made from its heading, or it is one of several sections side by side.
    """
    heading = opening_heading(section)
    if heading is None:
        return False
    text = text_of(heading)
    if not is_trailer_heading(text):
        name = letters_and_digits(identifier)
        for title in (text, _SECTION_NUMBER.sub("", text, count=1)):
            slug = letters_and_digits(title)
            if slug and name.endswith(slug):
                if not traits_of(name[: -len(slug)]) & NOT_CONTENT:  # a prefix such as ``s-``
                    return True
                break
    if traits_of(identifier[:MAX_NAME_LENGTH]) & _NEVER_TEXT:
        return False
    return is_one_of_sections(section)


def opening_heading(section: Element) -> Element | None:
    """Return the heading that an element begins with."""
    for node in islice(section.descendants, _MAX_NODES_BEFORE_HEADING):
        if isinstance(node, Element):
            if node.tag in HEADINGS:
                return node
        elif _is_visible(node):
            return None
    return None


def is_one_of_sections(section: Element) -> bool:
    """Return whether an element with text or code is a section beside others of its kind.

    The other has a heading of the same level, and neither its id nor its heading is boilerplate.
    """
    heading = opening_heading(section)
    if heading is None or not _has_beside(section, heading):
        return False
    if section.select_one("pre") is not None:
        return True
    # Text rather than links.
    length = len(text_of(section))
    link_length = sum(len(text_of(link)) for link in section.select("a"))
    return length >= _MIN_TEXT_LENGTH and link_length <= _MAX_LINK_SHARE * length


def _has_beside(section: Element, heading: Element) -> bool:
    for direction in ("previous_sibling", "next_sibling"):
        other: Node | None = getattr(section, direction)
        for _ in range(_MAX_SPACES):
            if other is None or _is_visible(other):
                break
            other = getattr(other, direction)
        else:
            continue
        if (
            isinstance(other, Element)
            and other.tag == section.tag
            and other.attr("class") == section.attr("class")
            and not traits_of((other.attr("id") or "")[:MAX_NAME_LENGTH]) & NOT_CONTENT
        ):
            beside = opening_heading(other)
            if (
                beside is not None
                and beside.tag == heading.tag
                and not is_trailer_heading(text_of(beside))
            ):
                return True
    return False


def _is_visible(node: Node) -> bool:
    """Return whether a node has text near its start."""
    if isinstance(node, Element):
        texts = islice(node.descendants, _MAX_NODES_BEFORE_HEADING)
        return any(type(text) is Text and bool(text.data.strip()) for text in texts)
    return type(node) is Text and bool(node.data.strip())


_ENGLISH: Final = word_pattern("english_headings", r"\W*(?:\d+\s+)?(?:%s)")
_MARKS: Final = " \t:.…!?»›>→-–—|•*#"  # noqa: RUF001 - dashes and arrows around headings


@lru_cache(maxsize=1 << 12)
def is_trailer_heading(text: str) -> bool:
    """Return whether a short text is the heading of a section that is not part of the article."""
    if _ENGLISH.fullmatch(text):
        return True
    # A Turkish capital I with dot would become two characters in lower case.
    heading = text.replace("’", "'").replace("İ", "i").lower().strip(_MARKS)  # noqa: RUF001
    whole, openings = _headings_by_first_word()
    first_word = heading.partition(" ")[0]
    return heading in whole or any(
        heading.startswith(opening) and not heading[len(opening) : len(opening) + 1].isalnum()
        for opening in openings.get(first_word, ())
    )


@cache
def _headings_by_first_word() -> tuple[frozenset[str], dict[str, list[str]]]:
    """Return whole headings, and openings, which end where a word ends, by their first words."""
    openings: dict[str, list[str]] = {}
    for opening in dict.fromkeys(chain.from_iterable(_WORD_LISTS["openings"].values())):
        openings.setdefault(opening.partition(" ")[0], []).append(opening)
    return frozenset(chain.from_iterable(_WORD_LISTS["headings"].values())), openings


MAX_BLOCKS: Final = 200_000
"""A page with more blocks is a list of records or a crawler trap: it is not searched."""
INLINE: Final = word_set(
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
_WITHOUT_STATE: Final = INLINE - _CODE_TAGS - {"a"}
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


_INDEX: Final = attrgetter("index")


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
        self.element: Element = element
        self.parent: Block | None = parent
        self.tag: str = element.tag
        self.traits: int = traits
        self.inherited_traits: int = traits if parent is None else traits | parent.inherited_traits
        self.index: int = index
        self.first_text_run: int = first_text_run  # of the subtree, if it has one
        self.end: int = index + 1  # index of the first block after the subtree
        self.is_active: bool = True
        self.dropped: bool = False
        self.has_h1: bool = self.tag == "h1"
        self.in_data: bool = False  # a table with data, or a part of one
        self.anchors: int = 0  # links directly in this block

    def contains(self, other: Block) -> bool:
        """Return whether another block is this one or in it."""
        return self.index <= other.index < self.end


@dataclass(slots=True, eq=False)
class TextRun:
    """Adjacent text directly in one block."""

    block: Block
    index: int
    pieces: list[str] = field(default_factory=list)
    words: int = 0
    link_words: int = 0
    prose: bool = False

    @property
    def text(self) -> str:
        """The text with collapsed white space."""
        return collapse_whitespace("".join(self.pieces))


class BlockTree:
    """The blocks and text runs of a page that were not dropped, in document order."""

    __slots__ = ("all_blocks", "all_text_runs", "blocks", "root", "text_runs")
    blocks: list[Block]
    """The blocks that have words and were not dropped."""
    text_runs: list[TextRun]
    """The text runs that were not dropped."""
    all_blocks: list[Block]
    all_text_runs: list[TextRun]

    def __init__(self, root: Element, element_traits: Mapping[Element, int]) -> None:
        self.all_blocks, self.all_text_runs = _walk(root, element_traits)
        self.root: Block = self.all_blocks[0]
        for run in self.all_text_runs:
            if run.words >= _MIN_SENTENCE_WORDS:
                # A sentence rather than a label or a list of links.
                tag = run.block.tag
                run.prose = run.link_words * 2 < run.words and (
                    run.words >= _MIN_PARAGRAPH_WORDS
                    or (
                        tag not in HEADINGS
                        and tag != "figcaption"
                        and run.pieces[-1].rstrip()[-1] in _SENTENCE_ENDS
                    )
                )
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
        first = bisect_left(self.blocks, block.index + 1, key=_INDEX)
        return self.blocks[first : bisect_left(self.blocks, block.end, first, key=_INDEX)]

    def text_runs_in(self, block: Block) -> list[TextRun]:
        """Return the text runs in the subtree of `block`."""
        if block is self.root:
            return self.text_runs
        runs = self.text_runs
        first = bisect_left(runs, block.first_text_run, key=_INDEX)
        last = len(runs)
        if block.end < len(self.all_blocks):
            last = bisect_left(runs, self.all_blocks[block.end].first_text_run, first, key=_INDEX)
        # The text between the block and the next one is in a block around it.
        while last > first and not block.contains(runs[last - 1].block):
            last -= 1
        return runs[first:last]


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
    tags_with_traits = {element.tag for element in element_traits}
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
            if tag in tags_with_traits and node in element_traits:
                traits |= element_traits[node]
            if tag not in INLINE or traits & _BLOCK_TRAITS:
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
