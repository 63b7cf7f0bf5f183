"""Stores the full receipt of a cached crawl as a Parquet file beside it, and looks URLs up."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pyarrow as pa

from webdata_nb.contract.replies import ReceiptEntry
from webdata_nb.toolkit.frames import parquet, schemas

SCHEMA: Final = pa.schema([(name, schemas.TEXT) for name in ("url", "outcome", "detail")])
_VERSION: Final = "receipt/1"
_MAX_VARIANTS: Final = 5
_IGNORED_PARTS: Final = re.compile(r"^https?://(?:www\.)?|:(?:80|443)(?=/|$)|[?&]$")

log = logging.getLogger("webdata_nb")


def receipt_path(path: Path) -> Path:
    """Return the receipt file of a cached crawl; its name differs from those of snapshots."""
    return path.with_name(f"receipt-{path.name}")


def write(path: Path, entries: Sequence[ReceiptEntry]) -> Path:
    """Write the receipt of the crawl in `path`.

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
    target = receipt_path(path)
    parquet.write_atomically(target, data, owner_only=True)
    return target


def read(path: Path) -> list[ReceiptEntry] | None:
    """Return the receipt of the crawl in `path`; None where it is missing or unreadable."""
    try:
        document = parquet.ParquetDocument(receipt_path(path).read_bytes())
        if document.own.get("schema") != _VERSION:
            return None
        rows = document.read(SCHEMA.names).to_pylist()
        return [ReceiptEntry(**row) for row in rows]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, pa.ArrowException) as error:
        log.warning("ignored a damaged receipt, %s: %s", receipt_path(path), error)
        return None


def find_entry(
    entries: Iterable[ReceiptEntry], url: str
) -> tuple[ReceiptEntry | None, tuple[ReceiptEntry, ...]]:
    """Return the entry of `url`, and entries of URLs that are equal once normalized."""
    normalized = normalize(url)
    variants = [entry for entry in entries if normalize(entry.url) == normalized]
    exact = next((entry for entry in variants if entry.url == url), None)
    return exact, tuple(entry for entry in variants if entry is not exact)[:_MAX_VARIANTS]


def normalize(url: str) -> str:
    """Drop what rarely distinguishes pages.

    These are the scheme, `www.`, a default port, letter case, percent-encoding, a trailing slash
    and the fragment.
    """
    stripped = url.strip().partition("#")[0]
    stripped = unquote(_IGNORED_PARTS.sub("", stripped.lower()))
    path, question_mark, query = stripped.partition("?")
    return path.rstrip("/") + question_mark + query
