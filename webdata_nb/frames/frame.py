"""Converts Arrow tables to DataFrames and back, for fresh and cached rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import chain
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal

import orjson
import pandas as pd
import pyarrow as pa

from webdata_nb.errors import InvalidArgument, MissingExtra
from webdata_nb.frames import item_lists, schemas
from webdata_nb.frames.call_receipt import CallReceipt
from webdata_nb.suggestions import format_value

if TYPE_CHECKING:
    from polars import DataFrame as PolarsFrame

DtypeBackend = Literal["pandas", "pyarrow"]
ATTRS: Final = "webdata"

_NULLABLE: Final[dict[pa.DataType, Any]] = {
    pa.int64(): pd.Int64Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}


def build(
    table: pa.Table,
    *,
    columns: Sequence[str] | None = None,
    attrs: Mapping[str, Any] | None = None,
    dtype_backend: DtypeBackend = "pandas",
    objects: Mapping[str, list[Any]] | None = None,
) -> pd.DataFrame:
    """Return columns of `table` as a DataFrame.

    Parameters
    ----------
    table
        Rows in one of the schemas of `schemas.SCHEMAS`.
    columns
        The names of the columns in their order; None for all columns.
    attrs
        The receipt for `df.attrs["webdata"]`.
    dtype_backend
        `"pandas"`: `str`, nullable `Int16`/`Int32`/`boolean`, `datetime64[us, UTC]`, and Python
        objects in list and JSON columns. `"pyarrow"`: `ArrowDtype` throughout; JSON columns are
        then JSON text.
    objects
        The values of list and JSON columns, if known from `rows.batch`.
    """
    table = table.select(list(columns)) if columns is not None else table
    frame = (
        _to_arrow_backed(table) if dtype_backend == "pyarrow" else _to_native(table, objects or {})
    )
    if attrs is not None:
        frame.attrs = {ATTRS: CallReceipt(attrs)}
    return frame


def require_frame(df: object) -> None:
    """Check that `df` is a DataFrame.

    Raises
    ------
    InvalidArgument
        It is not.
    """
    if not isinstance(df, pd.DataFrame):
        raise InvalidArgument(f"df must be a pandas DataFrame; it is {format_value(df)}")


def to_objects(column: pd.Series[Any]) -> list[Any]:
    """Return the values of a column, with the lists of items of Arrow columns as dicts."""
    if isinstance(column.dtype, pd.ArrowDtype):
        values: Any = pa.array(column)
        if schemas.has_items(pa.field("", values.type)):
            return item_lists.decode(values)
    return column.tolist()


def column_values(column: pd.Series[Any]) -> list[Any]:
    """Return the values of a column, None where they are missing.

    Columns of integers with missing values are floats after some formats.
    """
    return [_value(value) for value in to_objects(column)]


def _value(value: Any) -> Any:
    if value is pd.NA:
        return None
    if isinstance(value, float):
        return None if math.isnan(value) else int(value) if value.is_integer() else value
    return value


def is_arrow_backed(df: pd.DataFrame) -> bool:
    """Return whether a frame was built with `dtype_backend="pyarrow"`."""
    return any(isinstance(dtype, pd.ArrowDtype) for dtype in df.dtypes)


def to_table(df: pd.DataFrame) -> pa.Table:
    """Convert a frame to an Arrow table with the types of the cache.

    Raises
    ------
    InvalidArgument
        Arrow does not support the values of a column.
    """
    fields: list[pa.Field[Any]] = []
    columns: list[pa.Array[Any] | pa.ChunkedArray[Any]] = []
    for name in df.columns:
        try:
            column, mark = _as_arrow(df[name])
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InvalidArgument(f"column {name} cannot be written: {error}") from None
        columns.append(column)
        fields.append(pa.field(str(name), column.type, metadata=mark))
    return pa.table(columns, schema=pa.schema(fields))


def _as_arrow(
    column: pd.Series[Any],
) -> tuple[pa.Array[Any] | pa.ChunkedArray[Any], dict[bytes, bytes] | None]:
    if column.dtype != object:
        return pa.array(column, from_pandas=True), None
    values = [None if value is None or value is pd.NA else value for value in column.tolist()]
    item_type = schemas.ITEM_TYPES.get(str(column.name))
    if item_type is not None and {type(value) for value in values} <= {list, type(None)}:
        items = [None if value is None else item_lists.encode(value, item_type) for value in values]
        return pa.array(items, item_type), None
    kinds = {type(value) for value in values} - {type(None)}
    if kinds <= {bytes}:
        return pa.array(values, pa.binary()), None
    if kinds <= {list} and all(isinstance(item, str) for row in values for item in row or ()):
        return pa.array(values, schemas.TEXTS), None
    if kinds <= {str}:
        return pa.array(values, schemas.TEXT), None
    texts = [None if value is None else orjson.dumps(value).decode() for value in values]
    return pa.array(texts, schemas.TEXT), {b"webdata.type": schemas.JSON}


def with_attrs(table: pa.Table, attrs: Mapping[str, Any]) -> pa.Table:
    """Return `table` with the receipt in its metadata, from which pandas reads attrs."""
    encoded = orjson.dumps({ATTRS: dict(attrs)})
    return table.replace_schema_metadata({b"PANDAS_ATTRS": encoded})


def require_polars() -> ModuleType:
    """Import polars.

    Raises
    ------
    MissingExtra
        It is not installed.
    """
    try:
        return import_module("polars")
    except ImportError:
        raise MissingExtra(
            "polars is not installed: pip install 'webdata_nb[polars]', or use df() or arrow()"
        ) from None


def to_polars(table: pa.Table) -> PolarsFrame:
    """Convert a table to a polars frame without copying its buffers."""
    polars_frame: PolarsFrame = require_polars().from_arrow(_without_metadata(table), rechunk=False)
    return polars_frame


def _to_arrow_backed(table: pa.Table) -> pd.DataFrame:
    frame: pd.DataFrame = _without_metadata(table).to_pandas(types_mapper=pd.ArrowDtype)
    return frame


def _to_native(table: pa.Table, objects: Mapping[str, list[Any]]) -> pd.DataFrame:
    plain = [field.name for field in table.schema if not schemas.holds_objects(field)]
    frame = _without_metadata(table).select(plain).to_pandas(types_mapper=_NULLABLE.get)
    index = pd.RangeIndex(table.num_rows)
    columns: dict[str, Any] = {}
    for field in table.schema:
        if schemas.holds_objects(field):
            values = objects.get(field.name) or _decode_column(field, table[field.name])
            columns[field.name] = pd.Series(values, dtype=object).to_numpy()
        else:
            # Without the index, with which pandas would align each column.
            columns[field.name] = frame[field.name].array
    return pd.DataFrame(columns, index=index, copy=False)


def _without_metadata(table: pa.Table) -> pa.Table:
    """Remove the metadata of the file, which to_pandas would read as attrs."""
    return table.replace_schema_metadata(None)


def _decode_column(field: pa.Field[Any], column: pa.ChunkedArray[Any]) -> list[Any]:
    return list(chain.from_iterable(map(_decoder(field), column.chunks)))


def _decoder(field: pa.Field[Any]) -> Any:
    if field.type == schemas.TEXTS:
        return _decode_lists
    return item_lists.decode if schemas.has_items(field) else _decode_json


def _decode_json(chunk: pa.Array[Any]) -> list[Any]:
    if chunk.null_count == len(chunk):
        return [None] * len(chunk)
    # As one JSON array: a decoder call for each text would cost as much as the decoding.
    texts: list[Any] = chunk.fill_null("null").to_pylist()
    values: list[Any] = orjson.loads(f"[{','.join(texts)}]")
    return values


def _decode_lists(chunk: pa.ListArray[Any]) -> list[list[Any] | None]:
    """Slice the flat values at the offsets, which is faster than one scalar per list."""
    offsets = chunk.offsets.to_pylist()
    flat = chunk.values.to_pylist()  # noqa: PD011 - an Arrow array, which has no to_numpy twin
    cuts = zip(offsets, offsets[1:], chunk.is_valid().to_pylist(), strict=False)
    return [flat[start:stop] if valid else None for start, stop, valid in cuts]
