"""The values that a page shows to people, by property, and what it shows at all."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from webdata_nb.page.extract.visible.codes import find_codes
from webdata_nb.page.extract.visible.page_text import (
    STRUCK,
    PageText,
    read_page_text,
)
from webdata_nb.page.extract.visible.prices import (
    CODES_OF_SYMBOL,
    MAX_AMOUNT_LENGTH,
    PriceCandidate,
    find_price,
    parse_amount,
    settle_symbols,
)
from webdata_nb.page.extract.visible.stock import find_stock_state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webdata_nb.page.content.parsed_page import ParsedPage

VISIBLE: Final = "visible_values"
"""The key of the values in the formats that `scrape` returns; no request can name it."""
VISIBLE_PROPERTIES: Final = frozenset(
    {
        "price",
        "lowprice",
        "highprice",
        "pricecurrency",
        "availability",
        "sku",
        "gtin",
        "mpn",
        "brand",
    }
)
"""The properties that are read, by their normalized names."""

_MAX_SHOWN: Final = 5000
_STRONG_PRICE: Final = 3.2
"""The least score of an amount with a currency in an element named as a price."""
_CODE_WORD: Final = re.compile(r"[^\s:\uff1a()\[\],;|#〈〉【】]{3,40}")


@dataclass(frozen=True, slots=True)
class VisibleValue:
    """A value that a page shows.

    Attributes
    ----------
    value
        A number, a text, or ``InStock`` or ``OutOfStock``.
    text
        The value as shown.
    origin
        Its source, for the provenance: ``visible:label/Item number``.
    strong
        Whether it outweighs a declared value that the page does not show.
    """

    value: Any
    text: str
    origin: str
    strong: bool = False


@dataclass(frozen=True, slots=True)
class VisibleValues:
    """The values of a page by normalized property.

    Attributes
    ----------
    values
        The value of each property.
    amounts
        The numbers of all amounts on the page that are not crossed out.
    words
        The words with digits on the page, in lower case.
    currencies
        The codes of symbols of several currencies that the page settles.
    """

    values: dict[str, VisibleValue] = field(default_factory=dict)
    amounts: frozenset[float] = frozenset()
    words: frozenset[str] = frozenset()
    currencies: dict[str, str] = field(default_factory=dict)


NOTHING_VISIBLE: Final = VisibleValues()


def read_visible_values(page: ParsedPage) -> VisibleValues:
    """Read a page before its tree is pruned."""
    names = [name for name in (page.head.meta("og:title"), page.head.title) if name]
    text = read_page_text(page.document, names)
    values: dict[str, VisibleValue] = {}
    currencies = settle_symbols(
        (each.text for each in text.texts),
        host=urlsplit(page.source.final_url).hostname or "",
        languages=[page.head.language, *page.head.metas.get("og:locale", ())[:1]],
    )
    _add_price(values, find_price(text), currencies)
    state = find_stock_state(text)
    if state is not None:
        origin = f"visible:{state.evidence}/{state.text}"
        values["availability"] = VisibleValue(state.state, state.text, origin, state.strong)
    for name, code in find_codes(text, page.source.final_url).items():
        origin = f"visible:{code.evidence}/{code.label}"
        strong = code.evidence == "label"
        values[name] = VisibleValue(code.value, code.value, origin, strong)
    return VisibleValues(values, *_visible_values(text), currencies)


def _add_price(
    values: dict[str, VisibleValue], price: PriceCandidate | None, currencies: Mapping[str, str]
) -> None:
    if price is None:
        return
    amount = price.amount
    origin = "visible:price"
    strong = amount.highest is None and price.score >= _STRONG_PRICE
    values["price"] = VisibleValue(amount.value, price.text, origin, strong)
    if amount.highest is not None:
        values["lowprice"] = values["price"]
        values["highprice"] = VisibleValue(amount.highest, price.text, origin)
    settled = currencies.get(amount.symbol)
    code = settled if amount.symbol in CODES_OF_SYMBOL else amount.currency
    if code:
        values["pricecurrency"] = VisibleValue(code, code, origin)


def _visible_values(page: PageText) -> tuple[frozenset[float], frozenset[str]]:
    """Return the amounts and the words with digits on a page."""
    amounts: set[float] = set()
    words: set[str] = set()
    for text in page.texts:
        if not text.has_digit or len(words) >= _MAX_SHOWN:
            continue
        is_old = len(text.text) > MAX_AMOUNT_LENGTH or page.own_flags(text) & STRUCK
        amount = None if is_old else parse_amount(text.text)
        if amount is not None:
            amounts.add(float(amount.value))
        words.update(word.casefold() for word in _CODE_WORD.findall(text.text))
    return frozenset(amounts), frozenset(words)
