"""The texts and numbers that stand where a provenance points, read without the extractor's code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from typing import Any

_LABEL = re.compile(r"(json_ld|microdata|rdfa):([^/\[]*)(?:\[\d+\])?(?:/(.*))?", re.DOTALL)
_WRAPPED = ("@value", "@list", "@set", "@graph")


def alphanumeric(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).lower()


def values_at(
    origin: str, structured: Mapping[str, Any], tables: Sequence[Mapping[str, Any]]
) -> list[Any]:
    """Give the values at a place; a number in a label is not looked at."""
    if origin.startswith("table:"):
        return _in_table(origin, tables)
    syntax, kind, path = _LABEL.fullmatch(origin).groups(default="")  # type: ignore[union-attr]
    nodes = [each for each in _nodes(structured[syntax]) if kind in {*_types(each), "Thing"}]
    steps = [each.replace("~1", "/").replace("~0", "~") for each in path.split("/") if each]
    return [value for node in nodes for value in _follow(node, steps)]


def _in_table(origin: str, tables: Sequence[Mapping[str, Any]]) -> list[Any]:
    number, _, rest = origin.removeprefix("table:").partition("/")
    table = tables[int(number) - 1]
    labelled = [row[1] for row in table["rows"] if len(row) == 2 and row[0].strip() == rest]
    at, _, column = rest.partition("/")
    if not at.isdigit() or not column:
        return labelled
    header = table["header"] or ["name", "value"]
    row = table["rows"][int(at) - 1]
    return labelled + [
        cell for name, cell in zip(header, row, strict=False) if alphanumeric(name) == column
    ]


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for each in value:
            yield from _nodes(each)
    elif isinstance(value, dict):
        yield value
        for each in value.values():
            yield from _nodes(each)


def _types(node: dict[str, Any]) -> list[str]:
    kinds = node.get("@type", node.get("type")) or []
    named = kinds if isinstance(kinds, list) else str(kinds).split()
    return [each.rpartition("/")[2] for each in named]


def _follow(node: Any, steps: list[str]) -> Iterator[Any]:
    if isinstance(node, list):
        for each in node:
            yield from _follow(each, steps)
    elif isinstance(node, dict):
        inner = next((node[name] for name in _WRAPPED if name in node), None)
        if inner is not None:
            yield from _follow(inner, steps)
        if steps:
            for name, value in {**node, **(node.get("properties") or {})}.items():
                if name == steps[0]:
                    yield from _follow(value, steps[1:])
        else:  # what a thing is called or counts stands for it
            for name in ("name", "text", "value", "price", "url", "ratingValue"):
                yield from _follow(node.get(name, (node.get("properties") or {}).get(name)), [])
    elif not steps and node is not None:
        yield unescape(node).strip() if isinstance(node, str) else node
