"""Writes frames to files of the user atomically: Parquet, JSON lines, CSV and workbooks; reads CSV.

A CSV export of the service has cells that are protected from formulas; reading it restores them and
the types.
"""

from __future__ import annotations

import asyncio
import csv
import io
import os
import re
import zipfile
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from io import SEEK_END, FileIO
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal
from uuid import UUID, uuid4

import orjson
import pandas as pd
import pyarrow as pa

from webdata_nb import __version__, caller
from webdata_nb.contract.archives import (
    WRITTEN_SUFFIX,
    payload_digest,
    record_id,
    warc_fields,
    warc_record,
)
from webdata_nb.contract.cells import escape_formula, unescape_formula
from webdata_nb.errors import InvalidArgument, MissingExtra
from webdata_nb.suggestions import format_path, format_value
from webdata_nb.toolkit.frames import frame, receipt, rows, schemas, storage
from webdata_nb.toolkit.frames.frame import MAX_CELL_CHARS, MIN_YEAR, TEXT_OPTIONS
from webdata_nb.toolkit.frames.rows import decoded, dumps, json_values

if TYPE_CHECKING:
    from types import ModuleType

    from webdata_nb.toolkit.frames.schemas import TableName

CSV_LOSSES: Final = (
    "a CSV file has no types and no receipt; lists and dicts are JSON text. read_csv_export "
    "restores the types; a .parquet file loses nothing"
)
XLSX_LOSSES: Final = (
    "a workbook has lists and dicts as JSON text, texts up to 32,767 characters and no "
    "screenshots; a .parquet file loses nothing"
)
_MAX_ROWS: Final = 1_048_575  # below the header
_MAX_WIDTH: Final = 60
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
    writer.writerows(
        [
            ""
            if value is None
            else escape_formula(value if isinstance(value, str) else orjson.dumps(value).decode())
            for value in row
        ]
        for row in zip(*columns, strict=True)
    )
    return text.getvalue().encode()


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
        sheet = book.add_worksheet("rows")
        sheet.freeze_panes(1, 0)
        shown = table.slice(0, _MAX_ROWS)
        for number, field in enumerate(shown.schema):
            sheet.write_string(0, number, field.name, bold)
            column = shown[field.name]
            match schemas.kind(field):
                case schemas.PNG:
                    values: list[Any] = [None] * len(column)
                case schemas.JSON:
                    values = column.to_pylist()
                case _:
                    values = json_values(field, column)
            cells = [_cell(value, field, cuts) for value in values]
            widths = [len(str(cell)) for cell in cells if cell is not None]
            sheet.set_column(number, number, min(_MAX_WIDTH, max([len(field.name), *widths]) + 2))
            for row, cell in enumerate(cells, 1):
                if isinstance(cell, str):
                    # Without a format, a text that begins with = stays a text.
                    sheet.write_string(row, number, cell)
                elif cell is not None:
                    sheet.write(row, number, cell)
        if shown.num_columns:
            sheet.autofilter(0, 0, shown.num_rows, shown.num_columns - 1)
        sheet = book.add_worksheet("receipt")
        sheet.set_column(0, 0, 20)
        sheet.set_column(1, 1, _MAX_WIDTH)
        for row, (name, value) in enumerate(attrs.items()):
            text = value if isinstance(value, str) else dumps(value)
            sheet.write_string(row, 0, name, bold)
            sheet.write_string(row, 1, text[:MAX_CELL_CHARS])
    return data.getvalue(), cuts.message()


def _cell(value: Any, field: pa.Field[Any], cuts: _Cuts) -> Any:
    if pa.types.is_timestamp(field.type) and value is not None:
        with suppress(ValueError):
            # In UTC without a zone, which workbooks do not have.
            time = datetime.fromisoformat(value).replace(tzinfo=None)
            return time if time.year >= MIN_YEAR else value
    if isinstance(value, list | dict):
        value = dumps(value)
    if isinstance(value, str) and len(value) > MAX_CELL_CHARS:
        cuts.texts += 1
        return f"{value[: MAX_CELL_CHARS - 1]}…"
    return value


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
    attrs = frame.receipt_of(df)
    data = storage.encode(frame.to_table(df), own={}, attrs=attrs)
    if isinstance(target, str) and storage.is_remote(target):
        storage.check_url(target)
        storage.write_url(target, data, storage_options)
        return
    if storage_options:
        raise InvalidArgument(
            f"storage_options has a meaning only with a URL; target is {format_path(target)}"
        )
    storage.write_atomically(checked_path(target), data)


