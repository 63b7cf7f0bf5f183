"""PDF documents: ruled tables, columns, broken words, page count."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import pytest
from matplotlib.figure import Figure

from tests.page.documents.office_files import markdown_of, scrape_file
from tests.page.documents.test_documents import build_pdf
from tests.page.pages import page_source, scrape_in_worker
from webdata_nb.page.documents import pdf
from webdata_nb.page.scrape.page import ConversionOptions


def drawn_pdf(*operators: str, pages: int = 1) -> bytes:
    """Write a PDF document whose pages have the same content stream."""
    stream = "\n".join(operators)
    kids = " ".join(f"{5 + number} 0 R" for number in range(pages))
    page = (
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800]"
        " /Resources << /Font << /F1 3 0 R >> >> /Contents 4 0 R >>"
    )
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {pages} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        *[page] * pages,
    ]
    body, offsets = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{each}\nendobj\n".encode()
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    head = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    tail = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF"
    return body + head.encode() + tail.encode()


def text(x: int, y: int, line: str, size: int = 10) -> str:
    return f"BT /F1 {size} Tf {x} {y} Td ({line}) Tj ET"


def line(x1: int, y1: int, x2: int, y2: int) -> str:
    return f"{x1} {y1} m {x2} {y2} l S"


def thin_box(x1: int, y1: int, x2: int, y2: int) -> str:
    """Draw a line as a filled rectangle, as word processors do."""
    return f"{x1} {y1} {max(x2 - x1, 0.5)} {max(y2 - y1, 0.5)} re f"


def grid(rows: int, columns: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the lines of a table with its top left at 50, 700 and cells of 100 by 20 points."""
    for row in range(rows + 1):
        yield 50, 700 - 20 * row, 50 + 100 * columns, 700 - 20 * row
    for column in range(columns + 1):
        yield 50 + 100 * column, 700 - 20 * rows, 50 + 100 * column, 700


def cells(*rows: tuple[str, ...]) -> Iterator[str]:
    for number, row in enumerate(rows):
        for column, content in enumerate(row):
            if content:
                yield text(55 + 100 * column, 686 - 20 * number, content)


CELLS = (("Name", "Q1", "Q2"), ("East|", "1.5", ""), ("West", "3", "4"))
TABLE = "| Name | Q1 | Q2 |\n| --- | --- | --- |\n| East\\| | 1.5 |  |\n| West | 3 | 4 |"


@pytest.mark.parametrize("draw", [line, thin_box])
def test_ruled_tables_stand_between_the_paragraphs(draw: Callable[..., str]) -> None:
    ruling = [draw(*ends) for ends in grid(3, 3)]
    body = drawn_pdf(
        text(50, 750, "Before."), *ruling, *cells(*CELLS), text(50, 600, "After the table.")
    )
    assert markdown_of(body) == f"Before.\n\n{TABLE}\n\nAfter the table."


def test_tables_of_boxes_with_scaled_coordinates() -> None:
    boxes = [
        f"{(50 + 100 * column) * 10} {(680 - 20 * row) * 10} 1000 200 re S"
        for row in range(3)
        for column in range(3)
    ]
    body = drawn_pdf("q 0.1 0 0 0.1 0 0 cm", *boxes, "Q", *cells(*CELLS))
    assert markdown_of(body) == TABLE


def test_merged_cells_and_wrapped_text() -> None:
    rulings = [
        line(50, 700, 350, 700), line(50, 680, 350, 680), line(150, 660, 350, 660),
        line(50, 640, 350, 640), line(50, 640, 50, 700), line(150, 640, 150, 700),
        line(250, 640, 250, 680), line(350, 640, 350, 700),
    ]  # fmt: skip
    body = drawn_pdf(
        *rulings, text(55, 686, "A"), text(155, 686, "wide"), text(55, 668, "tall and"),
        text(55, 650, "wrapped"), *cells((), ("", "1", "2"), ("", "3", "4")),
    )  # fmt: skip
    assert markdown_of(body) == (
        "| A | wide | wide |\n| --- | --- | --- |\n"
        "| tall and wrapped | 1 | 2 |\n| tall and wrapped | 3 | 4 |"
    )


