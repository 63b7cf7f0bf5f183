"""Reads from buttons and labels whether the product of a page can be bought.

Extraction reads the state at the title of the product; evidence also asks what the rest of the page
shows, and looks for the texts in the source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.parser import nearest_ancestor
from webdata_nb.page.extract.visible_text import (
    ASIDE,
    AVAILABILITY_LABELS,
    BUY,
    CHOICE,
    HIDDEN,
    IN_STOCK,
    NOTIFY,
    OUT_OF_STOCK,
    OVERLAY,
    fold_case,
    is_within,
    simplify_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.page.extract.visible_text import PageText, VisibleText


IN: Final = "InStock"
OUT: Final = "OutOfStock"

_BEFORE_TITLE: Final = 200
_AFTER_TITLE: Final = 250
_LABELS_AFTER_TITLE: Final = 120
_NEAR_TITLE: Final = 40
_FAR_FROM_TITLE: Final = 100
_MAX_BUTTON_LENGTH: Final = 60
_MAX_SOLD_OUT_LENGTH: Final = 90
_MAX_IN_STOCK_LENGTH: Final = 45
_BUTTON_TYPES: Final = frozenset({"submit", "button", "image"})
_MAX_LABEL_TEXTS: Final = 6
_CELLS: Final = frozenset({"td", "dd"})
_BUY_NAME: Final = re.compile(
    r"add-?to-?(?:cart|basket|bag|trolley)|(?<![a-z])buy-?(?:now|button|btn|box-?submit)|to-?basket"
    r"|(?:cart|basket|buy)-?(?:button|btn)|(?:button|btn)-?(?:buy|cart|basket)(?![a-z])"
)
_DISABLED_NAME: Final = re.compile(
    r"(?<![a-z])(?:disabled|inactive|sold-?out|out-?of-?stock)(?![a-z])"
)
_BUTTON_NAME: Final = re.compile(r"btn|button|cta|cart|buy|basket|bid")


@dataclass(frozen=True, slots=True)
class StockState:
    """Whether a product can be bought.

    Attributes
    ----------
    state
        ``InStock`` or ``OutOfStock``, as in schema.org.
    evidence
        ``button`` or ``label``.
    text
        The text of the button or label.
    strong
        Whether a button shows it, so that it outweighs what the page declares.
    """

    state: str
    evidence: str
    text: str
    strong: bool = False


@dataclass(frozen=True, slots=True)
class PurchaseButton:
    """A button that buys the product, or that offers a message when it is back."""

    index: int
    label: str
    notifies: bool
    disabled: bool


def find_stock_state(page: PageText) -> StockState | None:
    """Return the state that the page shows near the product's title; None without one.

    A button that works says more than a label, which may be about a size or a branch.
    """
    title = page.title
    if title is None:
        return None
    last = min(page.related, title + _AFTER_TITLE)
    buttons = list(_buttons(page, title - _BEFORE_TITLE, last))
    working = next((each for each in buttons if not each.notifies and not each.disabled), None)
    out: tuple[int, str] | None = None
    for index, text in _labels_after_title(page, _MAX_SOLD_OUT_LENGTH):
        if not OUT_OF_STOCK.search(fold_case(text)):
            continue
        element = page.texts[index].element
        is_cell = element.tag in _CELLS or nearest_ancestor(element, _CELLS, levels=2) is not None
        # The row of a table may be about something else.
        label = fold_case(page.texts[index - 1].text).strip(" :")
        if not is_cell or label in AVAILABILITY_LABELS:
            out = index, text
            break
    # A label at the title says more than a button far from it.
    if working is not None and (
        out is None or out[0] - title > _NEAR_TITLE or abs(working.index - title) <= _FAR_FROM_TITLE
    ):
        return StockState(IN, "button", working.label, strong=True)
    stopped = [button for button in buttons if button.notifies or button.disabled]
    if out is not None:
        return StockState(OUT, "label", out[1], strong=bool(stopped))
    for button in stopped:
        # A button may be disabled until a size or colour is chosen.
        if button.notifies or not any(
            page.own_flags(text) & (CHOICE | ASIDE | HIDDEN) == CHOICE
            for text in page.texts[title : min(page.related, title + _LABELS_AFTER_TITLE)]
        ):
            return StockState(OUT, "button", button.label, strong=True)
    for _, text in _labels_after_title(page, _MAX_IN_STOCK_LENGTH):
        # A label begins with a phrase, or is it for the most part.
        folded = fold_case(text)
        match = IN_STOCK.search(folded)
        if match is not None and (not match.start() or 2 * len(match[0]) >= len(folded)):
            return StockState(IN, "label", text)
    return None


@dataclass(frozen=True, slots=True)
class StockSigns:
    """What the buttons and labels anywhere on a page say, but those beside its subject.

    Attributes
    ----------
    buys
        The label of the first button that works; None without one.
    sold_out
        Whether a label or button says that something cannot be bought, or a button is disabled.
    """

    buys: str | None
    sold_out: bool


def read_stock_signs(page: PageText) -> StockSigns:
    """Read the signs of a whole page; other products come after its title, if it has one."""
    last = len(page.texts) if page.title is None else page.related
    buttons = list(_buttons(page, 0, last))
    working = (each.label for each in buttons if not each.notifies and not each.disabled)
    stopped = any(each.notifies or each.disabled for each in buttons)
    labels = (fold_case(text) for _, text in _labels(page, _MAX_SOLD_OUT_LENGTH, 0, last))
    is_out = stopped or any(OUT_OF_STOCK.search(text) or NOTIFY.search(text) for text in labels)
    return StockSigns(next(working, None), is_out)


def _buttons(page: PageText, first: int, last: int) -> Iterator[PurchaseButton]:
    """Return the buttons between two texts that buy, or offer a message."""
    for index, control in page.controls:
        if first <= index <= last and not page.own_flags(control) & (ASIDE | HIDDEN | OVERLAY):
            label = _label_of(page, index, control)
            kind = _kind_of(control, label) if label else None
            if kind is not None:
                is_notice = kind == "notify"
                element = control.element
                is_disabled = (
                    element.attr("disabled") is not None
                    or (element.attr("aria-disabled") or "").lower() == "true"
                    or _DISABLED_NAME.search(control.ancestor_names[0]) is not None
                )
                yield PurchaseButton(index, label, is_notice, is_disabled)


def _kind_of(control: VisibleText, label: str) -> str | None:
    """Return ``buy`` or ``notify``; None for other controls."""
    is_link = control.element.tag == "a"
    if len(label) <= _MAX_BUTTON_LENGTH:
        folded = fold_case(label)
        if NOTIFY.search(folded):
            return "notify"
        if OUT_OF_STOCK.search(folded):
            return None
        match = BUY.search(folded)
        is_whole = match is not None and 2 * len(match[0]) >= len(folded)
        if is_whole and (not is_link or _BUTTON_NAME.search(control.names)):
            return "buy"
    own_name = simplify_name(f"{control.element.attr('name') or ''} {control.ancestor_names[0]}")
    return "buy" if not is_link and _BUY_NAME.search(own_name) else None


def _label_of(page: PageText, index: int, control: VisibleText) -> str:
    """Return the label of a control: its text, value, description or title."""
    element = control.element
    if element.tag == "input":
        is_button = (element.attr("type") or "").lower() in _BUTTON_TYPES
        names: tuple[str, ...] = ("value", "alt", "title", "aria-label") if is_button else ()
    else:
        pieces = []
        for text in page.texts[index : index + _MAX_LABEL_TEXTS]:
            if not is_within(text, element):
                break
            pieces.append(text.text)
        if pieces:
            return " ".join(pieces)
        names = ("aria-label", "title", "value", "alt")
    values = (" ".join((element.attr(name) or "")[:200].split()) for name in names)
    return next(filter(None, values), "")


def _labels_after_title(page: PageText, max_length: int) -> Iterator[tuple[int, str]]:
    title = page.title or 0
    return _labels(page, max_length, title + 1, min(page.related, title + _LABELS_AFTER_TITLE))


def _labels(page: PageText, max_length: int, first: int, last: int) -> Iterator[tuple[int, str]]:
    """Return the short texts between two places, except options and what is beside the product."""
    for index in range(first, last):
        text = page.texts[index]
        hidden = page.own_flags(text) & (ASIDE | HIDDEN | OVERLAY | CHOICE)
        if len(text.text) <= max_length and not hidden:
            yield index, text.text
