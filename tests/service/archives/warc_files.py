"""Makes WARC records and WACZ packages, byte by byte, so that they can be wrong in any way."""

from __future__ import annotations

import gzip
import socket
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

DATE = "2024-03-01T10:00:00Z"


def record(
    kind: str,
    url: str,
    block: bytes,
    *,
    date: str = DATE,
    length: int | None = None,
    fields: Mapping[str, str] | None = None,
) -> bytes:
    """Return one record that is not compressed; `length` replaces its true Content-Length."""
    named = {
        "WARC-Type": kind,
        "WARC-Target-URI": url,
        "WARC-Date": date,
        "WARC-Record-ID": "<urn:uuid:00000000-0000-0000-0000-000000000000>",
        "Content-Length": str(len(block) if length is None else length),
        **(fields or {}),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return b"WARC/1.0\r\n" + head.encode() + b"\r\n" + block + b"\r\n\r\n"


def http_response(body: bytes, *, status: str = "200 OK", **headers: str) -> bytes:
    """Return the block of a response; `content_type="text/plain"` is a header."""
    named = {"content_type": "text/html; charset=utf-8", **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body


def response(url: str, body: bytes, *, date: str = DATE, **headers: str) -> bytes:
    """Return the record of a response."""
    return record("response", url, http_response(body, **headers), date=date)


def compressed(records: Iterable[bytes]) -> bytes:
    """Return the records as gzip members."""
    return b"".join(gzip.compress(each, mtime=0) for each in records)


def write_warc(path: Path, *records: bytes) -> Path:
    """Write a WARC file, compressed where its name says so."""
    path.write_bytes(compressed(records) if path.suffix == ".gz" else b"".join(records))
    return path


def write_wacz(path: Path, members: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    """Write a package with these members."""
    with zipfile.ZipFile(path, "w", method) as package:
        for name, content in members.items():
            package.writestr(name, content)
    return path


def capture(url: str) -> bytes:
    """Request a page and return the record of the response, byte by byte as it was sent."""
    parts = urlsplit(url)
    request = f"GET {parts.path or '/'} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n"
    with socket.create_connection((parts.hostname or "", parts.port or 80)) as connection:
        connection.sendall(f"{request}\r\n".encode())
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    return record("response", url, received)
