"""Writes the pages of a frame to a WARC file, and appends receipts to the archives of crawls."""

from __future__ import annotations

import os
import re
import secrets
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from io import SEEK_END, FileIO
from pathlib import Path
from typing import Any, BinaryIO, Final
from uuid import UUID, uuid4

import orjson
import pandas as pd
import pyarrow as pa

from webdata_nb import __version__
from webdata_nb.contract.archives import (
    WRITTEN_SUFFIX,
    payload_digest,
    record_id,
    warc_fields,
    warc_record,
)
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import format_path, format_value
from webdata_nb.toolkit.frames import exports, frame, receipt, storage

# Compressed bytes that have the first record of an archive.
_START_BYTES: Final = 4096


def append_receipt(path: Path, attrs: Mapping[str, Any]) -> None:
    """Append the receipt of a crawl to the archive that it wrote, as a record of metadata.

    Another crawl may have replaced the file: it stays as it is. The requests in receipts have no
    secrets.
    """
    with path.open("r+b", buffering=0) as file:
        if is_of_crawl(file, attrs["job_id"]):
            _append(file, receipt_record(attrs))


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


def _append(file: FileIO, record: bytes) -> None:
    """Append a record, or nothing of it if the disk is full."""
    end = file.seek(0, SEEK_END)
    try:
        rest = memoryview(record)
        while rest:
            rest = rest[file.write(rest) :]
    except OSError as error:
        file.truncate(end)
        error.add_note("the archive is complete but for the receipt: crawl_df reads it")
        raise


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
    frame.require_frame(df)
    if "url" not in df.columns:
        raise InvalidArgument(f"df has no column url; it is {format_value(df)}")
    path = _checked_target(target)
    attrs: Mapping[str, Any] = df.attrs.get(frame.ATTRS, {})
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{storage.TEMPORARY}")
    try:
        with temporary.open("xb") as file:
            for record in _records(df, attrs):
                file.write(record)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _checked_target(target: str | Path) -> Path:
    if not isinstance(target, str | Path) or not str(target).lower().endswith(WRITTEN_SUFFIX):
        received = format_path(target) if isinstance(target, str | Path) else format_value(target)
        raise InvalidArgument(
            f"target must be a path that ends in {WRITTEN_SUFFIX}; it is {received}"
        )
    return exports.checked_path(target)


def _records(df: pd.DataFrame, attrs: Mapping[str, Any]) -> Iterator[bytes]:
    source = _written_file(attrs)
    yield _info_record(attrs, _RECONSTRUCTED if source is None else _COPIED)
    if source is None:
        table = frame.to_table(df)
        for start in range(0, table.num_rows, _ROWS_AT_A_TIME):
            yield from _pages(table.slice(start, _ROWS_AT_A_TIME), attrs)
    else:
        is_whole = len(df) == attrs.get("counts", {}).get("rows")
        with source.open("rb") as file:
            yield from _copied(file, None if is_whole else _urls(df))
    if attrs:
        yield receipt_record(attrs)


def _info_record(attrs: Mapping[str, Any], description: str) -> bytes:
    of_job = {"isPartOf": f"urn:uuid:{attrs['job_id']}"} if attrs.get("job_id") else {}
    info = {
        "software": f"webdata_nb/{__version__}",
        "format": "WARC File Format 1.1",
        "description": description,
        **of_job,
    }
    fields = {"Content-Type": "application/warc-fields"}
    return warc_record("warcinfo", uuid4(), datetime.now(UTC), warc_fields(info), fields)


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
            metadata = orjson.loads(value) if isinstance(value, str) else value
            if isinstance(metadata, Mapping):
                hops = metadata.get("redirects") or ()
                urls |= {str(hop["url"]) for hop in hops if isinstance(hop, Mapping)}
                urls.add(str(metadata.get("final_url")))
    return frozenset(url.encode() for url in urls)


def _copied(file: BinaryIO, urls: frozenset[bytes] | None) -> Iterator[bytes]:
    """Yield the exchanges in a file that a crawl wrote, all of them or those of some URLs."""
    for member, content in _members(file):
        head = dict(_LINE.findall(content.partition(b"\r\n\r\n")[0]))
        is_exchange = head.get(b"WARC-Type") in {b"request", b"response"}
        if is_exchange and (urls is None or head.get(b"WARC-Target-URI") in urls):
            yield member


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
    facts = exports.json_lines(table.drop_columns(bodies)).splitlines()
    columns = ["url", *bodies, *(["fetched_at"] if "fetched_at" in table.column_names else [])]
    for row, line in zip(table.select(columns).to_pylist(), facts, strict=True):
        if row["url"]:
            at = _time(row.get("fetched_at")) or receipt.finished_at(attrs)
            yield from _page(row, at, line)


def _time(value: object) -> datetime | None:
    """Return when a page was fetched; frames of other tools have texts, or times without a zone."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = datetime.fromisoformat(value)
    if not isinstance(value, datetime):
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value


def _page(row: Mapping[str, Any], at: datetime, facts: bytes) -> Iterator[bytes]:
    fields = {"WARC-Target-URI": _without_user_info(str(row["url"]).encode()).decode()}
    if row.get(_RAW):
        number = uuid4()
        content = _content(_RAW, row[_RAW])
        yield _document("resource", number, at, content, {**fields, "Content-Type": _HTML})
        fields["WARC-Refers-To"] = record_id(number)
    for name, kind in _CONVERSIONS.items():
        if row.get(name):
            content = _content(name, row[name])
            yield _document("conversion", uuid4(), at, content, {**fields, "Content-Type": kind})
    fields["Content-Type"] = "application/json"
    yield warc_record("metadata", uuid4(), at, _without_user_info(facts), fields)


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
