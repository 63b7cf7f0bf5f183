"""Writes the rows of frames to files of the user atomically."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import zipfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import orjson
import pandas as pd
import pyarrow as pa

from webdata_nb import caller
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import format_path
from webdata_nb.toolkit.frames import frame, parquet, remote, spreadsheets
from webdata_nb.toolkit.frames.json_values import json_values

SUFFIXES: Final = (".parquet", ".jsonl", ".csv", ".xlsx")
_PARQUET: Final = (".parquet", ".pq")
PARTIAL: Final = "partial_export"
"""The column of a CSV export, and the field of each page in JSON, that says it is partial."""
PARTIAL_WARNING: Final = (
    "{path}: a partial export; its job had not ended when it was written, or did not succeed"
)
# How a partial export in JSON ends: a crawl's last page, or what stands behind a search's results.
# A text of a page cannot look like this: its quotes are escaped.
_PARTIAL_END: Final = re.compile(
    rb',"partial_export":true\}\s*\]\s*\Z|\],"partial":true,"status":"[a-z]+"\}\s*\Z'
)
_END_BYTES: Final = 200
_FIRST_LINE_BYTES: Final = 4096


def to_parquet(
    df: pd.DataFrame, target: str | Path, *, storage_options: Mapping[str, Any] | None = None
) -> None:
    """Write a frame to a Parquet file, with its receipt, here or at any fsspec URL.

    JSON columns become JSON text and lists stay lists, as in the cache, so that pandas, polars and
    DuckDB read the file alike; columns of your own are written as Arrow sees them.

    Parameters
    ----------
    df
        A frame of any function, also one that you changed.
    target
        A path, whose directory must exist, or a URL such as `"s3://bucket/pages.parquet"`. It ends
        in `.parquet` or `.pq`.
    storage_options
        What fsspec's file system takes, such as keys; only with a URL.

    Raises
    ------
    InvalidArgument
        A target that cannot be written, or a column that Arrow cannot hold.
    MissingExtra
        fsspec, or the library for this kind of URL, is not installed.
    OSError
        The file cannot be written.

    Examples
    --------
    >>> df = search_df("aurora forecast", formats=[])
    >>> to_parquet(df, "memory://aurora.parquet")
    """
    frame.require_frame(df)
    require_suffix("target", target, _PARQUET)
    attrs = df.attrs.get(frame.ATTRS, {})
    data = parquet.encode(frame.to_table(df), own={}, attrs=attrs)
    if isinstance(target, str) and remote.is_url(target):
        remote.check(target)
        remote.write(target, data, storage_options)
        return
    if storage_options:
        raise InvalidArgument(
            f"storage_options has a meaning only with a URL; target is {format_path(target)}"
        )
    parquet.write_atomically(checked_path(target), data)


def checked_path(target: str | Path) -> Path:
    """Return the path of a file to write.

    Raises
    ------
    InvalidArgument
        It is a directory, or in one that does not exist.
    """
    try:
        path = Path(target).expanduser().absolute()
    except RuntimeError as error:  # there is no such home directory
        raise InvalidArgument(f"target {format_path(target)}: {error}") from None
    if path.is_dir() or not path.parent.is_dir():
        raise InvalidArgument(
            f"target must be a file in a directory that exists; it is {format_path(target)}"
        )
    return path


def require_suffix(name: str, target: object, suffixes: Sequence[str]) -> None:
    """Check that a file is named as what it will be.

    Raises
    ------
    InvalidArgument
        Its name ends otherwise.
    """
    if not str(target).lower().endswith(tuple(suffixes)):
        *others, last = suffixes
        allowed = f"{', '.join(others)} or {last}" if others else last
        raise InvalidArgument(f"{name} must end in {allowed}; it is {format_path(target)}")


def check_suffix(target: str) -> None:
    """Check that a file of this name can be written, before anything is sent.

    Raises
    ------
    MissingExtra
        The library for its kind of file is not installed.
    """
    if target.lower().endswith(".xlsx"):
        spreadsheets.require_xlsxwriter()


def write(
    path: Path | str, table: pa.Table, attrs: Mapping[str, Any], form: str | None = None
) -> None:
    """Write `table` in a `form` of `SUFFIXES` (without the dot); None follows from `path`.

    Parquet carries the receipt, which `pandas.read_parquet(path).attrs` gives back. In JSON lines
    each row is an object with every column; images are base64, times ISO 8601 in UTC.

    Warns
    -----
    UserWarning
        What CSV and workbooks lose, once in a process; each time, what was cut.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    form = form or str(path).rpartition(".")[2].lower()
    data, cuts = _encoded(table, attrs, form)
    if isinstance(path, str):
        remote.write(path, data)
    else:
        parquet.write_atomically(path, data)
    if form in _LOSSES and form not in _shown_losses:
        _shown_losses.add(form)
        caller.warn(f"{path}: {_LOSSES[form]}")
    if cuts:
        caller.warn(f"{path}: {cuts}")


def _encoded(table: pa.Table, attrs: Mapping[str, Any], form: str) -> tuple[pa.Buffer | bytes, str]:
    """Return the bytes of the file, and a message about values that were cut."""
    match form:
        case "csv":
            return spreadsheets.csv_bytes(table), ""
        case "xlsx":
            return spreadsheets.xlsx_bytes(table, attrs)
        case "jsonl":
            return json_lines(table), ""
    return parquet.encode(table, own={}, attrs=attrs), ""


_LOSSES: Final = {"csv": spreadsheets.CSV_LOSSES, "xlsx": spreadsheets.XLSX_LOSSES}
# The forms whose losses were shown in this process.
_shown_losses: Final[set[str]] = set()


async def write_pieces(path: Path, pieces: AsyncIterator[bytes]) -> None:
    """Write what arrives beside `path`, and rename it into place once it is whole."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{parquet.TEMPORARY}")
    try:
        with temporary.open("xb") as file:
            async for piece in pieces:
                await asyncio.to_thread(file.write, piece)
            await asyncio.to_thread(os.fsync, file.fileno())
        temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def is_partial(path: Path, form: str) -> bool:
    """Whether a service's export (`csv`, `json` or `zip`) says that it is partial.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    if form == "zip":
        return _is_partial_zip(path)
    with path.open("rb") as file:
        if form == "csv":
            header = file.readline(_FIRST_LINE_BYTES).strip().split(b",")
            return PARTIAL.encode() in header
        file.seek(max(0, path.stat().st_size - _END_BYTES))
        return _PARTIAL_END.search(file.read()) is not None


def _is_partial_zip(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            index = orjson.loads(archive.read("index.json"))
    except (KeyError, ValueError, zipfile.BadZipFile):
        return False  # another service's archive
    return isinstance(index, dict) and index.get("partial") is True


def json_lines(table: pa.Table) -> bytes:
    """Return one JSON object for each row, with every column."""
    columns = [json_values(field, table[field.name]) for field in table.schema]
    names = table.schema.names
    rows = zip(*columns, strict=True)
    return b"".join(
        orjson.dumps(dict(zip(names, row, strict=True)), option=_OPTIONS) for row in rows
    )


_OPTIONS: Final = orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z
