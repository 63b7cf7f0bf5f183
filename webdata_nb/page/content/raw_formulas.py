r"""Finds formulas that a script of the page would render: ``\(x\)``, ``\[x\]`` and ``$$x$$``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from webdata_nb.page.content.parser import Element, Text, make_element, nearest_ancestor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.page.content.parser import Document, Node

LATEX: Final = "data-latex"
"""The attribute with the LaTeX of a ``math`` or ``img`` element."""

_RENDERERS: Final = (
    'script[src*="athjax" i]',
    'script[src*="katex" i]',
    'script[id*="MathJax"]',
)
FORMULA_CLASSES: Final = ('[class*="math"]', '[class^="arithmatex"]')
"""Selectors of all elements that `mark_formulas_by_class` may replace, and of some others."""
_NAMED: Final = (
    'span[class*="math"]',
    'span[class^="arithmatex"]',
    'div[class^="math"]',
    'div[class^="arithmatex"]',
    'code[class*="math"]',
    'pre[class*="math"]',
)
_NAMED_CLASS: Final = re.compile(
    r"(?:^|\s)(?:math|math-container|arithmatex|tex2jax_process|mathjax(?:_process)?|js-\S*-math)"
    r"(?=\s|$)"
)
_DOLLAR_CONFIGURATION: Final = re.compile(
    r"""(?:inlineMath|tex2jax)[^;]{0,200}?['"]\$['"]|left['"]?\s*:\s*['"]\$['"]"""
)
_EXCLUDED: Final = frozenset({"pre", "code", "script", "style", "textarea", "math", "template"})
_ENVIRONMENTS: Final = frozenset(
    f"{name}{star}"
    for name in ("equation", "align", "aligned", "gather", "multline", "eqnarray", "displaymath")
    for star in ("", "*")
)
_BEGIN: Final = re.compile(r"\\begin\{([a-z]{1,20}\*?)\}")
_OPENING: Final = re.compile(r"\\\(|\\\[|\$\$?|\\begin\{")
_CLOSING: Final = {"\\(": "\\)", "\\[": "\\]", "$$": "$$", "$": "$"}
_MAX_CHARACTERS: Final = 5000
_MAX_DOLLAR_CHARACTERS: Final = 500


class _Formula(NamedTuple):
    """A formula in a text: its position with delimiters, its LaTeX, and its display."""

    start: int
    end: int
    latex: str
    display: bool


def formula_element(latex: str, *, display: bool) -> Element:
    """Create the element of a formula from its LaTeX."""
    attributes = {LATEX: latex, "display": "block" if display else "inline"}
    return make_element("math", [make_element("mtext", [Text(latex)])], **attributes)


def mark_formulas_by_class(document: Document) -> None:
    """Replace elements of a formula class whose text is LaTeX source."""
    for selector in _NAMED:
        for element in document.select(selector):
            _replace_named(element)


def mark_raw_formulas(document: Document) -> None:
    """Replace LaTeX source in the text of a page that loads a script for formulas."""
    if any(document.select_one(renderer) is not None for renderer in _RENDERERS):
        dollars = _accepts_dollars(document)
        texts = [node for node in document.descendants if type(node) is Text]
        for text in texts:
            if ("\\" in text.data or "$" in text.data) and _is_prose(text):
                _replace_in_text(text, dollars=dollars)


def _replace_named(element: Element) -> None:
    """Replace an element of a formula class that holds one source."""
    if element.parent is None or _NAMED_CLASS.search(element.attr("class") or "") is None:
        return
    children = element.children
    if len(children) != 1 or type(children[0]) is not Text:
        return
    source = children[0].data.strip()
    if element.tag in {"code", "pre"}:
        display = element.tag == "pre" or element.attr("data-math-style") == "display"
        element.replace_with(formula_element(source, display=display))
        return
    formulas = list(find_formulas(source, dollars=True))
    if len(formulas) == 1 and formulas[0].start == 0 and formulas[0].end == len(source):
        element.replace_with(formula_element(formulas[0].latex, display=formulas[0].display))
    elif formulas:
        _replace_in_text(children[0], dollars=True)


def _accepts_dollars(document: Document) -> bool:
    """Return whether the page configures single dollars as delimiters."""
    return any(
        _DOLLAR_CONFIGURATION.search(script.text) is not None
        for script in document.select("script")
        if "$" in script.text
    )


def _is_prose(text: Text) -> bool:
    return nearest_ancestor(text, _EXCLUDED) is None


def _replace_in_text(text: Text, *, dollars: bool) -> None:
    source, position = text.data, 0
    nodes: list[Node] = []
    for formula in find_formulas(source, dollars=dollars):
        if formula.start > position:
            nodes.append(Text(source[position : formula.start]))
        nodes.append(formula_element(formula.latex, display=formula.display))
        position = formula.end
    if not nodes:
        return
    if position < len(source):
        nodes.append(Text(source[position:]))
    holder = make_element("span", nodes)
    text.replace_with(holder)
    holder.unwrap()


def find_formulas(text: str, *, dollars: bool) -> Iterator[_Formula]:
    """Yield the formulas in a text.

    Parameters
    ----------
    text
        The text.
    dollars
        Single dollars delimit formulas, too, if they cannot be prices.
    """
    position = 0
    unclosed: set[str] = set()  # delimiters that never close again, so that the work is linear
    while (match := _OPENING.search(text, position)) is not None:
        formula = _formula_at(text, match, unclosed, dollars=dollars)
        if formula is not None:
            yield formula
        position = formula.end if formula is not None else match.end()


def _formula_at(
    text: str, match: re.Match[str], unclosed: set[str], *, dollars: bool
) -> _Formula | None:
    opening, start = match[0], match.start()
    if opening in unclosed or (opening == "$" and not dollars) or _is_escaped(text, start):
        return None
    if opening == "\\begin{":
        return _environment_at(text, start, unclosed)
    end = text.find(_CLOSING[opening], match.end())
    if end < 0:
        unclosed.add(opening)
        return None
    latex = text[match.end() : end]
    if opening == "$" and not _is_dollar_formula(latex, text[end + 1 : end + 2]):
        return None
    if not latex.strip() or len(latex) > _MAX_CHARACTERS:
        return None
    return _Formula(start, end + len(_CLOSING[opening]), latex, opening in {"\\[", "$$"})


def _environment_at(text: str, start: int, unclosed: set[str]) -> _Formula | None:
    match = _BEGIN.match(text, start)
    if match is None or match[1] not in _ENVIRONMENTS or match[1] in unclosed:
        return None
    closing = f"\\end{{{match[1]}}}"
    end = text.find(closing, match.end())
    if end < 0:
        unclosed.add(match[1])
        return None
    end += len(closing)
    return _Formula(start, end, text[start:end], display=True)


def _is_dollar_formula(latex: str, following: str) -> bool:
    """Return whether a text between dollars is a formula rather than between two prices."""
    return (
        0 < len(latex) <= _MAX_DOLLAR_CHARACTERS
        and not latex[0].isspace()
        and not latex[-1].isspace()
        and latex[-1] != "\\"
        and not following.isdigit()
        and "\n\n" not in latex
    )


def _is_escaped(text: str, position: int) -> bool:
    backslashes = 0
    while position > backslashes and text[position - backslashes - 1] == "\\" and backslashes < 10:  # noqa: PLR2004 - more is no LaTeX
        backslashes += 1
    return backslashes % 2 == 1
