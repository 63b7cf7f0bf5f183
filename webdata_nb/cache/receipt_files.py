"""Whole receipts on disk: a Parquet file beside a cached crawl, and look-ups in it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pyarrow as pa

from webdata_nb.contract.replies import ReceiptEntry
from webdata_nb.frames import parquet, schemas

SCHEMA: Final = pa.schema([(name, schemas.TEXT) for name in ("url", "outcome", "detail")])
_VERSION: Final = "receipt/1"
_NEAR: Final = 5
_LOOSE: Final = re.compile(r"^https?://(?:www\.)?|:(?:80|443)(?=/|$)|[?&]$")

log = logging.getLogger("webdata_nb")


def beside(path: Path) -> Path:
    """Return where the receipt of a cached crawl is; its name is no snapshot's."""
    return path.with_name(f"receipt-{path.name}")


def put(path: Path, entries: Sequence[ReceiptEntry]) -> Path:
    """Store the receipt of the crawl in `path`.

    Raises
    ------
    OSError
        The cache directory cannot be written.
    """
    columns = {
        name: pa.array([getattr(entry, name) for entry in entries], schemas.TEXT)
        for name in SCHEMA.names
    }
    data = parquet.encode(pa.table(columns, schema=SCHEMA), own={"schema": _VERSION}, attrs={})
    target = beside(path)
    parquet.write_atomically(target, data, owner_only=True)
    return target


def read(path: Path) -> list[ReceiptEntry] | None:
    """Return the receipt of the crawl in `path`; None where there is none that can be read."""
    try:
        document = parquet.Document(beside(path).read_bytes())
        if document.own.get("schema") != _VERSION:
            return None
        rows = document.read(SCHEMA.names).to_pylist()
        return [ReceiptEntry(**row) for row in rows]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, pa.ArrowException) as error:
        log.warning("ignored a damaged receipt, %s: %s", beside(path), error)
        return None


def find(
    entries: Iterable[ReceiptEntry], url: str
) -> tuple[ReceiptEntry | None, tuple[ReceiptEntry, ...]]:
    """Return the entry of `url`, and entries of URLs that differ in spelling alone.

    Spelling is what rarely makes another page: scheme, `www.`, a default port, letter case,
    percent-encoding, a slash at the end, a fragment.
    """
    wanted = loose(url)
    near = [entry for entry in entries if loose(entry.url) == wanted]
    exact = next((entry for entry in near if entry.url == url), None)
    return exact, tuple(entry for entry in near if entry is not exact)[:_NEAR]


def loose(url: str) -> str:
    """Return what a URL and its other spellings have in common."""
    bare = url.strip().partition("#")[0]
    bare = unquote(_LOOSE.sub("", bare.lower()))
    path, question, query = bare.partition("?")
    return path.rstrip("/") + question + query
