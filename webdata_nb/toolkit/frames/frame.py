"""The frames of this package: DataFrames with a receipt, from Arrow tables and back.

The class writes every column: lists and dicts become JSON text where a file or database has
neither, images base64, and times lose their zone in workbooks. pandas keeps the class in filters,
sorts, copies, pickles and `concat`.

Columns of lists and dicts have a dtype of their own, with which the verbs of pandas work. pandas
keeps lists and dicts in `object` columns: it cannot compare them, and Arrow derives a struct from
the dicts, which fails where they differ or are empty. A `NestedArray` has the same Python values,
and it knows their Arrow type and compares them by their JSON text.
"""

from __future__ import annotations

import base64
import copy
import html
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from os import PathLike
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, TypeVar

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
from pandas.api.extensions import ExtensionArray, ExtensionDtype, register_dataframe_accessor, take
from pandas.api.indexers import check_array_indexer

from webdata_nb import caller
from webdata_nb.errors import InvalidArgument, MissingExtra
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.frames import rows, schemas
from webdata_nb.toolkit.frames.rows import canonical, dumps
from webdata_nb.toolkit.terminal_text import encodable

if TYPE_CHECKING:
    from polars import DataFrame as PolarsFrame


class NestedDtype(ExtensionDtype):
    """The dtype of lists and dicts of one Arrow type; JSON text stands for values of any shape.

    Its name is `object`, because the name of a dtype is what Arrow writes into the files of
    pandas, and what pandas looks up when it reads them, also without this package.
    """

    name: ClassVar[str] = "object"
    type = object
    kind = "O"
    # By this, pandas allows `.str`, as it does for lists and dicts in columns of objects.
    base = "string"
    na_value: ClassVar[None] = None
    _metadata = ("arrow_type",)

    def __init__(self, arrow_type: pa.DataType = schemas.TEXT) -> None:
        self.arrow_type = arrow_type

    def __repr__(self) -> str:
        kind = "JSON" if self.arrow_type == schemas.TEXT else str(self.arrow_type)
        return f"NestedDtype({kind})"

    @classmethod
    def construct_from_string(cls, string: str) -> Self:
        """Refuse every name: `object` is the dtype of numpy."""
        raise TypeError(f"NestedDtype has no name to construct it from; not {string!r}")

    @classmethod
    def construct_array_type(cls) -> Any:
        """Return the type of the arrays."""
        return NestedArray

    def _get_common_dtype(self, dtypes: Sequence[Any]) -> NestedDtype | None:
        if all(isinstance(each, NestedDtype) for each in dtypes):
            return self if set(dtypes) == {self} else JSON_DTYPE
        return None


JSON_DTYPE: Final = NestedDtype()


class _Lazy:
    """Values as an Arrow column until they are needed as Python objects; views share them."""

    __slots__ = ("column", "objects")

    def __init__(self, column: pa.ChunkedArray[Any] | None = None, objects: Any = None) -> None:
        self.column = column
        self.objects: Any = objects

    def decoded(self) -> Any:
        column = self.column
        if column is not None and self.objects is None:
            self.objects = _array_of(decode(column))
        self.column = None  # the Python values can be changed from now on
        return self.objects

    def copy(self) -> _Lazy:
        objects = None if self.objects is None else self.objects.copy()
        return _Lazy(self.column, objects)

    def held(self) -> Any:
        return self.column if self.objects is None else self.objects


