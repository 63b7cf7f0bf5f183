"""Hostile documents cost little, read no files, and fail as rows."""

from __future__ import annotations

import contextlib
import io
import random
import zipfile
from collections.abc import Callable

import pytest

from tests.page.documents.office_files import (
    RELATED,
    archive,
    ebook_file,
    open_file,
    paragraph,
    relationships,
    run,
    scrape_file,
    word_file,
    word_part,
)
from tests.page.documents.test_ebook import BOOK
from tests.page.documents.test_presentation import add_chart, add_outline, add_table, deck
from tests.page.documents.test_spreadsheet import workbook
from tests.page.pages import page_source, scrape_in_worker
from webdata_nb.page.documents.archive import MAX_MEMBER_BYTES, MAX_MEMBERS
from webdata_nb.page.errors import ScrapeError
from webdata_nb.page.scrape.page import ConversionOptions

LAUGHS = "<!DOCTYPE x [" + '<!ENTITY a0 "ha">' + "".join(
    f'<!ENTITY a{level} "{f"&a{level - 1};" * 10}">' for level in range(1, 12)
) + "]>"  # fmt: skip
FILE = '<!DOCTYPE x [<!ENTITY a11 SYSTEM "file:///etc/passwd">]>'
PARAMETER = '<!DOCTYPE x [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]>'
ITEM = "<text:list><text:list-item>"
BOX = "<w:r><w:pict><w:txbxContent>{}</w:txbxContent></w:pict></w:r>"


def failure(body: bytes) -> str:
    with pytest.raises(ScrapeError) as raised:
        scrape_file(body)
    assert raised.value.kind == "parse"
    return str(raised.value)


@pytest.mark.parametrize("prolog", [LAUGHS, FILE, PARAMETER])
@pytest.mark.parametrize(
    "build",
    [
        lambda prolog: word_file("", {"word/document.xml": f"{prolog}<d><body>&a11;</body></d>"}),
        lambda prolog: word_file("", {"docProps/core.xml": f"{prolog}<c><title>&a11;</title></c>"}),
        lambda prolog: archive({"word/document.xml": "<d/>", "_rels/.rels": f"{prolog}<r/>"}),
        lambda prolog: ebook_file({}, {"OEBPS/book.opf": f"{prolog}<package>&a11;</package>"}),
        lambda prolog: open_file("text", "", members={"content.xml": f"{prolog}<d>&a11;</d>"}),
        lambda prolog: archive(
            {
                "xl/workbook.xml": f'<workbook xmlns:r="{RELATED}"><sheets>'
                '<sheet name="S" r:id="s"/></sheets></workbook>',
                "xl/_rels/workbook.xml.rels": relationships(s="worksheet sheet1.xml"),
                "xl/sheet1.xml": f"{prolog}<worksheet><sheetData><row><c t='str'><v>&a11;</v></c>"
                "</row></sheetData></worksheet>",
            }
        ),
    ],
)
def test_entities_are_refused(build: Callable[[str], bytes], prolog: str) -> None:
    message = failure(build(prolog))
    assert "entit" in message or "no valid XML" in message
    assert "root:" not in message


def test_parts_that_unpack_to_too_much_are_failures() -> None:
    bomb = word_part("document", f"<w:body>{' ' * MAX_MEMBER_BYTES}</w:body>")
    assert "64 MiB" in failure(word_file("", {"word/document.xml": bomb}))
    names = "".join(f'<sheet name="{number}" r:id="s"/>' for number in range(8))
    row = f"<row>{' ' * 1024 * 1024}</row>"
    sheet = f"<worksheet><sheetData>{row * 40}</sheetData></worksheet>"
    members = {
        "xl/workbook.xml": f'<workbook xmlns:r="{RELATED}"><sheets>{names}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": relationships(s="worksheet sheet.xml"),
        "xl/sheet.xml": sheet,
    }
    assert "256 MiB" in failure(archive(members))


def test_archives_of_too_many_members_are_failures() -> None:
    members = {f"word/{number}": "" for number in range(MAX_MEMBERS + 1)}
    assert "10,000 members" in failure(archive(members))


def test_unpacked_sizes_are_counted_despite_false_headers() -> None:
    bomb = bytearray(word_file("", {"word/document.xml": " " * 1_000_000}))
    declared = (1_000_000).to_bytes(4, "little")
    while (at := bomb.find(declared)) >= 0:
        bomb[at : at + 4] = (10).to_bytes(4, "little")
    assert failure(bytes(bomb))


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_compression_methods_are_failures(method: int) -> None:
    assert "compression" in failure(archive({"word/document.xml": "<d/>"}, method))


def repeat(number: int, text: str) -> str:
    return "".join(text.replace("@", str(each)) for each in range(number))


def nested(depth: int, start: str, end: str, inner: str = "") -> str:
    return start * depth + inner + end * depth


