"""The frames of this package: DataFrames with a receipt, from Arrow tables and back.

The class writes every column: lists and dicts become JSON text where a file or database has
neither, images base64, and times lose their zone in workbooks. pandas keeps the class in filters,
sorts, copies, pickles and `concat`.
"""

from __future__ import annotations

import base64
import copy
import html
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from os import PathLike
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import orjson
import pandas as pd
import pyarrow as pa
from pandas.api.extensions import register_dataframe_accessor

from webdata_nb import caller
from webdata_nb.errors import InvalidArgument, MissingExtra
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.frames import rows, schemas
from webdata_nb.toolkit.frames.nested import JSON_DTYPE, NestedArray, NestedDtype
from webdata_nb.toolkit.frames.rows import dumps
from webdata_nb.toolkit.terminal_text import encodable

if TYPE_CHECKING:
    from polars import DataFrame as PolarsFrame

# Of a text, which may be a path to copy, and of the entries of a dict or list.
_LONGEST_TEXT: Final = 400
_LONGEST_ENTRIES: Final = 160
_CELL: Final = (
    "padding:2px 6px;text-align:left;vertical-align:top;border:0;overflow-wrap:anywhere;"
    "white-space:"
)


class CallReceipt(dict[str, Any]):
    """A dict of plain JSON values, which prints as one line for each of them.

    Its pickle holds a plain dict, so that it is read without this package.

    Examples
    --------
    >>> CallReceipt(kind="crawl", counts={"rows": 3, "failed": 0}, file=None)
    kind    crawl
    counts  rows 3, failed 0
    """

    def __repr__(self) -> str:
        lines = self._lines()
        width = max((len(name) for name in lines), default=0)
        return encodable("\n".join(f"{name:{width}}  {text}" for name, text in lines.items()))

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr style="background:none"><th scope="row" style="{_CELL}nowrap">'
            f'{html.escape(name)}</th><td style="{_CELL}normal">{html.escape(text)}</td></tr>'
            for name, text in self._lines().items()
        )
        return (
            '<table style="border-collapse:collapse;margin:0;font-family:sans-serif;'
            f'font-size:13px;color:inherit"><tbody>{rows}</tbody></table>'
        )

    def _lines(self) -> dict[str, str]:
        """Return each value that is present as text, the summary first."""
        ordered = {"line": self.get("line"), **self}
        texts = {name: _line(value) for name, value in ordered.items()}
        return {name: text for name, text in texts.items() if text}

    def __deepcopy__(self, memo: dict[int, Any]) -> CallReceipt:
        return CallReceipt(copy.deepcopy(dict(self), memo))

    def __reduce_ex__(self, _protocol: object) -> tuple[object, ...]:
        return dict, (dict(self),)


def _text(value: object) -> str:
    if value is None or value in ({}, []):
        return ""
    if isinstance(value, Mapping):
        named = ((name, _text(entry)) for name, entry in value.items())
        return ", ".join(f"{name} {text}" for name, text in named if text)
    if isinstance(value, list):
        return ", ".join(map(_text, value)) if _is_flat(value) else dumps(value)
    return str(value)


def _is_flat(values: list[object]) -> bool:
    return not any(isinstance(value, Mapping | list) for value in values)


def _line(value: object) -> str:
    """Return a value on one line, which is cut if it is long."""
    words = " ".join(_text(value).split())
    longest = _LONGEST_TEXT if isinstance(value, str) else _LONGEST_ENTRIES
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


Convert = Callable[["pd.Series[Any]"], Any]
# Workbooks are XML, which has no such characters.
_NOT_IN_WORKBOOKS: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")
_MAX_WORKBOOK_YEAR: Final = 9999
MIN_YEAR: Final = 1900
MAX_CELL_CHARS: Final = 32_767
# Texts of pages stay texts.
TEXT_OPTIONS: Final = {"strings_to_formulas": False, "strings_to_urls": False}


def _converted(df: pd.DataFrame, convert: Convert) -> pd.DataFrame:
    """Return a frame of pandas with the same labels and converted columns."""
    columns = {number: convert(df.iloc[:, number]) for number in range(df.shape[1])}
    plain = pd.DataFrame(columns, index=df.index)
    plain.columns = df.columns
    return plain


def _json_cells(column: pd.Series[Any]) -> pd.Series[Any]:
    return column.astype("str") if isinstance(column.dtype, NestedDtype) else column


def _image_cells(column: pd.Series[Any]) -> pd.Series[Any]:
    if not _may_have_images(column):
        return column
    values = column.tolist()
    if not any(isinstance(value, bytes) for value in values):
        return column
    texts = (
        base64.b64encode(value).decode() if isinstance(value, bytes) else None for value in values
    )
    return pd.Series(list(texts), column.index, dtype="str", name=column.name)


