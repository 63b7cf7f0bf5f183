"""Finds footnotes without links: a raised number in the text and a block that begins with it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from webdata_nb.service.content.footnote import MAX_NOTE_CHARACTERS, Note, block_of, text_before
from webdata_nb.service.content.footnote_marks import (
    MAX_MARK_CHARACTERS,
    declares_footnote_class,
    declares_reference,
    is_blank,
    leading_mark,
    mark_of,
)
from webdata_nb.service.content.linked_footnotes import reference_holder
from webdata_nb.service.content.parser import Element, Text, nearest_ancestor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.service.content.footnote import MarkedElements, TextBudget
    from webdata_nb.service.content.parser import Document, Node

_LOOSE_MARK: Final = re.compile(r"[\[(]?(\d{1,3}|[*†‡§¶‖]{1,3})[\])]?")
_EXPONENT: Final = re.compile(r"(?:^|[\W\d_])(?:[a-zA-Z]|[kcdmn]m|ft)$|\d$|\)$")
_NOTE_BLOCKS: Final = frozenset({"p", "li", "div", "dd", "aside", "td", "blockquote"})
_INLINE: Final = frozenset({"b", "strong", "em", "i", "small", "span", "font", "sup"})
_MAX_LEVELS: Final = 4
_DECLARED: Final = '[class*="footnote"],[class*="endnote"]'
_BOLD_NUMBERS: Final = "p>strong,p>b"


def find_loose_notes(
    document: Document, marked: MarkedElements, taken: set[Element], budget: TextBudget
) -> list[Note]:
    """Return the notes of raised numbers that link to nothing.

    Parameters
    ----------
    document
        The page.
    marked
        The elements of the page that may be references or notes.
    taken
        The elements of notes that are known already.
    budget
        The characters that may be read.
    """
    references: dict[str, list[Element]] = {}
    notes: dict[str, Note] = {}
    for element, mark in _unlinked_marks(marked, taken):
        block = _block_begun_by(element)
        if block is None:
            if mark not in notes:
                references.setdefault(mark, []).append(element)
        elif mark in references and mark not in notes:
            _add(notes, mark, references[mark], block, budget)
    if references and not notes:
        _find_declared_notes(document, references, notes, budget)
    if references and not notes:
        _find_bold_notes(document, references, notes, budget)
    return list(notes.values())


def _unlinked_marks(marked: MarkedElements, taken: set[Element]) -> Iterator[tuple[Element, str]]:
    for element in marked.elements:
        if element.tag == "sup":
            if element in taken or element.select_one("a") or nearest_ancestor(element, {"a"}, 2):
                continue
            match = _LOOSE_MARK.fullmatch(element.text.strip())
            if match is not None and not _is_exponent(element):
                yield element, match[1]
        elif (
            element.tag == "a"
            and (mark := mark_of(element.text)) is not None
            and declares_reference(element)
            and (holder := reference_holder(element)) not in taken
        ):
            yield holder, mark


def is_loose_mark(text: str) -> bool:
    """Return whether a raised text may refer to a note without a link."""
    return len(text) <= MAX_MARK_CHARACTERS and _LOOSE_MARK.fullmatch(text.strip()) is not None


def _is_exponent(sup: Element) -> bool:
    before = text_before(sup)
    return bool(before) and _EXPONENT.search(before[-4:]) is not None


def _block_begun_by(element: Element) -> Element | None:
    """Return the block that begins with an element, None if other text precedes it."""
    node: Element = element
    for _ in range(_MAX_LEVELS):
        if any(not is_blank(sibling) for sibling in node.previous_siblings):
            return None
        parent = node.parent
        if not isinstance(parent, Element):
            return None
        if parent.tag in _NOTE_BLOCKS:
            return parent
        if parent.tag not in _INLINE:
            return None
        node = parent
    return None


def _add(
    notes: dict[str, Note], mark: str, references: list[Element], block: Element, budget: TextBudget
) -> None:
    text = budget.text_of(block)
    if text is not None and len(mark) + 1 < len(text.strip()) <= MAX_NOTE_CHARACTERS:
        notes[mark] = Note(mark, references, [block])


def _find_declared_notes(
    document: Document,
    references: dict[str, list[Element]],
    notes: dict[str, Note],
    budget: TextBudget,
) -> None:
    """Find blocks of a footnote class whose text begins with a mark."""
    for element in document.select(_DECLARED):
        if element.tag in _NOTE_BLOCKS and declares_footnote_class(element):
            leading = leading_mark(element.text[: 2 * MAX_MARK_CHARACTERS])
            if leading is not None and leading[0] in references and leading[0] not in notes:
                _add(notes, leading[0], references[leading[0]], element, budget)


def _find_bold_notes(
    document: Document,
    references: dict[str, list[Element]],
    notes: dict[str, Note],
    budget: TextBudget,
) -> None:
    """Find paragraphs after a rule that begin with a bold number, one for each reference."""
    expected = [mark for mark in references if mark.isdigit()]
    bold = [
        (element, element.text.strip())
        for element in document.select(_BOLD_NUMBERS)
        if _LOOSE_MARK.fullmatch(element.text.strip()) and _block_begun_by(element) is not None
    ]
    if not expected or [mark for _, mark in bold] != expected or not _follows_rule(bold[0][0]):
        return
    for element, mark in bold:
        block = block_of(element)
        if block is not None:
            _add(notes, mark, references[mark], block, budget)
    for note in notes.values():
        note.content += _continuation(note.content[0], {n.content[0] for n in notes.values()})


def _follows_rule(element: Element) -> bool:
    block = block_of(element)
    previous = (
        next((node for node in block.previous_siblings if not is_blank_text(node)), None)
        if block is not None
        else None
    )
    return isinstance(previous, Element) and previous.tag == "hr"


def is_blank_text(node: Node) -> bool:
    """Return whether a node is white space."""
    return type(node) is Text and not node.data.strip()


def _continuation(block: Node, blocks: set[Node]) -> list[Node]:
    """Return the lists that directly follow a note."""
    nodes: list[Node] = []
    for node in block.next_siblings:
        if isinstance(node, Element):
            if node in blocks or node.tag not in {"ul", "ol"}:
                break
            nodes.append(node)
        elif not is_blank_text(node):
            break
    return nodes
