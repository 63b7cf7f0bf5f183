r"""Finds the formulas of a page and puts one ``math`` element with its LaTeX in place of each.

Raw formulas are those that a script of the page would render: ``\(x\)``, ``\[x\]`` and ``$$x$$``.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from webdata_nb.page.content.parser import Element, Text, make_element, nearest_ancestor, parse

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
_FORMULA_CLASSES: Final = ('[class*="math"]', '[class^="arithmatex"]')
"""Selectors of all elements that `mark_formulas_by_class` may replace, and of some others."""
# One pass over the page, which most pages have nothing for; each selector above costs one more.
_MARKED: Final = ",".join((*(f"[{name}]" for name in _LATEX_DATA), *_FORMULA_CLASSES))
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
        formula = formula_element(
            re.sub(r"^(?:%\s*)?<!\[CDATA\[|(?:%\s*)?\]\]>$", "", source).strip(),
            display="display" in kind,
        )
    if formula is None or script.parent is None:
        return
    for rendered in list(_rendered_before(script)):
        rendered.decompose()
    script.replace_with(formula)


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


LATEX: Final = "data-latex"
"""The attribute with the LaTeX of a ``math`` or ``img`` element."""

_RENDERERS: Final = (
    'script[src*="athjax" i]',
    'script[src*="katex" i]',
    'script[id*="MathJax"]',
)
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