def _text_cells(column: pd.Series[Any]) -> pd.Series[Any]:
    return _image_cells(_json_cells(column))


def _workbook_cells(column: pd.Series[Any], cut: list[int]) -> pd.Series[Any]:
    if getattr(column.dtype, "tz", None) or _has_arrow_zone(column):
        times: Any = column.dt.tz_convert("UTC").dt.tz_localize(None)
        years = times.dt.year.dropna()
        in_range = years.between(MIN_YEAR, _MAX_WORKBOOK_YEAR).all()
        cells: pd.Series[Any] = times if in_range else times.astype("str")
        return cells
    if _may_have_images(column) and any(isinstance(value, bytes) for value in column.tolist()):
        return pd.Series(None, column.index, dtype=object)
    column = _json_cells(column)
    if not pd.api.types.is_string_dtype(column.dtype):
        return column
    values = column.tolist()
    too_long = sum(isinstance(text, str) and len(text) > MAX_CELL_CHARS for text in values)
    if too_long:
        cut.append(too_long)
    return pd.Series(map(_workbook_text, values), column.index, dtype=object)


def _is_for_xlsxwriter(target: object, options: Mapping[str, Any]) -> bool:
    if isinstance(target, pd.ExcelWriter) or find_spec("xlsxwriter") is None:
        return False
    engine = options.get("engine") or pd.get_option("io.excel.xlsx.writer")
    is_workbook = not isinstance(target, str | PathLike) or str(target).endswith(".xlsx")
    return is_workbook and engine in {"auto", "xlsxwriter"}


