"""Converts the values of a page to the types and formats of a schema.

Numbers have decimal and thousands separators, currencies and units.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

from webdata_nb.page.content.block_tree import word_set
from webdata_nb.page.content.dates import parse_date, parse_timestamp
from webdata_nb.page.extract.field_names import normalize_name, normalize_short_name
from webdata_nb.page.extract.node_graph import DataNode
from webdata_nb.page.extract.prices import CODES_OF_SYMBOL, CURRENCY_OF_SYMBOL
from webdata_nb.page.extract.schema import satisfies_constraints

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webdata_nb.page.extract.schema import FieldSchema


MAX_NUMBER_LENGTH: Final = 60
"""Longer texts are prose that contains a number."""

_NUMBER: Final = re.compile(
    r"[-+\u2212]?(?:\d+(?:[.,'\u2019 \u00a0\u202f]\d+)*|[.,]\d+)(?:[eE][-+]?\d{1,3}(?!\w))?"
)
_SPACES: Final = re.compile(r"['\u2019 \u00a0\u202f]")
_OUT_OF: Final = re.compile(
    r"\s*(?:/|out of|of)\s*\d+(?:[.,]\d+)?\s*(?:stars?|points?)?", re.IGNORECASE
)
# A currency sign, a currency code or a short abbreviation such as "Rs." or "approx.".
_CURRENCY: Final = re.compile(r"(?:[^\w\s]{0,3}|[A-Za-z]{0,3}\.?\s?[^\w\s]?)\s*[:~\u2248]?\s*")
_UNIT: Final = re.compile(r"\s*[^\d]{0,24}")
# Words for a factor, in the languages of most pages; such a text is not the number alone.
_SCALE_SUFFIX: Final = re.compile(
    r"(?:k|K|M|B)(?!\w)"
    r"|[\s\u00a0\u202f-]*(?i:(?:bn|mn|mln|mio|mrd|tsd|mil|mill|mille)(?!\w)"
    r"|(?:hundred|thousand|million|billion|trillion|lakh|crore|dozen|tausend|milliard|millones"
    r"|milh[õã]|bilh[õã]|\u0442\u044b\u0441|\u043c\u043b\u043d|\u043c\u043b\u0440\u0434)\w{0,3}(?!\w))"
    r"|\s*[\u4e07\u842c\u5104\u4ebf\u5343]"
)
_BOUND: Final = re.compile(r"[<>\u2264\u2265\u00b1]")
_DECIMAL_COMMA_LANGUAGES: Final = (
    "bg bs ca cs da de el es et eu fi fr gl hr hu id is it lt lv mk nb nl nn no pl pt ro ru sk sl"
    " sq sr sv tr uk vi"
)
_GROUP_DIGITS: Final = 3


def uses_decimal_comma(language: str | None) -> bool:
    """Return whether `language`, a BCP 47 tag, uses a decimal comma."""
    primary = (language or "").lower().replace("_", "-").split("-")[0]
    return bool(primary) and primary in _DECIMAL_COMMA_LANGUAGES.split()


def parse_number(
    text: str, *, decimal_comma: bool = False, integer: bool = False
) -> int | float | None:
    """Parse a text that is one number, with its currency or unit.

    Parameters
    ----------
    text
        A text of the page; a range, a list or a sentence is not a number.
    decimal_comma
        Whether a single separator before three digits is a decimal separator if it is a comma,
        rather than if it is a point.
    integer
        Whether the number has no decimals, so that such a separator groups thousands.

    Returns
    -------
    int, float or None
        None if the text is not clearly one number.
    """
    text = text.strip()
    match = _NUMBER.search(text) if len(text) <= MAX_NUMBER_LENGTH else None
    if match is None:
        return None
    before, after = text[: match.start()], text[match.end() :]
    if not _CURRENCY.fullmatch(before) or _BOUND.search(before) or _SCALE_SUFFIX.match(after):
        return None
    if not _UNIT.fullmatch(after) and not _OUT_OF.fullmatch(after):
        return None
    number = match[0].replace("\u2212", "-")
    return _convert(number, decimal_comma=decimal_comma, integer=integer)


def _convert(number: str, *, decimal_comma: bool, integer: bool) -> int | float | None:
    mantissa, e, exponent = number.lower().partition("e")
    sign = mantissa[0] if mantissa[0] in "-+" else ""
    parts = _SPACES.split(mantissa[len(sign) :])
    if len(parts) > 1 and not _are_digit_groups(re.split(r"[.,]", " ".join(parts))[0].split(" ")):
        return None
    body = "".join(parts)
    points, commas = body.count("."), body.count(",")
    separator = ""
    if points and commas:
        separator = "." if body.rindex(".") > body.rindex(",") else ","
    elif points + commas == 1:
        separator = "," if commas else "."
        head, _, tail = body.partition(separator)
        could_group = len(tail) == _GROUP_DIGITS and 0 < len(head) <= _GROUP_DIGITS
        if could_group and not head.startswith("0"):
            is_decimal = not integer and decimal_comma == (separator == ",")
            separator = separator if is_decimal else ""
    head, _, decimals = body.rpartition(separator) if separator else (body, "", "")
    groups = re.split(r"[.,]", head)
    if len(groups) > 1 and not _are_digit_groups(groups):
        return None
    digits = sign + ("".join(groups) or "0") + (f".{decimals}" if separator else "")
    try:
        return float(digits + e + exponent) if e or "." in digits else int(digits)
    except ValueError:
        return None


def _are_digit_groups(groups: list[str]) -> bool:
    """Return whether digits are in groups of three, or of two before the last three (India)."""
    inner_lengths = {len(group) for group in groups[1:-1]}
    return 0 < len(groups[0]) <= _GROUP_DIGITS == len(groups[-1]) and inner_lengths in (
        set(),
        {2},
        {_GROUP_DIGITS},
    )


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
        currencies = self._currencies if name in _CURRENCY_PROPERTIES else None
        if currencies is not None and isinstance(value, str):
            # A symbol becomes the code of its currency, unless it may be that of several.
            symbol = value.casefold().strip()
            if symbol not in CODES_OF_SYMBOL:
                value = CURRENCY_OF_SYMBOL.get(symbol, value)
            elif (value := currencies.get(symbol)) is None:
                return None
        if schema.choices is not None:
            # The choice equal to the value regardless of case, separators and a URL's path; of an
            # availability also the only choice with the same meaning.
            text = scalar_text(value)
            names = (
                {normalize_name(text), normalize_name(_last_segment(text))} - {""}
                if len(text) <= _MAX_CHOICE_LENGTH
                else ()
            )
            for choice in schema.choices:
                if choice == value and isinstance(choice, bool) == isinstance(value, bool):
                    return choice
                if isinstance(choice, str) and normalize_short_name(choice) in names:
                    return choice
                if isinstance(choice, int | float) and not isinstance(choice, bool):
                    number = parse_number(value) if isinstance(value, str) else None
                    if number == choice:
                        return choice
            state = availability_of(value) if name == "availability" else None
            alike = [each for each in schema.choices if availability_of(each) is state]
            return alike[0] if state is not None and len(alike) == 1 else None
        converted = self._convert(value, schema, name, prose=prose)
        valid = converted is not None and satisfies_constraints(converted, schema)
        return converted if valid else None

    def _convert(self, value: Any, schema: FieldSchema, name: str, *, prose: bool) -> Any:
        if schema.kind in {"number", "integer"}:
            if name in _PRICE_PROPERTIES and isinstance(value, str) and "%" in value:
                return None  # a discount
            integer = schema.kind == "integer"
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
        if schema.kind == "boolean":
            if isinstance(value, bool):
                return value
            if name == "availability" and (state := availability_of(value)) is not None:
                return state
            word = normalize_name(_last_segment(value)[:40]) if isinstance(value, str) else ""
            return True if word in _TRUE else False if word in _FALSE else None
        if schema.kind == "string":
            text = value if isinstance(value, str) else scalar_text(value)
            if schema.format == "date":
                return iso_date(text, self._language)
            if schema.format == "date-time":
                return iso_datetime(text)
            if schema.format in {"uri", "url"}:
                if any(character.isspace() for character in text):
                    return None
                try:
                    url = urljoin(self._base_url or "", text)
                    return url if urlsplit(url).netloc else None
                except ValueError:
                    return None
            if schema.format == "email":
                text = text.removeprefix("mailto:")
                return text if _EMAIL.fullmatch(text) else None
            return text or None
        return value if schema.kind == "any" else None


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


def scalar_text(value: Any) -> str:
    """Return a scalar as text: a boolean as in JSON, a whole number without decimals."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:  # noqa: PLR2004 - beyond it floats are written with an exponent
        return str(int(value))
    return str(value)


def availability_of(value: Any) -> bool | None:
    """Return whether a value of schema.org's ItemAvailability means in stock; None if unclear."""
    word = normalize_name(_last_segment(value)[:40]) if isinstance(value, str) else ""
    return True if word in _IN_STOCK else False if word in _OUT_OF_STOCK else None


def _last_segment(text: str) -> str:
    return text.rstrip("/").rpartition("/")[2] if text.startswith("http") else text
