"""Scans a block of JSON-LD into a page's tree: objects, arrays and scalars with their places.

Errors of syntax are ignored, since a value is evidence wherever it stands.
"""

from __future__ import annotations

import re
from typing import Final

from webdata_nb.page.extract.evidence.page_tree import (
    JSON_ARRAY,
    JSON_OBJECT,
    MAX_DEPTH,
    PageTree,
    TextPiece,
)

MAX_PIECES: Final = 50_000
_TOKEN: Final = re.compile(
    r"\"(?:[^\"\\]++|\\.)*+(?:\"|\\?\Z)|[{}\[\],:]|[^\s{}\[\],:\"]++", re.DOTALL
)
_MAX_KEYS: Final = 3
_OPENING: Final = {"{": JSON_OBJECT, "[": JSON_ARRAY}
_CLOSING: Final = {",": False, "}": True, "]": True}
"""Characters that end a value, and whether they end an object or an array."""
_COLON: Final = ":"
_NULL: Final = "null"


def scan_json(tree: PageTree, script: int, end: int) -> None:
    """Add the content of a script, which ends at `end`, to a tree."""
    _JsonScanner(tree, script).scan(tree.opening_ends[script], end)


class _JsonScanner:
    def __init__(self, tree: PageTree, script: int) -> None:
        self._tree = tree
        self._stack = [script]
        self._key = ""
        self._token: tuple[str, int] | None = None

    def scan(self, start: int, end: int) -> None:
        for match in _TOKEN.finditer(self._tree.source, start, end):
            token, at = match[0], match.start()
            if token in _OPENING:
                self._open(_OPENING[token], at)
            elif token == _COLON:
                self._key, self._token = (self._token or ("", 0))[0].strip('"'), None
            elif token in _CLOSING:
                self._add_scalar()
                if _CLOSING[token] and len(self._stack) > 1:
                    self._tree.close(self._stack.pop(), match.end())
            else:
                self._token = token, at
        for element in reversed(self._stack[1:]):
            self._tree.close(element, end)

    def _open(self, kind: str, at: int) -> None:
        if len(self._stack) < MAX_DEPTH:
            element = self._tree.add(kind, at, at + 1, self._stack[-1])
            if self._key:
                self._tree.labels[element] = self._key
            self._stack.append(element)
        self._key, self._token = "", None

    def _add_scalar(self) -> None:
        if self._token is not None and len(self._tree.pieces) < MAX_PIECES:
            token, at = self._token
            is_text = token.startswith('"')
            start, end = (at + 1, at + len(token) - 1) if is_text else (at, at + len(token))
            element = self._stack[-1]
            if self._key in {"@type", "type"} and is_text:
                self._tree.types.setdefault(element, token.strip('"'))
            elif start < end and token != _NULL:
                label = self._label()
                self._tree.pieces.append(TextPiece(start, end, element, label, is_json=True))
        self._key, self._token = "", None

    def _label(self) -> str:
        """Return the last keys of the path to a value."""
        keys = [self._key] if self._key else []
        for parent in reversed(self._stack):
            if len(keys) >= _MAX_KEYS:
                break
            if parent in self._tree.labels:
                keys.append(self._tree.labels[parent])
        return "/".join(reversed(keys)) or "json"
