"""Converts Arrow tables to DataFrames and back, for fresh and cached rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal

import orjson
import pandas as pd
import pyarrow as pa

from webdata_nb.errors import InvalidArgument, MissingExtra
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.frames import item_lists, schemas
from webdata_nb.toolkit.frames.call_receipt import CallReceipt
from webdata_nb.toolkit.frames.nested import NestedArray, NestedDtype
from webdata_nb.toolkit.frames.result_frame import ResultFrame

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
        objects in list and JSON columns, whose dtype is `NestedDtype`. `"pyarrow"`: `ArrowDtype`,
        except for lists; JSON columns are then JSON text.
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


def column_values(column: pd.Series[Any]) -> list[Any]:
    """Return the values of a column, None where they are missing.

    Columns of integers with missing values are floats after some formats.
    """
    return [_value(value) for value in column.tolist()]


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
        array = pa.array(column, from_pandas=True)
        is_json = isinstance(column.dtype, NestedDtype) and array.type == schemas.TEXT
        return array, {b"webdata.type": schemas.JSON} if is_json else None
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
    # pandas neither compares lists of Arrow types nor reads its own files with them.
    lists = [field.name for field in table.schema if pa.types.is_list(field.type)]
    plain = _without_metadata(table).drop_columns(lists).to_pandas(types_mapper=pd.ArrowDtype)
    return _combined(table, plain, {name: NestedArray.of_arrow(table[name]) for name in lists})


def _to_native(table: pa.Table, objects: Mapping[str, list[Any]]) -> pd.DataFrame:
    fields = {field.name: field for field in table.schema if schemas.holds_objects(field)}
    plain = _without_metadata(table).drop_columns(list(fields))
    arrays = {
        name: NestedArray(objects[name], NestedDtype(field.type))
        if objects.get(name)
        else NestedArray.of_arrow(table[name])
        for name, field in fields.items()
    }
    return _combined(table, plain.to_pandas(types_mapper=_NULLABLE.get), arrays)


def _combined(
    table: pa.Table, plain: pd.DataFrame, nested: Mapping[str, NestedArray]
) -> pd.DataFrame:
    # Arrays, because pandas would align series with the index.
    columns = {
        name: nested[name] if name in nested else plain[name].array for name in table.column_names
    }
    return ResultFrame(columns, index=pd.RangeIndex(table.num_rows), copy=False)


def _without_metadata(table: pa.Table) -> pa.Table:
    """Remove the metadata of the file, which to_pandas would read as attrs."""
    return table.replace_schema_metadata(None)
