"""Finds evidence of values that pages do not write as such: availability and booleans."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from webdata_nb.service.extract.coerce import availability_of
from webdata_nb.service.extract.evidence.claims import Claim
from webdata_nb.service.extract.evidence.field_labels import FieldLabels, FieldPath, names_of_field
from webdata_nb.service.extract.evidence.folding import fold
from webdata_nb.service.extract.evidence.occurrences import Occurrence
from webdata_nb.service.extract.evidence.page_index import PageIndex, Span
from webdata_nb.service.extract.evidence.span_labels import read_span_labels
from webdata_nb.service.extract.field_names import split_words
from webdata_nb.service.extract.visible.wording import BUY, IN_STOCK, NOTIFY, OUT_OF_STOCK

_AVAILABILITY: Final = frozenset({"availability", "instock", "available", "stock", "isavailable"})
_MAX_STATE_LENGTH: Final = 60
_MAX_LINES: Final = 6000
_MAX_PIECES: Final = 50_000
_YES: Final = frozenset({"yes", "true", "1", "\u2713", "\u2714", "ja", "oui", "si", "sim", "\u0434\u0430"})
_NO: Final = frozenset({"no", "false", "0", "\u2717", "\u2718", "nein", "non", "nao", "\u043d\u0435\u0442"})
_NEGATION: Final = re.compile(r"\b(?:not?|non|never|without|un|kein|nicht|sans|sin)\b")
_LINK_STATE: Final = re.compile(r"schema\.org/(\w+)", re.IGNORECASE)

IsOwnRecord = Callable[[Span], bool]


def is_state(claim: Claim) -> bool:
    """Return whether a value is a boolean or an availability."""
    return isinstance(claim.value, bool) or _stock_state(claim) is not None


def find_state(
    index: PageIndex, claim: Claim, fields: FieldLabels, is_own_record: IsOwnRecord
) -> Occurrence | None:
    """Return a place that says what a boolean or an availability says; None without one."""
    state = _stock_state(claim)
    places = (
        _flag_places(index, claim, fields)
        if state is None
        else _stock_places(index, claim.path, fields, is_available=state)
    )
    spans = (span for span in places if is_own_record(span))
    return next((Occurrence(span, "state") for span in spans), None)


def _stock_state(claim: Claim) -> bool | None:
    """Return whether a value says that something is in stock; None if it is of something else."""
    if _AVAILABILITY.isdisjoint(names_of_field(claim.path)):
        return None
    return claim.value if isinstance(claim.value, bool) else availability_of(claim.value)


def _stock_places(
    index: PageIndex, path: FieldPath, fields: FieldLabels, *, is_available: bool
) -> Iterator[Span]:
    """Return the places that declare or show an availability, declared ones first."""
    for span in _declared_values(index, path, fields):
        link = _LINK_STATE.search(index.text, *span)
        text = link[1] if link else index.text[slice(*span)]
        if availability_of(text.strip()) is is_available:
            yield span
    for span in _short_lines(index):
        text = index.text[slice(*span)].strip(" :.!*")
        if is_available:
            shows = (IN_STOCK.search(text) or BUY.search(text)) and not OUT_OF_STOCK.search(text)
        else:
            shows = OUT_OF_STOCK.search(text) or NOTIFY.search(text)
        if shows:
            yield span


def _flag_places(index: PageIndex, claim: Claim, fields: FieldLabels) -> Iterator[Span]:
    """Return the places that say yes or no to a field, or that name it."""
    words, opposite = (_YES, _NO) if claim.value else (_NO, _YES)
    for span in _declared_values(index, claim.path, fields):
        if index.text[slice(*span)].strip() in words:
            yield span
    names = [fold(word) for word in split_words(claim.path[-1]) if word not in {"is", "has"}]
    phrase = r"[\W_]{0,3}".join(map(re.escape, names))
    for start, end in index.search(re.compile(phrase)) if names else ():
        line = index.line((start, end))
        around = index.text[slice(*line)]
        rest = set(re.findall(r"\w+|[\u2713\u2714\u2717\u2718]", index.text[end : line[1]][:40]))
        is_negative = bool(_NEGATION.search(around[:200])) or bool(rest & _NO)
        if len(around) <= 4 * _MAX_STATE_LENGTH and is_negative is not claim.value:
            if not rest & opposite:
                yield start, end


def _declared_values(index: PageIndex, path: FieldPath, fields: FieldLabels) -> Iterator[Span]:
    """Return the values with a name for programs, or a label in the text, that names a field."""
    for number, piece in enumerate(index.tree.pieces[:_MAX_PIECES]):
        if piece.label and path in fields.of_label(piece.label):
            start = index.starts[number]
            yield start, index.line((start, start))[1]
    for span in _short_lines(index):
        if path in read_label(index, span, fields):
            yield span


def read_label(index: PageIndex, span: Span, fields: FieldLabels) -> frozenset[FieldPath]:
    """Return the fields that the label of a line names, in the line or before it."""
    colon = index.text.find(":", *span)
    start = span[0] if colon < 0 else min(colon + 1, span[1] - 1)
    return read_span_labels(index, (start, span[1]), fields).fields


def _short_lines(index: PageIndex) -> Iterator[Span]:
    """Return the lines that are short enough for a state."""
    start = 0
    for _ in range(_MAX_LINES):
        end = index.text.find("\n", start)
        end = len(index.text) if end < 0 else end
        if 0 < end - start <= _MAX_STATE_LENGTH:
            yield start, end
        if end >= len(index.text):
            return
        start = end + 1
