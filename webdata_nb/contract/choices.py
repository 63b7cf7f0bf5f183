"""Lists the values of request options, without imports, so that commands start fast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, get_args

Engine = Literal["engine_one", "engine_two", "engine_three"]
ENGINES: Final[tuple[Engine, ...]] = get_args(Engine)

Format = Literal[
    "markdown",
    "html",
    "raw_html",
    "links",
    "images",
    "headings",
    "structured_data",
    "records",
    "screenshot",
]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)

ValueType = Literal["text", "png", "json", "texts", "items", "integer", "number", "boolean"]


class FormatValue(NamedTuple):
    """What a page has for a format: in replies, in frames and in exports.

    Attributes
    ----------
    type
        `text` (long), `png` (Base64 in replies), `json` (an object), `texts` (a list of them),
        `items` (a list of objects with `fields`), or a number or truth value.
    description
        A sentence for the description of the HTTP interface.
    meaning
        A clause for the table of columns in docstrings.
    fields
        The names and types of the fields of items.
    """

    type: ValueType
    description: str
    meaning: str = "if asked for"
    fields: Mapping[str, Literal["text", "int16", "int32"]] = {}


FORMAT_VALUES: Final[Mapping[Format, FormatValue]] = {
    "markdown": FormatValue("text", "The page as Markdown."),
    "html": FormatValue("text", "The page's cleaned HTML."),
    "raw_html": FormatValue("text", "The page's HTML as received."),
    "links": FormatValue(
        "texts", "Absolute URLs of the page's links.", "list of str, if asked for"
    ),
    "images": FormatValue(
        "items",
        "The page's pictures: `url`, `alt`, `width`, `height`, `caption`.",
        "list of dicts, if asked for",
        {"url": "text", "alt": "text", "width": "int32", "height": "int32", "caption": "text"},
    ),
    "headings": FormatValue(
        "items",
        "The page's headings: `level`, `text`, `anchor`.",
        "list of dicts, if asked for",
        {"level": "int16", "text": "text", "anchor": "text"},
    ),
    "structured_data": FormatValue(
        "json",
        "`json_ld`, `microdata`, `opengraph`, `rdfa` and `meta` of the page.",
        "dict, if asked for",
    ),
    "records": FormatValue(
        "json",
        "The repeated things of the page, for `records_df`: its `parts`, and `groups` of them.",
        "dict for `records_df`, if asked for",
    ),
    "screenshot": FormatValue("png", "A PNG of the page, in Base64.", "PNG bytes, if asked for"),
}

Strategy = Literal["bfs", "dfs", "bff"]

CrawlBounds = Literal["folder", "site", "auto"]
"""What a crawl keeps to: the folder of its start page, its site, or as its URL says."""

Purpose = Literal["search", "ai-input", "ai-train", "research"]
PURPOSES: Final[tuple[Purpose, ...]] = get_args(Purpose)

ArchiveSource = Literal["wayback", "commoncrawl"]

KeyScope = Literal["search", "crawl", "creatives", "read", "admin"]
KEY_SCOPES: Final[tuple[KeyScope, ...]] = get_args(KeyScope)
"""What an API key may be limited to. The first three start work, and read what they started."""
DEFAULT_SCOPES: Final[frozenset[KeyScope]] = frozenset(KEY_SCOPES) - {"admin"}
"""The scopes of a key that was created without any."""
ARCHIVE_SOURCES: Final[tuple[ArchiveSource, ...]] = get_args(ArchiveSource)
CaptureMatch = Literal["exact", "prefix", "host", "domain"]
