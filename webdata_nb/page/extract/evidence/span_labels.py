"""Reads how a page labels a place: by names of elements, by texts before it, and by columns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from webdata_nb.page.extract.evidence.field_labels import (
    GENERIC,
    MAX_LABEL_LENGTH,
    FieldLabels,
    FieldPath,
)
from webdata_nb.page.extract.evidence.page_index import PageIndex, Span
from webdata_nb.page.extract.evidence.page_tree import ROOT
from webdata_nb.page.extract.visible.element_names import (
    STRUCK,
    flags_of_name,
    simplify_name,
)
from webdata_nb.page.extract.visible.wording import OLD_PRICE, OTHER_AMOUNT

if TYPE_CHECKING:
    from collections.abc import Mapping

_LEVELS: Final = 3
_MAX_ITEM_LEVELS: Final = 8
_SPARE_LENGTH: Final = 40
_MAX_AROUND: Final = 200
"""Characters before and after a place that are looked at."""
_UNIT_LENGTH: Final = 6
_MAX_CELLS: Final = 200
_SEPARATORS: Final = re.compile(r"[|;\u2022\u00b7\t(\[]|, ")
_LABEL_TAGS: Final = frozenset({"dt", "th", "label"})
_STRUCK_TAGS: Final = frozenset({"del", "s", "strike"})
_TITLES: Final = frozenset({"title", "h1", "h2", "h3", "h4", "h5", "h6"})
"""Elements whose text is the name of something."""
_NAME_ATTRIBUTES: Final = ("itemprop", "property", "class", "id", "data-testid", "data-field")


@dataclass(frozen=True, slots=True)
class SpanLabels:
    """The fields that the labels of a place name.

    Attributes
    ----------
    declared
        Fields that a name for programs, a label in a text or a column names.
    styled
        Fields that the class or id of an element names.
    struck
        Whether the place is crossed out, or a label says that it is an old price.
    other_amount
        Whether a label says that it is an amount of something else, such as shipping.
    whole
        Whether the place is all of its line or value, except for a label.
    for_programs
        Whether the name is one for programs, in JSON-LD, microdata or a meta tag.
    """

    declared: frozenset[FieldPath] = frozenset()
    styled: frozenset[FieldPath] = frozenset()
    struck: bool = False
    other_amount: bool = False
    whole: bool = True
    for_programs: bool = False

    @property
    def fields(self) -> frozenset[FieldPath]:
        """The fields that the best labels name."""
        return self.declared or self.styled


def read_span_labels(index: PageIndex, span: Span, fields: FieldLabels) -> SpanLabels:
    """Return the labels of a place in the text."""
    piece = index.tree.pieces[index.piece_at(span[0])]
    line = index.line(span)
    prefix = index.text[max(line[0], span[0] - _MAX_AROUND) : span[0]]
    suffix = index.text[span[1] : min(line[1], span[1] + _MAX_AROUND)]
    if piece.label:
        whole = not prefix.strip() and not suffix.strip()
        return SpanLabels(fields.of_label(piece.label), whole=whole, for_programs=True)
    label = _label_before(index, span, prefix)
    struck_text = bool(label and OLD_PRICE.match(label.strip()))
    styled, flags = _element_names(index, piece.element, span, fields)
    return SpanLabels(
        declared=fields.of_label(label) or _column_fields(index, piece.element, fields),
        styled=styled,
        struck=struck_text or bool(flags & STRUCK),
        other_amount=bool(label and OTHER_AMOUNT.search(label)),
        whole=_is_whole(index, piece.element, span)
        or ((not prefix.strip() or bool(fields.of_label(label))) and not _continues(suffix)),
    )


def _is_whole(index: PageIndex, element: int, span: Span) -> bool:
    """Return whether a place is all of the text of an element, except for a unit."""
    if element == ROOT:
        return False
    start, end = index.text_span(element)
    before = index.text[max(start, span[0] - _MAX_AROUND) : span[0]]
    after = index.text[span[1] : min(end, span[1] + _MAX_AROUND)]
    return len(before.strip()) <= _UNIT_LENGTH and not _continues(after)


def _continues(suffix: str) -> bool:
    """Return whether more text than a currency or a unit follows a place."""
    return any(map(str.isalnum, suffix)) and len(suffix.strip()) > _UNIT_LENGTH


def _label_before(index: PageIndex, span: Span, prefix: str) -> str:
    """Return the label in front of a place: in its line, or the line before."""
    own = _SEPARATORS.split(prefix)[-1].strip()
    if own:
        return own[-MAX_LABEL_LENGTH:]
    if prefix.strip():
        return ""
    line_start = span[0] - len(prefix)
    end = line_start - 1
    start = index.text.rfind("\n", 0, max(end, 0)) + 1
    text = index.text[start:end].strip() if end > 0 else ""
    if not 0 < len(text) <= MAX_LABEL_LENGTH:
        return ""
    return text if _is_label_of(index, (start, end), span, text) else ""


def _is_label_of(index: PageIndex, before: Span, span: Span, text: str) -> bool:
    tree = index.tree
    first, second = index.piece_at(before[0]), index.piece_at(span[0])
    if tree.pieces[first].label:
        return False
    label, value = tree.pieces[first].element, tree.pieces[second].element
    if label < 0 or value < 0:
        return False
    common = _common_ancestor(index, label, value)
    inner = {tree.names[each] for each in _below(index, label, common)}
    if inner & _LABEL_TAGS:
        return not inner & {"th"} or tree.names[common] == "tr"
    return text.endswith(":") or index.text_of(common).count("\n") == 1


def _common_ancestor(index: PageIndex, first: int, second: int) -> int:
    element = first
    while element >= 0 and index.tree.last[element] < second:
        element = index.tree.parents[element]
    return element


def _below(index: PageIndex, element: int, ancestor: int) -> list[int]:
    chain = index.tree.ancestors(element)
    return chain[: chain.index(ancestor)] if ancestor in chain else chain


def _column_fields(index: PageIndex, element: int, fields: FieldLabels) -> frozenset[FieldPath]:
    """Return the fields that the header of a table's column names."""
    tree = index.tree
    chain = tree.ancestors(element)[:6]
    cell = next((each for each in chain if tree.names[each] in {"td", "th"}), None)
    table = next((each for each in tree.ancestors(element) if tree.names[each] == "table"), None)
    if cell is None or table is None or tree.names[tree.parents[cell]] != "tr":
        return frozenset()
    row = tree.parents[cell]
    header = next((n for n in range(table + 1, row) if tree.names[n] == "tr"), row)
    cells, names = tree.children(row)[:_MAX_CELLS], tree.children(header)[:_MAX_CELLS]
    column = cells.index(cell) if cell in cells else len(names)
    if header == row or column >= len(names) or len(names) <= 1:
        return frozenset()
    return fields.of_label(index.text_of(names[column])[:MAX_LABEL_LENGTH])


