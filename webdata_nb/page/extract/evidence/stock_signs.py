"""Finds what a page shows of a product's availability: buttons that buy it, and sold-out labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from html import unescape
from itertools import islice
from typing import Final

from webdata_nb.page.extract.evidence.folding import fold
from webdata_nb.page.extract.evidence.page_index import PageIndex, Span
from webdata_nb.page.extract.visible.element_names import (
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
from webdata_nb.page.extract.visible.wording import (
    BUY,
    IN_STOCK,
    NOTIFY,
    OUT_OF_STOCK,
    PhrasePattern,
)

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
