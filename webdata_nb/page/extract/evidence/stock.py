"""Finds evidence of values that pages rarely state literally: availability and booleans."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Final

from webdata_nb.page.content.parser import parse
from webdata_nb.page.extract.coerce import availability_of
from webdata_nb.page.extract.evidence.claims import Claim
from webdata_nb.page.extract.evidence.judgement import OwnParts, ValueEvidence
from webdata_nb.page.extract.evidence.labels import (
    FieldLabels,
    FieldPath,
    names_of_field,
    read_span_labels,
)
from webdata_nb.page.extract.evidence.occurrences import Occurrence
from webdata_nb.page.extract.evidence.page_index import PageIndex, Span, fold
from webdata_nb.page.extract.evidence.page_tree import MAX_QUOTE, PageTree
from webdata_nb.page.extract.evidence.plausibility import AVAILABILITY_NAMES
from webdata_nb.page.extract.field_names import split_words
from webdata_nb.page.extract.visible.page_text import PageText, read_page_text
from webdata_nb.page.extract.visible.prices import PriceCandidate, find_price
from webdata_nb.page.extract.visible.stock import (
    IN,
    StockSigns,
    StockState,
    find_stock_state,
    read_stock_signs,
)
from webdata_nb.page.extract.visible.wording import (
    BUY,
    IN_STOCK,
    NOTIFY,
    OUT_OF_STOCK,
)

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
_SCRIPTED_NAMES: Final = (
    *("availability", "instock", "in_stock", "isavailable", "is_available"),
    *("stockstatus", "stock_status", "stockstate", "stock_state"),
)
_SCRIPTED: Final = re.compile(
    r"[a-z_]{7,12}[\"']?\s{0,3}[:=]\s{0,3}\\?[\"']?(?:https?:\\?/\\?/schema\.org\\?/)?(\w{1,30})",
    re.IGNORECASE,
)
_MAX_SCRIPTED: Final = 200

IsOwnRecord = Callable[[Span], bool]


def is_state(claim: Claim) -> bool:
    """Return whether a value is a boolean or an availability."""
    return isinstance(claim.value, bool) or stock_state(claim) is not None


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
    state = stock_state(claim)
    if state is None:
        places = _flag_places(index, claim, fields)
    else:
        places = _stock_places(index, claim.path, fields, parts, is_available=state)
    spans = (span for span in places if is_own_record(span))
    return next((Occurrence(span, "state") for span in spans), None)


def scripted_states(tree: PageTree) -> dict[bool, Span]:
    """Return where scripts and attributes of a page first say that something can be bought, or not.

    This is for pages that neither declare the state nor show it.
    """
    states: dict[bool, Span] = {}
    for start in _scripted_names(tree.lower_source):
        match = None if tree.is_in_comment(start) else _SCRIPTED.match(tree.source, start)
        word = match[1].casefold() if match else ""
        state = True if word in _YES else False if word in _NO else availability_of(word)
        if match is not None and state is not None:
            states.setdefault(state, match.span())
    return states


def _scripted_names(source: str) -> Iterator[int]:
    """Return the places of names of availabilities in a source in lower case."""
    for name in _SCRIPTED_NAMES:
        start = source.find(name)
        for _ in range(_MAX_SCRIPTED):
            if start < 0:
                break
            yield start
            start = source.find(name, start + len(name))


def stock_state(claim: Claim) -> bool | None:
    """Return whether a value says that something is in stock; None if it is of something else."""
    if AVAILABILITY_NAMES.isdisjoint(names_of_field(claim.path)):
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


_SHOWN: Final = "as a button or label that the page shows"
_NOTHING: Final = "nothing on the page says so"


class ShownPage:
    """What an extraction without a model reads from the visible page, read when it is needed."""

    def __init__(self, source: str) -> None:
        self._source = source

    @cached_property
    def _text(self) -> PageText:
        document = parse(self._source)
        declared = document.select_one('meta[property="og:title"]')
        title = document.select_one("title")
        names = [declared and declared.attr("content"), title and title.text]
        return read_page_text(document, [name for name in names if name])

    @cached_property
    def state(self) -> StockState | None:
        """The state that the page shows near its title."""
        return find_stock_state(self._text)

    @cached_property
    def signs(self) -> StockSigns:
        """The signs of the whole page about stock."""
        return read_stock_signs(self._text)

    @cached_property
    def price(self) -> PriceCandidate | None:
        """The price that the page shows."""
        return find_price(self._text)


class StateJudge:
    """Judges the booleans and availabilities of one group.

    What a button shows outweighs what the page declares, as it does in extraction.

    Parameters
    ----------
    index
        The page.
    fields
        The labels of the group's fields.
    own
        The parts of the page about the thing of the group.
    shown
        The visible page.
    """

    def __init__(
        self, index: PageIndex, fields: FieldLabels, own: OwnParts, shown: ShownPage
    ) -> None:
        self._index, self._fields, self._own, self._shown = index, fields, own, shown

    def judge(self, claim: Claim) -> ValueEvidence:
        """Return the evidence of a boolean or an availability."""
        state = stock_state(claim)
        found = find_state(self._index, claim, self._fields, self._own.contains, self._own.parts)
        is_subject = self._own.parts is None
        sign = self._shown.state if is_subject and state is not None else None
        is_shown = sign is not None and (sign.state == IN) is state
        if found is not None and (sign is None or is_shown or not sign.strong):
            span = self._index.source_span(found.span)
            return self._derived(claim, span, "as a state that the page gives")
        if state is None or not is_subject:
            return ValueEvidence(claim.pointer, "unsupported", reason=_NOTHING)
        signs = self._shown.signs
        if sign is not None and is_shown:
            return self._of_text(claim, sign.text, _SHOWN)
        if state and signs.buys is not None and not signs.sold_out:
            return self._of_text(claim, signs.buys, _SHOWN)
        if sign is not None:
            reason = f"the page shows {sign.text[:MAX_QUOTE]!r}"
            return ValueEvidence(claim.pointer, "unsupported", reason=reason)
        return self._judge_hidden(claim, is_available=state)

    def _judge_hidden(self, claim: Claim, *, is_available: bool) -> ValueEvidence:
        """Judge an availability that the page does not show."""
        scripted = scripted_states(self._index.tree)
        if is_available in scripted:
            reason = "as a state that a script of the page gives"
            return self._derived(claim, scripted[is_available], reason)
        price = self._shown.price
        if is_available and price is not None and not self._shown.signs.sold_out and not scripted:
            reason = "as an offer with a price that nothing on the page says is sold out"
            return self._of_text(claim, price.text, reason)
        return ValueEvidence(claim.pointer, "unsupported", reason=_NOTHING)

    def _of_text(self, claim: Claim, text: str, reason: str) -> ValueEvidence:
        """Return the evidence of a text of the visible page, which may be in several elements."""
        index, tree = self._index, self._index.tree
        for span in index.find_across_lines(fold(text).strip()):
            if not tree.pieces[index.piece_at(span[0])].label and self._own.contains(span):
                return self._derived(claim, index.source_span(span), reason)
        start = tree.source.find(text)  # in an attribute
        while start >= 0 and tree.is_in_comment(start):
            start = tree.source.find(text, start + 1)
        if start < 0:
            return ValueEvidence(claim.pointer, "derived", reason=f"{reason}: {text[:MAX_QUOTE]!r}")
        return self._derived(claim, (start, start + len(text)), reason)

    def _derived(self, claim: Claim, span: Span, reason: str) -> ValueEvidence:
        quote = self._index.tree.quote(*span)
        return ValueEvidence(claim.pointer, "derived", *span, quote, reason)
