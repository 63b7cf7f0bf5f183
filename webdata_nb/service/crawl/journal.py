"""A result as it is stored beside its row, and read back after a restart."""

from __future__ import annotations

from typing import Any

import orjson

from webdata_nb.service.crawl.plan import Result, Target


def encode(target: Target, result: Result, text: str | None) -> bytes:
    """Return the journal entry of a target; `text` serves the index where the row has none."""
    entry: dict[str, Any] = {"url": target.url, "ending": result.ending, "final": result.final_url}
    optional = {"reason": result.reason, "hash": result.content_hash, "links": result.links}
    entry |= {name: value for name, value in optional.items() if value}
    if text:
        entry["text"] = text
    return orjson.dumps(entry)


def decode(entry: bytes) -> tuple[str, Result]:
    """Return the URL that an entry is about, and its result."""
    data = orjson.loads(entry)
    return data["url"], Result(
        ending=data["ending"],
        final_url=data["final"],
        reason=data.get("reason", ""),
        content_hash=data.get("hash"),
        links=tuple(data.get("links", ())),
    )
