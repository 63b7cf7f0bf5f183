"""Appends receipts to the WARC files that crawls wrote."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from io import SEEK_END, FileIO
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import orjson

from webdata_nb.contract.archives import warc_record

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
