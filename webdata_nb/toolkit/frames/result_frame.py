"""The class of the frames of this package: a DataFrame whose writing verbs take every column.

Lists and dicts become JSON text where a file or database has neither, images base64, and times lose
their zone in workbooks. pandas keeps the class in filters, sorts, copies, pickles and `concat`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from importlib.util import find_spec
from os import PathLike
from typing import Any, Final

import pandas as pd
import pyarrow as pa

from webdata_nb import caller
from webdata_nb.toolkit.frames.nested import JSON_DTYPE, NestedDtype
from webdata_nb.toolkit.frames.spreadsheets import MAX_CELL_CHARS, MIN_YEAR, TEXT_OPTIONS

Convert = Callable[["pd.Series[Any]"], Any]
# Workbooks are XML, which has no such characters.
_NOT_IN_WORKBOOKS: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")
_MAX_WORKBOOK_YEAR: Final = 9999


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
    return _texts(texts, column)


def _text_cells(column: pd.Series[Any]) -> pd.Series[Any]:
    return _image_cells(_json_cells(column))


def _workbook_cells(column: pd.Series[Any], cut: list[int]) -> pd.Series[Any]:
    if getattr(column.dtype, "tz", None) or _has_arrow_zone(column):
        return _times_without_zone(column)
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


def _times_without_zone(column: pd.Series[Any]) -> pd.Series[Any]:
    times: Any = column.dt.tz_convert("UTC").dt.tz_localize(None)
    years = times.dt.year.dropna()
    in_range = years.between(MIN_YEAR, _MAX_WORKBOOK_YEAR).all()
    cells: pd.Series[Any] = times if in_range else times.astype("str")
    return cells


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


def _texts(values: Iterable[str | None], column: pd.Series[Any]) -> pd.Series[Any]:
    return pd.Series(list(values), column.index, dtype="str", name=column.name)


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
