"""Reads the metadata block at the beginning of Markdown documents, in YAML or TOML."""

from __future__ import annotations

import re
import tomllib
from datetime import date, datetime, time
from html import escape
from typing import TYPE_CHECKING, Any, Final

import yaml  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_FRONT_MATTER_CHARACTERS: Final = 64 * 1024
"""A longer block is content."""

_MAX_NODES: Final = 5000
_MAX_DEPTH: Final = 20
_YAML_BLOCK: Final = re.compile(r"---[ \t]*\n(.*?)(?<=\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TOML_BLOCK: Final = re.compile(r"\+\+\+[ \t]*\n(.*?)(?<=\n)\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL)

# The fields that say the same as a declaration of an HTML page, the preferred spelling first.
_META: Final = {
    "description": ("description", "summary", "excerpt", "subtitle"),
    "author": ("author", "authors", "by"),
    "date": (
        "date",
        "published",
        "publishdate",
        "published_at",
        "pubdate",
        "created",
        "created_at",
    ),
    "article:modified_time": (
        *("lastmod", "modified", "updated", "last_modified", "last_updated", "last_update"),
        *("updated_at", "modified_at"),
    ),
    "keywords": ("keywords", "tags"),
    "robots": ("robots",),
}


class _UnsafeBlockError(Exception):
    """The block has aliases, or more or deeper values than metadata needs."""


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Split a document into its metadata and its content.

    A block that is no mapping, is malformed, or has YAML aliases is content.

    Parameters
    ----------
    text
        The document, with line feeds as line ends.

    Returns
    -------
    tuple
        The metadata (strings, numbers, booleans, lists and mappings), and the text after the block.
    """
    for pattern, parse in _BLOCKS:
        block = pattern.match(text, 0, MAX_FRONT_MATTER_CHARACTERS)
        if block is not None and (fields := _parse(parse, block[1])):
            return fields, text[block.end() :]
    return {}, text


def head_of(fields: dict[str, Any], title: str | None) -> str:
    """Return the head of an HTML page that declares the fields.

    Parameters
    ----------
    fields
        The front matter.
    title
        The title of a document whose front matter has none.
    """
    values = {name.lower().replace("-", "_"): value for name, value in fields.items()}
    parts = (
        [f'<html lang="{escape(lang)}">'] if (lang := _first(values, "lang", "language")) else []
    )
    parts.append("<head>")
    if title := _first(values, "title") or title:
        parts.append(f"<title>{escape(title)}</title>")
    for name, keys in _META.items():
        if content := _first(values, *keys):
            parts.append(f'<meta name="{name}" content="{escape(content)}">')
    if canonical := _first(values, "canonical", "canonical_url", "canonicalurl"):
        parts.append(f'<link rel="canonical" href="{escape(canonical)}">')
    return "".join([*parts, "</head>"])


def _parse(parse: Callable[[str], Any], block: str) -> dict[str, Any]:
    try:
        fields = parse(block)
    except (yaml.YAMLError, tomllib.TOMLDecodeError, RecursionError, _UnsafeBlockError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _parse_yaml(block: str) -> Any:
    """Read YAML; scalars are strings.

    The library's own constructor recurses: deep nesting crashes it. Aliases can make a short text
    stand for billions of values.
    """
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    collections: list[list[Any]] = [[]]
    for count, event in enumerate(yaml.parse(block, Loader=loader)):
        if isinstance(event, yaml.AliasEvent) or count > _MAX_NODES:
            raise _UnsafeBlockError
        if isinstance(event, yaml.ScalarEvent):
            collections[-1].append(event.value)
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(collections) > _MAX_DEPTH:
                raise _UnsafeBlockError
            collections.append([])
        elif isinstance(event, yaml.CollectionEndEvent):
            items = collections.pop()
            is_mapping = isinstance(event, yaml.MappingEndEvent)
            collections[-1].append(_mapping(items) if is_mapping else items)
    return next(iter(collections[0]), None)


def _mapping(items: list[Any]) -> dict[str, Any]:
    return {str(key): value for key, value in zip(items[::2], items[1::2], strict=True)}


def _parse_toml(block: str) -> Any:
    # The library recurses for arrays and inline tables, and looks up the parts of dotted keys.
    if max(map(block.count, "[{.")) > _MAX_NODES // 2:
        raise _UnsafeBlockError
    return _plain(tomllib.loads(block), 0)


def _plain(value: Any, depth: int) -> Any:
    """Return a value as JSON has it."""
    if depth > _MAX_DEPTH:
        raise _UnsafeBlockError
    if isinstance(value, dict):
        return {key: _plain(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each, depth + 1) for each in value]
    return value.isoformat() if isinstance(value, date | datetime | time) else value


def _first(values: dict[str, Any], *keys: str) -> str | None:
    """Return the first of some fields as text."""
    return next((text for key in keys if (text := _text(values.get(key)))), None)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(filter(None, map(_text, value)))
    if isinstance(value, dict):
        return _text(value.get("name", value.get("date", "")))
    return " ".join(str(value).split()) if isinstance(value, str | int | float) else ""


_BLOCKS: Final = ((_YAML_BLOCK, _parse_yaml), (_TOML_BLOCK, _parse_toml))
