"""Stores the known state of a watched site in a Parquet file."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, cast

import orjson
import pyarrow as pa

from webdata_nb.toolkit.frames import parquet, schemas
from webdata_nb.toolkit.frames.json_text import dumps
from webdata_nb.toolkit.frames.watch.comparison import KnownSite, UnreadKind
from webdata_nb.toolkit.frames.watch.site_visit import PageVersion

_KIND: Final = "known site/1"
_TEXTS: Final = ("url", "unread", "final_url", "content_hash", "job_id", "values")
_FIELDS: Final[list[pa.Field[Any]]] = [
    *(pa.field(name, schemas.TEXT) for name in _TEXTS),
    pa.field("fetched_at", schemas.WHEN),
]
_SCHEMA: Final = pa.schema(_FIELDS)


def encode(known: KnownSite) -> pa.Buffer:
    """Return the bytes of the file."""
    rows = [_row_of_page(url, page) for url, page in known.pages.items()]
    rows += [{"url": url, "unread": kind} for url, kind in known.unread.items()]
    own = {
        "kind": _KIND,
        "job_id": known.job_id,
        "at": known.at.isoformat(),
        "is_whole": known.is_whole,
    }
    return parquet.encode(pa.Table.from_pylist(rows, schema=_SCHEMA), own=own, attrs={})


def decode(data: bytes) -> KnownSite:
    """Return what a file says.

    Raises
    ------
    ValueError, KeyError, TypeError, pyarrow.ArrowException
        The file is damaged, or one of another kind.
    """
    document = parquet.ParquetDocument(data)
    if document.own.get("kind") != _KIND:
        raise ValueError("it is a file of something else")
    rows = document.read(_SCHEMA.names).to_pylist()
    return KnownSite(
        document.own["job_id"],
        datetime.fromisoformat(document.own["at"]),
        document.own["is_whole"],
        {row["url"]: _page_of_row(row) for row in rows if row["unread"] is None},
        {row["url"]: cast("UnreadKind", row["unread"]) for row in rows if row["unread"]},
    )


def _row_of_page(url: str, page: PageVersion) -> dict[str, Any]:
    return {
        "url": url,
        "final_url": page.final_url,
        "content_hash": page.content_hash,
        "fetched_at": page.fetched_at,
        "job_id": page.job_id,
        "values": dumps(dict(page.values)),
    }


def _page_of_row(row: dict[str, Any]) -> PageVersion:
    values = orjson.loads(row["values"])
    if not isinstance(values, dict):
        raise TypeError(f"the values of {row['url']} are not a mapping")
    return PageVersion(
        row["url"],
        row["final_url"],
        row["content_hash"],
        row["fetched_at"],
        row["job_id"],
        values,
    )
