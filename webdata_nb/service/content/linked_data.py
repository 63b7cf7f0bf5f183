"""What a page's JSON-LD says about the page itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webdata_nb.service.content.parser import collapse_whitespace

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_NODES = 1000
"""Nodes that are looked at; a page has a handful."""

_WORKS = ("article", "posting", "report", "webpage", "product", "recipe", "videoobject", "book")


class JsonLdWorks:
    """The nodes of a page's JSON-LD that describe works, articles first.

    Parameters
    ----------
    blocks
        The decoded JSON-LD blocks of one page.
    """

    def __init__(self, blocks: list[Any]) -> None:
        works = [node for node in _nodes(blocks) if _rank(node) < len(_WORKS)]
        self._works = sorted(works, key=_rank)

    def text(self, *names: str) -> str | None:
        """Return the first text among the properties `names` of any work."""
        found = (_text(work.get(name)) for work in self._works for name in names)
        return next((text for text in found if text), None)

    def names(self, *names: str) -> list[str]:
        """Return what the first of the properties `names` that is given is called."""
        for work in self._works:
            for name in names:
                if called := list(_called(work.get(name))):
                    return called
        return []


def _nodes(blocks: list[Any]) -> Iterator[dict[str, Any]]:
    waiting: list[Any] = list(reversed(blocks))
    for _ in range(MOST_NODES):
        if not waiting:
            return
        node = waiting.pop()
        if isinstance(node, list):
            waiting += reversed(node)
        elif isinstance(node, dict):
            yield node
            waiting += [node[key] for key in ("mainEntity", "@graph") if key in node]


def _rank(node: dict[str, Any]) -> int:
    """Return how far down the list of works the node's type stands."""
    types = node.get("@type")
    words = [
        each.lower()
        for each in (types if isinstance(types, list) else [types])
        if isinstance(each, str)
    ]
    ranks = [at for at, work in enumerate(_WORKS) for word in words if word.endswith(work)]
    return min(ranks, default=len(_WORKS))


def _text(value: Any) -> str | None:
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, dict):
        value = value.get("@value")
    return collapse_whitespace(value) or None if isinstance(value, str) else None


def _called(value: Any) -> Iterator[str]:
    for each in value if isinstance(value, list) else [value]:
        name = _text(each.get("name") if isinstance(each, dict) and "name" in each else each)
        if name:
            yield name
