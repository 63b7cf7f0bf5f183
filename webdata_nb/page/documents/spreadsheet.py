"""Converts Excel workbooks (.xlsx) to HTML: a heading and a table for each visible sheet."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from html import escape
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from webdata_nb.page.documents.archive import (
    DocumentArchive,
    OfficePackage,
    attribute,
    child,
    children,
    descendants,
    local_name,
    relationship_id,
    stream_elements,
    to_int,
)
from webdata_nb.page.documents.converted_document import (
    MAX_CELLS,
    MAX_CHARACTERS,
    ConvertedDocument,
    MergedRange,
    write_sheet,
    write_text,
)

if TYPE_CHECKING:
    from webdata_nb.page.documents.archive import XmlElement

_MAIN_PART: Final = "xl/workbook.xml"
_REFERENCE: Final = re.compile(r"\$?([A-Z]{1,3})\$?(\d{1,7})")
_LINK_FORMULA: Final = re.compile(r'\s*HYPERLINK\(\s*"([^"]*)"')
_HIDDEN: Final = frozenset({"hidden", "veryHidden"})


@dataclass(slots=True)
class _RawCell:
    """A cell as stored: `text` is a number, a text, or the index of a shared string."""

    kind: str
    text: str
    style: int
    href: str | None = None


@dataclass(slots=True)
class _WorksheetCells:
    name: str
    cells: dict[tuple[int, int], _RawCell] = field(default_factory=dict)
    merged: list[MergedRange] = field(default_factory=list)


def convert_spreadsheet(body: bytes) -> ConvertedDocument:
    """Convert a workbook.

    Raises
    ------
    ScrapeError
        `kind` is ``parse``.
    """
    return _WorkbookReader(OfficePackage(DocumentArchive(body))).convert()


class _WorkbookReader:
    def __init__(self, package: OfficePackage) -> None:
        self._package = package
        self._main = package.main_part(_MAIN_PART)
        self._cells_left = MAX_CELLS
        self._characters_left = MAX_CHARACTERS
        self._is_truncated = False

    def convert(self) -> ConvertedDocument:
        workbook = self._package.read(self._main)
        names = list(children(child(workbook, "sheets"), "sheet"))
        visible = [sheet for sheet in names if attribute(sheet, "state") not in _HIDDEN]
        sheets = [self._read_sheet(sheet) for sheet in visible]
        strings = self._shared_strings(sheets)
        is_1904 = attribute(child(workbook, "workbookPr"), "date1904") in {"1", "true"}
        styles = self._package.related(self._main, "styles")
        formats = NumberFormats(styles, is_1904=is_1904)
        html = "".join(self._write(sheet, strings, formats) for sheet in sheets)
        properties, is_truncated = self._package.properties(), self._is_truncated
        return properties.to_document(html, truncated=is_truncated, sheet_count=len(names))

    def _read_sheet(self, declaration: XmlElement) -> _WorksheetCells:
        sheet = _WorksheetCells(attribute(declaration, "name") or "")
        relationships = self._package.relationships(self._main)
        related = relationships.get(relationship_id(declaration) or "")
        stream = self._package.archive.open(related.target) if related is not None else None
        is_sheet = related is not None and related.kind == "worksheet"
        if stream is None or related is None or not is_sheet or self._is_truncated:
            return sheet
        with stream:
            elements = stream_elements(stream, "row", "mergeCell", "hyperlink")
            for number, element in enumerate(elements):
                name = local_name(element)
                if name == "row":
                    self._read_row(element, number, sheet)
                elif name == "mergeCell":
                    reference = attribute(element, "ref") or ""
                    first, _, last = reference.partition(":")
                    start, end = _place(first), _place(last)
                    if start is not None and end is not None:
                        sheet.merged.append(MergedRange(*start, *end))
                else:
                    place = _place((attribute(element, "ref") or "").partition(":")[0])
                    target = self._package.external_target(related.target, relationship_id(element))
                    if place in sheet.cells and target:
                        sheet.cells[place].href = target
                if self._is_truncated:
                    break
        return sheet

    def _read_row(self, row: XmlElement, index: int, sheet: _WorksheetCells) -> None:
        row_number = to_int(row.get("r"), index + 1)
        column = 0
        for cell in children(row, "c"):
            place = _place(cell.get("r") or "")
            column = place[1] if place is not None else column + 1
            raw = _raw_cell(cell)
            if not raw.text:
                continue
            if not self._cells_left:
                self._is_truncated = True
                return
            self._cells_left -= 1
            sheet.cells[row_number, column] = raw

    def _shared_strings(self, sheets: list[_WorksheetCells]) -> dict[str, str]:
        """Return the strings that cells refer to, by their indexes."""
        needed = {
            cell.text for sheet in sheets for cell in sheet.cells.values() if cell.kind == "s"
        }
        part = next(iter(self._package.related_parts(self._main, "sharedStrings")), None)
        stream = self._package.archive.open(part) if part is not None and needed else None
        if stream is None:
            return {}
        strings: dict[str, str] = {}
        with stream:
            for index, element in enumerate(stream_elements(stream, "si")):
                if str(index) in needed:
                    strings[str(index)] = _rich_text(element)
                    if len(strings) == len(needed):
                        break
        return strings

    def _write(
        self, sheet: _WorksheetCells, strings: dict[str, str], formats: NumberFormats
    ) -> str:
        cells = {}
        for place, cell in sheet.cells.items():
            if cell.kind == "s":
                text = strings.get(cell.text.strip(), "")
            elif cell.kind == "b":
                text = "TRUE" if cell.text.strip() == "1" else "FALSE"
            else:
                text = formats.write(cell.text, cell.style) if cell.kind == "n" else cell.text
            self._characters_left -= len(text)
            if self._characters_left < 0:
                self._is_truncated = True
                break
            html = write_text(text)
            cells[place] = f'<a href="{escape(cell.href)}">{html}</a>' if cell.href else html
        heading = f"<h2>{escape(sheet.name)}</h2>" if sheet.name else ""
        return heading + write_sheet(cells, sheet.merged)


def _raw_cell(cell: XmlElement) -> _RawCell:
    kind = cell.get("t") or "n"
    style = to_int(cell.get("s"), -1)
    if kind == "inlineStr":
        return _RawCell(kind, _rich_text(child(cell, "is")), style)
    value, formula = child(cell, "v"), child(cell, "f")
    if formula is not None and formula.text and (value is None or not value.text):
        # The program that wrote the file did not compute it.
        return _RawCell("str", f"={formula.text}", style)
    text = (value.text if value is not None else None) or ""
    link = _LINK_FORMULA.match(formula.text or "") if formula is not None else None
    return _RawCell(kind, text, style, link[1] if link is not None else None)


def _rich_text(element: XmlElement | None) -> str:
    """Return the text of a string, without the phonetic guides of Japanese texts."""
    parts = children(element, "t", "r")
    return "".join(text.text or "" for part in parts for text in descendants(part, "t"))


def _place(reference: str) -> tuple[int, int] | None:
    """Return row and column of a reference such as ``B7``."""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        return None
    column = 0
    for letter in match[1]:
        column = 26 * column + ord(letter) - ord("A") + 1
    return int(match[2]), column


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
            match = _DECIMALS.search(code)
            decimals = min(len(match[1]), _DIGITS) if match is not None else 0
            return f"{value * 100:.{decimals}f}%"
        if kind != "number" and 0 <= value < _MAX_SERIAL:
            if kind == "duration":
                minutes, seconds = divmod(round(value * 86400), 60)
                return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
            if self._epoch is _EPOCH and value < _LEAP_BUG_DAY and kind != "time":
                value += 1
            moment = self._epoch + timedelta(seconds=round(value * 86400))
            if kind == "time" or (value < 1 and kind != "date"):
                return moment.strftime("%H:%M:%S")
            return moment.date().isoformat() if kind == "date" else moment.isoformat(sep=" ")
        return _plain(text)


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


def _plain(text: str) -> str:
    """Return a number without the noise of binary fractions, such as 0.30000000000000004."""
    if len(text) < _DIGITS or not ("." in text or "e" in text.lower()):
        return text
    try:
        return f"{float(text):.{_DIGITS}g}"
    except ValueError:
        return text
