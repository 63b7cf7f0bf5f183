"""Decides whether the places of a value support it, for the field and the thing it describes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from webdata_nb.page.content.class_names import word_set
from webdata_nb.page.extract.evidence.claims import Claim
from webdata_nb.page.extract.evidence.labels import (
    FieldLabels,
    FieldPath,
    SpanLabels,
    names_of_field,
    read_span_labels,
)
from webdata_nb.page.extract.evidence.occurrences import Occurrence, currency_of
from webdata_nb.page.extract.evidence.page_index import PageIndex, Span, fold
from webdata_nb.page.extract.evidence.plausibility import is_plausible
from webdata_nb.page.extract.evidence.records import is_in_menu
from webdata_nb.page.extract.field_names import split_words
from webdata_nb.page.extract.visible.prices import CURRENCY_CODES, CURRENCY_OF_SYMBOL

Verdict = Literal["verbatim", "derived", "unsupported"]

_PRICES: Final = frozenset({"price", "lowprice", "highprice", "minprice", "maxprice", "amount"})
_OLD_WORDS: Final = word_set(
    "old was list regular original msrp rrp uvp before strike retail compare full previous"
)
_BY_NAME, _BY_STYLE, _WHOLE, _PART, _NUMBER = 5, 4, 3, 2, 1
"""How well a place fits: by a name of the field, a class, as a whole text, in a text, a number."""
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


class ValueEvidence(Struct, frozen=True, forbid_unknown_fields=True):
    """What a page says of an extracted value.

    Attributes
    ----------
    pointer
        The JSON pointer of the value.
    verdict
        Whether the page contains it as it is, in another notation, or not for this field.
    start, end
        The place in the page's source; None without one.
    quote
        The source at that place, at most 300 characters.
    reason
        Why it has this verdict.
    """

    pointer: str
    verdict: Verdict
    start: Annotated[int, Meta(ge=0)] | None = None
    end: Annotated[int, Meta(ge=0)] | None = None
    quote: str | None = None
    reason: str = ""


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
        candidates = [self._candidate(each) for each in occurrences]
        if not candidates:
            return ValueEvidence(
                claim.pointer, "unsupported", reason="the page does not contain it"
            )
        own = [each for each in candidates if each.is_own_record]
        if not own:
            reason = "the page gives it for another record"
            return self.evidence(claim, candidates[0].occurrence, "unsupported", reason)
        fitting = [each for each in own if self._rank(claim, each)]
        others = [each for each in own if self._is_of_other_field(claim, each)]
        labelled = [each for each in fitting if claim.path in each.labels.fields]
        if not fitting or (others and not labelled and self._is_taken(claim, fitting, others)):
            return self._misplaced(claim, own, others)
        best = max(fitting, key=lambda each: (self._rank(claim, each), self._is_exact(claim, each)))
        verdict: Verdict = "verbatim" if self._is_exact(claim, best) else "derived"
        return self.evidence(claim, best.occurrence, verdict, self._support(claim, best, verdict))

    def evidence(
        self, claim: Claim, occurrence: Occurrence, verdict: Verdict, reason: str
    ) -> ValueEvidence:
        """Return evidence with a quote of the source."""
        start, end = self._index.source_span(occurrence.span)
        quote = self._index.tree.quote(start, end)
        return ValueEvidence(claim.pointer, verdict, start, end, quote, reason)

    def _candidate(self, occurrence: Occurrence) -> ValueCandidate:
        labels = read_span_labels(self._index, occurrence.span, self._fields)
        return ValueCandidate(occurrence, labels, self._is_own_record(occurrence.span))

    def _rank(self, claim: Claim, candidate: ValueCandidate) -> int:
        """Return how well a place fits the field; 0 if it does not."""
        labels = candidate.labels
        is_labelled = claim.path in labels.fields
        if is_price(claim) and self._is_other_price(claim, labels):
            return 0
        if not is_labelled and not is_plausible(claim):
            return 0
        if is_labelled:
            return _BY_NAME if labels.declared else _BY_STYLE
        return self._rank_without_label(claim, candidate)

    def _rank_without_label(self, claim: Claim, candidate: ValueCandidate) -> int:
        labels = candidate.labels
        if candidate.occurrence.notation == "currency":
            return _WHOLE
        if labels.fields and labels.whole:
            return 0
        if isinstance(claim.value, str):
            tree, at = self._index.tree, self._index.piece_at(candidate.occurrence.span[0])
            fit = _WHOLE if labels.whole else _PART
            return 0 if is_in_menu(tree, tree.pieces[at].element) else fit
        return _NUMBER if self._is_plausible_number(claim, candidate) else 0

    @staticmethod
    def _is_other_price(claim: Claim, labels: SpanLabels) -> bool:
        is_old = not _OLD_WORDS.isdisjoint(split_words("_".join(claim.path)))
        return (labels.struck and not is_old) or (labels.other_amount and not labels.fields)

    def _is_plausible_number(self, claim: Claim, candidate: ValueCandidate) -> bool:
        """Return whether a number without a label may be the value of a field."""
        start, end = candidate.occurrence.span
        if self._index.tree.pieces[self._index.piece_at(start)].label:
            return False
        line = self._index.line((start, end))
        near = self._index.text[max(line[0], start - _NEAR) : min(line[1], end + _NEAR)]
        is_amount = bool(_CURRENCY.search(near))
        if is_price(claim):
            return is_amount
        text = self._index.text[max(line[0], start - 60) : min(line[1], end + 60)]
        if self._names_field(claim, text):
            return True
        if is_amount:
            return False
        digits = sum(map(str.isdigit, f"{claim.value:g}"))
        return digits >= _MIN_DIGITS or candidate.labels.whole

    @staticmethod
    def _names_field(claim: Claim, text: str) -> bool:
        words = [word for word in split_words(claim.path[-1]) if len(word) >= _MIN_WORD]
        return any(fold(word)[:_STEM] in text for word in words)

    @staticmethod
    def _is_of_other_field(claim: Claim, candidate: ValueCandidate) -> bool:
        labels = candidate.labels
        fields = labels.fields
        if currency_of(claim.value):
            # The label of a price is also one of its currency.
            fields = frozenset(each for each in fields if _PRICES.isdisjoint(names_of_field(each)))
        return bool(fields) and labels.whole and claim.path not in fields

    def _is_taken(
        self, claim: Claim, fitting: Sequence[ValueCandidate], others: Sequence[ValueCandidate]
    ) -> bool:
        """Return whether a value without a label for its field is the value of another field."""
        if not any(each.labels.whole for each in fitting):
            return True
        same_value = self._paths_by_value[_key(claim)] - {claim.path}
        if any(same_value & each.labels.fields for each in others):
            return True
        return any(each.labels.for_programs for each in others) and self._is_declared(claim)

    def _is_declared(self, claim: Claim) -> bool:
        """Return whether the page declares a value of this field for programs."""
        index = self._index
        return any(
            self._is_own_record((index.starts[number], index.starts[number]))
            for label, numbers in index.pieces_by_label.items()
            if claim.path in self._fields.of_label(label)
            for number in numbers[:_MAX_DECLARED]
        )

    def _misplaced(
        self, claim: Claim, own: Sequence[ValueCandidate], others: Sequence[ValueCandidate]
    ) -> ValueEvidence:
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

    def _is_exact(self, claim: Claim, candidate: ValueCandidate) -> bool:
        start, end = self._index.source_span(candidate.occurrence.span)
        return self._index.tree.source[start:end] == _as_written(claim.value)

    def _support(self, claim: Claim, candidate: ValueCandidate, verdict: Verdict) -> str:
        label = "labelled as this field" if claim.path in candidate.labels.fields else ""
        notation = candidate.occurrence.notation
        difference = {
            "text": "in other case, spaces or characters",
            "words": "with other punctuation",
            "number": "as a number in another notation",
            "date": "as a date in another notation",
            "url": "as a relative URL",
            "currency": "as a currency beside an amount",
        }[notation]
        return "; ".join(
            part for part in ("" if verdict == "verbatim" else difference, label) if part
        )


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


def _as_written(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return str(int(value)) if abs(value) < 1e15 and float(value).is_integer() else str(value)  # noqa: PLR2004 - beyond it floats are written with an exponent
