"""Code blocks made ready for Markdown: their language, their line numbers, their last line."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from webdata_nb.service.content.parser import Element, Text, drop_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
_LONGEST_CLASS = 500
_LINE_NUMBERS = ".lineno,.linenos,.linenumber,.line-number,.line-numbers,.line-numbers-rows"


def prepare_fences(blocks: Iterable[Element]) -> None:
    """Give each ``pre`` the class by which the writer names its language, and trim its end."""
    for block in blocks:
        text = block.text
        if text.lstrip()[:1].isdigit():
            drop_all(each for each in block.select(_LINE_NUMBERS) if not _has_letters(each.text))
        if not text or text.isspace():
            block.decompose()
            continue
        if text[-2:].isspace():
            _trim_end(block)
        if name := language(block):
            block.attrs["class"] = f"language-{name}"
        elif block.attr("class") is not None:
            del block.attrs["class"]


def language(block: Element) -> str:
    """Return the language a code block declares on itself, its ``code`` or its wrapper, or ''."""
    if name := _declared_by(block):
        return name
    code = block.select_one("code")
    if code is not None and (name := _declared_by(code)):
        return name
    wrapper = block.parent
    for _ in range(_WRAPPER_LEVELS):
        if not isinstance(wrapper, Element) or wrapper.tag not in _WRAPPERS:
            break
        if name := _declared_by(wrapper):
            return name if len(wrapper.find_all("pre", limit=2)) == 1 else ""
        wrapper = wrapper.parent
    return ""


def _declared_by(each: Element) -> str:
    count = len(each.attrs)  # several times as fast as looking one up
    if not count:
        return ""
    classes = each.attr("class")
    named = None
    if count > 1 or classes is None:
        named = each.attr("data-lang") or each.attr("data-language")
    return _declared(named or "", classes or "") if classes or named else ""


def _trim_end(block: Element) -> None:
    """Take white space off the end of a block."""
    for node in reversed([each for each in block.descendants if isinstance(each, Text)]):
        node.data = node.data.rstrip()
        if node.data:
            return


@lru_cache(maxsize=1024)
def _declared(named: str, classes: str) -> str:
    tokens = classes[:_LONGEST_CLASS].split()
    names = [named, *_prefixed(tokens), *_beside_marker(tokens)]
    return next((name for name in names if _is_language(name)), "")


def _prefixed(tokens: list[str]) -> Iterator[str]:
    for token, following in pairwise([*tokens, ""]):
        for prefix in _PREFIXES:
            if token.lower().startswith(prefix):
                yield (token[len(prefix) :] or following).rstrip(";")
                break


def _beside_marker(tokens: list[str]) -> list[str]:
    """Return the classes beside ``hljs`` and its like, one of which names the language."""
    if not any(token.lower() in {"hljs", "sourcecode", "prettyprint", "src"} for token in tokens):
        return []
    return [token for token in tokens if token.lower() not in _HIGHLIGHTED and "-" not in token]


def _is_language(name: str) -> bool:
    return name.lower() not in _NO_LANGUAGE and _LANGUAGE.fullmatch(name) is not None


def _has_letters(text: str) -> bool:
    return any(character.isalpha() for character in text)
