"""Writes formulas as LaTeX between dollar signs, and converts presentation MathML to LaTeX.

The conversion covers the elements of MathML Core and those of MathML 3 that renderers write; of an
unknown element the content is converted. There is no maintained library with a free licence for
Python.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.parser import Element

if TYPE_CHECKING:
    from collections.abc import Callable


_COMMENT: Final = re.compile(r"(?<!\\)((?:\\\\)*)%[^\n]*(?:\n|\Z)")
_DELIMITERS: Final = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))
_DISPLAY_STYLE: Final = "{\\displaystyle"
_DOLLAR: Final = re.compile(r"(?<!\\)((?:\\\\)*)\$")
_BAR: Final = re.compile(r"\\\||\|")


def clean_latex(text: str) -> str:
    """Return LaTeX on one line, without comments, delimiters and an outer display style."""
    if "%" in text:
        text = _COMMENT.sub(r"\1", text)
    text = _without_delimiters(" ".join(text.split()))
    if text.startswith(_DISPLAY_STYLE) and text.endswith("}") and _is_one_group(text):
        text = text[len(_DISPLAY_STYLE) : -1].strip()
    if (len(text) - len(text.rstrip("\\"))) % 2:
        text += " {}"  # a control space, which would escape the closing sign
    return _with_paired_dollars(text) if "$" in text else text


def inline_formula(latex: str) -> str:
    """Write a formula within a line."""
    return f"${latex}$"


def display_formula(latex: str) -> str:
    """Write a formula of its own line; on one line, since "-" or "=" may not begin a line."""
    return f"$${latex}$$"


def without_bars(latex: str) -> str:
    """Replace "|", which ends the cell of a table."""
    return _BAR.sub(lambda bar: r"\vert " if bar[0] == "|" else r"\Vert ", latex).rstrip()


def _without_delimiters(text: str) -> str:
    for opening, closing in _DELIMITERS:
        size = len(opening)
        if text.startswith(opening) and text.endswith(closing) and len(text) > 2 * size:
            return text[size : -len(closing)].strip()
    return text


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


def _with_paired_dollars(text: str) -> str:
    r"""Write formulas within text, such as ``\text{if $x$}``, as ``\(x\)``."""
    parts = _DOLLAR.split(text)
    if len(parts) == 1:
        return text
    if len(parts) % 4 != 1:
        return _DOLLAR.sub(r"\1\\$", text)
    pieces = [parts[0]]
    for number in range(1, len(parts), 2):
        pieces += parts[number], r"\(" if number % 4 == 1 else r"\)", parts[number + 1]
    return "".join(pieces)


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


def _number(element: Element, depth: int) -> str:  # noqa: ARG001 - see above
    return _characters(element.text.strip())


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


def _square_root(element: Element, depth: int) -> str:
    return f"\\sqrt{{{_row(element, depth).strip()}}}"


def _root(element: Element, depth: int) -> str:
    base, degree = _arguments(element, 2, depth)
    return f"\\sqrt[{degree}]{{{base}}}"


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
        " & ".join(_row(cell, depth + 2).strip() for cell in _cells(row))
        for row in _elements(element)
        if row.tag.lower() in {"mtr", "mlabeledtr"}
    ]
    lines = r" \\ ".join(rows)
    return f"\\begin{{matrix}} {lines} \\end{{matrix}}"


def _cells(row: Element) -> list[Element]:
    cells = _elements(row)
    return cells[1:] if row.tag.lower() == "mlabeledtr" else cells


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


def _no_text(element: Element, depth: int) -> str:  # noqa: ARG001 - see above
    return ""


_CONVERTERS: Final[dict[str, Callable[[Element, int], str]]] = {
    "mi": _identifier,
    "mo": _operator,
    "mn": _number,
    "mtext": _text,
    "ms": _text,
    "mspace": _space,
    "mfrac": _fraction,
    "msqrt": _square_root,
    "mroot": _root,
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
    "annotation": _no_text,
    "annotation-xml": _no_text,
    "mphantom": _no_text,
    "none": _no_text,
    "mprescripts": _no_text,
}
