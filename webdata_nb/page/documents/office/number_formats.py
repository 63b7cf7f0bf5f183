"""Writes the values of spreadsheet cells as a reader of the sheet sees them.

Dates become ISO 8601, percentages keep their digits, and all other numbers are written plainly.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from webdata_nb.page.documents.office.xml_parts import attribute, child, children, to_int

if TYPE_CHECKING:
    from webdata_nb.page.documents.office.xml_parts import XmlElement

NumberKind: TypeAlias = Literal["number", "percent", "date", "time", "datetime", "duration"]

_BUILT_IN: Final[dict[int, str]] = {
    9: "0%",
    10: "0.00%",
    **dict.fromkeys((14, 15, 16, 17), "yyyy-mm-dd"),
    **dict.fromkeys((18, 19, 20, 21), "hh:mm:ss"),
    22: "yyyy-mm-dd hh:mm",
    **dict.fromkeys((27, 28, 29, 30, 31, 36, 50, 51, 52, 53, 54, 57, 58), "yyyy-mm-dd"),
    **dict.fromkeys((32, 33, 34, 35, 55, 56), "hh:mm:ss"),
    45: "mm:ss",
    46: "[h]:mm:ss",
    47: "mm:ss",
}
"""The formats that every workbook has; those for East Asian dates mean dates anywhere."""
# Texts, escaped and padding characters, colours, conditions and locales; not elapsed time, `[h]`.
_LITERALS: Final = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!(?:h+|m+|s+)\])[^\]]*\]', re.IGNORECASE)
_DECIMALS: Final = re.compile(r"\.([0#?]+)")
_MAX_SERIAL: Final = 2_958_466  # the first day after the year 9999
_LEAP_BUG_DAY: Final = 60  # 29 February 1900, which Excel has and the calendar has not
_EPOCH: Final = datetime(1899, 12, 30)  # noqa: DTZ001 - dates of a sheet have no time zone
_EPOCH_1904: Final = datetime(1904, 1, 1)  # noqa: DTZ001
_DIGITS: Final = 15  # of a number that a spreadsheet stores


class NumberFormats:
    """The number formats of a workbook's cell styles."""

    def __init__(self, styles: XmlElement | None, *, is_1904: bool) -> None:
        codes = {
            to_int(attribute(code, "numFmtId")): attribute(code, "formatCode") or ""
            for code in children(child(styles, "numFmts"), "numFmt")
        }
        cell_styles = children(child(styles, "cellXfs"), "xf")
        numbers = (to_int(attribute(style, "numFmtId")) for style in cell_styles)
        self._codes = [codes.get(number, _BUILT_IN.get(number, "")) for number in numbers]
        self._kinds: dict[str, NumberKind] = {}
        self._epoch = _EPOCH_1904 if is_1904 else _EPOCH

    def write(self, text: str, style: int) -> str:
        """Write the stored number of a cell; a text that is no number is returned unchanged."""
        code = self._codes[style] if 0 <= style < len(self._codes) else ""
        if not code:
            return _plain(text)
        if code not in self._kinds:
            self._kinds[code] = number_kind(code)
        kind = self._kinds[code]
        try:
            value = float(text)
        except ValueError:
            return text
        if kind == "percent":
            return _percent(value, code)
        if kind != "number" and 0 <= value < _MAX_SERIAL:
            return self._moment(value, kind)
        return _plain(text)

    def _moment(self, serial: float, kind: NumberKind) -> str:
        if kind == "duration":
            minutes, seconds = divmod(round(serial * 86400), 60)
            return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
        if self._epoch is _EPOCH and serial < _LEAP_BUG_DAY and kind != "time":
            serial += 1
        moment = self._epoch + timedelta(seconds=round(serial * 86400))
        if kind == "time" or (serial < 1 and kind != "date"):
            return moment.strftime("%H:%M:%S")
        return moment.date().isoformat() if kind == "date" else moment.isoformat(sep=" ")


def number_kind(code: str) -> NumberKind:
    """Return what a format code makes of a number.

    Examples
    --------
    >>> number_kind('#,##0.00 "days"'), number_kind("[$-409]d mmm yyyy"), number_kind("0.0%")
    ('number', 'date', 'percent')
    """
    letters = _LITERALS.sub("", code.partition(";")[0]).lower()
    if "%" in letters:
        return "percent"
    if "general" in letters:
        return "number"
    if "[" in letters:
        return "duration"
    has_date = any(letter in letters for letter in "yd") or (
        "m" in letters and "s" not in letters and "h" not in letters
    )
    has_time = "h" in letters or "s" in letters
    if has_date:
        return "datetime" if has_time else "date"
    return "time" if has_time else "number"


def _percent(value: float, code: str) -> str:
    match = _DECIMALS.search(code)
    decimals = min(len(match[1]), _DIGITS) if match is not None else 0
    return f"{value * 100:.{decimals}f}%"


def _plain(text: str) -> str:
    """Return a number without the noise of binary fractions, such as 0.30000000000000004."""
    if len(text) < _DIGITS or not ("." in text or "e" in text.lower()):
        return text
    try:
        return f"{float(text):.{_DIGITS}g}"
    except ValueError:
        return text
