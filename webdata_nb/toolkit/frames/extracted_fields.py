"""Converts the extracted values of pages to typed columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
import pandas as pd

from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.frames import frame, records
from webdata_nb.toolkit.frames.call_receipt import CallReceipt
from webdata_nb.toolkit.frames.nested import NestedArray
from webdata_nb.toolkit.frames.result_frame import ResultFrame

__all__ = ["extract_df"]

Schema = Mapping[str, Any]

_MAX_DEPTH: Final = 10
_DTYPES: Final = {"integer": "Int64", "number": "Float64", "boolean": "boolean", "string": "str"}
_TIME_DTYPES: Final = {"date": "datetime64[us]", "date-time": "datetime64[us, UTC]"}
_REFUSED: Final = (TypeError, ValueError, OverflowError)


def extract_df(df: pd.DataFrame) -> pd.DataFrame:
    """Return the extracted fields of the pages as typed columns, next to their sources.

    Parameters
    ----------
    df
        A frame with an `extract` column, from a call with `extract`.

    Returns
    -------
    pandas.DataFrame
        One row for each row of `df`, with its index, so that both can be joined. `url` is the page.
        Each field has a column with its value and a column `<field>_source` (str) with the place
        from which the value was read, such as `json_ld:Product/offers/price` or `model`. The fields
        of objects have names such as `offers.price`.

        Types follow from the schema of the request: str, Int64, Float64, boolean, datetime64[us] of
        a date, datetime64[us, UTC] of a date and time, and object for lists. Without a schema they
        follow from the values.

    Raises
    ------
    InvalidArgument
        The column is missing.

    Examples
    --------
    >>> import pandas as pd
    >>> pages = pd.DataFrame({"url": ["http://a.test/"], "extract": [{"name": "Hat", "price": 34}]})
    >>> extract_df(pages)[["name", "price"]].to_numpy().tolist()
    [['Hat', 34]]
    """
    frame.require_frame(df)
    if not {"url", "extract"} <= set(df.columns):
        raise InvalidArgument("df has no columns url and extract: pass extract= to the call")
    values = [_decoded(value) for value in df["extract"].tolist()]
    sources = [_provenance(value) for value in _metadata(df)]
    schema = _Schema.of_frame(df)
    paths = schema.paths() or _paths_of_values(values)
    columns: dict[str, pd.Series[Any]] = {"url": df["url"]}
    for path in paths:
        name = _unused(".".join(path), columns)
        cells = [value_at(value, path) for value in values]
        columns[name] = _typed(cells, schema.field(path), df.index)
        texts = [_source_of(each, path) for each in sources]
        columns[_unused(f"{name}_source", columns)] = pd.Series(texts, df.index, dtype="str")
    extracted = ResultFrame(columns, index=df.index)
    extracted.attrs = {frame.ATTRS: CallReceipt(kind="extract", line=records.receipt_line(df))}
    return extracted


# Schema


def field_paths(schema: Schema) -> list[tuple[str, ...]]:
    """Return the paths of all fields of a JSON Schema that are no objects, in their order."""
    return _Schema(schema).paths()


@dataclass(frozen=True, slots=True)
class _Schema:
    """The JSON Schema of a request; empty if the frame has none."""

    root: Schema

    @classmethod
    def of_frame(cls, df: pd.DataFrame) -> _Schema:
        receipt = df.attrs.get(frame.ATTRS)
        request = receipt.get("request") if isinstance(receipt, Mapping) else None
        if not isinstance(request, Mapping):
            return cls({})
        options = request.get("scrape_options") or request
        extract = options.get("extract") if isinstance(options, Mapping) else None
        schema = extract.get("schema") if isinstance(extract, Mapping) else None
        return cls(schema if isinstance(schema, Mapping) else {})

    def paths(self) -> list[tuple[str, ...]]:
        """Return the paths of all fields that are no objects, in their order."""
        return list(self._paths(self.root, ()))

    def _paths(self, schema: Schema, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        properties = self._resolve(schema).get("properties")
        if isinstance(properties, Mapping) and properties and len(path) < _MAX_DEPTH:
            for name, field in properties.items():
                yield from self._paths(field, (*path, str(name)))
        elif path:
            yield path

    def field(self, path: Sequence[str]) -> Schema:
        """Return the schema of a field; empty if it has none."""
        schema = self._resolve(self.root)
        for name in path:
            properties = schema.get("properties")
            schema = properties.get(name, {}) if isinstance(properties, Mapping) else {}
            schema = self._resolve(schema)
        return schema

    def _resolve(self, schema: Any) -> Schema:
        """Return a schema without references, and without alternatives that are null."""
        for _ in range(_MAX_DEPTH):
            if not isinstance(schema, Mapping):
                return {}
            if isinstance(reference := schema.get("$ref"), str):
                schema = value_at(self.root, reference.removeprefix("#/").split("/"))
            elif (alternative := _only_alternative(schema)) is not None:
                schema = alternative
            else:
                return schema
        return {}


def _only_alternative(schema: Schema) -> Any:
    for keyword in ("anyOf", "oneOf", "allOf"):
        if isinstance(schemas := schema.get(keyword), list):
            others = [each for each in schemas if each != {"type": "null"}]
            return others[0] if len(others) == 1 else {}
    return None


# Values


def _metadata(df: pd.DataFrame) -> list[Any]:
    if "metadata" not in df.columns:
        return [None] * len(df)
    return [_decoded(value) for value in df["metadata"].tolist()]


def _decoded(value: Any) -> Any:
    """Return the value of JSON text, which frames with Arrow types hold."""
    return orjson.loads(value) if isinstance(value, str) else value


def _provenance(metadata: Any) -> Mapping[str, Any]:
    extract = metadata.get("extract") if isinstance(metadata, Mapping) else None
    provenance = extract.get("provenance") if isinstance(extract, Mapping) else None
    return provenance if isinstance(provenance, Mapping) else {}


def pointer_of(path: Sequence[str]) -> str:
    """Return the JSON pointer of a field."""
    return "".join(f"/{name.replace('~', '~0').replace('/', '~1')}" for name in path)


def _source_of(provenance: Mapping[str, Any], path: Sequence[str]) -> str | None:
    """Return the source of a value; of a list, the different sources of its items."""
    pointer = pointer_of(path)
    sources = [
        str(source)
        for place, source in provenance.items()
        if place == pointer or place.startswith(f"{pointer}/")
    ]
    return ", ".join(dict.fromkeys(sources)) or None


def _paths_of_values(values: Sequence[Any]) -> list[tuple[str, ...]]:
    names = (name for value in values if isinstance(value, Mapping) for name in value)
    return [(name,) for name in dict.fromkeys(names)]


def value_at(value: Any, path: Sequence[str]) -> Any:
    """Return the value of a field of extracted data; None if it has none."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _unused(name: str, columns: Mapping[str, object]) -> str:
    """Return the name of a new column, with a number if the name is taken."""
    numbered = (f"{name} ({number})" for number in range(2, len(columns) + 3))
    return name if name not in columns else next(each for each in numbered if each not in columns)


