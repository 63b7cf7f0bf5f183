"""Converts the values of a page to the types and formats of a schema."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

from webdata_nb.page.content.class_names import word_set
from webdata_nb.page.content.date_text import parse_date, parse_timestamp
from webdata_nb.page.extract.field_names import normalize_name
from webdata_nb.page.extract.node_graph import DataNode
from webdata_nb.page.extract.numbers import parse_number, uses_decimal_comma
from webdata_nb.page.extract.schema import satisfies_constraints
from webdata_nb.page.extract.visible.prices import CODES_OF_SYMBOL, CURRENCY_OF_SYMBOL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webdata_nb.page.extract.schema import FieldSchema


def iso_date(text: str, language: str = "") -> str | None:
    """Return the day of a date or time as ``YYYY-MM-DD``, in the time zone of the text.

    Parameters
    ----------
    text
        A text with one date and little else. If it does not say which number is the month, as in
        3/4/2026, the result is None.
    language
        The language of the text, a BCP 47 tag, for names of months that differ by language.
    """
    time = parse_timestamp(text)
    day = time.date() if time is not None else parse_date(text, language=language)
    return day.isoformat() if day is not None else None


def iso_datetime(text: str) -> str | None:
    """Return a time in ISO 8601; None for a day without a time.

    The result has a UTC offset only if the text has one.
    """
    time = parse_timestamp(text)
    return time.isoformat() if time is not None else None


_TRUE: Final = frozenset({"true", "yes"})
_FALSE: Final = frozenset({"false", "no"})
# The values of schema.org's ItemAvailability that are clearly true or false; a pre-order is not.
_IN_STOCK: Final = frozenset({"instock", "limitedavailability", "onlineonly", "instoreonly"})
_OUT_OF_STOCK: Final = frozenset({"outofstock", "soldout", "discontinued", "oos"})
_EMAIL: Final = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+")
_MEDIA_TYPES: Final = ("imageobject", "videoobject", "audioobject", "mediaobject", "entrypoint")
_MAX_CHOICE_LENGTH: Final = 2000
"""Longer values are not compared with choices regardless of case and separators."""
_TEXT_PROPERTIES: Final = (
    "name",
    "headline",
    "text",
    "value",
    "ratingvalue",
    "userinteractioncount",
)
_NUMBER_PROPERTIES: Final = ("value", "price", "ratingvalue", "userinteractioncount")
_PRICE_PROPERTIES: Final = word_set(
    "price lowprice highprice minprice maxprice amount cost preis prix precio preço prezzo prijs"
    " cena pris hinta цена fiyat"
)
_CURRENCY_PROPERTIES: Final = frozenset({"pricecurrency", "currency", "currencycode"})
_URL_PROPERTIES: Final = ("url", "contenturl", "thumbnailurl")


class ValueCoercion:
    """Converts values to the types of a schema.

    Parameters
    ----------
    base_url
        The URL of the page, for fields with an absolute URL.
    language
        The language of the page, a BCP 47 tag, for decimal commas and names of months.
    currencies
        The codes of symbols of several currencies that the page settles; None where symbols are
        left as they are, as in the answers of a model.
    """

    def __init__(
        self,
        *,
        base_url: str | None,
        language: str | None,
        currencies: Mapping[str, str] | None = None,
    ) -> None:
        self._base_url = base_url
        self._currencies = currencies
        self._language = language or ""
        self._decimal_comma = uses_decimal_comma(language)

    def scalar(self, value: Any, schema: FieldSchema, *, name: str, prose: bool) -> Any:
        """Return `value` as a scalar of the schema's type; None if it does not fit.

        Parameters
        ----------
        value
            A scalar or a node of the page.
        schema
            The schema of the field.
        name
            The name of the value on the page.
        prose
            Whether the text was written for people; machine-readable data has a decimal point.
        """
        if isinstance(value, DataNode):
            scalar = _representative_scalar(value, schema, name)
            return None if scalar is None else self.scalar(scalar, schema, name=name, prose=prose)
        if name in _CURRENCY_PROPERTIES and isinstance(value, str):
            value = self._currency(value)
            if value is None:
                return None
        if schema.choices is not None:
            return _match_choice(value, schema, availability=name == "availability")
        converted = self._convert(value, schema, name, prose=prose)
        valid = converted is not None and satisfies_constraints(converted, schema)
        return converted if valid else None

    def _convert(self, value: Any, schema: FieldSchema, name: str, *, prose: bool) -> Any:
        if schema.kind in {"number", "integer"}:
            if name in _PRICE_PROPERTIES and isinstance(value, str) and "%" in value:
                return None  # a discount
            return self._to_number(value, integer=schema.kind == "integer", prose=prose)
        if schema.kind == "boolean":
            return _to_boolean(value, name)
        if schema.kind == "string":
            return self._to_string(value, schema.format)
        return value if schema.kind == "any" else None

    def _currency(self, value: str) -> str | None:
        """Return a symbol as the code of its currency; None if it may be that of several."""
        symbol = value.casefold().strip()
        if self._currencies is None:
            return value
        if symbol in CODES_OF_SYMBOL:
            return self._currencies.get(symbol)
        return CURRENCY_OF_SYMBOL.get(symbol, value)

    def _to_number(self, value: Any, *, integer: bool, prose: bool) -> int | float | None:
        if isinstance(value, str):
            decimal_comma = prose and self._decimal_comma
            value = parse_number(value, decimal_comma=decimal_comma, integer=integer)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if not math.isfinite(value):
            return None
        if not integer:
            return value
        return int(value) if float(value).is_integer() else None

    def _to_string(self, value: Any, format_: str | None) -> str | None:
        text = value if isinstance(value, str) else _to_text(value)
        if format_ == "date":
            return iso_date(text, self._language)
        if format_ == "date-time":
            return iso_datetime(text)
        if format_ in {"uri", "url"}:
            return self._to_url(text)
        if format_ == "email":
            text = text.removeprefix("mailto:")
            return text if _EMAIL.fullmatch(text) else None
        return text or None

    def _to_url(self, text: str) -> str | None:
        if any(character.isspace() for character in text):
            return None
        try:
            url = urljoin(self._base_url or "", text)
            return url if urlsplit(url).netloc else None
        except ValueError:
            return None


def _representative_scalar(node: DataNode, schema: FieldSchema, name: str) -> Any:
    """Return the property of a node that represents it: a number, a URL, or a name."""
    wants_url = name.endswith(("url", "link")) or schema.format in {"uri", "url"}
    if schema.kind in {"number", "integer"}:
        properties: tuple[str, ...] = _NUMBER_PROPERTIES
    elif wants_url or node.is_a(*_MEDIA_TYPES):
        properties = _URL_PROPERTIES
    else:
        properties = (*_TEXT_PROPERTIES, *_URL_PROPERTIES)
    values = [value for key in properties for value in node.values(key)]
    if properties is _NUMBER_PROPERTIES:
        # An amount of money may contain a quantity, which contains the number.
        inner = (value for value in values if isinstance(value, DataNode))
        values += [number for quantity in inner for number in quantity.values("value")]
    scalar = next((value for value in values if not isinstance(value, DataNode)), None)
    if scalar is None and (wants_url or not node.properties):
        return node.address
    return scalar


def _to_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:  # noqa: PLR2004 - beyond it floats are written with an exponent
        return str(int(value))
    return str(value)


def _to_boolean(value: Any, name: str) -> bool | None:
    if isinstance(value, bool):
        return value
    if name == "availability" and (state := availability_of(value)) is not None:
        return state
    word = normalize_name(_last_segment(value)[:40]) if isinstance(value, str) else ""
    return True if word in _TRUE else False if word in _FALSE else None


def availability_of(value: Any) -> bool | None:
    """Return whether a value of schema.org's ItemAvailability means in stock; None if unclear."""
    word = normalize_name(_last_segment(value)[:40]) if isinstance(value, str) else ""
    return True if word in _IN_STOCK else False if word in _OUT_OF_STOCK else None


