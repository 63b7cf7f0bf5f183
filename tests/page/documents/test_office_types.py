"""Office documents are detected by content, and what cannot be read is named."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.page.documents.office_files import (
    archive,
    ebook_file,
    markdown_of,
    open_file,
    paragraph,
    scrape_file,
    word_file,
)
from tests.page.documents.test_spreadsheet import workbook
from webdata_nb.page.errors import ScrapeError

OFFICE = "application/vnd.openxmlformats-officedocument"
COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504)
WORD = word_file(paragraph("x"))


def failure(body: bytes, content_type: str | None) -> tuple[str, str]:
    with pytest.raises(ScrapeError) as raised:
        scrape_file(body, content_type)
    return raised.value.kind, str(raised.value)


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "application/octet-stream",
        "application/zip",
        "application/msword",
        "text/html",
        "text/plain; charset=utf-8",
        f"{OFFICE}.wordprocessingml.document",
        f"{OFFICE}.spreadsheetml.sheet",
        "application/vnd.ms-word.document.macroEnabled.12",
        "application/epub+zip",
    ],
)
def test_archive_members_decide_over_the_content_type(content_type: str | None) -> None:
    found = scrape_file(WORD, content_type)
    assert (found.formats["markdown"], found.metadata["rung"]) == ("x", "docx")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (workbook("<sheetData/>"), "xlsx"),
        (open_file("text", ""), "odt"),
        (open_file("spreadsheet", ""), "ods"),
        (open_file("presentation", ""), "odp"),
        (ebook_file({}), "epub"),
        (archive({"META-INF/container.xml": "<c/>", "a.opf": "<package/>"}), "epub"),
        (archive({"word\\document.xml": "<document/>"}), "docx"),
    ],
)
def test_types_of_archives(body: bytes, kind: str) -> None:
    assert scrape_file(body).metadata["rung"] == kind


@pytest.mark.parametrize(
    ("body", "content_type", "kind", "message"),
    [
        (COMPOUND + "WordDocument".encode("utf-16-le"), "application/msword", "unsupported_type",
         r"\.doc\b.*\.docx"),
        (COMPOUND + "Workbook".encode("utf-16-le"), None, "unsupported_type", r"\.xls\b.*\.xlsx"),
        (COMPOUND + "PowerPoint Document".encode("utf-16-le"), "application/octet-stream",
         "unsupported_type", r"\.ppt\b.*\.pptx"),
        (COMPOUND, "application/vnd.ms-outlook", "unsupported_type", "compound"),
        (COMPOUND + "EncryptedPackage".encode("utf-16-le"),
         f"{OFFICE}.wordprocessingml.document", "parse", "password"),
        (rb"{\rtf1\ansi x}", "application/octet-stream", "unsupported_type", "RTF"),
        (rb"{\rtf1\ansi x}", "application/msword", "unsupported_type", "RTF"),
        (archive({"xl/workbook.bin": "x"}), None, "unsupported_type", r"\.xlsb"),
        (archive({"Index/Document.iwa": "x"}), None, "unsupported_type", "Pages"),
        (archive({"a.txt": "x"}), "application/zip", "unsupported_type", "application/zip"),
        (archive({"a.txt": "x"}), None, "unsupported_type", "binary"),
        (archive({"a.txt": "x"}), f"{OFFICE}.wordprocessingml.document", "parse", "no such"),
        (b"<html>Sign in", f"{OFFICE}.wordprocessingml.document", "parse", "no ZIP archive"),
        (b"", "application/epub+zip", "parse", "no ZIP archive"),
        (b"PK\x03\x04broken", None, "parse", "no readable ZIP"),
        (WORD[: len(WORD) // 2], None, "parse", "no readable ZIP"),
        (open_file("formula", ""), None, "unsupported_type", "formula"),
        (archive({"word/other.xml": "x"}), None, "parse", "word/document.xml"),
        (archive({"word/document.xml": "<w:document"}), None, "parse", "no valid XML"),
        (archive({"word/document.xml": "plain"}), None, "parse", "no valid XML"),
        (b"\x89PNG\r\n\x1a\n\x00", None, "unsupported_type", "binary"),
    ],
)  # fmt: skip
def test_unsupported_documents_fail_with_a_reason(
    body: bytes, content_type: str | None, kind: str, message: str
) -> None:
    found_kind, text = failure(body, content_type)
    assert found_kind == kind
    assert re.search(message, text), text


def test_html_that_is_served_as_a_legacy_workbook_is_read() -> None:
    table = b"<html><table><tr><td>a</td><td>b</td></tr></table>"
    found = scrape_file(table, "application/vnd.ms-excel")
    assert "a" in found.formats["markdown"]
    assert found.metadata["rung"] != "xlsx"


def test_encrypted_open_documents_are_failures() -> None:
    manifest = "<manifest><file-entry><encryption-data/></file-entry></manifest>"
    body = open_file("text", "<text:p>x</text:p>", members={"META-INF/manifest.xml": manifest})
    kind, text = failure(body, None)
    assert (kind, "password" in text) == ("parse", True)


def test_encrypted_members_are_failures() -> None:
    flagged = bytearray(WORD)
    position = -1
    while (position := flagged.find(b"PK\x01\x02", position + 1)) >= 0:
        flagged[position + 8] |= 1
    kind, text = failure(bytes(flagged), None)
    assert (kind, "password" in text) == ("parse", True)


@pytest.mark.parametrize("body", [WORD, ebook_file({}), open_file("text", ""), workbook("")])
def test_missing_extra_is_named_in_the_failure(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lxml", None)
    assert failure(body, None) == (
        "unsupported_type",
        'reading office documents and e-books needs pip install "webdata_nb[documents]"',
    )


def test_macros_and_embedded_files_are_never_unpacked() -> None:
    body = word_file(
        paragraph("x"), {"word/vbaProject.bin": "macro", "word/embeddings/a.docx": WORD}
    )
    # Their bytes are damaged, which only reading them would notice.
    at = body.index(b"vbaProject.bin") + len("vbaProject.bin")
    assert markdown_of(body[:at] + b"\xff\xff" + body[at + 2 :]) == "x"


IMPORTS = """
import sys
import webdata_nb.service.workers.worker
late = ("lxml", "webdata_nb.page.documents.archive", "pypdfium2")
print([name for name in late if name in sys.modules])
"""


def test_page_workers_import_the_readers_late() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
