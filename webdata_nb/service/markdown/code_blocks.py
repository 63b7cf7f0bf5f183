"""Writes code blocks: their language, and their text without line numbers."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from webdata_nb.service.content.parser import Element, Text
from webdata_nb.service.markdown.escaping import longest_run

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from webdata_nb.service.content.parser import Node

_PREFIXES = ("language-", "lang-", "highlight-source-", "highlight-", "src-", "brush:")
_LANGUAGE = re.compile(r"[a-z0-9][a-z0-9_+#.-]{0,39}", re.IGNORECASE)
_HIGHLIGHTED = frozenset({"hljs", "sourcecode", "prettyprint", "highlight", "code", "src"})
# fmt: off
_NO_LANGUAGE = frozenset({
    "auto", "block", "box", "code", "container", "default", "line", "lines", "linenums",
    "nohighlight", "none", "notranslate", "numberlines", "output", "plaintext", "pre", "table",
    "undefined", "wrapper",
})
# fmt: on
_WRAPPERS = frozenset({"div", "figure", "td", "section", "span"})
_WRAPPER_LEVELS = 3
_MAX_CLASS_CHARACTERS = 500
_LINES = frozenset({"br", "div", "p", "li", "tr", "pre"})
_NUMBER = re.compile(r"\s*\d")
_LINE_NUMBERS = ".lineno,.linenos,.linenumber,.line-number,.line-numbers,.line-numbers-rows"


def write_code_block(block: Element) -> str:
    """Write a fenced code block; '' if it is empty."""
    text = block.text
    numbers: set[Element] = set()
    if _NUMBER.match(text) is not None:
        numbers = {
            element for element in block.select(_LINE_NUMBERS) if not _has_letters(element.text)
        }
    if numbers or _has_lines(block):
        text = text_of_lines(block, numbers)
    text = text.rstrip()
    if not text:
        return ""
    fence = "`" * max(3, longest_run(text) + 1 if "```" in text else 0)
    return f"{fence}{language(block)}\n{text}\n{fence}"


def text_of_lines(block: Element, skipped: Collection[Element] = ()) -> str:
    """Return the text of a block in which elements may be lines."""
    pieces: list[str] = []
    stack: list[tuple[Iterator[Node], bool]] = []
    nodes: Iterator[Node] = iter(block.children)
    is_line = False
    while True:
        for node in nodes:
            if type(node) is Text:
                pieces.append(node.data)
            elif type(node) is Element and node not in skipped:
                tag = node.tag
                if tag == "br":
                    pieces.append("\n")
                    continue
                stack.append((nodes, is_line))
                nodes, is_line = iter(node.children), tag in _LINES
                if is_line:
                    _end_line(pieces)
                break
        else:
            if is_line:
                _end_line(pieces)
            if not stack:
                return "".join(pieces)
            nodes, is_line = stack.pop()


def _has_lines(block: Element) -> bool:
    return next(block.iter_elements(_LINES), None) is not None


def _end_line(pieces: list[str]) -> None:
    if pieces and not pieces[-1].endswith("\n"):
        pieces.append("\n")


def language(block: Element) -> str:
    """Return the language a code block declares on itself, its ``code`` or its wrapper, or ''."""
    if name := _declared_language(block):
        return name
    code = block.select_one("code")
    if code is not None and (name := _declared_language(code)):
        return name
    wrapper = block.parent
    for _ in range(_WRAPPER_LEVELS):
        if not isinstance(wrapper, Element) or wrapper.tag not in _WRAPPERS:
            break
        if name := _declared_language(wrapper):
            return name if len(wrapper.find_all("pre", limit=2)) == 1 else ""
        wrapper = wrapper.parent
    return ""


def _declared_language(element: Element) -> str:
    count = len(element.attrs)  # several times faster than a lookup
    if not count:
        return ""
    classes = element.attr("class")
    label = None
    if count > 1 or classes is None:
        label = element.attr("data-lang") or element.attr("data-language")
    return _choose_language(label or "", classes or "") if classes or label else ""


@lru_cache(maxsize=1024)
def _choose_language(label: str, classes: str) -> str:
    tokens = classes[:_MAX_CLASS_CHARACTERS].split()
    names = [label, *_prefixed(tokens), *_classes_with_marker(tokens)]
    return next((name for name in names if _is_language(name)), "")


def _prefixed(tokens: list[str]) -> Iterator[str]:
    for token, following in pairwise([*tokens, ""]):
        for prefix in _PREFIXES:
            if token.lower().startswith(prefix):
                yield (token[len(prefix) :] or following).rstrip(";")
                break


def _classes_with_marker(tokens: list[str]) -> list[str]:
    """Return the classes next to a highlighter's, such as ``hljs``; one may be the language."""
    if not any(token.lower() in {"hljs", "sourcecode", "prettyprint", "src"} for token in tokens):
        return []
    return [token for token in tokens if token.lower() not in _HIGHLIGHTED and "-" not in token]


def _is_language(name: str) -> bool:
    return name.lower() not in _NO_LANGUAGE and _LANGUAGE.fullmatch(name) is not None


def _has_letters(text: str) -> bool:
    return any(character.isalpha() for character in text)
