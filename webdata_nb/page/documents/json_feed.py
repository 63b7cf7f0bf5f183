"""Reads JSON Feed documents (jsonfeed.org, versions 1 and 1.1)."""

from __future__ import annotations

from html import escape
from typing import Any

from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.page.content.parser import Entry, Feed

MAX_ENTRIES = 10_000
"""Entries read from one feed."""


def read_json_feed(text: str) -> Feed | None:
    """Read a JSON Feed; None for other JSON and for invalid JSON."""
    try:
        data = decode_json(text)
    except MalformedJson:
        return None
    items = data.get("items") if isinstance(data, dict) else None
    if not isinstance(items, list):
        return None
    entries = tuple(_read_entry(item) for item in items[:MAX_ENTRIES] if isinstance(item, dict))
    return Feed(
        type="json",
        title=_text(data, "title"),
        link=_text(data, "home_page_url"),
        description=_text(data, "description"),
        updated=None,
        entries=entries,
    )


def _read_entry(item: dict[str, Any]) -> Entry:
    text = _text(item, "content_text")
    return Entry(
        title=_text(item, "title"),
        link=_text(item, "url") or _text(item, "external_url"),
        id=_text(item, "id"),
        updated=_text(item, "date_modified"),
        published=_text(item, "date_published"),
        summary=escape(_text(item, "summary") or ""),
        content=_text(item, "content_html") or (text and escape(text)),
        author=_authors(item),
    )


def _authors(item: dict[str, Any]) -> str | None:
    # Version 1 has one author, version 1.1 a list.
    authors = item.get("authors") or [item.get("author")]
    names = [_text(author, "name") for author in authors if isinstance(author, dict)]
    return ", ".join(filter(None, names)) or None


def _text(values: dict[str, Any], key: str) -> str | None:
    value = values.get(key)
    return value if isinstance(value, str) else None
