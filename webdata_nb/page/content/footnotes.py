"""Takes the footnotes of a page out of its tree and adds those of the content at its end.

A footnote is a text that a link with a mark leads to, such as ``[1]`` or an asterisk.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import count, islice
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from webdata_nb.page.content.parser import (
    HEADINGS,
    Element,
    Text,
    body_of,
    contains,
    make_element,
    nearest_ancestor,
    show,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from webdata_nb.page.content.links import AnchorTable
    from webdata_nb.page.content.parser import Document, Node

REFERENCE: Final = "data-footnote"
"""The attribute of a reference, with the name of its footnote."""
MAX_NOTES: Final = 5000
"""A page with more notes keeps them where they are."""

MAX_MARK_CHARACTERS: Final = 16
_MAX_SHARE: Final = 0.8  # of the text of a page
_READ_FACTOR: Final = 8
_CONTAINERS: Final = frozenset(
    {"li", "dd", "div", "aside", "section", "td", "article", "span", "small"}
)
_LEADING_NODES: Final = 4
_LEADING_CHARACTERS: Final = 2 * MAX_MARK_CHARACTERS
_WRAPPER_LEVELS: Final = 3
_PUNCTUATION: Final = re.compile(r"(?:\s*[.:)\]]\s)?")
# The arrow back to the text may come first.
_BEFORE_NOTE: Final = re.compile(rf"(?:\s*[\^↑⇑⤴↩]\ufe0e?\s*)?{_PUNCTUATION.pattern}")


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
    if not any(  # fast on most pages, which have no link that looks like a reference
        len(text) <= MAX_MARK_CHARACTERS
        and href
        and "#" in href
        and mark_of(text) is not None
        and reference_mark(link) is not None
        for text, href, link in zip(anchors.texts, anchors.hrefs, anchors.elements, strict=True)
    ):
        return {}
    page_length = len(body_of(document).text)
    notes = find_linked_notes(document, TextBudget(_READ_FACTOR * page_length))
    length = sum(len(node.text) for note in notes for node in note.content)
    if not notes or len(notes) > MAX_NOTES or length > _MAX_SHARE * page_length:
        return {}
    texts: dict[str, Element] = {}
    used = {note.mark for note in notes}
    numbers = (str(number) for number in count(1) if str(number) not in used)
    for note in notes:
        name = note.mark
        if name in texts or _NAME.fullmatch(name) is None:  # or Markdown could not write it
            name = next(numbers)
        texts[name] = _move(note, name)
    return texts


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


def _references_in(element: Element, notes: dict[str, Element]) -> Iterator[str]:
    for reference in element.select(f"sup[{REFERENCE}]"):
        name = reference.attr(REFERENCE)
        if name is not None and name in notes:
            yield name


def _move(note: Note, name: str) -> Element:
    """Take a note out of the tree, and mark its references."""
    ids = set(_reference_ids(note))
    nodes: list[Node] = []
    for part in note.content:
        if isinstance(part, Element):
            show(part)
        if isinstance(part, Element) and part.tag in _CONTAINERS:
            nodes += part.children
        else:
            nodes.append(part)
    item = make_element("li", nodes, id=f"fn-{name}", role="doc-footnote")
    for node in (note.remainder, *note.content):
        if isinstance(node, Element) and node not in nodes and node.parent is not None:
            node.decompose()
    _remove_back_links(item, ids)
    _remove_mark(item, note.mark)
    for reference in note.references:
        if reference.parent is not None:
            link = make_element(
                "a", [Text(note.mark or name)], href=f"#fn-{name}", role="doc-noteref"
            )
            reference.replace_with(make_element("sup", [link], **{REFERENCE: name}))
    return item


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
                if not isinstance(parent, Element) or parent == item:
                    break
                # The brackets of the link go with it.
                left = parent.text
                brackets = len(left) <= MAX_MARK_CHARACTERS and not left.strip(" \t\n[]()")
                has_image = parent.select_one("img,math") is not None
                if not is_blank(parent) and (has_image or not brackets):
                    break
                emptied, parent = parent, parent.parent
                emptied.decompose()


def _remove_mark(item: Element, mark: str) -> None:
    """Remove the mark and the arrow at the start of a note."""
    nodes: list[Text] = []
    for node in item.descendants:
        if type(node) is Text:
            nodes.append(node)
            if len(nodes) == _LEADING_NODES or len(node.data) > _LEADING_CHARACTERS:
                break
    text = "".join(node.data for node in nodes)
    _cut(nodes, len(text) - len(_BEFORE_NOTE.sub("", text, count=1)))
    texts = [node for node in nodes if node.data.strip()]
    if texts and mark_of(texts[0].data) == mark:
        texts[0].data = ""
        if len(texts) > 1:
            texts[1].data = _PUNCTUATION.sub("", texts[1].data, count=1)
        return
    leading = leading_mark("".join(node.data for node in nodes))
    if leading is not None and leading[0] == mark and leading[2]:
        _cut(nodes, leading[1])


def _cut(nodes: Iterable[Text], length: int) -> None:
    """Remove characters at the start of adjacent texts."""
    for node in nodes:
        if length <= 0:
            break
        size = len(node.data)
        node.data = node.data[length:]
        length -= size


_MAX_FOLLOWING_NODES: Final = 20
_INLINE_WRAPPERS: Final = frozenset({"sup", "span", "a", "b", "strong", "em", "i", "small", "font"})
_ITEMS: Final = frozenset({"li", "dd"})


def find_linked_notes(document: Document, budget: TextBudget) -> list[Note]:
    """Return the notes that links with a mark lead to, in order of their first reference.

    At most the characters of `budget` are read.
    """
    notes, others = _group_references(document)
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
    document: Document,
) -> tuple[dict[Element, Note], list[tuple[Element, Element]]]:
    """Group the references by their targets; references to what precedes them come second."""
    notes: dict[Element, Note] = {}
    others: list[tuple[Element, Element]] = []
    elements = document.select("sup,a,[id]")
    positions = {element: index for index, element in enumerate(elements)}
    targets: dict[str, Element] = {}
    for element in elements:
        for name in filter(None, (element.attr("id"), element.attr("name"))):
            targets.setdefault(name, element)
    for link in elements:
        if link.tag != "a" or not (fragment := fragment_of(link)):
            continue
        target = targets.get(fragment) or targets.get(unquote(fragment))
        mark = reference_mark(link) if target is not None else None
        if target is None or mark is None:
            continue
        if positions[target] < positions[link]:
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
        text.lstrip().startswith("[")
        or nearest_ancestor(link, {"sup"}, levels=_WRAPPER_LEVELS) is not None
        or link.select_one("sup") is not None
        or declares_reference(link)
        or (isinstance(parent, Element) and (parent.tag == "cite" or declares_reference(parent)))
        or text_before(link).rstrip().endswith("[")
    )
    return mark if is_reference else None


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
    if mark_of(text) is None:
        if block.tag not in HEADINGS and _is_note(note, target, block, text):
            note.content = [block]
        return
    # The block holds only the number of the note, whose text follows.
    if block.tag in {"td", "th"} and isinstance(block.parent, Element):
        cells = [each for each in block.next_siblings if isinstance(each, Element)]
        note.content = [node for cell in cells for node in cell.children]
        note.remainder = block.parent
        return
    nodes: list[Node] = []
    for node in islice(block.next_siblings, _MAX_FOLLOWING_NODES):
        if isinstance(node, Element) and (
            node.tag in {*HEADINGS, "hr", block.tag}
            or node in starts
            or any(inner in starts for inner in node.select("[id],a[name]"))
        ):
            break
        nodes.append(node)
    if not all(map(is_blank, nodes)):
        note.content, note.remainder = nodes, block


def _is_note(note: Note, target: Element, block: Element, text: str) -> bool:
    """Return whether a block that a reference leads to is a note."""
    if next(block.iter_elements(HEADINGS), None) is not None:
        return False
    if target != block and not _is_at_start(target, block):
        return False
    leading = leading_mark(text)
    return (
        block.tag in _ITEMS
        or (leading is not None and leading[0] == note.mark)
        or declares_reference(target)
        or declares_reference(block)
        or any(is_back_link(link, link.text) for link in block.select("a[href]"))
    )


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


MAX_NOTE_CHARACTERS: Final = 5000
"""A longer element is a part of the page, not a note."""

# fmt: off
BLOCKS: Final = frozenset({
    *HEADINGS, "article", "aside", "blockquote", "body", "dd", "div", "dt", "figcaption", "li",
    "main", "p", "section", "table", "td", "th", "tr",
})
# fmt: on


@dataclass(slots=True)
class Note:
    """A footnote.

    Attributes
    ----------
    mark
        Its label in the text.
    references
        The elements that refer to it, in document order.
    content
        Adjacent nodes that hold its text.
    remainder
        An element that goes with it, such as the block of its number; None without one.
    """

    mark: str
    references: list[Element]
    content: list[Node] = field(default_factory=list)
    remainder: Element | None = None


class TextBudget:
    """Bounds the characters that are read from blocks that may be nested in one another."""

    def __init__(self, characters: int) -> None:
        self._left = characters

    def text_of(self, element: Element) -> str | None:
        """Return the text of an element; None once the budget is spent."""
        if self._left < 0:
            return None
        text = element.text
        self._left -= len(text) + 1
        return text


def block_of(element: Element) -> Element | None:
    """Return the element itself if it is a block, otherwise the block around it."""
    return element if element.tag in BLOCKS else nearest_ancestor(element, BLOCKS)


def text_before(node: Node) -> str:
    """Return the text directly before a node, '' without one."""
    previous = node.previous_sibling
    return previous.data if type(previous) is Text else ""


_MARK = re.compile(
    r"([\[(]?)\s*((?:note|nb|fn|n)?\.?\s?\d{1,4}|[a-z]|[ivxl]{1,6}|[*†‡§‖]{1,4})\s*[\])]?[.:]?",
    re.IGNORECASE,
)
_LEADING_MARK = re.compile(
    r"\s*(?:[\[(]\s*(?P<bracketed>[^\W_]{1,4}|[*†‡§¶‖]{1,4})\s*[\])][.:]?"
    r"|(?P<dotted>\d{1,4})[.:)\]]|(?P<bare>\d{1,4}|[*†‡§¶‖]{1,4})(?=\s|\Z))\s*"
)
_ARROWS: Final = frozenset("^↑⇑⇧⤴↩↵⏎↶⬑⮐⮌↖⇗☝⤶▲◂«⬆")
_VARIATION_SELECTORS = str.maketrans("", "", "\ufe0e\ufe0f\xa0 []()")
_REFERENCE = re.compile(r"foot-?_?note|note-?_?ref|fn-?_?ref|end-?_?note|sidenote", re.IGNORECASE)
_BACK_LINK = re.compile(r"back-?_?(?:ref|link)|reversefootnote|-back\b|return", re.IGNORECASE)
_TYPE_ATTRIBUTES: Final = ("role", "epub:type", "data-type")
_NAME = re.compile(r"[A-Za-z0-9]{1,8}")


def mark_of(text: str) -> str | None:
    """Return the label of a footnote without its brackets, None if the text is something else."""
    if len(text) > MAX_MARK_CHARACTERS:
        return None
    match = _MARK.fullmatch(text.strip())
    return match[2] if match is not None else None


def leading_mark(text: str) -> tuple[str, int, bool] | None:
    """Return the mark at the start of a text, its length, and whether it is more than a number."""
    match = _LEADING_MARK.match(text)
    if match is None:
        return None
    mark = match["bracketed"] or match["dotted"]
    mark = mark or match["bare"]
    return mark, match.end(), match["bare"] is None or not mark.isdigit()


def declares_reference(element: Element) -> bool:
    """Return whether attributes say that an element refers to a footnote, or is one."""
    if not len(element.attrs):
        return False
    if any("note" in (element.attr(name) or "") for name in _TYPE_ATTRIBUTES):
        return True
    if element.attr("data-footnote-ref") is not None:
        return True
    names = f"{element.attr('class') or ''} {element.attr('id') or ''}"
    return _REFERENCE.search(names) is not None


def is_back_link(link: Element, text: str) -> bool:
    """Return whether a link leads from a note back to the text."""
    sign = text.translate(_VARIATION_SELECTORS)
    if sign and all(character in _ARROWS for character in sign):
        return True
    if link.attr("data-footnote-backref") is not None:
        return True
    if link.attr("role") == "doc-backlink":  # of headings, it leads to the table of contents
        return nearest_ancestor(link, HEADINGS, levels=2) is None
    return len(text) <= MAX_MARK_CHARACTERS and bool(_BACK_LINK.search(link.attr("class") or ""))


def fragment_of(link: Element) -> str:
    """Return the fragment that a link leads to, '' without one."""
    return (link.attr("href") or "").partition("#")[2]


def is_blank(node: Node) -> bool:
    """Return whether a node has no text."""
    if type(node) is Text:
        return node.data.isspace() or not node.data
    return not isinstance(node, Element) or (
        not node.text.strip() and node.select_one("img,math") is None
    )
