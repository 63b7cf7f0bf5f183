"""Names, versions and records of archive files, on which toolkit and local service agree. Pure."""

from __future__ import annotations

import hashlib
import re
import zlib
from base64 import b32encode
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

SUFFIXES: Final = (".warc", ".warc.gz", ".wacz")
WRITTEN_SUFFIX: Final = ".warc.gz"
_GZIP: Final = zlib.MAX_WBITS | 16
# Web archives do not tell http from https, nor a host from the one with www.
_SAME_SITE: Final = re.compile(r"^https?://(?:www[0-9]*\.)?", re.IGNORECASE)
_UNITS: Final = (("day", 86_400), ("hour", 3600), ("minute", 60))


def distance_text(seconds: float) -> str:
    """Return the distance of a capture from a date in words.

    Examples
    --------
    >>> distance_text(-129_600.0), distance_text(3600.0), distance_text(0.0)
    ('1.5 days before', '1 hour after', 'at that time')
    """
    if not seconds:
        return "at that time"
    size = abs(seconds)
    unit, length = next((each for each in _UNITS if size >= each[1]), _UNITS[-1])
    amount = f"{size / length:.3g}"
    return f"{amount} {unit}{'' if amount == '1' else 's'} {'before' if seconds < 0 else 'after'}"


def without_scheme(url: str) -> str:
    """Return a URL without what web archives do not tell apart: its scheme, and `www.`.

    Examples
    --------
    >>> without_scheme("https://www.example.com/a")
    'example.com/a'
    """
    return _SAME_SITE.sub("", url)


def file_version(size: int, changed_ns: int) -> str:
    """Return what changes with the content of a file, from its size and its time of change."""
    return f"{size}-{changed_ns}"


def record_id(number: UUID) -> str:
    """Return the id of a record as other records name it."""
    return f"<urn:uuid:{number}>"


def payload_digest(payload: bytes) -> str:
    """Return the digest of a payload or block, as WARC files name it."""
    return f"sha1:{b32encode(hashlib.sha1(payload, usedforsecurity=False).digest()).decode()}"


def warc_fields(values: Mapping[str, str]) -> bytes:
    """Return the block of a record of the type `application/warc-fields`."""
    return "".join(f"{name}: {value}\r\n" for name, value in values.items()).encode()


def warc_record(
    kind: str, number: UUID, at: datetime, block: bytes, fields: Mapping[str, str]
) -> bytes:
    """Return a record of WARC 1.1 as a gzip member, so that it can be read by itself.

    `fields` are those besides the type, the id, the time, the length and the digest of the block.
    """
    named = {
        "WARC-Type": kind,
        "WARC-Record-ID": record_id(number),
        "WARC-Date": at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        **fields,
        "WARC-Block-Digest": payload_digest(block),
        "Content-Length": str(len(block)),
    }
    head = "".join(f"{name}: {' '.join(value.split())}\r\n" for name, value in named.items())
    compressor = zlib.compressobj(wbits=_GZIP)
    record = b"WARC/1.1\r\n" + head.encode() + b"\r\n" + block + b"\r\n\r\n"
    return compressor.compress(record) + compressor.flush()
