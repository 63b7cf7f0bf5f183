"""Writes tables as CSV and as Excel workbooks."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import orjson
import pyarrow as pa

from webdata_nb.contract.cells import escape_formula
from webdata_nb.errors import MissingExtra
from webdata_nb.toolkit.frames import schemas
from webdata_nb.toolkit.frames.json_text import dumps
from webdata_nb.toolkit.frames.json_values import json_values

CSV_LOSSES: Final = (
    "a CSV file has no types and no receipt; lists and dicts are JSON text. read_csv_export "
    "restores the types; a .parquet file loses nothing"
)
XLSX_LOSSES: Final = (
    "a workbook has lists and dicts as JSON text, texts up to 32,767 characters and no "
    "screenshots; a .parquet file loses nothing"
)
MAX_CELL_CHARS: Final = 32_767
_MAX_ROWS: Final = 1_048_575  # below the header
_MAX_WIDTH: Final = 60
MIN_YEAR: Final = 1900
# Texts of pages stay texts.
TEXT_OPTIONS: Final = {"strings_to_formulas": False, "strings_to_urls": False}
_WORKBOOK_OPTIONS: Final = {
    **TEXT_OPTIONS,
    "in_memory": True,
    "nan_inf_to_errors": True,
    "default_date_format": "yyyy-mm-dd hh:mm:ss",
}


def csv_bytes(table: pa.Table) -> bytes:
    """Return a table as CSV (RFC 4180, UTF-8), with the cells of the service's exports."""
    columns = [json_values(field, table[field.name]) for field in table.schema]
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(escape_formula(name) for name in table.schema.names)
    writer.writerows([_csv_cell(value) for value in row] for row in zip(*columns, strict=True))
    return text.getvalue().encode()


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    return escape_formula(value if isinstance(value, str) else orjson.dumps(value).decode())


def require_xlsxwriter() -> ModuleType:
    """Import XlsxWriter.

    Raises
    ------
    MissingExtra
        It is not installed.
    """
    try:
        return import_module("xlsxwriter")
    except ImportError:
        raise MissingExtra(
            "writing .xlsx needs XlsxWriter: pip install 'webdata_nb[excel]', or write .csv"
        ) from None


@dataclass(slots=True)
class _Cuts:
    """Counts what did not fit into a workbook."""

    texts: int = 0
    rows: int = 0

    def message(self) -> str:
        texts = f"{self.texts:,} texts were cut at {MAX_CELL_CHARS:,} characters"
        rows = f"{self.rows:,} rows beyond {_MAX_ROWS:,} were left out"
        return "; ".join(part for part, count in ((texts, self.texts), (rows, self.rows)) if count)


def xlsx_bytes(table: pa.Table, attrs: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return a workbook with the rows and the receipt, and a message about what was cut."""
    data, cuts = io.BytesIO(), _Cuts(rows=max(0, table.num_rows - _MAX_ROWS))
    with require_xlsxwriter().Workbook(data, _WORKBOOK_OPTIONS) as book:
        bold = book.add_format({"bold": True})
        _write_rows(book.add_worksheet("rows"), table.slice(0, _MAX_ROWS), bold, cuts)
        _write_receipt(book.add_worksheet("receipt"), attrs, bold)
    return data.getvalue(), cuts.message()


def _write_rows(sheet: Any, table: pa.Table, bold: Any, cuts: _Cuts) -> None:
    sheet.freeze_panes(1, 0)
    for number, field in enumerate(table.schema):
        sheet.write_string(0, number, field.name, bold)
        values = [_cell(value, field, cuts) for value in _values(field, table[field.name])]
        widths = [len(str(value)) for value in values if value is not None]
        sheet.set_column(number, number, min(_MAX_WIDTH, max([len(field.name), *widths]) + 2))
        for row, value in enumerate(values, 1):
            _write_cell(sheet, row, number, value)
    if table.num_columns:
        sheet.autofilter(0, 0, table.num_rows, table.num_columns - 1)


def _values(field: pa.Field[Any], column: pa.ChunkedArray[Any]) -> list[Any]:
    if schemas.kind(field) == schemas.PNG:
        return [None] * len(column)
    if schemas.kind(field) == schemas.JSON:
        texts: list[Any] = column.to_pylist()
        return texts
    return json_values(field, column)


def _cell(value: Any, field: pa.Field[Any], cuts: _Cuts) -> Any:
    if pa.types.is_timestamp(field.type):
        return _time_or_text(value)
    if isinstance(value, list | dict):
        value = dumps(value)
    if isinstance(value, str) and len(value) > MAX_CELL_CHARS:
        cuts.texts += 1
        return f"{value[: MAX_CELL_CHARS - 1]}…"
    return value


def _time_or_text(text: str | None) -> datetime | str | None:
    """Return a time in UTC without a zone, which workbooks do not have."""
    if text is None:
        return None
    with suppress(ValueError):
        time = datetime.fromisoformat(text).replace(tzinfo=None)
        return time if time.year >= MIN_YEAR else text
    return text


def _write_cell(sheet: Any, row: int, column: int, value: Any) -> None:
    if isinstance(value, str):
        # Without a format, a text that begins with = stays a text.
        sheet.write_string(row, column, value)
    elif value is not None:
        sheet.write(row, column, value)


def _write_receipt(sheet: Any, attrs: Mapping[str, Any], bold: Any) -> None:
    sheet.set_column(0, 0, 20)
    sheet.set_column(1, 1, _MAX_WIDTH)
    for row, (name, value) in enumerate(attrs.items()):
        text = value if isinstance(value, str) else dumps(value)
        sheet.write_string(row, 0, name, bold)
        sheet.write_string(row, 1, text[:MAX_CELL_CHARS])
