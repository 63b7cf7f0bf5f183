"""Finds evidence of values that pages rarely state literally: availability and booleans."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from html import unescape
from itertools import islice
from typing import Final

from webdata_nb.page.content.page_source import PageSource
from webdata_nb.page.content.parsed_page import parse_page
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
from webdata_nb.page.extract.visible.page_text import (
    ASIDE,
    CHOICE,
    HIDDEN,
    OVERLAY,
    flags_of_name,
    simplify_name,
)
from webdata_nb.page.extract.visible.stock import (
    AFTER_TITLE,
    BEFORE_TITLE,
    BUTTON_NAME,
    BUTTON_TYPES,
    LABELS_AFTER_TITLE,
    MAX_BUTTON_LENGTH,
    MAX_SOLD_OUT_LENGTH,
    fills_button,
    is_disabled,
    is_in_stock_label,
    outweighs,
)
from webdata_nb.page.extract.visible.values import VisibleValue, VisibleValues, read_visible_values
from webdata_nb.page.extract.visible.wording import (
    BUY,
    IN_STOCK,
    NOTIFY,
    OUT_OF_STOCK,
    PhrasePattern,
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


_MAX_CONTROLS: Final = 500
_MAX_TITLES: Final = 3
_CONTROL_LEVELS: Final = 4
_NAME_LEVELS: Final = 8
_DISABLED: Final = re.compile(r"\sdisabled(?=[\s=/>])", re.IGNORECASE)
_LABELS: Final = ("value", "aria-label", "title", "alt")
_ASIDE: Final = ASIDE | HIDDEN | OVERLAY
_ASIDE_TAGS: Final = frozenset(
    {"nav", "footer", "aside", "dialog", "select", "template", "noscript"}
)


@dataclass(frozen=True, slots=True)
class StockSign:
    """A button or label that says whether a thing can be bought, and its place in the source."""

    span: Span
    is_available: bool


class StockSigns:
    """The buttons and labels about the availability of one thing.

    Parameters
    ----------
    index
        The page.
    is_own_record
        Whether a place of the text describes the thing.
    """

    def __init__(self, index: PageIndex, is_own_record: Callable[[Span], bool]) -> None:
        self._index, self._is_own_record = index, is_own_record

    @cached_property
    def purchase_button(self) -> Span | None:
        """The place in the source of a button that buys the thing; None without one."""
        if self._purchases:
            return self._index.source_span(self._purchases[0])
        return next(self._labelled_controls(BUY), None)

    @cached_property
    def sold_out(self) -> Span | None:
        """The place in the source of a label or button that says that it cannot be bought."""
        if self._sold_out:
            return self._index.source_span(self._sold_out[0])
        controls = (self._labelled_controls(pattern) for pattern in (OUT_OF_STOCK, NOTIFY))
        return next((span for spans in controls for span in spans), None)

    @cached_property
    def has_disabled_button(self) -> bool:
        """Whether a button that would buy the thing is disabled."""
        controls = map(self._control_of, self._shown_phrases(BUY))
        return any(each is not None and self._is_disabled(each) for each in controls)

    @cached_property
    def state(self) -> StockSign | None:
        """What the signs near the main heading say; None if they are unclear or none."""
        title = self._title
        if title is None:
            return None
        button = self._first_within(self._purchases, title, BEFORE_TITLE, AFTER_TITLE)
        label = self._first_within(self._sold_out, title, 0, LABELS_AFTER_TITLE)
        if button is not None and outweighs(button[1], label and label[1]):
            return StockSign(button[0], is_available=True)
        if label is not None:
            return StockSign(label[0], is_available=False)
        in_stock = self._first_within(self._in_stock, title, 0, LABELS_AFTER_TITLE)
        return in_stock and StockSign(in_stock[0], is_available=True)

    def _first_within(
        self, spans: Sequence[Span], title: int, before: int, after: int
    ) -> tuple[Span, int] | None:
        """Return the first place at most so many texts before or after a title."""
        for span in spans:
            distance = self._index.piece_at(span[0]) - title
            if -before <= distance <= after:
                return self._index.source_span(span), distance
        return None

    @cached_property
    def _purchases(self) -> list[Span]:
        spans = sorted(self._shown_phrases(BUY))
        controls = ((span, self._control_of(span)) for span in spans)
        return [s for s, each in controls if each is not None and not self._is_disabled(each)]

    @cached_property
    def _sold_out(self) -> list[Span]:
        spans = (
            span
            for pattern in (OUT_OF_STOCK, NOTIFY)
            for span in self._shown_phrases(pattern, _ASIDE | CHOICE)
        )
        return sorted(s for s in spans if len(self._index.text_at(s)) <= MAX_SOLD_OUT_LENGTH)

    @cached_property
    def _in_stock(self) -> list[Span]:
        spans = self._shown_phrases(IN_STOCK, _ASIDE | CHOICE)
        return sorted(span for span in spans if self._is_in_label(span))

    def _is_in_label(self, span: Span) -> bool:
        return is_in_stock_label(self._index.text_at(span), self._index.text[slice(*span)])

    @cached_property
    def _title(self) -> int | None:
        """The number of the piece with the main heading; None without one."""
        for title in self._titles:
            place = self._index.place_of(title)
            if self._index.text_of(title) and self._is_own_record(place):
                return self._index.piece_at(place[0])
        return None

    def _shown_phrases(self, pattern: PhrasePattern, aside: int = _ASIDE) -> Iterator[Span]:
        """Return the places of phrases in the part of the page about the thing."""
        return (span for span in self._phrases(pattern) if self._is_shown(span, aside))

    def _phrases(self, pattern: PhrasePattern) -> Iterator[Span]:
        for phrase in self._index.phrases_present(_folded_phrases(pattern)):
            for span in self._index.find(phrase):
                if not self._index.tree.pieces[self._index.piece_at(span[0])].label:
                    yield span

    def _control_of(self, span: Span) -> int | None:
        """Return the button whose label a phrase is for the most part; None without one."""
        index, tree = self._index, self._index.tree
        element = tree.pieces[index.piece_at(span[0])].element
        for each in tree.ancestors(element)[:_CONTROL_LEVELS]:
            start, end = index.text_span(each)
            if end - start > 2 * MAX_BUTTON_LENGTH:
                return None
            if len(index.text_of(each)) > min(MAX_BUTTON_LENGTH, 2 * (span[1] - span[0])):
                return None
            if tree.names[each] == "button" or (
                tree.names[each] == "a" and BUTTON_NAME.search(self._name(each))
            ):
                return each
        return None

    def _labelled_controls(self, pattern: PhrasePattern) -> Iterator[Span]:
        """Return the places of labels in attributes of buttons."""
        tree = self._index.tree
        controls = (n for n, name in enumerate(tree.names) if name in {"input", "button"})
        for element in islice(controls, _MAX_CONTROLS):
            attributes = tree.attributes(element)
            kind = attributes.get("type", "").lower()
            if tree.names[element] == "input" and kind not in BUTTON_TYPES:
                continue
            for name in _LABELS:
                label = attributes.get(name, "")
                if label and self._is_label(label, pattern) and self._is_own_control(element):
                    start = tree.starts[element] + tree.opening(element).find(label)
                    yield start, start + len(label)

    @staticmethod
    def _is_label(label: str, pattern: PhrasePattern) -> bool:
        text = fold(unescape(label)).strip()
        return any(
            phrase in text and fills_button(text, phrase) for phrase in _folded_phrases(pattern)
        )

    def _is_own_control(self, element: int) -> bool:
        place = self._index.place_of(element)
        if self._is_disabled(element) or not self._is_own_record(place):
            return False
        return not self._is_aside(element, _ASIDE)

    def _is_disabled(self, element: int) -> bool:
        tree = self._index.tree
        has_attribute = _DISABLED.search(tree.opening(element)) is not None
        aria = tree.attributes(element).get("aria-disabled")
        return is_disabled(self._name(element), aria, disabled=has_attribute)

    def _is_shown(self, span: Span, aside: int) -> bool:
        element = self._index.tree.pieces[self._index.piece_at(span[0])].element
        return self._is_own_record(span) and not self._is_aside(element, aside)

    def _is_aside(self, element: int, flags: int) -> bool:
        """Return whether an element is hidden, in a dialog, or beside the thing."""
        tree = self._index.tree
        for each in tree.ancestors(element)[:_NAME_LEVELS]:
            if each in self._around_titles:
                return False
            if tree.names[each] in _ASIDE_TAGS:
                return True
            if flags_of_name(self._name(each)) & flags:
                return True
        return False

    @cached_property
    def _around_titles(self) -> frozenset[int]:
        """The elements that contain a main heading."""
        tree = self._index.tree
        return frozenset(each for title in self._titles for each in tree.ancestors(title))

    @cached_property
    def _titles(self) -> list[int]:
        """The first main headings."""
        names = enumerate(self._index.tree.names)
        return list(islice((number for number, name in names if name == "h1"), _MAX_TITLES))

    def _name(self, element: int) -> str:
        return simplify_name(self._index.tree.class_and_id(element)[:200])


@lru_cache(maxsize=8)
def _folded_phrases(pattern: PhrasePattern) -> tuple[str, ...]:
    return tuple(dict.fromkeys(fold(phrase) for phrase in pattern.phrases))


_SHOWN: Final = "as a button or label that the page shows"
_NOTHING: Final = "nothing on the page says so"


class ShownPage:
    """What an extraction without a model reads from the visible page, read when it is needed."""

    def __init__(self, source: str, url: str) -> None:
        self._source, self._url = source, url

    @cached_property
    def values(self) -> VisibleValues:
        """The values that the page shows."""
        page = self._source.encode("utf-8", "replace")
        content_type = "text/html; charset=utf-8"
        source = PageSource(
            self._url, self._url, 200, content_type, page, (), datetime.fromtimestamp(0, UTC)
        )
        return read_visible_values(parse_page(source))

    @property
    def availability(self) -> VisibleValue | None:
        """The button or label that shows an availability."""
        return self.values.values.get("availability")


class StateJudge:
    """Judges the booleans and availabilities of one group.

    What a button or a sold-out label shows outweighs what the page declares, as it does in
    extraction.

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
        self._signs = StockSigns(index, own.contains)

    def judge(self, claim: Claim) -> ValueEvidence:
        """Return the evidence of a boolean or an availability."""
        state = stock_state(claim)
        found = find_state(self._index, claim, self._fields, self._own.contains, self._own.parts)
        declared = None if found is None else self._index.source_span(found.span)
        is_subject = self._own.parts is None
        if declared is not None and not (is_subject and self._is_contested(state)):
            return self._derived(claim, declared, "as a state that the page gives")
        if state is None or not is_subject:
            return ValueEvidence(claim.pointer, "unsupported", reason=_NOTHING)
        sign = self._signs.state
        if sign is not None and sign.is_available is state:
            return self._derived(claim, sign.span, _SHOWN)
        if state and self._signs.sold_out is None and self._signs.purchase_button is not None:
            return self._derived(claim, self._signs.purchase_button, _SHOWN)
        if sign is not None and declared is None and not state and not self._has_sign_of(state):
            reason = f"the page shows {self._index.tree.quote(*sign.span)!r}"
            return ValueEvidence(claim.pointer, "unsupported", reason=reason)
        return self._judge_shown(claim, declared, is_available=state)

    def _has_sign_of(self, state: bool) -> bool:
        """Return whether the page shows signs of an availability anywhere."""
        signs = self._signs
        if state:
            return signs.purchase_button is not None
        return signs.sold_out is not None or signs.has_disabled_button

    def _is_contested(self, state: bool | None) -> bool:
        """Return whether the page shows signs of the opposite of an availability."""
        if state is None:
            return False
        sign = self._signs.state
        if sign is not None:
            return sign.is_available is not state
        return self._has_sign_of(not state)

    def _judge_shown(
        self, claim: Claim, declared: Span | None, *, is_available: bool
    ) -> ValueEvidence:
        shown = self._shown.availability
        if shown is not None and availability_of(shown.value) is is_available:
            return self._of_text(claim, shown.text, _SHOWN)
        if declared is not None and (shown is None or not shown.strong):
            return self._derived(claim, declared, "as a state that the page gives")
        if shown is not None:
            reason = f"the page shows {shown.text[:MAX_QUOTE]!r}"
            return ValueEvidence(claim.pointer, "unsupported", reason=reason)
        return self._judge_hidden(claim, is_available=is_available)

    def _judge_hidden(self, claim: Claim, *, is_available: bool) -> ValueEvidence:
        """Judge an availability that the page does not show."""
        scripted = scripted_states(self._index.tree)
        if is_available in scripted:
            reason = "as a state that a script of the page gives"
            return self._derived(claim, scripted[is_available], reason)
        price = self._shown.values.values.get("price")
        is_open = self._signs.sold_out is None and not self._signs.has_disabled_button
        if is_available and price is not None and is_open and not scripted:
            reason = "as an offer with a price that nothing on the page says is sold out"
            return self._of_text(claim, price.text, reason)
        return ValueEvidence(claim.pointer, "unsupported", reason=_NOTHING)

    def _of_text(self, claim: Claim, text: str, reason: str) -> ValueEvidence:
        """Return the evidence of a text of the visible page, which may be in several elements."""
        tree = self._index.tree
        start = tree.source.find(text)
        while start >= 0 and tree.is_in_comment(start):
            start = tree.source.find(text, start + 1)
        if start < 0:
            return ValueEvidence(claim.pointer, "derived", reason=f"{reason}: {text[:MAX_QUOTE]!r}")
        return self._derived(claim, (start, start + len(text)), reason)

    def _derived(self, claim: Claim, span: Span, reason: str) -> ValueEvidence:
        quote = self._index.tree.quote(*span)
        return ValueEvidence(claim.pointer, "derived", *span, quote, reason)