# The page, and the folder, of a frame that is shared.
PAGE_SUFFIXES: Final = (".html", ".htm")
_ROWS_PER_SHARD: Final = 100_000
_SHARD: Final = re.compile(r"train-\d{5}-of-\d{5}\.parquet")


def write_dataset(df: pd.DataFrame, target: str | Path) -> None:
    """Write a frame as a folder that `datasets.load_dataset` of Hugging Face loads.

    It has a dataset card, `README.md`, and Parquet files in `data`. A folder that this function
    wrote is written anew; one with other files stays as it is.

    Raises
    ------
    InvalidArgument
        The target is a URL or a file, or has other files; or Arrow cannot hold a column.
    OSError
        The folder cannot be written.
    """
    if storage.is_remote(target):
        raise InvalidArgument(
            f"a dataset is written to a folder of this machine; target is {format_path(target)}"
        )
    folder = Path(target).expanduser().absolute()
    if not folder.parent.is_dir() or (folder.exists() and not folder.is_dir()):
        raise InvalidArgument(
            f"target must be a folder in a directory that exists; it is {format_path(target)}"
        )
    card, data = folder / "README.md", folder / "data"
    old = {*data.iterdir()} if data.is_dir() else set[Path]()
    others = {*folder.iterdir()} - {card, data} if folder.is_dir() else set[Path]()
    others |= {file for file in old if not _SHARD.fullmatch(file.name)}
    if others or (card.exists() and not old):
        name = next(iter(sorted(others)), card).relative_to(folder)
        raise InvalidArgument(
            f"target must be a new folder, or one with such a dataset; {format_path(target)} has "
            f"{name}"
        )
    attrs = frame.receipt_of(df)
    table = frame.to_table(df)
    shards = max(1, -(-table.num_rows // _ROWS_PER_SHARD))
    columns = "\n".join(f"| `{field.name}` | {field.type} |" for field in table.schema)
    storage.make_folder(data, folder.parent)
    for number in range(shards):
        part = table.slice(number * _ROWS_PER_SHARD, _ROWS_PER_SHARD)
        file = data / f"train-{number:05}-of-{shards:05}.parquet"
        storage.write_atomically(file, storage.encode(part, own={}, attrs=attrs))
        old.discard(file)
    for file in old:
        file.unlink()
    text = (
        Path(__file__)
        .with_name("dataset_card.md")
        .read_text("utf-8")
        .format(
            title=folder.name,
            line=frame.receipt_text(df, "line"),
            version=__version__,
            day=f"{datetime.now(UTC):%Y-%m-%d}",
            columns=columns,
        )
    )
    storage.write_atomically(card, text.encode())


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
        require_xlsxwriter()


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
    cuts = ""
    match form:
        case "csv":
            data: pa.Buffer | bytes = csv_bytes(table)
        case "xlsx":
            data, cuts = xlsx_bytes(table, attrs)
        case "jsonl":
            data = json_lines(table)
        case _:
            data = storage.encode(table, own={}, attrs=attrs)
    if isinstance(path, str):
        storage.write_url(path, data)
    else:
        storage.write_atomically(path, data)
    if form in _LOSSES and form not in _shown_losses:
        _shown_losses.add(form)
        caller.warn(f"{path}: {_LOSSES[form]}")
    if cuts:
        caller.warn(f"{path}: {cuts}")


_LOSSES: Final = {"csv": CSV_LOSSES, "xlsx": XLSX_LOSSES}
# The forms whose losses were shown in this process.
_shown_losses: Final[set[str]] = set()


async def write_pieces(path: Path, pieces: AsyncIterator[bytes]) -> None:
    """Write what arrives beside `path`, and rename it into place once it is whole."""
    with storage.atomic_file(path, durable=False) as file:
        async for piece in pieces:
            await asyncio.to_thread(file.write, piece)
        await asyncio.to_thread(file.flush)
        await asyncio.to_thread(os.fsync, file.fileno())


def is_partial(path: Path, form: str) -> bool:
    """Whether a service's export (`csv`, `json` or `zip`) says that it is partial.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    if form == "zip":
        try:
            with zipfile.ZipFile(path) as archive:
                index = orjson.loads(archive.read("index.json"))
        except (KeyError, ValueError, zipfile.BadZipFile):
            return False  # another service's archive
        return isinstance(index, dict) and index.get("partial") is True
    with path.open("rb") as file:
        if form == "csv":
            header = file.readline(_FIRST_LINE_BYTES).strip().split(b",")
            return PARTIAL.encode() in header
        file.seek(max(0, path.stat().st_size - _END_BYTES))
        return _PARTIAL_END.search(file.read()) is not None


def json_lines(table: pa.Table) -> bytes:
    """Return one JSON object for each row, with every column."""
    columns = [json_values(field, table[field.name]) for field in table.schema]
    names = table.schema.names
    rows = zip(*columns, strict=True)
    return b"".join(
        orjson.dumps(dict(zip(names, row, strict=True)), option=_OPTIONS) for row in rows
    )


_OPTIONS: Final = orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z


def json_text(df: pd.DataFrame) -> str:
    """Return an array with one object a line, with every column; as in `.jsonl` files."""
    lines = json_lines(frame.to_table(df)).splitlines()
    return (b"[" + b",\n ".join(lines) + b"]\n").decode()


def csv_text(df: pd.DataFrame) -> str:
    """Return RFC 4180 CSV with every column, as the service exports it.

    Lists and objects are JSON text, missing values empty cells. `read_csv_export` reverses the
    escaping of formulas.
    """
    return csv_bytes(frame.to_table(df)).decode()


# Columns that the exports of one kind have in every version.
_EXPORT_COLUMNS: Final[dict[TableName, frozenset[str]]] = {
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
    # The fast parser of pandas before 3.1 ends a cell at a NUL character.
    engine: Literal["c", "python"] = "python" if b"\0" in Path(path).read_bytes() else "c"
    cells = pd.read_csv(path, engine=engine, dtype="str", keep_default_na=False, encoding="utf-8")
    if PARTIAL in cells:
        caller.warn(PARTIAL_WARNING.format(path=fspath(path)))
    texts = cells.map(unescape_formula).astype("str").where(cells != "")
    kinds = [kind for kind, names in _EXPORT_COLUMNS.items() if names <= set(texts.columns)]
    if len(kinds) != 1:
        return texts
    kind = kinds[0]
    known = [name for name in texts.columns if name in schemas.SCHEMAS[kind].names]
    columns = [_parsed_cells(schemas.SCHEMAS[kind].field(name), texts[name]) for name in known]
    parsed = [dict(zip(known, row, strict=True)) for row in zip(*columns, strict=True)]
    table = rows.to_table(kind, parsed)
    others = {name: texts[name] for name in texts.columns if name not in known}
    typed = frame.build(table).assign(**others)
    extra = [schemas.EXTRA] if table[schemas.EXTRA].null_count < table.num_rows else []
    return typed[[*texts.columns, *(name for name in extra if name not in texts.columns)]]


def _parsed_cells(field: pa.Field[Any], column: pd.Series[Any]) -> list[Any]:
    parse: Callable[[str], Any] = orjson.loads
    if schemas.kind(field) != schemas.JSON:
        parse = next((parse for has_type, parse in _PARSERS if has_type(field.type)), str)
    cells = [None if pd.isna(text) else text for text in column.tolist()]
    for number, text in enumerate(cells):
        if text is not None:
            # What cannot be parsed stays a text, which then goes into `extra`.
            with suppress(ValueError, KeyError):
                cells[number] = parse(text)
    return cells


# Writes the pages of a frame to a WARC file, and appends receipts to the archives of crawls.


# Compressed bytes that have the first record of an archive.
_START_BYTES: Final = 4096


def append_receipt(path: Path, attrs: Mapping[str, Any]) -> None:
    """Append the receipt of a crawl to the archive that it wrote, as a record of metadata.

    Another crawl may have replaced the file: it stays as it is. The requests in receipts have no
    secrets.
    """
    with path.open("r+b", buffering=0) as file:
        if not is_of_crawl(file, attrs["job_id"]):
            return
        rest = memoryview(receipt_record(attrs))
        end = file.seek(0, SEEK_END)
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except OSError as error:
            file.truncate(end)  # nothing of the record
            error.add_note("the archive is complete but for the receipt: crawl_df reads it")
            raise


def receipt_record(attrs: Mapping[str, Any]) -> bytes:
    """Return the record of a receipt."""
    fields = {"Content-Type": "application/json"}
    if attrs.get("job_id"):
        fields["WARC-Target-URI"] = f"urn:uuid:{attrs['job_id']}"
    block = orjson.dumps(attrs, default=str)
    return warc_record("metadata", uuid4(), datetime.now(UTC), block, fields)


def is_of_crawl(file: FileIO, job_id: str) -> bool:
    """Return whether the first record of a file names a crawl."""
    try:
        start = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(file.read(_START_BYTES))
    except zlib.error:
        return False
    return f"\r\nisPartOf: urn:uuid:{job_id}\r\n".encode() in start


_ROWS_AT_A_TIME: Final = 50
_CHUNK_BYTES: Final = 64 * 1024
_HTML: Final = "text/html; charset=utf-8"
# The columns that are documents, and their types.
_CONVERSIONS: Final[Mapping[str, str]] = {
    "html": _HTML,
    "markdown": "text/markdown; charset=utf-8",
    "screenshot": "image/png",
}
_RAW: Final = "raw_html"
_BODIES: Final = (_RAW, *_CONVERSIONS)
_USER_INFO: Final = re.compile(rb'(https?://)[^/?#@\s"\\]*@', re.IGNORECASE)
_LINE: Final = re.compile(rb"(?m)^([A-Za-z-]+): *([^\r\n]*)")
_RECONSTRUCTED: Final = (
    "pages of a frame: resource records are documents as they were decoded, in UTF-8, and "
    "conversion records what was made of them; the responses as they were sent are not known"
)
_COPIED: Final = "requests and responses of the pages of a frame, as they were sent"


def to_warc(df: pd.DataFrame, target: str | Path) -> None:
    """Write the pages of a frame to a WARC file, with its receipt.

    What was sent is never made up. If a crawl wrote a WARC file (`out="site.warc.gz"`), and it is
    still there, the requests and responses of the frame's rows are copied from it: all records if
    the frame has all rows. Otherwise the file says what is known: a `resource` record of each page
    with its `raw_html`, `conversion` records of its `html`, `markdown` and `screenshot`, and a
    `metadata` record of its other columns. `crawl_df` reads files with responses or resources.

    Parameters
    ----------
    df
        A frame with a column `url`, such as of `crawl_df` with `formats=["raw_html"]`.
    target
        A path that ends in `.warc.gz`, in a directory that exists. The file appears whole or not
        at all.

    Raises
    ------
    InvalidArgument
        The frame has no URLs, a document is neither text nor bytes, or the target cannot be
        written.
    OSError
        The file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> pages = crawl_df(start_url, max_pages=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     to_warc(pages, f"{folder}/pages.warc.gz")
    """
    frame.require_column(df, "url")
    if not isinstance(target, str | Path) or not str(target).lower().endswith(WRITTEN_SUFFIX):
        received = format_path(target) if isinstance(target, str | Path) else format_value(target)
        raise InvalidArgument(
            f"target must be a path that ends in {WRITTEN_SUFFIX}; it is {received}"
        )
    path = checked_path(target)
    attrs = frame.receipt_of(df)
    with storage.atomic_file(path) as file:
        file.writelines(_records(df, attrs))


def _records(df: pd.DataFrame, attrs: Mapping[str, Any]) -> Iterator[bytes]:
    source = _written_file(attrs)
    info = {
        "software": f"webdata_nb/{__version__}",
        "format": "WARC File Format 1.1",
        "description": _RECONSTRUCTED if source is None else _COPIED,
    }
    if attrs.get("job_id"):
        info["isPartOf"] = f"urn:uuid:{attrs['job_id']}"
    fields = {"Content-Type": "application/warc-fields"}
    yield warc_record("warcinfo", uuid4(), datetime.now(UTC), warc_fields(info), fields)
    if source is None:
        table = frame.to_table(df)
        for start in range(0, table.num_rows, _ROWS_AT_A_TIME):
            yield from _pages(table.slice(start, _ROWS_AT_A_TIME), attrs)
    else:
        is_whole = len(df) == attrs.get("counts", {}).get("rows")
        with source.open("rb") as file:
            urls = None if is_whole else _urls(df)
            for member, content in _members(file):
                head = dict(_LINE.findall(content.partition(b"\r\n\r\n")[0]))
                is_exchange = head.get(b"WARC-Type") in {b"request", b"response"}
                if is_exchange and (urls is None or head.get(b"WARC-Target-URI") in urls):
                    yield member
    if attrs:
        yield receipt_record(attrs)


# Responses that a crawl wrote


def _written_file(attrs: Mapping[str, Any]) -> Path | None:
    """Return the WARC file that the crawl of a frame wrote; None if there is none any more."""
    request = attrs.get("request")
    name = request.get("warc") if isinstance(request, Mapping) else None
    if not isinstance(name, str) or not isinstance(attrs.get("job_id"), str):
        return None
    path = Path(name)
    with suppress(OSError), path.open("rb", buffering=0) as file:
        return path if is_of_crawl(file, attrs["job_id"]) else None
    return None


def _urls(df: pd.DataFrame) -> frozenset[bytes]:
    """Return the URLs of the rows, and those that redirected to them."""
    urls = {str(url) for url in df["url"].dropna()}
    if "metadata" in df.columns:
        for value in df["metadata"].tolist():
            metadata = decoded(value, "metadata")
            if isinstance(metadata, Mapping):
                hops = metadata.get("redirects") or ()
                urls |= {str(hop["url"]) for hop in hops if isinstance(hop, Mapping)}
                urls.add(str(metadata.get("final_url")))
    return frozenset(url.encode() for url in urls)


def _members(file: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """Yield the gzip members of a file as they are, and their content, up to a damaged one."""
    rest = b""
    while rest or (rest := file.read(_CHUNK_BYTES)):
        inflater = zlib.decompressobj(zlib.MAX_WBITS | 16)
        read, parts = [rest], list[bytes]()
        try:
            parts.append(inflater.decompress(rest))
            while not inflater.eof:
                chunk = file.read(_CHUNK_BYTES)
                if not chunk:
                    return
                read.append(chunk)
                parts.append(inflater.decompress(chunk))
        except zlib.error:
            return
        rest = inflater.unused_data
        data = b"".join(read)
        yield data[: len(data) - len(rest)], b"".join(parts)


# Pages without their responses


def _pages(table: pa.Table, attrs: Mapping[str, Any]) -> Iterator[bytes]:
    bodies = [name for name in _BODIES if name in table.column_names]
    facts = json_lines(table.drop_columns(bodies)).splitlines()
    columns = ["url", *bodies, *(["fetched_at"] if "fetched_at" in table.column_names else [])]
    for row, line in zip(table.select(columns).to_pylist(), facts, strict=True):
        if not row["url"]:
            continue
        at = _time(row.get("fetched_at")) or receipt.finished_at(attrs)
        fields = {"WARC-Target-URI": _without_user_info(str(row["url"]).encode()).decode()}
        if row.get(_RAW):
            number = uuid4()
            content = _content(_RAW, row[_RAW])
            yield _document("resource", number, at, content, {**fields, "Content-Type": _HTML})
            fields["WARC-Refers-To"] = record_id(number)
        for name, kind in _CONVERSIONS.items():
            if row.get(name):
                content = _content(name, row[name])
                typed = {**fields, "Content-Type": kind}
                yield _document("conversion", uuid4(), at, content, typed)
        fields["Content-Type"] = "application/json"
        yield warc_record("metadata", uuid4(), at, _without_user_info(line), fields)


def _time(value: object) -> datetime | None:
    """Return when a page was fetched; frames of other tools have texts, or times without a zone."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = datetime.fromisoformat(value)
    if not isinstance(value, datetime):
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value


def _content(column: str, value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise InvalidArgument(
            f"the column {column} must have texts or bytes; it has {format_value(value)}"
        )
    return value.encode("utf-8", "replace")


def _document(
    kind: str, number: UUID, at: datetime, block: bytes, fields: Mapping[str, str]
) -> bytes:
    digest = {"WARC-Payload-Digest": payload_digest(block)}
    return warc_record(kind, number, at, block, {**fields, **digest})


def _without_user_info(text: bytes) -> bytes:
    return _USER_INFO.sub(rb"\1", text)