class NestedArray(ExtensionArray):  # noqa: PLW1641 - pandas makes arrays unhashable
    """Lists, dicts and None, which pandas compares by their JSON text.

    Examples
    --------
    >>> links = pd.Series(NestedArray([["/a"], None, ["/a"]], NestedDtype(schemas.TEXTS)))
    >>> links.duplicated().tolist()
    [False, False, True]
    >>> pa.array(links).type
    ListType(list<element: string>)
    """

    def __init__(self, values: Iterable[Any] | _Lazy, dtype: NestedDtype = JSON_DTYPE) -> None:
        is_array = isinstance(values, np.ndarray) and values.dtype == object and values.ndim == 1
        if isinstance(values, _Lazy):
            self._values = values
        else:
            self._values = _Lazy(objects=values if is_array else _array_of(values))
        self._dtype = dtype

    @classmethod
    def of_arrow(cls, column: pa.ChunkedArray[Any]) -> Self:
        """Return the values of an Arrow column, which are decoded when they are needed."""
        return cls(_Lazy(column), NestedDtype(column.type))

    @property
    def _objects(self) -> Any:
        return self._values.decoded()

    @classmethod
    def _from_sequence(
        cls,
        scalars: Iterable[Any],
        *,
        dtype: Any = None,
        copy: bool = False,  # noqa: ARG003 - the list below is one
    ) -> Self:
        values = [None if is_missing(value) else value for value in scalars]
        return cls(values, dtype if isinstance(dtype, NestedDtype) else JSON_DTYPE)

    @classmethod
    def _from_factorized(cls, values: Iterable[str | None], original: NestedArray) -> Self:
        return cls(
            [None if text is None else orjson.loads(text) for text in values], original.dtype
        )

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[NestedArray]) -> Self:
        return cls(np.concatenate([np.asarray(each) for each in to_concat]), to_concat[0].dtype)

    @property
    def dtype(self) -> NestedDtype:
        """The dtype."""
        return self._dtype

    @property
    def nbytes(self) -> int:
        """The size of the pointers, or of the Arrow column."""
        return int(self._values.held().nbytes)

    def __len__(self) -> int:
        return len(self._values.held())

    def __getitem__(self, item: Any) -> Any:
        item = check_array_indexer(self, item)
        selected = self._objects[item]
        return selected if np.ndim(item) == 0 and _is_position(item) else self._with(selected)

    def __setitem__(self, key: Any, value: Any) -> None:
        if self._readonly:
            raise ValueError("Cannot modify read-only array")
        key = key[0] if isinstance(key, tuple) and len(key) == 1 else key
        key = check_array_indexer(self, key)
        if _is_position(key):
            self._objects[key] = None if is_missing(value) else value
            return
        targets = np.arange(len(self))[key]
        if isinstance(value, ExtensionArray | np.ndarray | pd.Series | list | tuple):
            if len(value) != len(targets):
                raise ValueError(f"{len(targets)} values are needed; got {len(value)}")
            self._objects[targets] = _array_of(self._from_sequence(value))
        else:
            self._objects[targets] = _array_of(
                [None if is_missing(value) else value] * len(targets)
            )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self._objects, dtype=dtype or object, copy=copy)

    def __arrow_array__(self, type: Any = None) -> Any:  # noqa: A002 - Arrow's protocol
        array: Any = self._values.column
        if array is None:
            array = to_arrow(self._objects.tolist(), self._dtype.arrow_type)
        elif type is None and array.num_chunks == 1:
            array = array.chunk(0)
        return array if type is None else array.cast(type)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, pd.Series | pd.Index | pd.DataFrame):
            return NotImplemented
        if isinstance(other, NestedArray | np.ndarray | list | tuple):
            if len(other) != len(self):
                raise ValueError("Lengths must match to compare")
            values: Iterable[Any] = other
        else:
            values = [other] * len(self)
        pairs = zip(self._objects, values, strict=True)
        equal = (mine is not None and bool(mine == value) for mine, value in pairs)
        return np.fromiter(equal, bool, len(self))

    def __ne__(self, other: object) -> Any:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else ~equal

    def __add__(self, other: object) -> Any:  # lists, as in a column of objects
        if isinstance(other, pd.Series | pd.Index | pd.DataFrame):
            return NotImplemented
        if not isinstance(other, NestedArray):
            raise TypeError(f"+ needs another column of lists; not {type(other).__name__}")
        pairs = zip(self._objects, other, strict=True)
        return self._from_sequence(
            [None if mine is None or more is None else mine + more for mine, more in pairs],
            dtype=self._dtype,
        )

    def __getattr__(self, name: str) -> Any:
        # `.str` of columns of objects: `df["metadata"].str["published"]`, `df["links"].str.len()`.
        if name.startswith("_str_"):
            return getattr(pd.arrays.NumpyExtensionArray(self._objects), name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def isna(self) -> Any:
        """Return where values are missing."""
        if (column := self._values.column) is not None:
            return column.is_null().to_numpy()
        return np.fromiter((value is None for value in self._objects), bool, len(self))

    def take(self, indices: Any, *, allow_fill: bool = False, fill_value: Any = None) -> Self:
        """Return the values at `indices`; with `allow_fill`, -1 is a missing value."""
        value = None if is_missing(fill_value) else fill_value
        return self._with(take(self._objects, indices, allow_fill=allow_fill, fill_value=value))

    def copy(self) -> Self:
        """Return an array of the same Python values."""
        return self._with(self._values.copy())

    def view(self, dtype: Any = None) -> Any:
        """Return an array of the same memory."""
        if dtype is not None:
            raise TypeError(f"a column of lists and dicts cannot be viewed as {dtype}")
        return self._with(self._values)

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """Return the values with another dtype; JSON text for dtypes of text."""
        wanted = pd.api.types.pandas_dtype(dtype)
        if isinstance(wanted, NestedDtype):
            return NestedArray(self._objects.copy() if copy else self._objects, wanted)
        if isinstance(wanted, pd.StringDtype):
            return pd.array(self.texts(), dtype=wanted)
        if isinstance(wanted, pd.ArrowDtype):
            return pd.array(self.__arrow_array__(wanted.pyarrow_dtype), dtype=wanted)
        return super().astype(wanted, copy=copy)

    def texts(self) -> list[str | None]:
        """Return the values as JSON text."""
        return [None if value is None else _json_text(value) for value in self._objects]

    def tolist(self) -> list[Any]:
        """Return the Python values."""
        values: list[Any] = self._objects.tolist()
        return values

    def factorize(self, use_na_sentinel: bool = True) -> tuple[Any, Self]:
        """Return the number of each value among the distinct ones, and these."""
        codes, _ = pd.factorize(self._keys(), use_na_sentinel=use_na_sentinel)
        distinct, first = np.unique(codes, return_index=True)
        return codes, self._with(self._objects[first[distinct >= 0]])

    def unique(self) -> Self:
        """Return the distinct values."""
        return self.factorize(use_na_sentinel=False)[1]

    def duplicated(self, keep: Any = "first") -> Any:
        """Return where a value repeats another one."""
        return pd.Series(self._keys()).duplicated(keep=keep).to_numpy()

    def value_counts(self, dropna: bool = True) -> pd.Series[int]:
        """Return how often each value occurs."""
        codes, distinct = self.factorize(use_na_sentinel=dropna)
        counts = np.bincount(codes[codes >= 0], minlength=len(distinct))
        return pd.Series(counts, index=pd.Index(distinct), name="count")

    def isin(self, values: Iterable[Any]) -> Any:
        """Return where a value is one of `values`."""
        wanted = {None if is_missing(value) else canonical(value) for value in values}
        return np.fromiter((key in wanted for key in self._keys()), bool, len(self))

    def _with(self, objects: Any) -> Self:
        return type(self)(objects, self._dtype)

    def _keys(self) -> Any:
        """Return texts that are equal for equal values, whatever the order of their fields."""
        return _array_of(None if value is None else canonical(value) for value in self._objects)

    def _values_for_factorize(self) -> tuple[Any, Any]:
        return self._keys(), None

    def _values_for_argsort(self) -> Any:
        return np.array(["" if key is None else key for key in self._keys()], dtype=object)

    def _mode(self, dropna: bool = True) -> Self:
        counts = self.value_counts(dropna=dropna)
        values: Any = counts[counts == counts.max()].index.array
        return self._with(_array_of(values))

    def _explode(self) -> tuple[Any, Any]:
        rows = [value if isinstance(value, list) and value else [value] for value in self._objects]
        flat = [None if value == [] else value for value in chain.from_iterable(rows)]
        counts = np.fromiter(map(len, rows), np.uint64, len(rows))
        if self._dtype.arrow_type == schemas.TEXTS:
            return pd.array(flat, dtype="str"), counts
        return self._cast_pointwise_result(flat), counts

    def _reduce(
        self, name: str, *, skipna: bool = True, keepdims: bool = False, **kwargs: Any
    ) -> Any:
        result = getattr(pd.Series(self._objects), name)(skipna=skipna, **kwargs)
        return _array_of([result]) if keepdims else result

    def _cast_pointwise_result(self, values: Iterable[Any]) -> Any:
        """Return the results of a function with the dtype of a column that holds them."""
        found = list(values)
        kinds = {type(value) for value in found if not is_missing(value)}
        if kinds and kinds <= {list, dict}:
            fits = _fits(found, self._dtype.arrow_type)
            return self._from_sequence(found, dtype=self._dtype if fits else JSON_DTYPE)
        return pd.Series(found, dtype=None if kinds else object).array

    def _formatter(self, boxed: bool = False) -> Callable[[Any], str | None]:
        return str if boxed else repr


def decode(column: pa.ChunkedArray[Any]) -> list[Any]:
    """Return the Python values of a column of lists or of JSON text."""
    if column.type == schemas.TEXTS:
        decoder: Callable[[Any], list[Any]] = _decode_lists
    else:
        decoder = rows.decode_items if pa.types.is_list(column.type) else _decode_json
    return list(chain.from_iterable(map(decoder, column.chunks)))


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


def to_arrow(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array[Any]:
    """Return values as an Arrow array; as JSON text if one does not fit the type."""
    if arrow_type == schemas.TEXT or not _fits(values, arrow_type):
        return pa.array([None if v is None else _json_text(v) for v in values], schemas.TEXT)
    if schemas.has_items(pa.field("", arrow_type)):
        values = [None if each is None else rows.encode_items(each, arrow_type) for each in values]
    return pa.array(values, arrow_type)


def _json_text(value: Any) -> str:
    try:
        return dumps(value)
    except TypeError:  # a value of the user, such as a set or a Timestamp
        return json.dumps(value, default=str, ensure_ascii=False)


def _fits(values: Iterable[Any], arrow_type: pa.DataType) -> bool:
    present = [value for value in values if value is not None]
    if arrow_type == schemas.TEXTS:
        return all(
            isinstance(each, list) and all(isinstance(item, str) for item in each)
            for each in present
        )
    return arrow_type == schemas.TEXT or all(isinstance(each, list) for each in present)


def _array_of(values: Iterable[Any]) -> Any:
    """Return a one-dimensional array, also of lists of equal length."""
    listed = list(values)
    return np.fromiter(listed, object, len(listed))


def is_missing(value: Any) -> bool:
    """Return whether a value is None or one of those that stand for none; no list or dict is."""
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


def _is_position(key: Any) -> bool:
    return isinstance(key, int | np.integer)


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
        lines: dict[str, str] = {}
        for name, value in ordered.items():
            longest = _LONGEST_TEXT if isinstance(value, str) else _LONGEST_ENTRIES
            if words := " ".join(_text(value).split()):
                lines[name] = words if len(words) <= longest else f"{words[: longest - 1]}…"
        return lines

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
        is_nested = any(isinstance(each, Mapping | list) for each in value)
        return dumps(value) if is_nested else ", ".join(map(_text, value))
    return str(value)


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


def _workbook_cells(column: pd.Series[Any], cut: list[int]) -> pd.Series[Any]:
    # Of times of pandas, and of those of Arrow.
    if getattr(getattr(column.dtype, "pyarrow_dtype", column.dtype), "tz", None):
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
    for number, value in enumerate(values):
        if isinstance(value, str):
            text = _NOT_IN_WORKBOOKS.sub("", value)
            is_short = len(text) <= MAX_CELL_CHARS
            values[number] = text if is_short else f"{text[: MAX_CELL_CHARS - 1]}…"
    return pd.Series(values, column.index, dtype=object)


def _is_for_xlsxwriter(target: object, options: Mapping[str, Any]) -> bool:
    if isinstance(target, pd.ExcelWriter) or find_spec("xlsxwriter") is None:
        return False
    engine = options.get("engine") or pd.get_option("io.excel.xlsx.writer")
    is_workbook = not isinstance(target, str | PathLike) or str(target).endswith(".xlsx")
    return is_workbook and engine in {"auto", "xlsxwriter"}


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
    # Workbooks have no time zones; the snapshots of a pivot are in its header.
    for axis in ("columns", "index"):
        labels = getattr(plain, axis)
        if isinstance(labels, pd.DatetimeIndex) and labels.tz is not None:
            plain = plain.set_axis(labels.tz_convert(None), axis=axis)
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
    UTC, without images. A frame that pandas would print in several blocks, without some of its
    columns or without a row is printed as `text_view` returns it, unless that is None.

    Examples
    --------
    >>> pages = from_columns({"url": ["/"], "links": pd.Series([["/a"]])})
    >>> print(pages.to_csv(index=False).strip())
    url,links
    /,"[""/a""]"
    """

    text_view: ClassVar[Callable[[pd.DataFrame, int], str | None] | None] = None

    @property
    def _constructor(self) -> Any:
        return ResultFrame

    def __repr__(self) -> str:
        text = super().__repr__()
        first_line = text.split("\n", 1)[0]
        is_whole = not (self.empty or first_line.endswith("\\") or "..." in first_line)
        view = ResultFrame.text_view
        if is_whole or view is None:
            return text
        rows, most = len(self), pd.get_option("display.max_rows")
        fewer = pd.get_option("display.min_rows") or most
        return view(self, rows if not most or rows <= most else fewer) or text

    to_csv: Any = _writing("to_csv", lambda column: _image_cells(_json_cells(column)))
    to_json: Any = _writing("to_json", _image_cells, date_format="iso")
    to_sql: Any = _writing("to_sql", _json_cells)  # type: ignore[misc]
    to_excel: Any = _to_excel  # type: ignore[misc]


def from_columns(columns: Mapping[Any, Any], index: Any = None) -> ResultFrame:
    """Return a frame of columns; those with values of JSON get their dtype."""
    typed = dict(columns)
    for name, column in columns.items():
        if isinstance(column, pd.Series) and column.dtype == object:
            kinds = {type(value) for value in column.dropna()}
            if not (kinds <= {str} or kinds <= {bytes}):
                typed[name] = column.astype(JSON_DTYPE)
    return ResultFrame(typed, index=index)


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
    if dtype_backend == "pyarrow":
        # pandas neither compares lists of Arrow types nor reads its own files with them.
        lists = [field.name for field in table.schema if pa.types.is_list(field.type)]
        plain = _without_metadata(table).drop_columns(lists).to_pandas(types_mapper=pd.ArrowDtype)
        # Arrays, because pandas would align series with the index.
        arrays = {
            name: NestedArray.of_arrow(table[name]) if name in lists else plain[name].array
            for name in table.column_names
        }
    else:
        known = objects or {}
        arrays = {
            field.name: NestedArray(known[field.name], NestedDtype(field.type))
            if known.get(field.name)
            else _native_array(field, table[field.name])
            for field in table.schema
        }
    frame = ResultFrame(arrays, index=pd.RangeIndex(table.num_rows), copy=False)
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


def require_column(df: pd.DataFrame, name: str, hint: str = "") -> None:
    """Check that `df` is a DataFrame with a column; `hint` says where the column comes from.

    Raises
    ------
    InvalidArgument
        It is not.
    """
    require_frame(df)
    if name not in df.columns:
        raise InvalidArgument(f"df has no column {name}{hint}; it is {format_value(df)}")


def require_columns(df: object, names: Sequence[str], what: str) -> pd.DataFrame:
    """Return a DataFrame with columns; `what` says where such a frame comes from.

    Raises
    ------
    InvalidArgument
        It is not.
    """
    if not isinstance(df, pd.DataFrame) or not set(names) <= set(df.columns):
        raise InvalidArgument(
            f"df must be a frame of {what}, with {', '.join(names)}; it is {format_value(df)}"
        )
    return df


def column_values(column: pd.Series[Any]) -> list[Any]:
    """Return the values of a column, None where they are missing.

    Columns of integers with missing values are floats after some formats.
    """
    return [_value(value) for value in column.tolist()]


def _value(value: Any) -> Any:
    if is_missing(value):
        return None
    return int(value) if isinstance(value, float) and value.is_integer() else value


def backend_of(df: pd.DataFrame) -> DtypeBackend:
    """Return the `dtype_backend` that a frame was built with."""
    has_arrow = any(isinstance(dtype, pd.ArrowDtype) for dtype in df.dtypes)
    return "pyarrow" if has_arrow else "pandas"


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


def receipt_of(df: pd.DataFrame) -> dict[str, Any]:
    """Return the receipt of a frame; empty if it has none."""
    receipt = df.attrs.get(ATTRS)
    return receipt if isinstance(receipt, dict) else {}


def receipt_text(df: pd.DataFrame, name: str) -> str:
    """Return a text of a frame's receipt, such as its `kind` or `line`; empty without it."""
    text = receipt_of(df).get(name)
    return text if isinstance(text, str) else ""


def has_receipt(df: pd.DataFrame) -> bool:
    """Return whether a frame comes from this package, or was derived from such a frame."""
    return bool(receipt_text(df, "kind"))


def _plain_value(value: Any) -> Any:
    if isinstance(value, str | bytes | list | dict):
        return value
    if is_missing(value):
        return None
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime(warn=False)
    return value if isinstance(value, bool | int | float | datetime) else str(value)
