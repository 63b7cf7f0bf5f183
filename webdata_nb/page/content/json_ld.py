"""Finds the creative works that the JSON-LD of a page describes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webdata_nb.page.content.parser import collapse_whitespace

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_NODES = 1000
"""JSON-LD nodes read from one page."""

_WORKS = ("article", "posting", "report", "webpage", "product", "recipe", "videoobject", "book")


class JsonLdWorks:
    """The JSON-LD nodes that describe creative works, articles first.

    Parameters
    ----------
    blocks
        The decoded JSON-LD blocks of one page.
    """

    def __init__(self, blocks: list[Any]) -> None:
        nodes = list(_nodes(blocks))
        self._works = sorted((node for node in nodes if _rank(node) < len(_WORKS)), key=_rank)
        self._nodes_by_id = {
            identifier: node
            for node in reversed(nodes)
            if isinstance(identifier := node.get("@id"), str) and "name" in node
        }

    def text(self, *names: str) -> str | None:
        """Return the first text of the properties `names` in any work."""
        texts = (_text(work.get(name)) for work in self._works for name in names)
        return next((text for text in texts if text), None)

    def names(self, *names: str) -> list[str]:
        """Return the names of the objects in the first property of `names` that has any."""
        for work in self._works:
            for name in names:
                if object_names := list(self._object_names(work.get(name))):
                    return object_names
        return []

    def _object_names(self, value: Any) -> Iterator[str]:
        """Yield the names of objects, also of those that stand elsewhere under their `@id`."""
        for item in value if isinstance(value, list) else [value]:
            node = item
            if isinstance(item, dict) and "name" not in item:
                node = self._nodes_by_id.get(str(item.get("@id")), item)
            name = _text(node["name"] if isinstance(node, dict) and "name" in node else node)
            if name:
                yield name


def _nodes(blocks: list[Any]) -> Iterator[dict[str, Any]]:
    queue: list[Any] = list(reversed(blocks))
    for _ in range(MAX_NODES):
        if not queue:
            return
        node = queue.pop()
        if isinstance(node, list):
            queue += reversed(node)
        elif isinstance(node, dict):
            yield node
            queue += [node[key] for key in ("mainEntity", "@graph") if key in node]


def _rank(node: dict[str, Any]) -> int:
    """Return the position of the node type in the list of works."""
    types = node.get("@type")
    words = [
        name.lower()
        for name in (types if isinstance(types, list) else [types])
        if isinstance(name, str)
    ]
    ranks = [rank for rank, work in enumerate(_WORKS) for word in words if word.endswith(work)]
    return min(ranks, default=len(_WORKS))


def _text(value: Any) -> str | None:
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, dict):
        value = value.get("@value")
    return collapse_whitespace(value) or None if isinstance(value, str) else None
