"""Excel workbooks become a heading and a table for each visible sheet."""

from __future__ import annotations

import io
from datetime import date, datetime, time

import openpyxl
import pytest
import xlsxwriter

from tests.page.documents.office_files import (
    RELATED,
    archive,
    markdown_of,
    relationships,
    scrape_file,
)
from webdata_nb.page.documents.converted_document import MAX_CELLS
from webdata_nb.page.documents.spreadsheet import number_kind

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def workbook(sheet: str, strings: str = "", settings: str = "") -> bytes:
    """Write a workbook with one sheet from the XML of its parts."""
    return archive(
        {
            "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{RELATED}">{settings}<sheets>'
            '<sheet name="S" sheetId="1" r:id="s"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": relationships(
                s="worksheet worksheets/sheet1.xml", t="sharedStrings sharedStrings.xml"
            ),
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{MAIN}">{sheet}</worksheet>',
            "xl/sharedStrings.xml": f'<sst xmlns="{MAIN}">{strings}</sst>',
        }
    )


def saved(book: openpyxl.Workbook) -> bytes:
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def test_workbook_of_openpyxl_is_read() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Umsätze & mehr"
    sheet.append(["Name", "Anteil", "Tag", "Uhr", "Zeitpunkt", "ok", "leer"])
    sheet.append(
        [
            "Ü|x\nzwei",
            0.256,
            date(2024, 2, 29),
            time(7, 8, 9),
            datetime(2024, 5, 6, 7, 8),  # noqa: DTZ001 - cells have no time zone
            True,
            None,
        ]
    )
    sheet.append(["€", 0.1 + 0.2, 12345678901, -1.5, 3.0, False, "=1/0"])
    sheet["B2"].number_format = "0.0%"
    sheet["A3"].hyperlink = "https://other.test/a?b=1&c=2"
    book.create_sheet("Leer")
    book.create_sheet("Versteckt").sheet_state = "hidden"
    found = scrape_file(
        saved(book), "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    )
    assert found.formats["markdown"] == (
        "## Umsätze & mehr\n\n"
        "| Name | Anteil | Tag | Uhr | Zeitpunkt | ok | leer |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n"
        "| Ü\\|x<br>zwei | 25.6% | 2024-02-29 | 07:08:09 | 2024-05-06 07:08:00 | TRUE |  |\n"
        "| [€](https://other.test/a?b=1&c=2) | 0.3 | 12345678901 | -1.5 | 3 | FALSE | =1/0 |\n\n"
        "## Leer"
    )
    assert [each.url for each in found.outlinks] == ["https://other.test/a?b=1&c=2"]
    assert (found.metadata["rung"], found.metadata["sheet_count"]) == ("xlsx", 3)
    assert found.metadata["author"] == "openpyxl"


def test_workbook_of_xlsxwriter_is_read() -> None:
    file = io.BytesIO()
    with xlsxwriter.Workbook(file) as book:
        sheet = book.add_worksheet("Data")
        sheet.merge_range("B2:C2", "wide")
        sheet.merge_range("A3:A4", "tall")
        sheet.write_row("B3", ["x", "y"])
        sheet.write_row("B4", ["1", 2])
        sheet.write_url("C6", "https://a.test/", string="site")
        sheet.write_formula("B6", '=HYPERLINK("https://b.test/","formula")', value="formula")
        sheet.write_rich_string("A6", "plain ", book.add_format({"bold": True}), "bold")
    assert markdown_of(file.getvalue()) == (
        "## Data\n\n|  | wide | wide |\n| --- | --- | --- |\n| tall | x | y |\n| tall | 1 | 2 |\n"
        "| plain bold | [formula](https://b.test/) | [site](https://a.test/) |"
    )


def test_strings_phonetics_errors_and_cells_without_references() -> None:
    strings = (
        '<si><t>unused</t></si><si><r><t xml:space="preserve">東 </t></r><r><t>京</t></r>'
        '<rPh sb="0" eb="1"><t>トウ</t></rPh></si>'
    )
    sheet = (
        '<sheetData><row><c t="s"><v>1</v></c><c t="inlineStr"><is><t>in</t></is></c>'
        '<c t="e"><v>#DIV/0!</v></c><c t="str"><f>A1</f><v>made</v></c><c t="s"><v>99</v></c>'
        '</row><row r="3"><c r="A3"><v>1e3</v></c><c r="C3" t="b"><v>1</v></c></row></sheetData>'
    )
    assert markdown_of(workbook(sheet, strings)) == (
        "## S\n\n| 東 京 | in | #DIV/0! | made |\n| --- | --- | --- | --- |\n| 1e3 |  | TRUE |  |"
    )


def test_dates_of_1904_and_the_missing_leap_day() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append([1, 60.5])
    sheet["A1"].number_format, sheet["B1"].number_format = "yyyy-mm-dd", "d/m/yy h:mm"
    assert "| 1900-01-01 | 1900-02-29" not in markdown_of(saved(book))
    assert "1900-01-01" in markdown_of(saved(book))
    book.epoch = openpyxl.utils.datetime.CALENDAR_MAC_1904
    assert "| 1904-01-02 | 1904-03-01 12:00:00 |" in markdown_of(saved(book))


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("General", "number"),
        ('#,##0.00 "days"', "number"),
        ("0.00E+00", "number"),
        ("[Red]0;[Blue]-0", "number"),
        ('_-* #,##0 "€"_-', "number"),
        ("0.0%", "percent"),
        ("[$-409]d mmm yyyy", "date"),
        ("mmm-yy", "date"),
        ("mmmm", "date"),
        ("h:mm AM/PM", "time"),
        ("mm:ss", "time"),
        ("[h]:mm", "duration"),
        ("yyyy-mm-dd hh:mm", "datetime"),
        ("dd\\.mm\\.yyyy", "date"),
    ],
)
def test_kinds_of_number_formats(code: str, kind: str) -> None:
    assert number_kind(code) == kind


def test_cells_far_apart_become_a_small_table() -> None:
    corners = (
        '<sheetData><row r="1"><c r="A1"><v>1</v></c></row>'
        '<row r="1048576"><c r="XFD1048576"><v>2</v></c></row></sheetData>'
    )
    assert markdown_of(workbook(corners)) == "## S\n\n| 1 |  |\n| --- | --- |\n|  | 2 |"


def test_cells_on_a_diagonal_stay_in_their_rows() -> None:
    rows = "".join(
        f'<row r="{number}"><c r="{letters(number)}{number}"><v>{number}</v></c></row>'
        for number in range(1, 1001)
    )
    text = markdown_of(workbook(f"<sheetData>{rows}</sheetData>"))
    assert "1000" in text
    assert len(text) < 1_000_000


def letters(column: int) -> str:
    name = ""
    while column:
        column, digit = divmod(column - 1, 26)
        name = chr(ord("A") + digit) + name
    return name


def test_large_workbooks_are_truncated() -> None:
    row = f"<row>{'<c><v>1</v></c>' * 100}</row>"
    found = scrape_file(workbook(f"<sheetData>{row * 1001}</sheetData>"))
    assert found.formats["markdown"].count("| 1 ") == MAX_CELLS
    assert found.metadata["truncated"] is True
    assert "truncated" not in scrape_file(workbook(f"<sheetData>{row}</sheetData>")).metadata
