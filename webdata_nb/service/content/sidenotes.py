"""Finds notes that stand in the text itself, shown beside it or on a click."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from webdata_nb.service.content.footnote import MAX_ANCESTORS, MAX_NOTE_CHARACTERS, Note
from webdata_nb.service.content.footnote_marks import (
    MAX_MARK_CHARACTERS,
    declares_footnote_class,
    is_blank,
    mark_of,
)
from webdata_nb.service.content.parser import Element, Text, make_element

if TYPE_CHECKING:
    from webdata_nb.service.content.footnote import TextBudget
    from webdata_nb.service.content.parser import Document, Node

_SELECTOR: Final = (
    'span[class*="footnote" i],span[class*="sidenote" i],span[class*="marginnote" i],'
    'small[class*="footnote" i],small[class*="sidenote" i],small[class*="marginnote" i]'
)
_MARK_TAGS: Final = frozenset({"label", "input", "sup", "span", "a", "button"})
_MIN_NOTE_CHARACTERS: Final = 5
_MAX_LEVELS: Final = 3
_MAX_MARKS: Final = 3


def find_sidenotes(document: Document, known: list[Note], budget: TextBudget) -> list[Note]:
    """Return the notes that stand in the text, with a new reference in place of each.

    A note in the text that repeats the text of a linked note is removed.
    """
    notes: list[Note] = []
    references = {reference: note for note in known for reference in note.references}
    texts = {node for note in known for node in note.content}
    done: set[Node] = set()
    for element in reversed(document.select(_SELECTOR)):
        text = budget.text_of(element)
        if text is None:
            break
        if element in done or not _is_note(element, text):
            continue
        ancestors = list(islice(element.ancestors, MAX_ANCESTORS))
        done.update(ancestors)
        if element in texts or not texts.isdisjoint(ancestors):
            continue
        whole, mark = _widened(element, text)
        marks = _marks_before(whole)
        repeated = next((references[node] for node in marks if node in references), None)
        if repeated is not None:
            if _repeats(text, repeated):
                whole.decompose()
        elif _stands_in_text(whole, marks):
            notes.append(_take(element, whole, mark, marks))
    return notes[::-1]


def _repeats(text: str, note: Note) -> bool:
    """Return whether a text is that of a note, apart from marks."""
    words = text.split()
    known = " ".join(node.text for node in note.content).split()
    return words[-len(known) :] == known or known[-len(words) :] == words or words[1:] == known[1:]


def _is_note(element: Element, text: str) -> bool:
    length = len(text.strip())
    return (
        _MIN_NOTE_CHARACTERS <= length <= MAX_NOTE_CHARACTERS
        and declares_footnote_class(element)
        and mark_of(text) is None
    )


def _widened(element: Element, text: str) -> tuple[Element, str]:
    """Return the outermost element that holds only a note and its mark, and that mark."""
    whole, mark = element, ""
    for _ in range(_MAX_LEVELS):
        parent = whole.parent
        if (
            not isinstance(parent, Element)
            or parent.tag != "span"
            or len(parent.text) > (len(text) + 2 * MAX_MARK_CHARACTERS)
        ):
            break
        rest = parent.text.replace(text, "", 1)
        if rest.strip() and mark_of(rest) is None:
            break
        whole, mark = parent, rest.strip()
    return whole, mark


def _marks_before(whole: Element) -> list[Element]:
    """Return the elements directly before a note that only hold its mark or its switch."""
    marks: list[Element] = []
    for node in whole.previous_siblings:
        if type(node) is Text and not node.data.strip():
            continue
        if not isinstance(node, Element) or node.tag not in _MARK_TAGS or len(marks) == _MAX_MARKS:
            break
        if node.text.strip() and mark_of(node.text) is None and node.tag != "label":
            break
        marks.append(node)
    return marks


def _stands_in_text(node: Element, marks: list[Element]) -> bool:
    """Return whether other text precedes a note and its marks."""
    first = marks[-1] if marks else node
    return any(not is_blank(sibling) for sibling in first.previous_siblings)


def _take(element: Element, whole: Element, mark: str, marks: list[Element]) -> Note:
    """Put a reference in place of a note."""
    for node in marks:
        mark = mark or node.text.strip()
        node.decompose()
    reference = make_element("sup", [Text(mark)])
    whole.insert_before(reference)
    whole.extract()
    return Note(mark_of(mark) or "", [reference], [element])