def _match_choice(value: Any, schema: FieldSchema, *, availability: bool) -> Any:
    """Return the choice equal to `value` regardless of case, separators and a URL's path.

    If none is and the value is an `availability`, the only choice with the same meaning.
    """
    text = _to_text(value)
    names = (
        {normalize_name(text), normalize_name(_last_segment(text))} - {""}
        if len(text) <= _MAX_CHOICE_LENGTH
        else ()
    )
    for choice in schema.choices or ():
        if choice == value and isinstance(choice, bool) == isinstance(value, bool):
            return choice
        if isinstance(choice, str) and _normalize_choice(choice) in names:
            return choice
        if isinstance(choice, int | float) and not isinstance(choice, bool):
            number = parse_number(value) if isinstance(value, str) else None
            if number == choice:
                return choice
    return _choice_with_meaning(value, schema) if availability else None


def _choice_with_meaning(value: Any, schema: FieldSchema) -> Any:
    state = availability_of(value)
    if state is None:
        return None
    choices = [choice for choice in schema.choices or () if availability_of(choice) is state]
    return choices[0] if len(choices) == 1 else None


@lru_cache(maxsize=4096)
def _normalize_choice(choice: str) -> str:
    return normalize_name(choice)


def _last_segment(text: str) -> str:
    return text.rstrip("/").rpartition("/")[2] if text.startswith("http") else text
