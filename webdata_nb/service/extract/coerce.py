"""Converts values of a page to the types of a schema; a value that does not fit becomes None."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

from webdata_nb.service.extract.dates import iso_date, iso_datetime
from webdata_nb.service.extract.field_names import normalize_name
from webdata_nb.service.extract.node_graph import DataNode
from webdata_nb.service.extract.numbers import read_number
from webdata_nb.service.extract.validation import satisfies_constraints

if TYPE_CHECKING:
    from webdata_nb.service.extract.schema import FieldSchema

_TRUE: Final = frozenset({"true", "yes"})
_FALSE: Final = frozenset({"false", "no"})
# The values of schema.org's ItemAvailability that plainly say yes or no; a pre-order is neither.
_IN_STOCK: Final = frozenset({"instock", "limitedavailability", "onlineonly", "instoreonly"})
_NO_STOCK: Final = frozenset({"outofstock", "soldout", "discontinued", "oos"})
_EMAIL: Final = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+")
_MEDIA: Final = ("imageobject", "videoobject", "audioobject", "mediaobject", "entrypoint")
_MAX_CHOICE_LENGTH: Final = 2000
"""Characters of a value that is compared with choices of another case or other separators."""
_SAID: Final = ("name", "headline", "text", "value", "ratingvalue", "userinteractioncount")
_COUNTED: Final = ("value", "price", "ratingvalue", "userinteractioncount")
_ADDRESSED: Final = ("url", "contenturl", "thumbnailurl")


class ValueCoercion:
    """Turns values into what a schema asks for.

    Parameters
    ----------
    base
        The URL of the page, for schemas that ask for absolute URLs.
    comma
        Whether the page's language writes a decimal comma.
    """

    def __init__(self, *, base: str | None, comma: bool) -> None:
        self._base = base
        self._comma = comma

    def scalar(self, value: Any, schema: FieldSchema, *, name: str, prose: bool) -> Any:
        """Return `value` as the scalar that `schema` describes, None where it is not one.

        Parameters
        ----------
        value
            A scalar or a node of the page.
        schema
            What is asked for.
        name
            The name that the value has on the page.
        prose
            Whether people wrote it; data for machines has a decimal point.
        """
        if isinstance(value, DataNode):
            inner = self._of_node(value, schema, name)
            return None if inner is None else self.scalar(inner, schema, name=name, prose=prose)
        if schema.choices is not None:
            return _choice(value, schema)
        made = self._typed(value, schema, name, prose=prose)
        return made if made is not None and satisfies_constraints(made, schema) else None

    def _typed(self, value: Any, schema: FieldSchema, name: str, *, prose: bool) -> Any:
        if schema.kind in {"number", "integer"}:
            return self._number(value, whole=schema.kind == "integer", prose=prose)
        if schema.kind == "boolean":
            return _boolean(value, name)
        if schema.kind == "string":
            return self._string(value, schema.format)
        return value if schema.kind == "any" else None

    def _number(self, value: Any, *, whole: bool, prose: bool) -> int | float | None:
        if isinstance(value, str):
            value = read_number(value, comma=prose and self._comma, whole=whole)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if not math.isfinite(value):
            return None
        if not whole:
            return value
        return int(value) if float(value).is_integer() else None

    def _string(self, value: Any, form: str | None) -> str | None:
        text = value if isinstance(value, str) else _written(value)
        if form == "date":
            return iso_date(text)
        if form == "date-time":
            return iso_datetime(text)
        if form in {"uri", "url"}:
            return self._url(text)
        if form == "email":
            text = text.removeprefix("mailto:")
            return text if _EMAIL.fullmatch(text) else None
        return text or None

    def _url(self, text: str) -> str | None:
        if any(each.isspace() for each in text):
            return None
        try:
            whole = urljoin(self._base or "", text)
            return whole if urlsplit(whole).netloc else None
        except ValueError:
            return None

    def _of_node(self, node: DataNode, schema: FieldSchema, name: str) -> Any:
        """Return the scalar that stands for a node: what it is called, counts, or leads to."""
        links = name.endswith(("url", "link")) or schema.format in {"uri", "url"}
        if schema.kind in {"number", "integer"}:
            keys: tuple[str, ...] = _COUNTED
        elif links or node.is_a(*_MEDIA):
            keys = _ADDRESSED
        else:
            keys = (*_SAID, *_ADDRESSED)
        values = (each for key in keys for each in node.values(key))
        found = next((each for each in values if not isinstance(each, DataNode)), None)
        if found is None and (links or not node.properties):
            return node.address
        return found


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:  # noqa: PLR2004 - beyond it floats are written with an exponent
        return str(int(value))
    return str(value)


def _boolean(value: Any, name: str) -> bool | None:
    if isinstance(value, bool):
        return value
    said = normalize_name(_tail(value)[:40]) if isinstance(value, str) else ""
    yes, no = (_IN_STOCK, _NO_STOCK) if name == "availability" else (_TRUE, _FALSE)
    if said in yes | _TRUE:
        return True
    return False if said in no | _FALSE else None


def _choice(value: Any, schema: FieldSchema) -> Any:
    """Return the choice that `value` is, but for case, separators and the path of a URL."""
    text = _written(value)
    wanted = (
        {normalize_name(text), normalize_name(_tail(text))} - {""}
        if len(text) <= _MAX_CHOICE_LENGTH
        else ()
    )
    for choice in schema.choices or ():
        if choice == value and isinstance(choice, bool) == isinstance(value, bool):
            return choice
        if isinstance(choice, str) and _squeezed_choice(choice) in wanted:
            return choice
        if isinstance(choice, int | float) and not isinstance(choice, bool):
            read = read_number(value) if isinstance(value, str) else None
            if read == choice:
                return choice
    return None


@lru_cache(maxsize=4096)
def _squeezed_choice(choice: str) -> str:
    return normalize_name(choice)


def _tail(text: str) -> str:
    return text.rstrip("/").rpartition("/")[2] if text.startswith("http") else text