def _element_names(
    index: PageIndex, element: int, span: Span, fields: FieldLabels
) -> tuple[frozenset[FieldPath], int]:
    """Return the fields and flags that names of the nearest elements give."""
    tree, flags = index.tree, 0
    found = fields.of_label(label) if (label := _item_label(index, element)) else frozenset()
    length = span[1] - span[0]
    for level, each in enumerate(tree.ancestors(element)[: _LEVELS + 1]):
        start, end = index.text_span(each)
        if level and end - start > 2 * length + _SPARE_LENGTH:
            break
        attributes = tree.attributes(each)
        name = " ".join(attributes[key] for key in _NAME_ATTRIBUTES if key in attributes)
        flags |= flags_of_name(simplify_name(name[:200])) if name else 0
        flags |= STRUCK if tree.names[each] in _STRUCK_TAGS else 0
        found = found or (fields.of_class(name[:200]) if name else found)
        if tree.names[each] in _TITLES:
            found = found or fields.of_label("name")
    return found, flags


def _item_label(index: PageIndex, element: int) -> str:
    """Return the path of a generic property of an item that is the value of another property.

    The name of a movie's director is no name of the movie.
    """
    tree = index.tree
    own = _property(tree.attributes(element)) if element >= 0 else ""
    if own not in GENERIC:
        return ""
    for each in tree.ancestors(element)[1 : _MAX_ITEM_LEVELS + 1]:
        attributes = tree.attributes(each)
        if "itemtype" in attributes or "typeof" in attributes:
            whole = _property(attributes)
            return f"{whole}/{own}" if whole else ""
    return ""


def _property(attributes: Mapping[str, str]) -> str:
    return attributes.get("itemprop") or attributes.get("property") or ""
