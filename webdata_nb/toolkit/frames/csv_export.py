"""Reads a CSV export of the service: its types, and cells without the protection from formulas."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from os import PathLike, fspath
from typing import Any, Final

import orjson
import pandas as pd
import pyarrow as pa

from webdata_nb import caller
from webdata_nb.contract.cells import unescape_formula
from webdata_nb.toolkit.frames import exports, frame, rows, schemas
from webdata_nb.toolkit.frames.schemas import TableName

# Columns that the exports of one kind have in every version.
_KIND_COLUMNS: Final[dict[TableName, frozenset[str]]] = {
    "search": frozenset({"rank", "url", "snippet"}),
    "crawl": frozenset({"url", "depth", "status_code"}),
}
_BOOLEANS: Final = {"true": True, "false": False}
_PARSERS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[str], Any]], ...]] = (
    (pa.types.is_boolean, _BOOLEANS.__getitem__),
    (pa.types.is_integer, int),
    (pa.types.is_floating, float),
    (pa.types.is_list, orjson.loads),
)


def read_csv_export(path: str | PathLike[str]) -> pd.DataFrame:
    r"""Read a CSV export of a job, with the types of a frame and the original text of each cell.

    The service writes an apostrophe before each cell that a spreadsheet could read as a formula.
    This function removes it.

    Parameters
    ----------
    path
        The downloaded file.

    Returns
    -------
    pandas.DataFrame
        One row per result, in the order of the job, with the columns of the file and the dtypes of
        `search_df` or `crawl_df`: numbers, times, lists and dicts. Empty cells are missing. A value
        that does not have the type of its column is in `extra`. Columns of an unknown kind are
        text.

    Warns
    -----
    UserWarning
        The export is partial: the job had not ended, failed or was cancelled. The file then has
        a column `partial_export`.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        The file is not CSV in UTF-8.

    Examples
    --------
    >>> from pathlib import Path
    >>> lines = b"rank,url,title,snippet\r\n1,http://a.test/,'=1+1,\r\n"
    >>> _ = Path("export.csv").write_bytes(lines)
    >>> read_csv_export("export.csv")[["rank", "title"]].to_numpy().tolist()
    [[1, '=1+1']]
    """
    cells = pd.read_csv(path, dtype="str", keep_default_na=False, encoding="utf-8")
    if exports.PARTIAL in cells:
        caller.warn(exports.PARTIAL_WARNING.format(path=fspath(path)))
    texts = cells.map(unescape_formula).astype("str").where(cells != "")
    kind = _kind(texts)
    return texts if kind is None else _typed(texts, kind)


def _kind(texts: pd.DataFrame) -> TableName | None:
    kinds = [kind for kind, names in _KIND_COLUMNS.items() if names <= set(texts.columns)]
    return kinds[0] if len(kinds) == 1 else None


def _typed(texts: pd.DataFrame, kind: TableName) -> pd.DataFrame:
    """Return the columns that frames of this kind have with their types."""
    known = [name for name in texts.columns if name in schemas.SCHEMAS[kind].names]
    columns = [_values(schemas.SCHEMAS[kind].field(name), texts[name]) for name in known]
    parsed = [dict(zip(known, row, strict=True)) for row in zip(*columns, strict=True)]
    table = rows.to_table(kind, parsed)
    typed = frame.build(table)
    for name in texts.columns:
        if name not in known:
            typed[name] = texts[name]
    extra = [schemas.EXTRA] if table[schemas.EXTRA].null_count < table.num_rows else []
    return typed[[*texts.columns, *(name for name in extra if name not in texts.columns)]]


def _values(field: pa.Field[Any], column: pd.Series[Any]) -> list[Any]:
    parse = _parser(field)
    return [None if pd.isna(text) else _parsed(text, parse) for text in column.tolist()]


def _parser(field: pa.Field[Any]) -> Callable[[str], Any]:
    if schemas.kind(field) == schemas.JSON:
        return orjson.loads
    return next((parse for has_type, parse in _PARSERS if has_type(field.type)), str)


def _parsed(text: str, parse: Callable[[str], Any]) -> Any:
    """Return the parsed cell, or its text, which then goes into `extra`."""
    with suppress(ValueError, KeyError):
        return parse(text)
    return text
