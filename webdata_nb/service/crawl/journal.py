"""A result as it is stored beside its row, and read back after a restart."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any

import orjson

from webdata_nb.service.crawl.plan import CrawlResult, CrawlTarget


def encode_entry(target: CrawlTarget, result: CrawlResult, text: str | None) -> bytes:
    """Return the journal entry of a target; `text` serves the index where the row has none."""
    entry: dict[str, Any] = {"url": target.url, "ending": result.ending, "final": result.final_url}
    optional: dict[str, Any] = {
        "reason": result.reason,
        "detail": result.detail,
        "hash": result.content_hash,
        "links": _shortened(result.links, _origin(result.final_url)),
        "grades": result.grades,
        "nofollow": result.nofollow,
        "sealed": result.sealed,
        "canonical": result.canonical,
        "sketch": _packed(result.sketch),
        "shape": _packed(result.shape),
        "hops": result.hops,
        "text": text,
    }
    return orjson.dumps(entry | {name: value for name, value in optional.items() if value})


def decode_entry(entry: bytes) -> tuple[str, CrawlResult]:
    """Return the URL that an entry is about, and its result."""
    data = orjson.loads(entry)
    origin = _origin(data["final"])
    return data["url"], CrawlResult(
        ending=data["ending"],
        final_url=data["final"],
        reason=data.get("reason", ""),
        detail=data.get("detail", ""),
        content_hash=data.get("hash"),
        links=tuple(f"{origin}{url}" if url[0] == "/" else url for url in data.get("links", ())),
        grades=data.get("grades", ""),
        nofollow=tuple(data.get("nofollow", ())),
        sealed=data.get("sealed", False),
        canonical=data.get("canonical"),
        sketch=b64decode(data.get("sketch", "")),
        shape=b64decode(data.get("shape", "")),
        hops=data.get("hops", 0),
    )


def _packed(sketch: bytes) -> str:
    return b64encode(sketch).decode()


def _origin(url: str) -> str:
    """Return a canonical URL up to its path."""
    return "/".join(url.split("/", 3)[:3])


def _shortened(links: Iterable[str], origin: str) -> list[str]:
    """Leave out what the links share with their page: most of what they are made of."""
    inside, cut = f"{origin}/", len(origin)
    return [url[cut:] if url.startswith(inside) else url for url in links]
