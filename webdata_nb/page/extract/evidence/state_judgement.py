"""Decides whether a page supports a boolean or an availability, rarely stated literally."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cached_property
from typing import Final

from webdata_nb.page.content.page_source import PageSource
from webdata_nb.page.content.parsed_page import parse_page
from webdata_nb.page.extract.coerce import availability_of
from webdata_nb.page.extract.evidence.claims import Claim
from webdata_nb.page.extract.evidence.field_labels import FieldLabels
from webdata_nb.page.extract.evidence.judgement import OwnParts, ValueEvidence
from webdata_nb.page.extract.evidence.page_index import PageIndex, Span
from webdata_nb.page.extract.evidence.page_tree import MAX_QUOTE
from webdata_nb.page.extract.evidence.states import find_state, scripted_states, stock_state
from webdata_nb.page.extract.evidence.stock_signs import StockSigns
from webdata_nb.page.extract.visible.values import (
    VisibleValue,
    VisibleValues,
    read_visible_values,
)

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
