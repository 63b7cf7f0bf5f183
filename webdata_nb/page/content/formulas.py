r"""Finds the formulas of a page, and writes them as LaTeX.

``mark_formulas`` puts one ``math`` element with its LaTeX in place of each. Raw formulas are those
that a script of the page would render: ``\(x\)``, ``\[x\]`` and ``$$x$$``.

Presentation MathML is converted to LaTeX. The conversion covers the elements of MathML Core and
those of MathML 3 that renderers write; of an unknown element the content is converted. There is no
maintained library with a free licence for Python.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from webdata_nb.page.content.parser import Element, Text, make_element, nearest_ancestor, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
        carriers: set[Node] = set()
        selectors = _DATA_SELECTORS
        if any(document.select_one(mark) is not None for mark in _MATHJAX):
            selectors += _MATHJAX_DATA
        for selector in selectors:
            for element in document.select(selector):
                if carriers.isdisjoint(islice(element.ancestors, _CARRIER_LEVELS)):
                    _replace_data(element)
                carriers.add(element)
        mark_formulas_by_class(document)
    for selector in _IMAGES:
        for image in document.select(selector):
            _mark_image(image)
    mark_raw_formulas(document)


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
    rendered: list[Element] = []
    for node in islice(script.previous_siblings, _MAX_SIBLINGS):
        if isinstance(node, Element):
            if _RENDERED.search(node.attr("class") or "") is None:
                break
            rendered.append(node)
        elif type(node) is Text and node.data.strip():
            break
    for element in rendered:
        element.decompose()
    script.replace_with(formula)


def _unwrap_math(math: Element) -> None:
    """Replace the elements around MathML that show the same formula by the MathML."""
    if nearest_ancestor(math, {"math"}) is not None:
        return
    annotations = math.select("annotation")
    if math.attr(LATEX) is None:
        alternative = (math.attr("alttext") or "").strip()
        sources = (
            annotation.text.strip()
            for annotation in annotations
            if (annotation.attr("encoding") or "").lower() in _TEX_ANNOTATIONS
        )
        latex = next(filter(None, sources), alternative if is_latex(alternative) else "")
        if latex:
            math.attrs[LATEX] = latex
    for annotation in annotations:
        annotation.decompose()
    carrier, display = _carrier(math)
    if display:
        math.attrs["display"] = "block"
    if carrier != math and carrier.parent is not None:
        carrier.replace_with(math)


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
    if (
        element.parent is None
        or not (is_named or "\\" in value)
        or element.select_one(_CONTENT) is not None
    ):
        return
    carrier, display = _carrier(element)
    display = display or _DISPLAY.search(classes) is not None
    if carrier.parent is not None:  # else it was part of another formula
        carrier.replace_with(formula_element(value, display=display))


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
_FORMULA_START: Final = re.compile(r"\\\(|\\\[|\$\$?|\\begin\{")
_FORMULA_ENDS: Final = {"\\(": "\\)", "\\[": "\\]", "$$": "$$", "$": "$"}
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
            if element.parent is None or _NAMED_CLASS.search(element.attr("class") or "") is None:
                continue
            children = element.children
            if len(children) != 1 or type(children[0]) is not Text:
                continue
            source = children[0].data.strip()
            if element.tag in {"code", "pre"}:
                display = element.tag == "pre" or element.attr("data-math-style") == "display"
                element.replace_with(formula_element(source, display=display))
                continue
            formulas = list(find_formulas(source, dollars=True))
            if len(formulas) == 1 and formulas[0].start == 0 and formulas[0].end == len(source):
                formula = formula_element(formulas[0].latex, display=formulas[0].display)
                element.replace_with(formula)
            elif formulas:
                _replace_in_text(children[0], dollars=True)


def mark_raw_formulas(document: Document) -> None:
    """Replace LaTeX source in the text of a page that loads a script for formulas."""
    if any(document.select_one(renderer) is not None for renderer in _RENDERERS):
        dollars = any(
            _DOLLAR_CONFIGURATION.search(script.text) is not None
            for script in document.select("script")
            if "$" in script.text
        )
        texts = [node for node in document.descendants if type(node) is Text]
        for text in texts:
            if ("\\" in text.data or "$" in text.data) and nearest_ancestor(
                text, _EXCLUDED
            ) is None:
                _replace_in_text(text, dollars=dollars)


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
    while (match := _FORMULA_START.search(text, position)) is not None:
        formula = _formula_at(text, match, unclosed, dollars=dollars)
        if formula is not None:
            yield formula
        position = formula.end if formula is not None else match.end()


def _formula_at(
    text: str, match: re.Match[str], unclosed: set[str], *, dollars: bool
) -> _Formula | None:
    opening, start = match[0], match.start()
    if opening in unclosed or (opening == "$" and not dollars):
        return None
    before = text[max(0, start - 10) : start]  # more backslashes are no LaTeX
    if (len(before) - len(before.rstrip("\\"))) % 2:
        return None  # escaped
    if opening == "\\begin{":
        begin = _BEGIN.match(text, start)
        if begin is None or begin[1] not in _ENVIRONMENTS or begin[1] in unclosed:
            return None
        closing = f"\\end{{{begin[1]}}}"
        end = text.find(closing, begin.end())
        if end < 0:
            unclosed.add(begin[1])
            return None
        end += len(closing)
        return _Formula(start, end, text[start:end], display=True)
    end = text.find(_FORMULA_ENDS[opening], match.end())
    if end < 0:
        unclosed.add(opening)
        return None
    latex = text[match.end() : end]
    if (
        opening == "$"
        and not (  # else it stands between two prices
            0 < len(latex) <= _MAX_DOLLAR_CHARACTERS
            and not latex[0].isspace()
            and not latex[-1].isspace()
            and latex[-1] != "\\"
            and not text[end + 1 : end + 2].isdigit()
            and "\n\n" not in latex
        )
    ):
        return None
    if not latex.strip() or len(latex) > _MAX_CHARACTERS:
        return None
    return _Formula(start, end + len(_FORMULA_ENDS[opening]), latex, opening in {"\\[", "$$"})


_COMMENT: Final = re.compile(r"(?<!\\)((?:\\\\)*)%[^\n]*(?:\n|\Z)")
_DELIMITERS: Final = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))
_DISPLAY_STYLE: Final = "{\\displaystyle"
_DOLLAR: Final = re.compile(r"(?<!\\)((?:\\\\)*)\$")
_BAR: Final = re.compile(r"\\\||\|")


def clean_latex(text: str) -> str:
    """Return LaTeX on one line, without comments, delimiters and an outer display style."""
    if "%" in text:
        text = _COMMENT.sub(r"\1", text)
    text = " ".join(text.split())
    for opening, closing in _DELIMITERS:
        size = len(opening)
        if text.startswith(opening) and text.endswith(closing) and len(text) > 2 * size:
            text = text[size : -len(closing)].strip()
            break
    if text.startswith(_DISPLAY_STYLE) and text.endswith("}") and _is_one_group(text):
        text = text[len(_DISPLAY_STYLE) : -1].strip()
    if (len(text) - len(text.rstrip("\\"))) % 2:
        text += " {}"  # a control space, which would escape the closing sign
    if "$" not in text or len(parts := _DOLLAR.split(text)) == 1:
        return text
    if len(parts) % 4 != 1:
        return _DOLLAR.sub(r"\1\\$", text)
    # Formulas within text, such as ``\text{if $x$}``, are written as ``\(x\)``.
    pieces = [parts[0]]
    for number in range(1, len(parts), 2):
        pieces += parts[number], r"\(" if number % 4 == 1 else r"\)", parts[number + 1]
    return "".join(pieces)


def without_bars(latex: str) -> str:
    """Replace "|", which ends the cell of a table."""
    return _BAR.sub(lambda bar: r"\vert " if bar[0] == "|" else r"\Vert ", latex).rstrip()


def _is_one_group(text: str) -> bool:
    """Return whether the first brace of a text closes at its end."""
    depth = 0
    escaped = False
    for index, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return index == len(text) - 1
    return False


MAX_DEPTH: Final = 40
"""Elements that are nested deeper are written as their characters."""

_COMMAND_END: Final = re.compile(r"\\[A-Za-z]+\Z")
_OPENING: Final = frozenset("([{|⟨⌈⌊‖")
_CLOSING: Final = frozenset(")]}|⟩⌉⌋‖")
_WIDE_SPACE: Final = 1.0  # em
_NUMBER: Final = re.compile(r"-?\d*\.?\d+")
_STYLES: Final = (
    ("DOUBLE-STRUCK", "mathbb"),
    ("FRAKTUR", "mathfrak"),
    ("BLACK-LETTER", "mathfrak"),
    ("SCRIPT", "mathcal"),
    ("SANS-SERIF", "mathsf"),
    ("MONOSPACE", "mathtt"),
    ("BOLD", "mathbf"),
)


@dataclass(frozen=True, slots=True)
class _Symbols:
    """The tables of ``latex_symbols.toml``; keys are characters or names."""

    replacements: dict[str, str]
    spaced: frozenset[str]
    large: frozenset[str]
    functions: frozenset[str]
    accents: dict[str, str]
    fonts: dict[str, str]


@cache
def _symbols() -> _Symbols:
    import tomllib  # noqa: PLC0415 - pages without formulas do not need it

    data = tomllib.loads(Path(__file__).with_name("latex_symbols.toml").read_text("utf-8"))
    words = data["commands"].split()
    commands = {sign: f"\\{name}" for sign, name in zip(words[::2], words[1::2], strict=True)}
    return _Symbols(
        commands | data["replacements"],
        frozenset(data["spaced"]),
        frozenset(data["large"]),
        frozenset(data["functions"].split()),
        data["accents"],
        data["fonts"],
    )


def mathml_to_latex(formula: Element) -> str:
    """Convert a ``math`` element; '' if it shows nothing."""
    return " ".join(_row(formula, 0).split())


def _row(element: Element, depth: int) -> str:
    """Convert the children of an element side by side."""
    parts = _elements(element)
    if not parts:
        return _characters(element.text)
    if len(parts) == 3 and parts[1].tag == "mtable":  # noqa: PLR2004 - a table between fences
        first, last = parts[0].text.strip(), parts[2].text.strip()
        if first in _OPENING and (last in _CLOSING or not last):
            table = _convert(parts[1], depth + 1)
            left, right = _characters(first), _characters(last) or "."
            return f"\\left{left}{table}\\right{right}"
    return _join([_convert(part, depth + 1) for part in parts])


def _convert(element: Element, depth: int) -> str:
    if depth > MAX_DEPTH:
        return _characters(element.text)
    converter = _CONVERTERS.get(element.tag.lower())
    return converter(element, depth) if converter is not None else _row(element, depth)


def _elements(element: Element) -> list[Element]:
    return [child for child in element.children if isinstance(child, Element)]


def _join(parts: list[str]) -> str:
    """Join LaTeX, with a space where a command would run into a letter."""
    pieces: list[str] = []
    for part in filter(None, parts):
        if pieces and part[0].isalpha() and _COMMAND_END.search(pieces[-1]) is not None:
            pieces.append(" ")
        pieces.append(part)
    return "".join(pieces)


def _characters(text: str) -> str:
    return _join([_character(character) for character in text if not character.isspace()])


def _character(character: str) -> str:
    known = _symbols().replacements.get(character)
    if known is not None or character.isascii():
        return known if known is not None else character
    plain = unicodedata.normalize("NFKC", character)
    name = unicodedata.name(character, "")
    if len(plain) == 1 and plain != character and plain.isalnum():
        font = next((command for style, command in _STYLES if style in name), "")
        letter = _symbols().replacements.get(plain, plain)
        return f"\\{font}{{{letter}}}" if font else letter
    return character


def _identifier(element: Element, depth: int) -> str:  # noqa: ARG001 - the signature of converters
    name = element.text.strip()
    variant = element.attr("mathvariant") or ""
    if name in _symbols().functions:
        return f"\\{name}"
    if len(name) > 1 and name.isascii() and name.isalpha():
        return f"\\{_symbols().fonts.get(variant, 'mathrm')}{{{name}}}"
    latex = _characters(name)
    if variant in _symbols().fonts and name and not (variant == "normal" and not name.isascii()):
        return f"\\{_symbols().fonts[variant]}{{{latex}}}"
    return latex


def _operator(element: Element, depth: int) -> str:  # noqa: ARG001 - see above
    text = element.text.strip()
    if text in _symbols().functions:
        return f"\\{text}"
    if len(text) > 1 and text.isascii() and text.isalpha():
        return f"\\operatorname{{{text}}}"
    latex = _characters(text)
    return f" {latex} " if text in _symbols().spaced else latex


def _text(element: Element, depth: int) -> str:  # noqa: ARG001 - see above
    text = element.text.replace("\xa0", " ")
    if not text.strip():
        return r"\ " if text else ""
    escaped = re.sub(r"[{}%#&_$]", r"\\\g<0>", text.replace("\\", ""))
    return f"\\text{{{escaped}}}"


def _space(element: Element, depth: int) -> str:  # noqa: ARG001 - see above
    if element.attr("linebreak") == "newline":
        return r"\\ "
    width = element.attr("width") or ""
    number = _NUMBER.match(width)
    if number is None or float(number[0]) <= 0:
        return ""
    return r"\quad " if "em" in width and float(number[0]) >= _WIDE_SPACE else r"\,"


def _fraction(element: Element, depth: int) -> str:
    upper, lower = _arguments(element, 2, depth)
    if (element.attr("linethickness") or "").strip().startswith("0"):
        return f"\\genfrac{{}}{{}}{{0pt}}{{}}{{{upper}}}{{{lower}}}"
    return f"\\frac{{{upper}}}{{{lower}}}"


def _arguments(element: Element, number: int, depth: int) -> list[str]:
    """Convert the first children, '' for those that are missing."""
    parts = [_convert(child, depth + 1).strip() for child in _elements(element)[:number]]
    return parts + [""] * (number - len(parts))


def _scripts(element: Element, depth: int) -> str:
    base, *scripts = _arguments(element, 3, depth)
    tag = element.tag.lower()
    lower, upper = (scripts[0], scripts[1]) if "sub" in tag else ("", scripts[0])
    return _with_scripts(base, lower, upper)


def _with_scripts(base: str, lower: str, upper: str) -> str:
    if len(base) > 1 and ("^" in base or "_" in base or " " in base) and base[0] != "{":
        base = f"{{{base}}}"
    text = base or "{}"
    if lower:
        text += f"_{{{lower}}}" if len(lower) > 1 else f"_{lower}"
    if upper:
        primes = upper.replace(r"\prime", "'").replace(" ", "")
        if primes and not primes.strip("'"):
            text += primes
        else:
            text += f"^{{{upper}}}" if len(upper) > 1 else f"^{upper}"
    return text


def _limits(element: Element, depth: int) -> str:
    base, *scripts = _arguments(element, 3, depth)
    tag = element.tag.lower()
    parts = _elements(element)
    lower = scripts[0] if tag != "mover" else ""
    upper = scripts[0] if tag == "mover" else scripts[1]
    sign = parts[0].text.strip() if parts else ""
    if sign in _symbols().large or sign in _symbols().functions:
        return _with_scripts(base, lower, upper)
    if tag != "munderover" and len(parts) > 1:
        accent = _symbols().accents.get(parts[1].text.strip())
        if accent is not None:
            if tag == "munder" and accent in {"bar", "overline"}:
                accent = "underline"
            return f"\\{accent}{{{base}}}"
    text = f"\\overset{{{upper}}}{{{base}}}" if upper else base
    return f"\\underset{{{lower}}}{{{text}}}" if lower else text


def _multiscripts(element: Element, depth: int) -> str:
    parts = _elements(element)
    tags = [part.tag.lower() for part in parts]
    split = tags.index("mprescripts") if "mprescripts" in tags else len(parts)
    texts = ["" if part.tag.lower() == "none" else _convert(part, depth + 1) for part in parts]
    after, before = texts[1:split], texts[split + 1 :]
    return _pairs("{}" if before else "", before) + _pairs(texts[0] if texts else "", after)


def _pairs(base: str, scripts: list[str]) -> str:
    text = base
    for lower, upper in zip(scripts[::2], [*scripts[1::2], ""], strict=False):
        text = _with_scripts(text, lower.strip(), upper.strip())
    return text


def _fenced(element: Element, depth: int) -> str:
    opening = element.attr("open") or "("
    closing = element.attr("close") or ")"
    separators = "".join((element.attr("separators") or ",").split())[:1]
    inner = f"{separators} ".join(_convert(child, depth + 1) for child in _elements(element))
    return f"\\left{_characters(opening)} {inner} \\right{_characters(closing)}"


def _table(element: Element, depth: int) -> str:
    rows = [
        # The first cell of a labelled row is its label.
        " & ".join(
            _row(cell, depth + 2).strip()
            for cell in _elements(row)[row.tag.lower() == "mlabeledtr" :]
        )
        for row in _elements(element)
        if row.tag.lower() in {"mtr", "mlabeledtr"}
    ]
    lines = r" \\ ".join(rows)
    return f"\\begin{{matrix}} {lines} \\end{{matrix}}"


def _enclosed(element: Element, depth: int) -> str:
    notation = element.attr("notation") or ""
    inner = _row(element, depth)
    if "box" in notation:
        return f"\\boxed{{{inner}}}"
    if "strike" in notation:
        return f"\\cancel{{{inner}}}"
    return f"\\sqrt{{{inner}}}" if "radical" in notation else inner


def _first(element: Element, depth: int) -> str:
    """Convert the first child: the others are alternatives of it."""
    parts = _elements(element)
    return _convert(parts[0], depth + 1) if parts else _characters(element.text)


_CONVERTERS: Final[dict[str, Callable[[Element, int], str]]] = {
    "mi": _identifier,
    "mo": _operator,
    "mn": lambda element, _: _characters(element.text.strip()),
    "mtext": _text,
    "ms": _text,
    "mspace": _space,
    "mfrac": _fraction,
    "msqrt": lambda element, depth: f"\\sqrt{{{_row(element, depth).strip()}}}",
    "mroot": lambda element, depth: "\\sqrt[{1}]{{{0}}}".format(*_arguments(element, 2, depth)),
    "msub": _scripts,
    "msup": _scripts,
    "msubsup": _scripts,
    "munder": _limits,
    "mover": _limits,
    "munderover": _limits,
    "mmultiscripts": _multiscripts,
    "mfenced": _fenced,
    "mtable": _table,
    "menclose": _enclosed,
    "semantics": _first,
    "maction": _first,
    **dict.fromkeys(
        ("annotation", "annotation-xml", "mphantom", "none", "mprescripts"),
        lambda _element, _depth: "",
    ),
}
