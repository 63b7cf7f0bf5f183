"""Finds the formulas of a page and puts one ``math`` element with its LaTeX in place of each.

Renderers leave a formula in several forms: MathML, spans with its characters, a script with its
LaTeX, a picture. Some forms are hidden or scripts, which are removed later.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.parser import Element, Text, nearest_ancestor, parse
from webdata_nb.page.content.raw_formulas import (
    FORMULA_CLASSES,
    LATEX,
    formula_element,
    mark_formulas_by_class,
    mark_raw_formulas,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.page.content.parser import Document, Node

_TEX_ANNOTATIONS: Final = frozenset({"application/x-tex", "application/x-latex", "tex", "latex"})
_CARRIER: Final = re.compile(
    r"(?:^|\s)(?:katex(?:-display|-mathml|-block)?|mwe-math-\S*|MathJax\S*|mjx-\S*|mjpage\S*"
    r"|math(?:-inline|-block|-display|-container)?|ztext-math)(?=\s|$)"
)
_DISPLAY: Final = re.compile(
    r"katex-display|-display\b|display-|MathJax_Display|math-block|\bblock\b"
)
_RENDERED: Final = re.compile(r"(?:^|\s)(?:MathJax|mjx-)")
_CARRIER_LEVELS: Final = 6
_CARRIER_TAGS: Final = frozenset({"span", "div", "mjx-container", "mjx-assistive-mml", "dfn"})
_CONTENT: Final = "p,li,h1,h2,h3,h4,table,pre"
_MAX_SIBLINGS: Final = 4
_MATH_SCRIPTS: Final = 'script[type^="math/"]'
_LATEX_DATA: Final = ("data-latex", "data-tex", "data-math")
_DATA_SELECTORS: Final = tuple(f"{tag}[{name}]" for tag in ("span", "div") for name in _LATEX_DATA)
# One pass over the page, which most pages have nothing for; each selector above costs one more.
_MARKED: Final = ",".join((*(f"[{name}]" for name in _LATEX_DATA), *FORMULA_CLASSES))
# The names of custom elements cost a pass over the page, so these are sought with MathJax only.
_MATHJAX: Final = ('style[id^="MJX"]', 'script[src*="athjax" i]', 'script[id*="MathJax"]')
_MATHJAX_DATA: Final = ("mjx-math[data-latex]",)
_FORMULA_CLASS: Final = re.compile(r"math|katex|latex|\btex\b|equation|formula|mjx", re.IGNORECASE)
_IMAGES: Final = (
    'img[class*="tex"]',
    'img[class*="math"]',
    'img[class*="formula"]',
    r'img[alt*="\\"]',
    'img[alt*="^"]',
)
_IMAGE_CLASS: Final = re.compile(
    r"(?:^|[\s_-])(?:la)?tex(?:[\s_-]|$)|math|formula(?:inl|dsp|[\s_-]|$)", re.IGNORECASE
)
_IMAGE_SOURCE: Final = re.compile(r"[/.]latex|latex\.php|[?&](?:la)?tex=", re.IGNORECASE)
_LATEX_SIGN: Final = re.compile(r"[\\^_={}]|^\S$")
_WORDS: Final = re.compile(r"[^\W\d_]{2,}\s+[^\W\d_]{2,}")
_NO_LATEX: Final = frozenset({"true", "false", "inline", "block", "display", "yes", "no", "1", "0"})


def mark_formulas(document: Document) -> None:
    """Put a ``math`` element with the LaTeX, where known, in place of each formula of a page.

    MathML keeps its elements. A picture of a formula keeps its tag and gets the attribute.
    """
    for script in document.select(_MATH_SCRIPTS):
        _replace_script(script)
    for math in document.select("math"):
        _unwrap_math(math)
    if document.select_one(_MARKED) is not None:
        _mark_by_data(document)
        mark_formulas_by_class(document)
    for selector in _IMAGES:
        for image in document.select(selector):
            _mark_image(image)
    mark_raw_formulas(document)


def _mark_by_data(document: Document) -> None:
    """Replace the elements that have their LaTeX in an attribute."""
    carriers: set[Node] = set()
    selectors = _DATA_SELECTORS
    if any(document.select_one(mark) is not None for mark in _MATHJAX):
        selectors += _MATHJAX_DATA
    for selector in selectors:
        for element in document.select(selector):
            if carriers.isdisjoint(islice(element.ancestors, _CARRIER_LEVELS)):
                _replace_data(element)
            carriers.add(element)


def _replace_script(script: Element) -> None:
    """Replace a script with LaTeX or MathML, and what MathJax rendered from it."""
    source, kind = script.text.strip(), (script.attr("type") or "").lower()
    formula: Element | None = None
    if "mml" in kind:
        formula = parse(source).select_one("math")
    elif source and "asciimath" not in kind:
        formula = formula_element(_without_cdata(source), display="display" in kind)
    if formula is None or script.parent is None:
        return
    for rendered in list(_rendered_before(script)):
        rendered.decompose()
    script.replace_with(formula)


def _without_cdata(source: str) -> str:
    return re.sub(r"^(?:%\s*)?<!\[CDATA\[|(?:%\s*)?\]\]>$", "", source).strip()


def _rendered_before(script: Element) -> Iterator[Element]:
    """Yield the elements before a script that MathJax made from it."""
    for _, node in zip(range(_MAX_SIBLINGS), script.previous_siblings, strict=False):
        if isinstance(node, Element):
            if _RENDERED.search(node.attr("class") or "") is None:
                return
            yield node
        elif type(node) is Text and node.data.strip():
            return


def _unwrap_math(math: Element) -> None:
    """Replace the elements around MathML that show the same formula by the MathML."""
    if nearest_ancestor(math, {"math"}) is not None:
        return
    if math.attr(LATEX) is None and (latex := _declared_latex(math)):
        math.attrs[LATEX] = latex
    for annotation in math.select("annotation"):
        annotation.decompose()
    carrier, display = _carrier(math)
    if display:
        math.attrs["display"] = "block"
    if carrier != math and carrier.parent is not None:
        carrier.replace_with(math)


def _declared_latex(math: Element) -> str:
    for annotation in math.select("annotation"):
        encoding = (annotation.attr("encoding") or "").lower()
        if encoding in _TEX_ANNOTATIONS and (latex := annotation.text.strip()):
            return latex
    alternative = (math.attr("alttext") or "").strip()
    return alternative if is_latex(alternative) else ""


def is_latex(text: str) -> bool:
    """Return whether an alternative text is LaTeX rather than a description in words."""
    return bool(text) and (
        "\\" in text or (_LATEX_SIGN.search(text) is not None and _WORDS.search(text) is None)
    )


def _carrier(formula: Element) -> tuple[Element, bool]:
    """Return the outermost element that holds only a formula, and whether it is on its own line."""
    carrier, display = formula, False
    parent = formula.parent
    for _ in range(_CARRIER_LEVELS):
        if not isinstance(parent, Element) or parent.tag not in _CARRIER_TAGS:
            break
        classes = parent.attr("class") or ""
        if parent.tag.startswith("mjx-") or _CARRIER.search(classes) is not None:
            if len(parent.find_all("math", limit=2)) > 1 or parent.select_one(_CONTENT) is not None:
                break
            carrier = parent
            display = (
                display or _DISPLAY.search(classes) is not None or parent.attr("display") == "true"
            )
        parent = parent.parent
    return carrier, display


def _replace_data(element: Element) -> None:
    """Replace an element that has its LaTeX in an attribute."""
    value = next(filter(None, (element.attr(name) for name in _LATEX_DATA)), "").strip()
    classes = element.attr("class") or ""
    is_named = _FORMULA_CLASS.search(classes) is not None or element.tag.startswith("mjx-")
    if not value or value.lower() in _NO_LATEX or (value[0] == "{" and '"' in value):
        return
    if element.parent is None or not (is_named or "\\" in value) or _holds_text(element):
        return
    carrier, display = _carrier(element)
    display = display or _DISPLAY.search(classes) is not None
    if carrier.parent is not None:  # else it was part of another formula
        carrier.replace_with(formula_element(value, display=display))


def _holds_text(element: Element) -> bool:
    """Return whether an element holds blocks, so that it is more than a formula."""
    return element.select_one(_CONTENT) is not None


def _mark_image(image: Element) -> None:
    """Note the LaTeX of a picture that shows a formula."""
    alternative = (image.attr("alt") or "").strip()
    if not alternative or image.attr(LATEX) is not None:
        return
    if _IMAGE_CLASS.search(image.attr("class") or "") is not None:
        is_formula = _WORDS.search(alternative) is None or "\\" in alternative
    else:
        is_formula = _IMAGE_SOURCE.search(image.attr("src") or "") is not None and (
            is_latex(alternative)
        )
    if is_formula:
        image.attrs[LATEX] = alternative
