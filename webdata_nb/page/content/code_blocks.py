"""Finds code blocks in a page, and writes them: language, and text without line numbers."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.parser import Element, Text, detached, make_element, nearest_ancestor

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from webdata_nb.page.content.parser import Document, Node


_BLOCK_CODE: Final = (
    'code[style*="white-space"]',
    'code[style*="display"]',
    'code[class*="block" i]',
    "code[data-lang]",
    "code[data-language]",
)
_BLOCK_STYLE: Final = re.compile(
    r"white-space\s*:\s*(?:pre(?!-line)|break-spaces)|display\s*:\s*(?:block|grid)"
)
_BLOCK_CLASS: Final = re.compile(r"(?:^|\s)(?:code[_-]?)?block(?=\s|$)", re.IGNORECASE)
_TEXT_BLOCKS: Final = (
    "div[data-lang]",
    "div[data-language]",
    'div[class^="code"]',
)
_CODE_CLASS: Final = re.compile(r"code|highlight|source|snippet", re.IGNORECASE)
_STRUCTURE: Final = "pre,code,p,div,ul,ol,dl,table,textarea,h1,h2,h3,h4,h5,h6,img"
_TABLES: Final = ('table[class*="highlight"]', 'table[class*="code" i]', "td.gutter")
_CODE_CELL: Final = re.compile(r"code", re.IGNORECASE)
_NUMBER_CELL: Final = re.compile(r"gutter|num|line-?no", re.IGNORECASE)
_LINE_ELEMENTS: Final = "div.line"
_MAX_ROWS: Final = 20_000


def mark_code_blocks(document: Document) -> None:
    """Turn code blocks of other elements into ``pre``.

    ``code`` that is styled as a block, ``div`` with the text of a program, and tables with one line
    of code per row or per element.
    """
    for table in document.select("code table"):
        # A table of numbers and lines has no ``code`` around it; a ``pre`` keeps it.
        code = nearest_ancestor(table, {"code", "pre"})
        if code is not None and code.tag == "code" and nearest_ancestor(code, {"pre"}) is None:
            code.unwrap()
    for code in _matches(document, _BLOCK_CODE):
        _mark_block_code(code)
    for element in _matches(document, _TEXT_BLOCKS):
        if _holds_program(element):
            element.tag = "pre"
    for element in _matches(document, _TABLES):
        grid = element if element.tag == "table" else nearest_ancestor(element, {"table"})
        if grid is not None and grid.parent is not None:
            _replace_table(grid)


def _matches(document: Document, selectors: Iterable[str]) -> Iterator[Element]:
    for selector in selectors:  # one by one: a selector of one tag costs next to nothing
        yield from document.select(selector)


def _mark_block_code(code: Element) -> None:
    """Turn ``code`` into ``pre`` without white space before its text, if it is shown as a block."""
    if nearest_ancestor(code, {"pre", "code", "table", "a"}) is not None:
        return
    text = code.text
    has_lines = "\n" in text.strip() or code.select_one("br") is not None
    style = _BLOCK_STYLE.search(code.attr("style") or "")
    if not text.strip() or (
        style is None and _BLOCK_CLASS.search(code.attr("class") or "") is None and not has_lines
    ):
        return
    if style is not None and style[0].startswith("display") and not has_lines:
        return
    code.tag = "pre"
    for node in code.descendants:
        if type(node) is Text:
            text = node.data.lstrip()
            blank = node.data[: len(node.data) - len(text)]
            indentation = blank.rpartition("\n")[2] if has_lines else ""
            node.data = indentation + text
            if text:
                break


def _holds_program(element: Element) -> bool:
    """Return whether a ``div`` holds nothing but the text of a program."""
    classes = element.attr("class") or ""
    has_language = element.attr("data-lang") or element.attr("data-language")
    if not (_CODE_CLASS.search(classes) if has_language else _BLOCK_CLASS.search(classes)):
        return False
    text = element.text.strip()
    if not text or element.select_one(_STRUCTURE) is not None:
        return False
    return bool(has_language) or "\n" in text or element.select_one("br") is not None


def _replace_table(table: Element) -> None:
    """Replace a table of line numbers and lines by ``pre``."""
    if table.select_one("table,pre") is not None or nearest_ancestor(table, {"pre"}) is not None:
        return
    rows = table.select("tr")
    if not 0 < len(rows) <= _MAX_ROWS:
        return
    lines: list[str] = []
    for row in rows:
        cells = [cell for cell in row.children if isinstance(cell, Element)]
        code = [cell for cell in cells if _CODE_CELL.search(cell.attr("class") or "")]
        if len(code) != 1 or not all(_is_number(cell) for cell in cells if cell not in code):
            return
        elements = code[0].select(_LINE_ELEMENTS) or code
        lines += [element.text.strip("\n") for element in elements]
    text = "\n".join(lines).replace("\xa0", " ")
    if text.strip():
        table.replace_with(make_element("pre", [Text(text)]))


def _is_number(cell: Element) -> bool:
    """Return whether a cell holds line numbers or nothing."""
    text = cell.text
    return not text.strip() or (
        not any(map(str.isalpha, text))
        and (_NUMBER_CELL.search(cell.attr("class") or "") is not None or text.strip().isdigit())
    )


_PREFIXES = ("language-", "lang-", "highlight-source-", "highlight-", "src-", "brush:")
_LANGUAGE = re.compile(r"[a-z0-9][a-z0-9_+#.-]{0,39}", re.IGNORECASE)
_MARKERS = frozenset(
    {
        "highlight",
        "codehilite",
        "shiki",
        "code-block",
        "codeblock",
        "syntaxhighlighter",
        "chroma",
        "rouge",
        "prism",
        "code",
        "snippet",
    }
)
_MAX_LABEL_WORDS = 3
_HIGHLIGHTED = frozenset({"hljs", "sourcecode", "prettyprint", "highlight", "code", "src"})
# fmt: off
_NO_LANGUAGE = frozenset({
    "auto", "block", "box", "code", "container", "default", "line", "lines", "linenums",
    "nohighlight", "none", "notranslate", "numberlines", "output", "plaintext", "pre", "table",
    "undefined", "wrapper",
})
# fmt: on
_WRAPPERS = frozenset({"div", "figure", "td", "section", "span", "tr", "tbody", "table"})
_TABLE_PARTS = frozenset({"td", "tr", "tbody", "table"})
_WRAPPER_LEVELS = 3
_TABLE_LEVELS = 4
_LABELS = (
    "data-lang",
    "data-language",
    "language",
    "data-code-lang",
    "data-code-language",
    "data-enlighter-language",
    "data-highlight-language",
    "data-syntax",
)
_NATURAL_LANGUAGE = re.compile(r"[a-z]{2}(?:-\w+)?", re.IGNORECASE)
_SHORT_LANGUAGES = frozenset({"js", "py", "rb", "go", "ts", "sh", "rs", "md", "hs", "kt", "ps"})
# Languages that a class names without a prefix; names that are also other words are missing.
_CLASS_NAMES = """
asm bash bat c++ clojure cmake coffeescript cpp csharp css cypher cython dart docker dockerfile
elixir elm erlang fish fortran fsharp gherkin glsl golang gradle graphql groovy haskell hcl html
http ini java javascript js json json5 jsonc jsx julia kotlin latex lean lisp lua makefile
markdown matlab mermaid nasm nginx nix objectivec objective-c ocaml pascal perl php php7 powershell
prolog protobuf ps1 purescript py py3 python python3 rb rst ruby rust sass scala scheme scss sh
shell sol solidity sparql sql svelte swift tcl terraform toml ts tsx typescript vb vbnet verilog
vhdl vim vue wasm xml xslt yaml yml zig zsh
"""
_NAMES = frozenset(_CLASS_NAMES.split())
_COPY = 'button,clipboard-copy,[class*="copy" i],[class*="clipboard" i]'
_COPY_TAGS = frozenset({"button", "clipboard-copy"})
_COPY_WORD = re.compile(r"(?:copy|copied|copier|copia|kopier|copié)", re.IGNORECASE)
_HELPERS = frozenset({"style", "script", "template", "svg"})
_ROW_SPANS = 'span.line,span[data-line],span[class*="code-line"],span[class*="token-line"]'
_MAX_CLASS_CHARACTERS = 500
_LINES = frozenset({"br", "div", "p", "li", "tr", "pre"})
_NUMBER = re.compile(r"\s*\d")
_LINE_NUMBERS = (
    ".lineno,.linenos,.linenumber,.line-number,.line-numbers,.line-numbers-rows,.linenodiv,.ln,.lnt"
    ',.gutter,[class*="linenumber" i],[class*="line-num" i],[class*="ln-num"]'
)


def write_code_block(block: Element) -> str:
    """Write a fenced code block; '' if it is empty."""
    text = _exact_text(block).rstrip()
    if not text:
        return ""
    fence = "`" * max(3, longest_run(text) + 1 if "```" in text else 0)
    return f"{fence}{language(block)}\n{text}\n{fence}"


def _exact_text(block: Element) -> str:
    """Return the text of a block without line numbers and copy buttons."""
    if len(block) == 1 and type(block[0]) is Text:
        return block.text
    skipped = {element for element in block.select(_COPY) if _is_label(element)}
    skipped.update(block.iter_elements(_HELPERS))
    text = _text_without(block, skipped)
    if _NUMBER.match(text) is not None:
        numbers = {
            element
            for element in block.select(_LINE_NUMBERS)
            if len((shown := element.text).strip()) < len(text.strip())  # not all of the block
            and all(number.rstrip(".:|").isdigit() for number in shown.split())
        }
        text = _text_without(block, skipped | numbers) if numbers else text
    if "\n" in text.strip():
        return text
    rows = block.select(_ROW_SPANS)  # shown as lines by a style sheet, if they are all of the text
    if len(rows) < 2 or any(row.parent != rows[0].parent for row in rows):  # noqa: PLR2004 - one is the whole text
        return text
    texts = [row.text for row in rows]
    return "\n".join(texts) if sum(map(len, texts)) >= len(block.text.strip()) else text


def _text_without(block: Element, skipped: Collection[Element]) -> str:
    """Return the text of a block without some elements."""
    if next(block.iter_elements(_LINES), None) is not None:
        return text_of_lines(block, skipped)
    with detached(skipped):
        return block.text


def _is_label(element: Element) -> bool:
    """Return whether an element holds a word such as "Copy" rather than code."""
    text = element.text.strip()
    if "\n" in text or len(text.split(None, _MAX_LABEL_WORDS)) > _MAX_LABEL_WORDS:
        return False
    if element.tag == "code":
        return False
    return not text or element.tag in _COPY_TAGS or _COPY_WORD.match(text) is not None


def text_of_lines(block: Element, skipped: Collection[Element] = ()) -> str:
    """Return the text of a block in which elements may be lines."""
    pieces: list[str] = []
    stack: list[tuple[Iterator[Node], bool]] = []
    nodes: Iterator[Node] = iter(block.children)
    is_line = ends_line = False
    while True:
        for node in nodes:
            if type(node) is Text:
                is_next = ends_line and node.data and not node.data.startswith("\n")
                if is_next and pieces and not pieces[-1].endswith("\n"):
                    pieces.append("\n")
                ends_line = ends_line and not node.data
                pieces.append(node.data)
            elif type(node) is Element and node not in skipped:
                tag = node.tag
                if tag == "br":
                    pieces.append("\n")
                    continue
                stack.append((nodes, is_line))
                nodes, is_line = iter(node.children), tag in _LINES
                ends_line = ends_line or is_line
                break
        else:
            ends_line = ends_line or is_line
            if not stack:
                return "".join(pieces)
            nodes, is_line = stack.pop()


def language(block: Element) -> str:
    """Return the language a code block declares on itself, its ``code`` or its wrapper, or ''."""
    if name := _declared_language(block):
        return name
    code = block.select_one("code")
    if code is not None and (name := _declared_language(code)):
        return name
    wrapper = block.parent
    levels, others = _WRAPPER_LEVELS, _TABLE_LEVELS
    while levels and isinstance(wrapper, Element) and wrapper.tag in _WRAPPERS:
        if name := _declared_language(wrapper):
            blocks = wrapper.find_all("pre", limit=3)
            is_only_code = len(blocks) == 1 or (
                len(blocks) == 2  # noqa: PLR2004 - the numbers and the code
                and not any(
                    character.isalpha()
                    for other in blocks
                    if other != block
                    for character in other.text
                )
            )
            return name if is_only_code else ""
        if wrapper.tag in _TABLE_PARTS and others:
            others -= 1
        else:
            levels -= 1
        wrapper = wrapper.parent
    return ""


def _declared_language(element: Element) -> str:
    count = len(element.attrs)  # several times faster than a lookup
    if not count:
        return ""
    classes = element.attr("class")
    label = None
    is_code = element.tag in {"pre", "code"}
    if count > 1 or classes is None:
        label = next(filter(None, map(element.attr, _LABELS)), None)
        lang = element.attr("lang") if label is None and is_code else None
        # Of code, it may be a programming language.
        if lang and (lang.lower() in _SHORT_LANGUAGES or not _NATURAL_LANGUAGE.fullmatch(lang)):
            label = lang
    return _choose_language(label or "", classes or "", is_code) if classes or label else ""


@lru_cache(maxsize=1024)
def _choose_language(label: str, classes: str, is_code: bool) -> str:
    tokens = classes[:_MAX_CLASS_CHARACTERS].split()
    names = [label]
    for token, following in pairwise([*tokens, ""]):
        for prefix in _PREFIXES:
            if token.lower().startswith(prefix):
                names.append((token[len(prefix) :] or following).rstrip(";"))
                break
    if any(token.lower() in {"hljs", "sourcecode", "prettyprint", "src"} for token in tokens):
        # A class next to that of a highlighter may be the language.
        names += [
            token for token in tokens if token.lower() not in _HIGHLIGHTED and "-" not in token
        ]
    if is_code or not _MARKERS.isdisjoint(token.lower() for token in tokens):
        names += [token for token in tokens if token.lower() in _NAMES]
    return next(
        (
            name
            for name in names
            if name.lower() not in _NO_LANGUAGE and _LANGUAGE.fullmatch(name) is not None
        ),
        "",
    )


def longest_run(text: str) -> int:
    """Return the length of the longest run of backticks."""
    return max(map(len, re.findall("`+", text)), default=0)
