"""Converts JSON to HTML: a code block in which values that are URLs are links."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.page.documents.bare_urls import MAX_BARE_URLS
from webdata_nb.page.documents.converted_document import ConvertedDocument
from webdata_nb.page.documents.plain_text import MAX_CODE_CHARACTERS, convert_code

MAX_PARSED_CHARACTERS = 5_000_000
"""Characters up to which a document is parsed for its title."""

_MAX_TITLE_LENGTH = 300
# A string that is a URL and no key. Values of these keys name a vocabulary, which is no page.
_URL_VALUE = re.compile(
    r'(?P<vocabulary>"(?:\$schema|\$id|\$ref|@context|@type|@vocab|xmlns)"\s*+:\s*+)?'
    r'"(?P<url>https?:\\?/\\?/[^"\s<>\x00-\x20]{1,2000}+)"(?!\s*+:)'
)


def convert_json(text: str, _url: str) -> ConvertedDocument:
    """Convert a JSON document, also JSON Lines or invalid JSON."""
    head = text[:MAX_CODE_CHARACTERS]
    return convert_code(text, "json", head=_head(text), body=_link_values(head))


def _head(text: str) -> str:
    """Return the title and the description that an object declares about itself."""
    data = _parse(text)
    title = next(filter(None, (_line(data.get(key)) for key in ("title", "name"))), None)
    info = data.get("info")  # OpenAPI
    if title is None and isinstance(info, dict):
        data, title = info, _line(info.get("title"))
    description = _line(data.get("description"))
    parts = [f"<title>{escape(title)}</title>"] if title else []
    if description:
        parts.append(f'<meta name="description" content="{escape(description)}">')
    return "".join(parts)


def _parse(text: str) -> dict[str, Any]:
    if len(text) > MAX_PARSED_CHARACTERS:
        return {}
    try:
        data = decode_json(text)
    except MalformedJson:
        return {}
    return data if isinstance(data, dict) else {}


def _line(value: object) -> str | None:
    if not isinstance(value, str) or not 0 < len(value.strip()) <= _MAX_TITLE_LENGTH:
        return None
    return value.strip()


def _link_values(text: str) -> str:
    """Return JSON as HTML in which the values that are URLs are links."""
    pieces: list[str] = []
    position = 0
    for count, match in enumerate(_URL_VALUE.finditer(text)):
        if count == MAX_BARE_URLS:
            break
        if match["vocabulary"]:
            continue
        start, end = match.span("url")
        url = escape(match["url"].replace("\\/", "/"))
        written = escape(match["url"])
        pieces += escape(text[position:start]), f'<a href="{url}">{written}</a>'
        position = end
    return "".join([*pieces, escape(text[position:])])