def _typed(cells: list[Any], schema: Schema, index: pd.Index[Any]) -> pd.Series[Any]:
    """Return a column with the type of the schema, or that of the values if they differ from it."""
    for dtype in (_dtype_of_schema(schema), _dtype_of_values(cells)):
        if dtype is not None:
            try:
                return _column(cells, dtype, index)
            except _REFUSED:
                continue
    return pd.Series(NestedArray(cells), index)


def _column(cells: list[Any], dtype: str, index: pd.Index[Any]) -> pd.Series[Any]:
    if dtype in _TIME_DTYPES.values():
        utc = dtype == _TIME_DTYPES["date-time"]
        texts = pd.Series(cells, index, dtype=object)
        return pd.to_datetime(texts, utc=utc, format="ISO8601").dt.as_unit("us")
    if dtype == "str" and not all(isinstance(cell, str | None) for cell in cells):
        raise TypeError("a value is no text")
    return pd.Series(cells, index, dtype=dtype)


def _dtype_of_schema(schema: Schema) -> str | None:
    kinds = schema.get("type")
    if isinstance(kinds, list):
        others = [kind for kind in kinds if kind != "null"]
        kinds = others[0] if len(others) == 1 else None
    if kinds == "string" and schema.get("format") in _TIME_DTYPES:
        return _TIME_DTYPES[schema["format"]]
    return _DTYPES.get(kinds) if isinstance(kinds, str) else None


def _dtype_of_values(cells: Sequence[Any]) -> str | None:
    kinds = {type(cell) for cell in cells} - {type(None)}
    if kinds == {int, float}:
        return "Float64"
    names = {bool: "boolean", int: "Int64", float: "Float64", str: "str"}
    return names.get(kinds.pop()) if len(kinds) == 1 else None
