"""Appends receipts to the WARC files that crawls wrote."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson

from webdata_nb.contract.archives import warc_record


def append_receipt(path: Path, attrs: Mapping[str, Any]) -> None:
    """Append the receipt of a crawl to the archive that it wrote, as a record of metadata.

    The requests in receipts have no secrets.
    """
    fields = {
        "WARC-Target-URI": f"urn:uuid:{attrs['job_id']}",
        "Content-Type": "application/json",
    }
    block = orjson.dumps(attrs, default=str)
    with path.open("ab") as file:
        file.write(warc_record("metadata", uuid4(), datetime.now(UTC), block, fields))
