"""Converts feeds (RSS, Atom, JSON Feed) to HTML, with an article for each entry."""

from __future__ import annotations

import re
from html import escape, unescape
from typing import Any

from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.page.content.parser import (
    Entry,
    Feed,
    body_of,
    children_of,
    parse,
    read_feed,
    serialize,
)
from webdata_nb.page.documents.converted_document import ConvertedDocument
from webdata_nb.page.documents.text import convert_code

_CDATA = re.compile(r"(<!\[CDATA\[.*?\]\]>)", re.DOTALL)
_REFERENCE = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\d{1,7}|#x[0-9a-fA-F]{1,6});)(\w{1,31};)?")
# Control characters that no XML document may have.
_CONTROLS = dict.fromkeys((*range(9), 11, 12, *range(14, 32)), " ")


def convert_feed(text: str, _url: str) -> ConvertedDocument:
    """Convert a feed; text that is no feed becomes a code block."""
    is_json = text.lstrip("\ufeff \t\r\n").startswith("{")
    feed = read_json_feed(text) if is_json else read_feed(_as_well_formed(text))
    if feed is None:
        return convert_code(text, "json" if is_json else "xml")
    return ConvertedDocument(_feed_to_html(feed))


def _as_well_formed(text: str) -> str:
    """Repair what feeds take over from HTML, for a parser that keeps no markup of others.

    These are white space before the declaration, HTML's names of characters, a bare "&", and
    control characters.
    """
    parts = _CDATA.split(text.lstrip("\ufeff \t\r\n").translate(_CONTROLS))
    # Every other part is a CDATA section, where "&" is a character like others.
    parts[::2] = (_REFERENCE.sub(_xml_reference, part) for part in parts[::2])
    return "".join(parts)


def _xml_reference(match: re.Match[str]) -> str:
    name = match[1] or ""
    character = unescape(f"&{name}") if name else "&"
    return escape(character) if not character.endswith(";") else f"&amp;{name}"


def _feed_to_html(feed: Feed) -> str:
    """Write a feed as a page with an article for each entry; HTML of entries is kept."""
    title = escape(feed.title or "")
    head = f"<title>{title}</title>"
    if feed.description:
        head += f'<meta name="description" content="{escape(feed.description)}">'
    if feed.updated:
        head += f'<meta property="article:modified_time" content="{escape(feed.updated)}">'
    heading = _linked(title, feed.link)
    entries = "".join(map(_entry_to_html, feed.entries))
    description = f"<p>{escape(feed.description)}</p>" if feed.description else ""
    return (
        f"<!doctype html><html><head>{head}</head><body><main>"
        f"<h1>{heading}</h1>{description}{entries}</main></body></html>"
    )


def _entry_to_html(entry: Entry) -> str:
    heading = _linked(escape(entry.title or entry.link or ""), entry.link)
    byline = ", ".join(filter(None, (entry.author, entry.published or entry.updated)))
    content = entry.content if isinstance(entry.content, str) else None
    return (
        f"<article><h2>{heading}</h2>"
        + (f"<p>{escape(byline)}</p>" if byline else "")
        + f"<div>{_closed(content or entry.summary or '')}</div></article>"
    )


def _closed(html: str) -> str:
    """Return the HTML of an entry with all elements closed, so that the next entry is not in it."""
    if "<" not in html:
        return html
    body = body_of(parse(html))
    return "" if body is None else "".join(map(serialize, children_of(body)))


def _linked(html: str, url: str | None) -> str:
    return f'<a href="{escape(url)}">{html}</a>' if url and html else html


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
    authors = item.get("authors") or [item.get("author")]
    names = [_text(author, "name") for author in authors if isinstance(author, dict)]
    return Entry(
        title=_text(item, "title"),
        link=_text(item, "url") or _text(item, "external_url"),
        id=_text(item, "id"),
        updated=_text(item, "date_modified"),
        published=_text(item, "date_published"),
        summary=escape(_text(item, "summary") or ""),
        content=_text(item, "content_html") or (text and escape(text)),
        author=(", ".join(filter(None, names)) or None),
    )


def _text(values: dict[str, Any], key: str) -> str | None:
    value = values.get(key)
    return value if isinstance(value, str) else None
