"""Tells texts that cannot be the value of a field, wherever they stand: a brand is no currency."""

from __future__ import annotations

from typing import Final

from webdata_nb.service.extract.coerce import availability_of
from webdata_nb.service.extract.evidence.claims import Claim
from webdata_nb.service.extract.evidence.field_labels import names_of_field
from webdata_nb.service.extract.evidence.occurrences import currency_of
from webdata_nb.service.extract.visible.wording import IN_STOCK, OUT_OF_STOCK, fold

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
    names = names_of_field(claim.path)
    is_state = availability_of(claim.value) is not None and " " not in claim.value.strip()
    if not AVAILABILITY_NAMES.isdisjoint(names):
        text = fold(claim.value)
        return bool(IN_STOCK.search(text) or OUT_OF_STOCK.search(text))
    if not _STATES.isdisjoint(names):
        return not any(map(str.isdigit, claim.value))
    if not _CURRENCIES.isdisjoint(names):
        return bool(currency_of(claim.value))
    if is_state or currency_of(claim.value):
        return False
    if not _CODES.isdisjoint(names):
        return any(map(str.isdigit, claim.value))
    return _NAMES.isdisjoint(names) or _digit_share(claim.value) <= _MAX_DIGIT_SHARE


def _digit_share(text: str) -> float:
    return sum(map(str.isdigit, text)) / max(1, len(text))
