"""Decides whether the places of a value support it, for the field and the thing it describes.

Texts and numbers are looked for; availability and booleans, which pages rarely state literally,
are judged by labels, buttons and scripts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final

from webdata_nb.page.content.block_tree import word_set
from webdata_nb.page.content.parser import parse
from webdata_nb.page.extract.coerce import availability_of, scalar_text
from webdata_nb.page.extract.evidence.claims import Claim, Occurrence, currency_of, is_in_menu
from webdata_nb.page.extract.evidence.labels import (
    FieldLabels,
    FieldPath,
    SpanLabels,
    names_of_field,
    read_span_labels,
)
from webdata_nb.page.extract.evidence.page_index import MAX_QUOTE, PageIndex, PageTree, Span, fold
from webdata_nb.page.extract.field_names import split_words
from webdata_nb.page.extract.prices import (
    CURRENCY_CODES,
    CURRENCY_OF_SYMBOL,
    PriceCandidate,
    find_price,
)
from webdata_nb.page.extract.results import ValueEvidence, Verdict
from webdata_nb.page.extract.stock import (
    IN,
    StockSigns,
    StockState,
    find_stock_state,
    read_stock_signs,
)
from webdata_nb.page.extract.visible_text import (
    BUY,
    IN_STOCK,
    NOTIFY,
    OUT_OF_STOCK,
    PageText,
    fold_case,
    read_page_text,
)

_PRICES: Final = frozenset({"price", "lowprice", "highprice", "minprice", "maxprice", "amount"})
_OLD_WORDS: Final = word_set(
    "old was list regular original msrp rrp uvp before strike retail compare full previous"
)
_BY_NAME, _BY_STYLE, _WHOLE, _PART, _NUMBER = 5, 4, 3, 2, 1
"""How well a place fits: by a name of the field, a class, as a whole text, in a text, a number."""
_DIFFERENCES: Final = {
    "text": "in other case, spaces or characters",
    "words": "with other punctuation",
    "number": "as a number in another notation",
    "date": "as a date in another notation",
    "url": "as a relative URL",
    "currency": "as a currency beside an amount",
}
"""How the page writes a value that it does not have verbatim, by notation."""
_MAX_DECLARED: Final = 64
_MIN_DIGITS: Final = 3
_STEM: Final = 4
_MIN_WORD: Final = 3
_NEAR: Final = 4
_SYMBOLS: Final = {fold(symbol).strip() for symbol in (*CURRENCY_OF_SYMBOL, *CURRENCY_CODES)}
_CURRENCY: Final = re.compile(
    "|".join(
        rf"(?<![^\W\d_]){re.escape(symbol)}(?![^\W\d_])"
        for symbol in sorted(_SYMBOLS, key=lambda each: (-len(each), each))
    )
)


@dataclass(frozen=True, slots=True)
class OwnParts:
    """The parts of a page that describe the thing of a group.

    Attributes
    ----------
    contains
        Whether a place of the text is in them.
    parts
        The parts, if the group is an entry of a list; None if the page is about it.
    """

    contains: Callable[[Span], bool]
    parts: Sequence[Span] | None = None


@dataclass(frozen=True, slots=True)
class ValueCandidate:
    """A place of a value, with its labels, and whether it is in a part about the same thing."""

    occurrence: Occurrence
    labels: SpanLabels
    is_own_record: bool


class ClaimJudge:
    """Judges the values of one group.

    Parameters
    ----------
    index
        The page.
    fields
        The labels of the group's fields.
    is_own_record
        Whether a place of the text describes the same thing as the group.
    claims
        All values of the group: one that two fields have is suspicious.
    """

    def __init__(
        self,
        index: PageIndex,
        fields: FieldLabels,
        is_own_record: Callable[[Span], bool],
        claims: Sequence[Claim],
    ) -> None:
        self._index, self._fields, self._is_own_record = index, fields, is_own_record
        self._paths_by_value: dict[str, set[FieldPath]] = {}
        for claim in claims:
            self._paths_by_value.setdefault(_key(claim), set()).add(claim.path)

    def judge(self, claim: Claim, occurrences: Iterable[Occurrence]) -> ValueEvidence:
        """Return the evidence of a text or number."""
        candidates = [
            ValueCandidate(
                each,
                read_span_labels(self._index, each.span, self._fields),
                self._is_own_record(each.span),
            )
            for each in occurrences
        ]
        if not candidates:
            return ValueEvidence(
                claim.pointer, "unsupported", reason="the page does not contain it"
            )
        own = [each for each in candidates if each.is_own_record]
        if not own:
            reason = "the page gives it for another record"
            return self.evidence(claim, candidates[0].occurrence, "unsupported", reason)
        fitting = [each for each in own if self._rank(claim, each)]
        others = []
        is_currency = bool(currency_of(claim.value))
        for each in own:
            fields = each.labels.fields
            if is_currency:
                # The label of a price is also one of its currency.
                fields = frozenset(
                    path for path in fields if _PRICES.isdisjoint(names_of_field(path))
                )
            if fields and each.labels.whole and claim.path not in fields:
                others.append(each)
        labelled = [each for each in fitting if claim.path in each.labels.fields]
        if not fitting or (others and not labelled and self._is_taken(claim, fitting, others)):
            if others:
                names = sorted(".".join(path) for path in others[0].labels.fields)
                reason = f"the page gives it as {', '.join(names)}"
                return self.evidence(claim, others[0].occurrence, "unsupported", reason)
            struck = next((each for each in own if each.labels.struck), None)
            reason = (
                "the page contains it, but not as this field"
                if struck is None
                else "the page gives it as an earlier price"
            )
            return self.evidence(claim, (struck or own[0]).occurrence, "unsupported", reason)
        best = max(fitting, key=lambda each: (self._rank(claim, each), self._is_exact(claim, each)))
        is_exact = self._is_exact(claim, best)
        support = [] if is_exact else [_DIFFERENCES[best.occurrence.notation]]
        if claim.path in best.labels.fields:
            support.append("labelled as this field")
        verdict: Verdict = "verbatim" if is_exact else "derived"
        return self.evidence(claim, best.occurrence, verdict, "; ".join(support))

    def evidence(
        self, claim: Claim, occurrence: Occurrence, verdict: Verdict, reason: str
    ) -> ValueEvidence:
        """Return evidence with a quote of the source."""
        span = self._index.source_span(occurrence.span)
        return self._index.tree.evidence(claim.pointer, verdict, span, reason)

    def _rank(self, claim: Claim, candidate: ValueCandidate) -> int:
        """Return how well a place fits the field; 0 if it does not."""
        labels = candidate.labels
        if is_price(claim):
            is_old = not _OLD_WORDS.isdisjoint(split_words("_".join(claim.path)))
            if (labels.struck and not is_old) or (labels.other_amount and not labels.fields):
                return 0
        if claim.path in labels.fields:
            return _BY_NAME if labels.declared else _BY_STYLE
        if not is_plausible(claim):
            return 0
        if candidate.occurrence.notation == "currency":
            return _WHOLE
        if labels.fields and labels.whole:
            return 0
        if isinstance(claim.value, str):
            element = self._index.element_at(candidate.occurrence.span[0])
            fit = _WHOLE if labels.whole else _PART
            return 0 if is_in_menu(self._index.tree, element) else fit
        # A number without a label.
        start, end = candidate.occurrence.span
        if self._index.tree.pieces[self._index.piece_at(start)].label:
            return 0
        line = self._index.line((start, end))
        near = self._index.text[max(line[0], start - _NEAR) : min(line[1], end + _NEAR)]
        is_amount = bool(_CURRENCY.search(near))
        if is_price(claim):
            return _NUMBER if is_amount else 0
        text = self._index.text[max(line[0], start - 60) : min(line[1], end + 60)]
        words = (word for word in split_words(claim.path[-1]) if len(word) >= _MIN_WORD)
        if any(fold(word)[:_STEM] in text for word in words):
            return _NUMBER
        if is_amount:
            return 0
        digits = sum(map(str.isdigit, f"{claim.value:g}"))
        return _NUMBER if digits >= _MIN_DIGITS or labels.whole else 0

    def _is_taken(
        self, claim: Claim, fitting: Sequence[ValueCandidate], others: Sequence[ValueCandidate]
    ) -> bool:
        """Return whether a value without a label for its field is the value of another field."""
        if not any(each.labels.whole for each in fitting):
            return True
        same_value = self._paths_by_value[_key(claim)] - {claim.path}
        if any(same_value & each.labels.fields for each in others):
            return True
        # Whether the page declares another value of this field for programs.
        index = self._index
        return any(each.labels.for_programs for each in others) and any(
            self._is_own_record((index.starts[number], index.starts[number]))
            for label, numbers in index.pieces_by_label.items()
            if claim.path in self._fields.of_label(label)
            for number in numbers[:_MAX_DECLARED]
        )

    def _is_exact(self, claim: Claim, candidate: ValueCandidate) -> bool:
        start, end = self._index.source_span(candidate.occurrence.span)
        return self._index.tree.source[start:end] == scalar_text(claim.value)


def is_price(claim: Claim) -> bool:
    """Return whether a value is a number for a price."""
    is_number = isinstance(claim.value, int | float) and not isinstance(claim.value, bool)
    return is_number and not _PRICES.isdisjoint(names_of_field(claim.path))


def _key(claim: Claim) -> str:
    if isinstance(claim.value, str):
        return fold(claim.value).strip()
    try:
        return repr(float(claim.value))
    except OverflowError:  # a text of its own, as nothing else has this value
        return hex(claim.value)  # type: ignore[arg-type] # only an integer is beyond a float


_CURRENCIES: Final = frozenset({"pricecurrency", "currency", "currencycode", "currencysymbol"})
AVAILABILITY_NAMES: Final = frozenset(
    {"availability", "instock", "available", "stock", "isavailable"}
)
_STATES: Final = frozenset({"status", "state"})
_CODES: Final = frozenset({"sku", "gtin", "mpn", "isbn", "ean", "upc", "barcode", "serialnumber"})
_NAMES: Final = frozenset(
    {"brand", "manufacturer", "color", "colour", "author", "city", "category"}
)
_MAX_DIGIT_SHARE: Final = 0.4


def is_plausible(claim: Claim) -> bool:
    """Return whether a text without a label may be the value of a field."""
    if not isinstance(claim.value, str):
        return True
    names, text = names_of_field(claim.path), claim.value
    if not AVAILABILITY_NAMES.isdisjoint(names):
        return bool(IN_STOCK.search(fold_case(text)) or OUT_OF_STOCK.search(fold_case(text)))
    if not _STATES.isdisjoint(names):
        return not any(map(str.isdigit, text))
    if not _CURRENCIES.isdisjoint(names):
        return bool(currency_of(text))
    is_state = availability_of(text) is not None and " " not in text.strip()
    digits = sum(map(str.isdigit, text))
    if is_state or currency_of(text):
        return False
    if not _CODES.isdisjoint(names):
        return digits > 0
    return _NAMES.isdisjoint(names) or digits <= _MAX_DIGIT_SHARE * max(1, len(text))


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


def is_state(claim: Claim) -> bool:
    """Return whether a value is a boolean or an availability."""
    return isinstance(claim.value, bool) or stock_state(claim) is not None


def find_state(index: PageIndex, claim: Claim, fields: FieldLabels, own: OwnParts) -> Span | None:
    """Return a place that says what a boolean or an availability says; None without one."""
    state = stock_state(claim)
    if state is None:
        places = _flag_places(index, claim, fields)
    else:
        places = _stock_places(index, claim.path, fields, own.parts, is_available=state)
    return next(filter(own.contains, places), None)


def scripted_states(tree: PageTree) -> dict[bool, Span]:
    """Return where scripts and attributes of a page first say that something can be bought, or not.

    This is for pages that neither declare the state nor show it.
    """
    states: dict[bool, Span] = {}
    names = (re.finditer(name, tree.lower_source) for name in _SCRIPTED_NAMES)
    places = (match.start() for found in names for match in islice(found, _MAX_SCRIPTED))
    for start in places:
        match = None if tree.is_in_comment(start) else _SCRIPTED.match(tree.source, start)
        word = match[1].casefold() if match else ""
        state = True if word in _YES else False if word in _NO else availability_of(word)
        if match is not None and state is not None:
            states.setdefault(state, match.span())
    return states


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

    def declares(text: str) -> bool:
        link = _LINK_STATE.search(text)
        return availability_of(link[1] if link else text) is is_available

    def shows(text: str) -> bool:
        if not is_available:
            return bool(OUT_OF_STOCK.search(text) or NOTIFY.search(text))
        return bool((IN_STOCK.search(text) or BUY.search(text)) and not OUT_OF_STOCK.search(text))

    yield from _labelled_values(index, path, fields, declares)
    for part in parts or ():
        for span in _short_lines(index, part):
            if shows(index.text[slice(*span)].strip(" :.!*")):
                yield span


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
        found = find_state(self._index, claim, self._fields, self._own)
        is_subject = self._own.parts is None
        sign = self._shown.state if is_subject and state is not None else None
        is_shown = sign is not None and (sign.state == IN) is state
        if found is not None and (sign is None or is_shown or not sign.strong):
            span = self._index.source_span(found)
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
        # The page does not show the state.
        scripted = scripted_states(self._index.tree)
        if state in scripted:
            reason = "as a state that a script of the page gives"
            return self._derived(claim, scripted[state], reason)
        price = self._shown.price
        if state and price is not None and not signs.sold_out and not scripted:
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
        return self._index.tree.evidence(claim.pointer, "derived", span, reason)
