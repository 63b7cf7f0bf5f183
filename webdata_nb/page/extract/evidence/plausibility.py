"""Rejects texts that cannot be the value of a field, such as a brand as a currency."""

from __future__ import annotations

from typing import Final

from webdata_nb.page.extract.coerce import availability_of
from webdata_nb.page.extract.evidence.claims import Claim
from webdata_nb.page.extract.evidence.labels import names_of_field
from webdata_nb.page.extract.evidence.occurrences import currency_of
from webdata_nb.page.extract.visible.wording import IN_STOCK, OUT_OF_STOCK, fold

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
        return bool(IN_STOCK.search(fold(text)) or OUT_OF_STOCK.search(fold(text)))
    if not _STATES.isdisjoint(names):
        return not any(map(str.isdigit, text))
    if not _CURRENCIES.isdisjoint(names):
        return bool(currency_of(text))
    is_state = availability_of(text) is not None and " " not in text.strip()
    return not (is_state or currency_of(text)) and _may_be_text(text, names)


def _may_be_text(text: str, names: frozenset[str]) -> bool:
    """Return whether a text may be a code, a name or any other text."""
    if not _CODES.isdisjoint(names):
        return any(map(str.isdigit, text))
    return _NAMES.isdisjoint(names) or _digit_share(text) <= _MAX_DIGIT_SHARE


def _digit_share(text: str) -> float:
    return sum(map(str.isdigit, text)) / max(1, len(text))