def test_rows_without_lines_between_them() -> None:
    rulings = [
        line(50, 700, 250, 700), line(50, 680, 250, 680), line(50, 600, 250, 600),
        line(50, 600, 50, 700), line(150, 600, 150, 700), line(250, 600, 250, 700),
    ]  # fmt: skip
    names, sums = ("East", "West", "North"), ("1", "22", "333")
    body = drawn_pdf(
        *rulings, text(55, 686, "Name"), text(155, 686, "Sum"),
        *(text(55, 665 - 15 * number, name) for number, name in enumerate(names)),
        *(text(155, 665 - 15 * number, value) for number, value in enumerate(sums)),
    )  # fmt: skip
    rows = "\n".join(f"| {name} | {value} |" for name, value in zip(names, sums, strict=True))
    assert markdown_of(body) == f"| Name | Sum |\n| --- | --- |\n{rows}"


def test_boxes_and_charts_are_no_tables() -> None:
    frame = "40 580 400 160 re S"
    assert markdown_of(drawn_pdf(frame, text(50, 700, "In a box."))) == "In a box."
    figure = Figure()
    axes = figure.add_subplot()
    axes.plot([1, 2, 3], [1, 4, 2])
    axes.grid(visible=True)
    axes.set_title("Sales")
    file = io.BytesIO()
    figure.savefig(file, format="pdf")
    found = markdown_of(file.getvalue())
    assert "Sales" in found
    assert "| --- |" not in found


LEFT = [f"left line {number} with a good many words" for number in range(8)]
RIGHT = [f"right line {number} with as many words" for number in range(8)]


def test_columns_are_read_one_after_the_other() -> None:
    rows = [
        part
        for number in range(8)
        for part in (
            text(50, 700 - 12 * number, LEFT[number]),
            text(320, 700 - 12 * number, RIGHT[number]),
        )
    ]
    wide = text(
        50, 720, "A line across both of the columns of this page, such as an abstract has it"
    )
    body = drawn_pdf(wide, *rows, text(50, 590, "The end."))
    words = markdown_of(body)
    assert " ".join(LEFT) in words
    assert " ".join(RIGHT) in words
    assert words.index("across") < words.index("left line 7") < words.index("right line 0")


def test_words_broken_in_a_left_column_are_joined() -> None:
    left = [f"line {number} with words and a har-" for number in range(7)] + ["bour at its end."]
    left[1:7] = [f"bour {line}" for line in left[1:7]]
    left[3] = "bour line 3 with words from 1980-"
    rows = [
        part
        for number in range(8)
        for part in (
            text(50, 700 - 12 * number, left[number]),
            text(320, 700 - 12 * number, RIGHT[number]),
        )
    ]
    words = markdown_of(drawn_pdf(*rows))
    assert words.count("harbour") == 6
    assert "1980- bour" in words


def test_short_cells_in_columns_stay_in_their_rows() -> None:
    rows = [
        part
        for number in range(8)
        for part in (
            text(50, 700 - 12 * number, f"name {number}"),
            text(320, 700 - 12 * number, f"value {number}"),
        )
    ]
    assert "name 0 value 0 name 1 value 1" in markdown_of(drawn_pdf(*rows))


def test_page_count_and_documents_that_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    body = build_pdf(*[[(12, "0123456789")]] * 5, actions=("/S /URI /URI (https://a.test/)",))
    metadata = scrape_file(body).metadata
    assert (metadata["page_count"], "truncated" in metadata) == (5, False)
    monkeypatch.setattr(pdf, "MAX_CHARACTERS", 15)
    found = scrape_file(body)
    assert found.formats["markdown"] == "0123456789\n\n0123456789"
    assert (found.metadata["page_count"], found.metadata["truncated"]) == (5, True)
    assert found.formats["links"] == ["https://a.test/"]


async def test_drawings_of_many_lines_stay_within_worker_limits() -> None:
    crossing = [line(0, each % 800, 600, each % 800) for each in range(2400)]
    crossing += [line(each % 600, 0, each % 600, 800) for each in range(2400)]
    body = drawn_pdf(*crossing, text(50, 700, "Map"), pages=40)
    source = page_source(body, content_type="application/pdf")
    scraped = await scrape_in_worker({"drawing": source}, ConversionOptions())
    assert "Map" in scraped["drawing"].formats["markdown"]


def test_scanned_pdf_reports_low_confidence() -> None:
    found = scrape_file(drawn_pdf("50 50 200 200 re f"), "application/pdf")
    assert (found.quality["low_confidence"], found.quality["reason"]) == (True, "no text layer")
