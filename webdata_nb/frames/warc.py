"""Writes the pages of a frame, and receipts, to WARC files."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson

from webdata_nb.contract.archives import warc_record


def append_receipt(path: Path, attrs: Mapping[str, Any]) -> None:
    """Append the receipt of a crawl to the archive that it wrote, as a record of metadata."""
    with path.open("ab") as file:
        file.write(receipt_record(attrs))


def receipt_record(attrs: Mapping[str, Any]) -> bytes:
    """Return the record of a receipt; requests in receipts have no secrets."""
    fields = {
        "WARC-Target-URI": f"urn:webdata:receipt:{attrs.get('job_id') or 'none'}",
        "Content-Type": "application/json",
    }
    block = orjson.dumps(attrs, default=str)
    return warc_record("metadata", uuid4(), datetime.now(UTC), block, fields)
