"""Finds the visible value of a field, and decides whether it outweighs a declared one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from webdata_nb.page.extract.coerce import availability_of
from webdata_nb.page.extract.declared import DeclaredValues
from webdata_nb.page.extract.field_names import name_readings, normalize_name
from webdata_nb.page.extract.visible.values import (
    VISIBLE_PROPERTIES,
    VisibleValue,
    VisibleValues,
)
from webdata_nb.page.extract.vocabulary import PAGE_KINDS

if TYPE_CHECKING:
    from webdata_nb.page.extract.schema import FieldSchema

_TOO_GENERAL: Final = frozenset({"id", "identifier", "model", "value", "code", "number"})
"""Field names that a label of a product's code does not fill."""
_ALIASES: Final = {
    "gtin13": "gtin", "gtin12": "gtin", "gtin14": "gtin", "gtin8": "gtin", "minprice": "lowprice",
    "maxprice": "highprice", "currency": "pricecurrency", "manufacturer": "brand",
    "productid": "sku", "asin": "sku",
}  # fmt: skip


def asks_for_visible_values(schema: FieldSchema) -> bool:
    """Return whether a field of a page's object may be filled from visible values."""
    for name, inner in schema.properties.items():
        if _property(name) or (inner.title and _property(inner.title)):
            return True
        if inner.kind == "object" and asks_for_visible_values(inner):
            return True
        if inner.items is not None and _asks_for_currency(inner.items):
            return True
    return False


def _asks_for_currency(schema: FieldSchema) -> bool:
    """Return whether the items of a list have a currency, whose symbol the page may settle."""
    return any(_property(name) == "pricecurrency" for name in schema.properties)


def _property(name: str) -> str:
    """Return the property of visible values that a field's name means; empty for none."""
    if normalize_name(name) in _TOO_GENERAL:
        return ""
    for reading in name_readings(name):
        if len(reading.chain) == 1 and (not reading.kind or reading.kind in PAGE_KINDS):
            property_name = _ALIASES.get(reading.chain[0], reading.chain[0])
            if property_name in VISIBLE_PROPERTIES:
                return property_name
    return ""


class VisibleLookup:
    """Finds visible values by field names.

    Parameters
    ----------
    visible
        The values of one page.
    """

    def __init__(self, visible: VisibleValues) -> None:
        self._visible = visible

    def value(self, name: str, schema: FieldSchema) -> DeclaredValues | None:
        """Return the visible value of a field; None without one."""
        found = self._find(name, schema)
        return None if found is None else _as_source(*found, schema)

    def contradiction(self, name: str, schema: FieldSchema, declared: Any) -> DeclaredValues | None:
        """Return the visible value of a field if it outweighs the declared one.

        A button outweighs a declared availability. A price or code outweighs one that the page
        does not show anywhere.
        """
        found = self._find(name, schema)
        if found is None or not found[1].strong:
            return None
        property_name, visible = found
        if property_name == "availability":
            state = declared if isinstance(declared, bool) else availability_of(declared)
            outweighs = state is not None and state is not availability_of(visible.value)
        elif property_name in {"price", "lowprice"}:
            outweighs = isinstance(declared, int | float) and self._is_hidden_amount(
                declared, visible.value
            )
        elif property_name == "sku":
            outweighs = isinstance(declared, str) and self._is_hidden_code(declared)
        else:
            outweighs = False
        return _as_source(property_name, visible, schema) if outweighs else None

    def _find(self, name: str, schema: FieldSchema) -> tuple[str, VisibleValue] | None:
        if not self._visible.values or schema.kind in {"object", "array"}:
            return None
        property_name = _property(name)
        value = self._visible.values.get(property_name)
        return None if value is None else (property_name, value)

    def _is_hidden_amount(self, declared: float, visible: float) -> bool:
        """Return whether the page does not show a price, not even without its decimals."""
        return float(declared) not in self._visible.amounts and int(declared) != visible

    def _is_hidden_code(self, declared: str) -> bool:
        return declared.casefold() not in self._visible.words


def _as_source(property_name: str, visible: VisibleValue, schema: FieldSchema) -> DeclaredValues:
    as_text = schema.kind == "string" and property_name in {"price", "lowprice", "highprice"}
    value = visible.text if as_text else visible.value
    return DeclaredValues(visible.origin, property_name, [value], prose=True)