@pytest.mark.parametrize(
    "build",
    [
        lambda: word_file(nested(300, "<w:sdt>", "</w:sdt>", paragraph("x"))),
        lambda: word_file(nested(10_000, "<w:p>", "</w:p>")),
        lambda: open_file("text", nested(300, "<text:section>", "</text:section>")),
    ],
)
def test_deep_nesting_is_a_failure(build: Callable[[], bytes]) -> None:
    assert "depth" in failure(build())


def inner_boxes(depth: int) -> str:
    text = run("deepest")
    for _ in range(depth):
        text = BOX.format(f"<w:p>{text}</w:p>")
    return f"<w:p>{text}</w:p>"


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: word_file(inner_boxes(40)), "deepest"),
        (
            lambda: word_file(
                nested(60, "<w:tbl><w:tr><w:tc>", "</w:tc></w:tr></w:tbl>", paragraph("deepest"))
            ),
            "deepest",
        ),
        (
            lambda: word_file(
                "<w:p>"
                + repeat(50_000, '<w:r><w:fldChar w:fldCharType="begin"/><w:t>x</w:t></w:r>')
                + "</w:p>"
            ),
            "x",
        ),
        (
            lambda: word_file(
                "<w:p>" + repeat(20_000, '<w:r><w:footnoteReference w:id="@"/></w:r>') + "</w:p>"
            ),
            "1",
        ),
        (lambda: word_file(repeat(20_000, paragraph("x", '<w:pStyle w:val="S@"/>'))), "x"),
        (
            lambda: workbook(
                "<sheetData>" + repeat(20_000, "<row><c><v>1</v></c></row>") + "</sheetData>"
                "<mergeCells>" + repeat(20_000, '<mergeCell ref="A1:XFD1048576"/>')
                + "</mergeCells>"
            ),
            "1",
        ),
        (
            lambda: open_file("text", '<text:p>x<text:s text:c="999999999"/>y</text:p>'),
            "x y",
        ),
        (
            lambda: open_file(
                "text",
                "<table:table>"
                + repeat(
                    500,
                    "<table:table-row><table:table-cell table:number-columns-repeated='99999999'>"
                    "<text:p>x</text:p></table:table-cell></table:table-row>",
                )
                + "</table:table>",
            ),
            "x",
        ),
        (
            lambda: open_file(
                "spreadsheet",
                "<table:table><table:table-row table:number-rows-repeated='1048576'>"
                "<table:table-cell table:number-columns-repeated='16384'><text:p>x</text:p>"
                "</table:table-cell></table:table-row></table:table>",
            ),
            "x",
        ),
        (
            lambda: open_file(
                "text", nested(110, "<text:list><text:list-item>", "</text:list-item></text:list>",
                               "<text:p>x</text:p>")
            ),
            "x",
        ),
    ],
)  # fmt: skip
@pytest.mark.slow
async def test_hostile_documents_stay_within_worker_limits(
    build: Callable[[], bytes], expected: str
) -> None:
    source = page_source(build(), content_type=None)
    scraped = await scrape_in_worker({"document": source}, ConversionOptions())
    assert expected in scraped["document"].formats["markdown"]


@pytest.mark.parametrize(
    "body",
    [
        word_file(inner_boxes(2) + paragraph("x", '<w:numPr><w:numId w:val="1"/></w:numPr>')),
        workbook('<sheetData><row r="1"><c r="A1" t="s" s="1"><v>0</v></c></row></sheetData>'),
        open_file("text", nested(3, ITEM, "</text:list-item></text:list>")),
        ebook_file(BOOK),
        deck(add_outline, add_table, add_chart),
    ],
)  # fmt: skip
def test_mutated_documents_are_rows_or_failures(body: bytes) -> None:
    random_numbers = random.Random(17)
    with zipfile.ZipFile(io.BytesIO(body)) as source:
        members = {name: source.read(name) for name in source.namelist()}
    texts = [name for name in members if name.endswith(("ml", "rels", "opf")) and members[name]]
    for _ in range(60):
        name = random_numbers.choice(texts)
        mutated = mutate(members[name], random_numbers)
        with contextlib.suppress(ScrapeError):
            scrape_file(archive({**members, name: mutated}), None, "markdown")


def mutate(content: bytes, random_numbers: random.Random) -> bytes:
    """Swap, drop, repeat or rename parts of an XML text, so that it mostly stays well-formed."""
    text = content.decode()
    words = sorted(set(text.replace("<", " ").replace(">", " ").replace('"', " ").split()))
    for _ in range(random_numbers.randint(1, 3)):
        old, new = random_numbers.choice(words), random_numbers.choice([*words, "-1", "", "99999"])
        text = text.replace(old, new, random_numbers.choice([1, 2, -1]))
    return text.encode()
