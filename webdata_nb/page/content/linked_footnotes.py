"""Finds footnotes whose references link to their texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from webdata_nb.page.content.footnote import (
    MAX_NOTE_CHARACTERS,
    Note,
    TextBudget,
    block_of,
    contains,
    text_before,
)
from webdata_nb.page.content.footnote_marks import (
    MAX_MARK_CHARACTERS,
    declares_reference,
    fragment_of,
    is_back_link,
    is_blank,
    is_bracketed,
    leading_mark,
    mark_of,
)
from webdata_nb.page.content.parser import Element, nearest_ancestor
from webdata_nb.page.content.tags import HEADINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.page.content.footnote import MarkedElements
    from webdata_nb.page.content.parser import Node

_WRAPPER_LEVELS: Final = 3
_MAX_FOLLOWING_NODES: Final = 20
_INLINE_WRAPPERS: Final = frozenset({"sup", "span", "a", "b", "strong", "em", "i", "small", "font"})
_ITEMS: Final = frozenset({"li", "dd"})
_HEADINGS = "h1,h2,h3,h4,h5,h6"


def find_linked_notes(marked: MarkedElements, budget: TextBudget) -> list[Note]:
    """Return the notes that links with a mark lead to, in order of their first reference.

    Parameters
    ----------
    marked
        The elements of the page that may be references or notes.
    budget
        The characters that may be read.
    """
    notes, others = _group_references(marked)
    _resolve_texts(notes, budget)
    complete = {target: note for target, note in notes.items() if note.content}
    for link, target in others:  # references within notes to earlier notes
        if target in complete and not contains(target, link):
            complete[target].references.append(reference_holder(link))
    return list(complete.values())


def reference_holder(link: Element) -> Element:
    """Return the outermost inline element that holds nothing but a reference."""
    holder, text = link, link.text.strip()
    parent = link.parent
    for _ in range(_WRAPPER_LEVELS):
        if not isinstance(parent, Element) or parent.tag not in _INLINE_WRAPPERS:
            break
        if len(parent) > _WRAPPER_LEVELS or parent.text.strip() != text:
            break
        holder, parent = parent, parent.parent
    return holder


def _group_references(
    marked: MarkedElements,
) -> tuple[dict[Element, Note], list[tuple[Element, Element]]]:
    """Group the references by their targets; references to what precedes them come second."""
    notes: dict[Element, Note] = {}
    others: list[tuple[Element, Element]] = []
    for link in marked.elements:
        if link.tag != "a" or not (fragment := fragment_of(link)):
            continue
        target = marked.targets.get(fragment) or marked.targets.get(unquote(fragment))
        mark = reference_mark(link) if target is not None else None
        if target is None or mark is None:
            continue
        if marked.positions[target] < marked.positions[link]:
            others.append((link, target))
        elif target in notes:
            notes[target].references.append(reference_holder(link))
        else:
            notes[target] = Note(mark, [reference_holder(link)])
    return notes, others


def reference_mark(link: Element) -> str | None:
    """Return the mark of a link that looks like a reference to a footnote."""
    text = link.text
    mark = mark_of(text)
    if mark is None or is_back_link(link, text):
        return None
    parent = link.parent
    is_reference = (
        is_bracketed(text)
        or nearest_ancestor(link, {"sup"}, levels=_WRAPPER_LEVELS) is not None
        or link.select_one("sup") is not None
        or declares_reference(link)
        or (isinstance(parent, Element) and (parent.tag == "cite" or declares_reference(parent)))
        or text_before(link).rstrip().endswith("[")
    )
    return mark if is_reference else None


def _resolve_texts(notes: dict[Element, Note], budget: TextBudget) -> None:
    """Find the text of each note; a note without one remains empty."""
    blocks = {target: block_of(target) for target in notes}
    groups: dict[Element, list[Element]] = {}
    for target, block in blocks.items():
        if block is not None:
            groups.setdefault(block, []).append(target)
    starts = {*groups, *notes}
    for block, targets in groups.items():
        if len(targets) > 1 and block not in notes:
            _split_block(block, targets, notes)
        elif block in notes:
            _read_note(notes[block], block, block, starts, budget)
        else:
            _read_note(notes[targets[0]], targets[0], block, starts, budget)


def _split_block(block: Element, targets: list[Element], notes: dict[Element, Note]) -> None:
    """Divide a block that holds several notes, each from its target to the next one."""
    first = notes[targets[0]].references[0]
    if contains(block, first):
        return
    children = list(block.children)
    indexes = {child: index for index, child in enumerate(children)}
    starts: dict[int, Element] = {}
    for target in targets:
        child: Node | None = target
        while child is not None and child.parent != block:
            child = child.parent
        if child is not None:
            starts.setdefault(indexes[child], target)
    ends = [*sorted(starts)[1:], len(children)]
    for start, end in zip(sorted(starts), ends, strict=True):
        notes[starts[start]].content = children[start:end]


def _read_note(
    note: Note, target: Element, block: Element, starts: set[Element], budget: TextBudget
) -> None:
    """Find the nodes of one note."""
    text = budget.text_of(block)
    if text is None or block.tag == "body" or len(text) > MAX_NOTE_CHARACTERS:
        return
    if contains(block, note.references[0]):
        if target != block and mark_of(target.text) is None and target.tag in _INLINE_WRAPPERS:
            note.content = [target]
        return
    if mark_of(text) is not None:
        _read_after_number(note, block, starts)
    elif block.tag not in HEADINGS and _is_note(note, target, block, text):
        note.content = [block]


def _read_after_number(note: Note, number: Element, starts: set[Element]) -> None:
    """Take what follows a block that holds only the number of a note."""
    if number.tag in {"td", "th"} and isinstance(number.parent, Element):
        note.content, note.remainder = list(_other_cells(number)), number.parent
        return
    nodes = list(_following_nodes(number, starts))
    if not all(map(is_blank, nodes)):
        note.content, note.remainder = nodes, number


def _other_cells(cell: Element) -> Iterator[Node]:
    for other in cell.next_siblings:
        if isinstance(other, Element):
            yield from list(other.children)


def _following_nodes(number: Element, starts: set[Element]) -> Iterator[Node]:
    """Yield the nodes after a number, up to a heading, a rule or the next number."""
    for _, node in zip(range(_MAX_FOLLOWING_NODES), number.next_siblings, strict=False):
        if isinstance(node, Element) and (
            node.tag in {*HEADINGS, "hr", number.tag}
            or node in starts
            or any(inner in starts for inner in node.select("[id],a[name]"))
        ):
            return
        yield node


def _is_note(note: Note, target: Element, block: Element, text: str) -> bool:
    """Return whether a block that a reference leads to is a note."""
    if block.select_one(_HEADINGS) is not None:
        return False
    if target != block and not _is_at_start(target, block):
        return False
    leading = leading_mark(text)
    return (
        block.tag in _ITEMS
        or (leading is not None and leading[0] == note.mark)
        or declares_reference(target)
        or declares_reference(block)
        or _leads_back(block)
    )


def _leads_back(block: Element) -> bool:
    return any(is_back_link(link, link.text) for link in block.select("a[href]"))


def _is_at_start(target: Element, block: Element) -> bool:
    """Return whether nothing but a mark precedes an element in its block."""
    node: Node | None = target
    before: list[str] = []
    while isinstance(node, Element) and node != block:
        for sibling in node.previous_siblings:
            if not is_blank(sibling):
                before.append(sibling.text)
                if len(before) > 1 or len(sibling.text) > MAX_MARK_CHARACTERS:
                    return False
        node = node.parent
    return not before or mark_of(before[0]) is not None
