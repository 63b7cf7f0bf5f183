"""Converts formulas of Office documents (OMML) to MathML."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Final

from webdata_nb.page.documents.office.xml_parts import (
    child,
    children,
    is_on,
    local_name,
    value_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from webdata_nb.page.documents.office.xml_parts import XmlElement

_TOKEN: Final = re.compile(r"\d+(?:[.,]\d+)*|\s+|.", re.DOTALL)


def math_to_html(element: XmlElement, *, is_block: bool) -> str:
    """Return a formula as a ``math`` element, a block or part of a line."""
    display = "block" if is_block else "inline"
    return f'<math display="{display}">{_row(element)}</math>'


def _row(element: XmlElement | None) -> str:
    """Convert all children of an element to one row."""
    if element is None:
        return "<mrow></mrow>"
    pieces = []
    for part in element.iterchildren():
        convert = _CONVERTERS.get(local_name(part))
        if convert is not None:
            pieces.append(convert(part))
    return f"<mrow>{''.join(pieces)}</mrow>"


def _argument(element: XmlElement, name: str) -> str:
    return _row(child(element, name))


def _run(run: XmlElement) -> str:
    text = "".join(part.text or "" for part in children(run, "t"))
    if value_of(run, "rPr", "sty") == "p" and text.strip().isalpha() and len(text.strip()) > 1:
        return f"<mi>{escape(text.strip())}</mi>"
    return "".join(map(_token, _TOKEN.findall(text)))


def _token(text: str) -> str:
    if text.isspace():
        return ""
    tag = "mn" if text[0].isdecimal() else "mi" if text.isalpha() else "mo"
    return f"<{tag}>{escape(text)}</{tag}>"


def _fraction(element: XmlElement) -> str:
    thickness = ' linethickness="0"' if value_of(element, "fPr", "type") == "noBar" else ""
    return f"<mfrac{thickness}>{_argument(element, 'num')}{_argument(element, 'den')}</mfrac>"


def _scripts(tag: str, *names: str) -> Callable[[XmlElement], str]:
    def convert(element: XmlElement) -> str:
        return f"<{tag}>{''.join(_argument(element, name) for name in names)}</{tag}>"

    return convert


def _left_scripts(element: XmlElement) -> str:
    return f"<msubsup><mi></mi>{_argument(element, 'sub')}{_argument(element, 'sup')}</msubsup>" + (
        _argument(element, "e")
    )


def _root(element: XmlElement) -> str:
    degree = child(element, "deg")
    if (
        is_on(element, "radPr", "degHide")
        or degree is None
        or next(degree.iterchildren(), None) is None
    ):
        return f"<msqrt>{_argument(element, 'e')}</msqrt>"
    return f"<mroot>{_argument(element, 'e')}{_row(degree)}</mroot>"


def _large_operator(element: XmlElement) -> str:
    sign = value_of(element, "naryPr", "chr") or "∫"
    is_beside = value_of(element, "naryPr", "limLoc") == "subSup" or sign in "∫∬∭∮"
    names = [name for name in ("sub", "sup") if _has_content(child(element, name))]
    operator = f"<mo>{escape(sign)}</mo>"
    if names:
        tag = {"sub": "munder", "sup": "mover", "subsup": "munderover"}["".join(names)]
        tag = (
            {"munder": "msub", "mover": "msup", "munderover": "msubsup"}[tag] if is_beside else tag
        )
        arguments = "".join(_argument(element, name) for name in names)
        operator = f"<{tag}>{operator}{arguments}</{tag}>"
    return f"<mrow>{operator}{_argument(element, 'e')}</mrow>"


def _delimiters(element: XmlElement) -> str:
    properties = child(element, "dPr")
    start, separator, end = (
        default if (sign := value_of(properties, name)) is None else sign
        for name, default in (("begChr", "("), ("sepChr", "|"), ("endChr", ")"))
    )
    inner = _operator(separator).join(map(_row, children(element, "e")))
    return f"<mrow>{_operator(start)}{inner}{_operator(end)}</mrow>"


def _operator(sign: str) -> str:
    return f'<mo stretchy="true">{escape(sign)}</mo>' if sign else ""


def _function(element: XmlElement) -> str:
    return f"<mrow>{_argument(element, 'fName')}<mo>&#x2061;</mo>{_argument(element, 'e')}</mrow>"


def _accent(element: XmlElement) -> str:
    sign = value_of(element, "accPr", "chr") or "\u0302"
    return f'<mover accent="true">{_argument(element, "e")}<mo>{escape(sign)}</mo></mover>'


def _bar(element: XmlElement) -> str:
    tag = "mover" if value_of(element, "barPr", "pos") == "top" else "munder"
    return f"<{tag}>{_argument(element, 'e')}<mo>¯</mo></{tag}>"


def _brace(element: XmlElement) -> str:
    sign = value_of(element, "groupChrPr", "chr") or "⏟"
    tag = "mover" if value_of(element, "groupChrPr", "pos") == "top" else "munder"
    return f"<{tag}>{_argument(element, 'e')}<mo>{escape(sign)}</mo></{tag}>"


def _equations(element: XmlElement) -> str:
    rows = (f"<mtr><mtd>{_row(row)}</mtd></mtr>" for row in children(element, "e"))
    return f"<mtable>{''.join(rows)}</mtable>"


def _matrix(element: XmlElement) -> str:
    rows = (
        "".join(f"<mtd>{_row(cell)}</mtd>" for cell in children(row, "e"))
        for row in children(element, "mr")
    )
    return f"<mtable>{''.join(f'<mtr>{row}</mtr>' for row in rows)}</mtable>"


def _content(element: XmlElement) -> str:
    return _argument(element, "e")


def _has_content(element: XmlElement | None) -> bool:
    return element is not None and next(children(element, *_CONVERTERS), None) is not None


_CONVERTERS: Final[dict[str, Callable[[XmlElement], str]]] = {
    "oMath": _row,
    "r": _run,
    "f": _fraction,
    "sSup": _scripts("msup", "e", "sup"),
    "sSub": _scripts("msub", "e", "sub"),
    "sSubSup": _scripts("msubsup", "e", "sub", "sup"),
    "sPre": _left_scripts,
    "rad": _root,
    "nary": _large_operator,
    "d": _delimiters,
    "func": _function,
    "limLow": _scripts("munder", "e", "lim"),
    "limUpp": _scripts("mover", "e", "lim"),
    "acc": _accent,
    "bar": _bar,
    "groupChr": _brace,
    "eqArr": _equations,
    "m": _matrix,
    "box": _content,
    "borderBox": _content,
}
