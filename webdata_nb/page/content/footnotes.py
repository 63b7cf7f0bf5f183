"""Takes the footnotes of a page out of its tree and adds those of the content at its end.

A footnote is what a link with a mark leads to. It may stand anywhere: below the article, beside it,
hidden until a click. It belongs to the content if the content refers to it, so its text is kept
apart while the content is selected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.footnote import MarkedElements, TextBudget
from webdata_nb.page.content.footnote_marks import (
    MAX_MARK_CHARACTERS,
    fragment_of,
    is_back_link,
    is_blank,
    leading_arrow_length,
    leading_mark,
    mark_of,
    usable_name,
)
from webdata_nb.page.content.linked_footnotes import find_linked_notes, reference_mark
from webdata_nb.page.content.parser import Element, Text, body_of, make_element

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from webdata_nb.page.content.footnote import Note
    from webdata_nb.page.content.links import AnchorTable
    from webdata_nb.page.content.parser import Document, Node

REFERENCE: Final = "data-footnote"
"""The attribute of a reference, with the name of its footnote."""
MAX_NOTES: Final = 5000
"""A page with more notes keeps them where they are."""

_MAX_SHARE: Final = 0.8  # of the text of a page
_READ_FACTOR: Final = 8
_CONTAINERS: Final = frozenset(
    {"li", "dd", "div", "aside", "section", "td", "article", "span", "small"}
)
_LEADING_NODES: Final = 4
_LEADING_CHARACTERS: Final = 2 * MAX_MARK_CHARACTERS
_WRAPPER_LEVELS: Final = 3
_PUNCTUATION: Final = re.compile(r"(?:\s*[.:)\]]\s)?")
_HIDING_ATTRIBUTES: Final = ("style", "hidden", "aria-hidden")


@dataclass(frozen=True, slots=True)
class FootnoteSection:
    """The footnotes at the end of the content.

    Attributes
    ----------
    section
        The element at the end of the content that holds them.
    notes
        The text of each, a list item of that section, by its name.
    """

    section: Element
    notes: dict[str, Element]


def take_footnotes(document: Document, anchors: AnchorTable) -> dict[str, Element]:
    """Take the footnotes of a page out of its tree; return their texts by name.

    Parameters
    ----------
    document
        The page. Its references become ``<sup data-footnote="NAME">``.
    anchors
        The links of the page.
    """
    if not _may_have_footnotes(anchors):
        return {}
    body = body_of(document)
    page_length = len(body.text) if body is not None else 0
    notes = find_linked_notes(MarkedElements(document), TextBudget(_READ_FACTOR * page_length))
    length = sum(len(node.text) for note in notes for node in note.content)
    if not notes or len(notes) > MAX_NOTES or length > _MAX_SHARE * page_length:
        return {}
    return {name: _move(note, name) for name, note in _named(notes)}


def append_footnotes(
    content: Element, notes: dict[str, Element], *, unreferenced: bool
) -> FootnoteSection | None:
    """Add the footnotes that the content refers to at its end.

    Parameters
    ----------
    content
        The content of a page.
    notes
        The texts of the footnotes of the page.
    unreferenced
        Add also those that nothing in the content refers to.
    """
    if not notes:
        return None
    names = dict.fromkeys(_references_in(content, notes))
    queue = list(names)
    for name in queue:
        for inner in _references_in(notes[name], notes):
            if inner not in names:
                names[inner] = None
                queue.append(inner)
    if unreferenced:
        names.update(dict.fromkeys(notes))
    if not names:
        return None
    chosen = {name: notes[name] for name in names}
    section = make_element("section", [make_element("ol", chosen.values())], role="doc-endnotes")
    content.append(section)
    return FootnoteSection(section, chosen)


def _may_have_footnotes(anchors: AnchorTable) -> bool:
    """Return whether a page has a link that looks like a reference; fast on most pages."""
    return any(
        len(text) <= MAX_MARK_CHARACTERS
        and href
        and "#" in href
        and mark_of(text) is not None
        and reference_mark(link) is not None
        for text, href, link in zip(anchors.texts, anchors.hrefs, anchors.elements, strict=True)
    )


def _references_in(element: Element, notes: dict[str, Element]) -> Iterator[str]:
    for reference in element.select(f"sup[{REFERENCE}]"):
        name = reference.attr(REFERENCE)
        if name is not None and name in notes:
            yield name


def _named(notes: list[Note]) -> Iterator[tuple[str, Note]]:
    """Name each note by its mark, or by the next free number."""
    used = {note.mark for note in notes}
    taken: set[str] = set()
    numbers = (str(number) for number in count(1) if str(number) not in used)
    for note in notes:
        name = usable_name(note.mark)
        if name is None or name in taken:
            name = next(numbers)
        taken.add(name)
        yield name, note


def _move(note: Note, name: str) -> Element:
    """Take a note out of the tree, and mark its references."""
    ids = set(_reference_ids(note))
    nodes = list(_text_nodes(note))
    item = make_element("li", nodes, id=f"fn-{name}", role="doc-footnote")
    for node in (note.remainder, *note.content):
        if isinstance(node, Element) and node not in nodes and node.parent is not None:
            node.decompose()
    _remove_back_links(item, ids)
    _remove_mark(item, note.mark)
    for reference in note.references:
        if reference.parent is not None:
            reference.replace_with(_reference(note.mark, name))
    return item


def _reference(mark: str, name: str) -> Element:
    link = make_element("a", [Text(mark or name)], href=f"#fn-{name}", role="doc-noteref")
    return make_element("sup", [link], **{REFERENCE: name})


def _reference_ids(note: Note) -> Iterator[str]:
    """Yield the ids at the references of a note, which its links back lead to."""
    for reference in note.references:
        elements = [reference, *reference.select("[id],a[name]")]
        parent = reference.parent
        for _ in range(_WRAPPER_LEVELS):
            if not isinstance(parent, Element) or parent.tag not in {"span", "sup", "a", "cite"}:
                break
            elements.append(parent)
            parent = parent.parent
        for element in elements:
            yield from filter(None, (element.attr("id"), element.attr("name")))


def _text_nodes(note: Note) -> Iterator[Node]:
    """Yield the nodes of a note without the container around them."""
    for node in note.content:
        if isinstance(node, Element):
            for name in _HIDING_ATTRIBUTES:
                if node.attr(name) is not None:
                    del node.attrs[name]
        if isinstance(node, Element) and node.tag in _CONTAINERS:
            yield from list(node.children)
        else:
            yield node


def _remove_back_links(item: Element, ids: set[str]) -> None:
    """Remove the links from a note to its references."""
    for link in item.select("a[href]"):
        text = link.text
        if is_back_link(link, text) or (
            len(text) <= MAX_MARK_CHARACTERS and fragment_of(link) in ids
        ):
            parent = link.parent
            link.decompose()
            for _ in range(_WRAPPER_LEVELS):
                if not isinstance(parent, Element) or parent == item or not _is_left_over(parent):
                    break
                emptied, parent = parent, parent.parent
                emptied.decompose()


def _is_left_over(element: Element) -> bool:
    """Return whether an element has nothing but the brackets of a link that was removed."""
    brackets = len(element.text) <= MAX_MARK_CHARACTERS and not element.text.strip(" \t\n[]()")
    return is_blank(element) or (brackets and element.select_one("img,math") is None)


def _remove_mark(item: Element, mark: str) -> None:
    """Remove the mark and the arrow at the start of a note."""
    nodes = _leading_texts(item)
    _cut(nodes, leading_arrow_length("".join(node.data for node in nodes)))
    _cut(nodes, _punctuation_length("".join(node.data for node in nodes)))
    texts = [node for node in nodes if node.data.strip()]
    if texts and mark_of(texts[0].data) == mark:
        texts[0].data = ""
        if len(texts) > 1:
            texts[1].data = texts[1].data[_punctuation_length(texts[1].data) :]
        return
    leading = leading_mark("".join(node.data for node in nodes))
    if leading is not None and leading[0] == mark and leading[2]:
        _cut(nodes, leading[1])


def _punctuation_length(text: str) -> int:
    match = _PUNCTUATION.match(text)
    return match.end() if match is not None else 0


def _leading_texts(item: Element) -> list[Text]:
    """Return the first texts of a note."""
    texts: list[Text] = []
    for node in item.descendants:
        if type(node) is Text:
            texts.append(node)
            if len(texts) == _LEADING_NODES or len(node.data) > _LEADING_CHARACTERS:
                break
    return texts


def _cut(nodes: Iterable[Text], length: int) -> None:
    """Remove characters at the start of adjacent texts."""
    for node in nodes:
        if length <= 0:
            break
        size = len(node.data)
        node.data = node.data[length:]
        length -= size
