"""Finds evidence of values that pages do not write as such: availability and booleans."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from html import unescape
from itertools import islice
from typing import Final

from webdata_nb.service.extract.coerce import availability_of
from webdata_nb.service.extract.evidence.claims import Claim
from webdata_nb.service.extract.evidence.field_labels import FieldLabels, FieldPath, names_of_field
from webdata_nb.service.extract.evidence.folding import fold
from webdata_nb.service.extract.evidence.occurrences import Occurrence
from webdata_nb.service.extract.evidence.page_index import PageIndex, Span
from webdata_nb.service.extract.evidence.span_labels import read_span_labels
from webdata_nb.service.extract.field_names import split_words
from webdata_nb.service.extract.visible.values import VisibleValues
from webdata_nb.service.extract.visible.wording import BUY, IN_STOCK, NOTIFY, OUT_OF_STOCK

_AVAILABILITY: Final = frozenset({"availability", "instock", "available", "stock", "isavailable"})
_MAX_STATE_LENGTH: Final = 60
_MAX_LINES: Final = 6000
_MAX_AROUND: Final = 200
_MARK: Final = re.compile(r"\w+|[\u2713\u2714\u2717\u2718]")
_YES: Final = frozenset(
    {"yes", "true", "1", "\u2713", "\u2714", "ja", "oui", "si", "sim", "\u0434\u0430"}
)
_NO: Final = frozenset(
    {"no", "false", "0", "\u2717", "\u2718", "nein", "non", "nao", "\u043d\u0435\u0442"}
)
_NEGATION: Final = re.compile(r"\b(?:not?|non|never|without|un|kein|nicht|sans|sin)\b")
_LINK_STATE: Final = re.compile(r"schema\.org/(\w+)", re.IGNORECASE)
_SCRIPTED: Final = re.compile(
    r"(?:availability|in_?stock|is_?available|stock_?status|stock_?state)[\"']?\s{0,3}[:=]"
    r"\s{0,3}\\?[\"']?(?:https?:\\?/\\?/schema\.org\\?/)?(\w{1,30})",
    re.IGNORECASE,
)
_BUTTON: Final = re.compile(
    r"<(?:button|input|a)\b([^<>]{0,1600}+)>([^<]{0,80}+(?:</?(?:span|i|b|strong|svg|div|p)\b"
    r"[^<>]{0,300}+>[^<]{0,80}+){0,4}+)",
    re.IGNORECASE,
)
_VALUE: Final = re.compile(r"\bvalue\s?=\s?[\"']([^\"'<>]{1,60})", re.IGNORECASE)
_TAGS: Final = re.compile(r"<[^<>]{0,2000}>")
_MAX_SCRIPTED: Final = 200

IsOwnRecord = Callable[[Span], bool]


def is_state(claim: Claim) -> bool:
    """Return whether a value is a boolean or an availability."""
    return isinstance(claim.value, bool) or _stock_state(claim) is not None


def find_state(
    index: PageIndex,
    claim: Claim,
    fields: FieldLabels,
    is_own_record: IsOwnRecord,
    parts: Sequence[Span] | None = None,
) -> Occurrence | None:
    """Return a place that says what a boolean or an availability says; None without one.

    `parts` are the parts of the page about an entry of a list; without, the page is about it.
    """
    state = _stock_state(claim)
    if state is None:
        places = _flag_places(index, claim, fields)
    else:
        places = _stock_places(index, claim.path, fields, parts, is_available=state)
    spans = (span for span in places if is_own_record(span))
    return next((Occurrence(span, "state") for span in spans), None)


def shown_state(claim: Claim, visible: VisibleValues) -> str | None:
    """Return the button or label that shows an availability; None if it shows none or another."""
    shown = visible.values.get("availability")
    state = _stock_state(claim)
    if shown is None or state is None or availability_of(shown.value) is not state:
        return None
    return shown.text


def scripted_state(source: str, claim: Claim) -> Span | None:
    """Return where a script or an attribute of a page gives an availability; None if it does not.

    Buttons count too, wherever they are. This is for pages that neither declare the state nor show
    it near the product's title.
    """
    state = _stock_state(claim)
    for match in islice(_SCRIPTED.finditer(source), _MAX_SCRIPTED):
        word = match[1].casefold()
        given = True if word in _YES else False if word in _NO else availability_of(word)
        if given is not None and given is state:
            return match.span()
    for match in islice(_BUTTON.finditer(source), _MAX_SCRIPTED):
        value = _VALUE.search(match[1])
        label = fold(unescape(_TAGS.sub(" ", value[1] if value else match[2]))).strip()
        is_short = 0 < len(label) <= _MAX_STATE_LENGTH
        if is_short and _shows(label, is_available=state is True):
            return match.span()
    return None


def is_availability(claim: Claim) -> bool:
    """Return whether a value says that something is in stock or not."""
    return _stock_state(claim) is not None


def _stock_state(claim: Claim) -> bool | None:
    """Return whether a value says that something is in stock; None if it is of something else."""
    if _AVAILABILITY.isdisjoint(names_of_field(claim.path)):
        return None
    return claim.value if isinstance(claim.value, bool) else availability_of(claim.value)


def _stock_places(
    index: PageIndex,
    path: FieldPath,
    fields: FieldLabels,
    parts: Sequence[Span] | None,
    *,
    is_available: bool,
) -> Iterator[Span]:
    """Return the places that declare or show an availability, declared ones first."""

    def is_state(text: str) -> bool:
        link = _LINK_STATE.search(text)
        return availability_of(link[1] if link else text) is is_available

    yield from _labelled_values(index, path, fields, is_state)
    for part in parts or ():
        for span in _short_lines(index, part):
            if _shows(index.text[slice(*span)].strip(" :.!*"), is_available=is_available):
                yield span


def _shows(text: str, *, is_available: bool) -> bool:
    if not is_available:
        return bool(OUT_OF_STOCK.search(text) or NOTIFY.search(text))
    return bool((IN_STOCK.search(text) or BUY.search(text)) and not OUT_OF_STOCK.search(text))


def _flag_places(index: PageIndex, claim: Claim, fields: FieldLabels) -> Iterator[Span]:
    """Return the places that say yes or no to a field, or that name it."""
    words, opposite = (_YES, _NO) if claim.value else (_NO, _YES)
    yield from _labelled_values(index, claim.path, fields, words.__contains__)
    names = [fold(word) for word in split_words(claim.path[-1]) if word not in {"is", "has"}]
    phrase = r"[\W_]{0,3}".join(map(re.escape, names))
    for start, end in index.search(re.compile(phrase)) if names else ():
        line = index.line((start, end))
        around = index.text[slice(*line)][:_MAX_AROUND]
        rest = set(_MARK.findall(index.text[end : line[1]][:_MAX_STATE_LENGTH]))
        is_negative = bool(_NEGATION.search(around)) or bool(rest & _NO)
        if is_negative is not claim.value and not rest & opposite and len(around) < _MAX_AROUND:
            yield start, end


def _labelled_values(
    index: PageIndex, path: FieldPath, fields: FieldLabels, accepts: Callable[[str], bool]
) -> Iterator[Span]:
    """Return the accepted values with a label that names a field: for programs, or in a text."""
    for label, numbers in index.pieces_by_label.items():
        for number in numbers if path in fields.of_label(label) else ():
            span = index.starts[number], index.line((index.starts[number],) * 2)[1]
            if accepts(index.text[slice(*span)].strip()):
                yield span
    for start, end in _short_lines(index):
        colon = index.text.find(":", start, end)
        value = (start if colon < 0 else colon + 1), end
        is_accepted = accepts(index.text[slice(*value)].strip())
        if is_accepted and path in read_span_labels(index, value, fields).fields:
            yield value


def _short_lines(index: PageIndex, part: Span | None = None) -> Iterator[Span]:
    """Return the lines of a part that are short enough for a state."""
    start, last = part or (0, len(index.text))
    for _ in range(_MAX_LINES):
        end = index.text.find("\n", start, last)
        end = last if end < 0 else end
        if 0 < end - start <= _MAX_STATE_LENGTH:
            yield start, end
        if end >= last:
            return
        start = end + 1