def _workbook_text(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = _NOT_IN_WORKBOOKS.sub("", value)
    return text if len(text) <= MAX_CELL_CHARS else f"{text[: MAX_CELL_CHARS - 1]}…"


def _has_arrow_zone(column: pd.Series[Any]) -> bool:
    dtype = column.dtype
    if not isinstance(dtype, pd.ArrowDtype):
        return False
    arrow_type = dtype.pyarrow_dtype
    return pa.types.is_timestamp(arrow_type) and arrow_type.tz is not None


def _may_have_images(column: pd.Series[Any]) -> bool:
    dtype: Any = column.dtype
    if isinstance(dtype, pd.ArrowDtype):
        return pa.types.is_binary(dtype.pyarrow_dtype)
    return bool(dtype == object)  # noqa: E721 - of a dtype


def _writing(name: str, convert: Convert, **defaults: Any) -> Any:
    """Return a method of pandas that writes converted columns."""
    method = getattr(pd.DataFrame, name)

    @wraps(method)
    def write(self: pd.DataFrame, *args: Any, **options: Any) -> Any:
        return method(_converted(self, convert), *args, **{**defaults, **options})

    return write


@wraps(pd.DataFrame.to_excel)
def _to_excel(self: pd.DataFrame, excel_writer: Any, *args: Any, **options: Any) -> None:
    if "engine_kwargs" not in options and _is_for_xlsxwriter(excel_writer, options):
        options["engine_kwargs"] = {"options": TEXT_OPTIONS}
    cut: list[int] = []
    plain = _converted(self, lambda column: _workbook_cells(column, cut))
    if cut:
        caller.warn(
            f"{sum(cut):,} texts were cut at {MAX_CELL_CHARS:,} characters, the most that a cell "
            "of a workbook holds; to_parquet loses nothing"
        )
    pd.DataFrame.to_excel(plain, excel_writer, *args, **options)


class ResultFrame(pd.DataFrame):
    """Rows of this package as a DataFrame.

    `to_csv` and `to_sql` write lists and dicts as JSON text, `to_csv` and `to_json` images as
    base64, `to_json` times as ISO 8601 unless `date_format` says otherwise, and `to_excel` times as
    UTC, without images.

    Examples
    --------
    >>> pages = from_columns({"url": ["/"], "links": pd.Series([["/a"]])})
    >>> print(pages.to_csv(index=False).strip())
    url,links
    /,"[""/a""]"
    """

    @property
    def _constructor(self) -> Any:
        return ResultFrame

    to_csv: Any = _writing("to_csv", _text_cells)
    to_json: Any = _writing("to_json", _image_cells, date_format="iso")
    to_sql: Any = _writing("to_sql", _json_cells)  # type: ignore[misc]
    to_excel: Any = _to_excel  # type: ignore[misc]


def from_columns(columns: Mapping[Any, Any], index: Any = None) -> ResultFrame:
    """Return a frame of columns; those with values of JSON get their dtype."""
    return ResultFrame(
        {name: _with_nested_dtype(column) for name, column in columns.items()}, index=index
    )


def _with_nested_dtype(column: Any) -> Any:
    if not isinstance(column, pd.Series) or column.dtype != object:
        return column
    kinds = {type(value) for value in column.dropna()}
    return column if kinds <= {str} or kinds <= {bytes} else column.astype(JSON_DTYPE)


DtypeBackend = Literal["pandas", "pyarrow"]
ATTRS: Final = "webdata"

_WHEN: Final = pd.DatetimeTZDtype("us", pa.lib.string_to_tzinfo("UTC"))
_EXTENSIONS: Final[dict[pa.DataType, Any]] = {
    schemas.TEXT: pd.StringDtype(na_value=math.nan),
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
        items = [None if value is None else rows.encode_items(value, item_type) for value in values]
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
    # Arrays, because pandas would align series with the index.
    columns = {
        name: NestedArray.of_arrow(table[name]) if name in lists else plain[name].array
        for name in table.column_names
    }
    return ResultFrame(columns, index=pd.RangeIndex(table.num_rows), copy=False)


def _to_native(table: pa.Table, objects: Mapping[str, list[Any]]) -> pd.DataFrame:
    columns = {
        field.name: NestedArray(objects[field.name], NestedDtype(field.type))
        if objects.get(field.name)
        else _native_array(field, table[field.name])
        for field in table.schema
    }
    return ResultFrame(columns, index=pd.RangeIndex(table.num_rows), copy=False)


def _native_array(field: pa.Field[Any], column: pa.ChunkedArray[Any]) -> Any:
    """Return a column as an array of pandas, which can be written to.

    `to_pandas` of a table returns the same arrays, and takes three times as long.
    """
    if schemas.holds_objects(field):
        return NestedArray.of_arrow(column)
    if field.type == pa.float64():
        return column.to_pandas().to_numpy(copy=True)
    if field.type == schemas.WHEN:
        return _WHEN.__from_arrow__(column).copy()
    dtype = _EXTENSIONS.get(field.type)
    return column.to_pandas().array if dtype is None else dtype.__from_arrow__(column)


def _without_metadata(table: pa.Table) -> pa.Table:
    """Remove the metadata of the file, which to_pandas would read as attrs."""
    return table.replace_schema_metadata(None)


DATA_FRAME: Final = pd.DataFrame

T = TypeVar("T")


def register_accessor(accessor: type[T]) -> type[T]:
    """Make `df.webdata` an instance of `accessor`."""
    return register_dataframe_accessor(ATTRS)(accessor)


def to_lists(df: pd.DataFrame) -> list[list[Any]]:
    """Return the rows of `df` as lists; missing values are None, and times are datetimes."""
    columns = [[_plain_value(each) for each in df.iloc[:, n].tolist()] for n in range(df.shape[1])]
    return [list(row) for row in zip(*columns, strict=True)] if columns else []


def empty_columns(df: pd.DataFrame) -> frozenset[str]:
    """Return the names of the columns without a value; none if the frame has no rows."""
    if df.empty:
        return frozenset()
    return frozenset(
        str(name) for n, name in enumerate(df.columns) if not df.iloc[:, n].notna().any()
    )


def labels(df: pd.DataFrame) -> list[object] | None:
    """Return the labels of the rows, or None if they are 0, 1, 2 and so on."""
    found = df.index.tolist()
    return None if found == list(range(len(found))) else found


def has_receipt(df: pd.DataFrame) -> bool:
    """Return whether a frame comes from this package, or was derived from such a frame."""
    return bool(receipt_kind(df))


def receipt_kind(df: pd.DataFrame) -> str:
    """Return the kind of a frame, such as `crawl`; empty if it has no receipt."""
    receipt = df.attrs.get(ATTRS)
    kind = receipt.get("kind") if isinstance(receipt, dict) else None
    return kind if isinstance(kind, str) else ""


def receipt_line(df: pd.DataFrame) -> str:
    """Return the receipt of a frame as one line; empty if it has none."""
    receipt = df.attrs.get(ATTRS)
    line = receipt.get("line") if isinstance(receipt, dict) else None
    return line if isinstance(line, str) else ""


def _plain_value(value: Any) -> Any:
    if isinstance(value, str | bytes | list | dict):
        return value
    if value is None or value is pd.NA or value is pd.NaT or value != value:  # noqa: PLR0124 - NaN
        return None
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime(warn=False)
    return value if isinstance(value, bool | int | float | datetime) else str(value)
