"""Converts PDF to HTML: headings by font size, paragraphs by gaps, tables by ruling lines."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from ctypes import c_int, create_string_buffer
from html import escape
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, TypeAlias

from webdata_nb.page.documents.converted_document import ConvertedDocument
from webdata_nb.page.documents.pdf_lines import HYPHENS, PdfLine, read_lines
from webdata_nb.page.documents.pdf_tables import PdfTable, TableFinder
from webdata_nb.page.errors import ScrapeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_CHARACTERS = 5_000_000
"""Characters read from one document."""
MAX_LINKS = 10_000
"""Links read from one document, duplicates included."""
MAX_PAGES = 5000
"""Pages of one document whose links are read."""

_Part: TypeAlias = PdfLine | PdfTable

_HEADING_SIZE_RATIO = 1.15  # a short line of this many times the body font size is a heading
_MAX_HEADING_LENGTH = 150
_MAX_HEADING_LEVEL = 4
_PARAGRAPH_GAP_RATIO = 1.6  # a gap of this many font sizes between lines ends a paragraph
_DOT_LEADER = ". . ."  # in a table of contents, before the page number


def convert_pdf(body: bytes) -> ConvertedDocument:
    """Convert a PDF document to an HTML page. Not thread-safe, as pdfium is not.

    Raises
    ------
    ScrapeError
        `kind` is ``parse``: the document is damaged or needs a password.
    """
    # Imported late: the library is large and most pages do not need it. It has no types.
    import pypdfium2  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        with closing(pypdfium2.PdfDocument(body)) as document:
            info = document.get_metadata_dict()
            reader = _PdfReader(document)
            reader.read()
    except pypdfium2.PdfiumError as error:
        raise ScrapeError("parse", f"the PDF document cannot be read: {error}") from error
    content = f"{_body(reader.pages)}{_links(reader.targets)}"
    html = f"<!doctype html><html><head>{_head(info)}</head><body>{content}</body></html>"
    metadata: dict[str, Any] = {"page_count": reader.page_count}
    if len(reader.pages) < reader.page_count:
        metadata["truncated"] = True
    return ConvertedDocument(html, metadata=metadata)


class _PdfReader:
    """Reads the pages of a document, each of them once.

    Attributes
    ----------
    page_count
        The pages of the document.
    pages
        The lines and tables of the pages that were read.
    targets
        The URLs of links.
    """

    def __init__(self, document: Any) -> None:
        self._document = document
        self._finder = TableFinder()
        self._characters_left, self._links_left = MAX_CHARACTERS, MAX_LINKS
        self.page_count = len(document)
        self.pages: list[list[_Part]] = []
        self.targets: dict[str, None] = {}

    def read(self) -> None:
        """Read texts and links; behind the last characters that are read, only links."""
        for number in range(self.page_count):
            reads_text = self._characters_left >= 0
            reads_links = number < MAX_PAGES and self._links_left > 0
            if not (reads_text or reads_links):
                return
            with closing(self._document[number]) as page:
                if reads_text:
                    self._read_text(page)
                if reads_links:
                    self._read_links(page)

    def _read_text(self, page: Any) -> None:
        with closing(page.get_textpage()) as text:
            tables = self._finder.find_tables(page, text)
            parts = list(_parts(read_lines(text), tables))
        self.pages.append(parts)
        self._characters_left -= sum(map(_length, parts))

    def _read_links(self, page: Any) -> None:
        targets = list(islice(_targets(self._document, page), self._links_left))
        self._links_left -= len(targets)
        self.targets |= dict.fromkeys(targets)


def _length(part: _Part) -> int:
    return len(part.text if isinstance(part, PdfLine) else part.html)


def _parts(lines: list[PdfLine], tables: list[PdfTable]) -> Iterator[_Part]:
    """Yield the lines of a page, with each table at the place of its first line."""
    written: set[float] = set()
    for line in lines:
        table = next((each for each in tables if each.contains(line.left, line.top)), None)
        if table is None:
            yield line
        elif table.top not in written:
            written.add(table.top)
            yield table


def _links(targets: Iterable[str]) -> str:
    """Write the links of all pages as an image map, which is no visible text."""
    areas = "".join(f'<area href="{escape(target)}">' for target in targets)
    return f"<map>{areas}</map>" if areas else ""


def _targets(document: Any, page: Any) -> Iterator[str]:
    """Read the URLs of the links of a page."""
    from pypdfium2 import raw  # noqa: PLC0415 - as in `convert_pdf`

    position, link = c_int(0), raw.FPDF_LINK()
    while raw.FPDFLink_Enumerate(page, position, link):
        action = raw.FPDFLink_GetAction(link)
        if action and raw.FPDFAction_GetType(action) == raw.PDFACTION_URI:
            size = raw.FPDFAction_GetURIPath(document, action, None, 0)
            buffer = create_string_buffer(size)
            raw.FPDFAction_GetURIPath(document, action, buffer, size)
            yield buffer.value.decode("utf-8", "replace")


def _head(info: dict[str, str]) -> str:
    parts = [f"<title>{escape(info['Title'])}</title>" if info.get("Title") else ""]
    for key, name in (("Author", "author"), ("Subject", "description")):
        if info.get(key):
            parts.append(f'<meta name="{name}" content="{escape(info[key])}">')
    if date := _date(info.get("CreationDate", "")):
        parts.append(f'<meta name="date" content="{date}">')
    return "".join(parts)


def _date(pdf_date: str) -> str:
    """Return the day of a PDF date such as ``D:20250208122313Z``."""
    digits = pdf_date.removeprefix("D:")[:8]
    if len(digits) < 8 or not (digits.isascii() and digits.isdecimal()):  # noqa: PLR2004 - YYYYMMDD
        return ""
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:]}"


def _body(pages: list[list[_Part]]) -> str:
    sizes: Counter[float] = Counter()
    for page in pages:
        for part in page:
            if isinstance(part, PdfLine):
                sizes[round(part.size, 1)] += len(part.text)
    body = sizes.most_common(1)[0][0] if sizes else 0.0
    larger = sorted((size for size in sizes if size >= body * _HEADING_SIZE_RATIO), reverse=True)
    levels = {size: min(level, _MAX_HEADING_LEVEL) for level, size in enumerate(larger, 1)}
    return "".join(html for page in pages for html in _blocks(page, levels))


def _blocks(page: list[_Part], levels: dict[float, int]) -> Iterator[str]:
    """Join the lines of a page to headings (level 1 and up) and paragraphs (level 0)."""
    for is_text, parts in groupby(page, key=lambda part: isinstance(part, PdfLine)):
        if is_text:
            lines = [part for part in parts if isinstance(part, PdfLine)]
            yield from (_to_html(level, text) for level, text in _join_lines(lines, levels))
        else:
            yield from (part.html for part in parts if isinstance(part, PdfTable))


def _join_lines(lines: list[PdfLine], levels: dict[float, int]) -> Iterator[tuple[int, str]]:
    level, text, previous = 0, "", None
    for line in lines:
        line_level = levels.get(round(line.size, 1), 0) if _may_be_heading(line.text) else 0
        is_apart = previous is not None and (
            abs(previous.top - line.top) > _PARAGRAPH_GAP_RATIO * max(line.size, previous.size)
        )
        if text and (line_level != level or is_apart):
            yield level, text
            text = ""
        text = _join(text, line.text)
        level, previous = line_level, line
    if text:
        yield level, text


def _may_be_heading(text: str) -> bool:
    return len(text) <= _MAX_HEADING_LENGTH and _DOT_LEADER not in text


def _join(text: str, line: str) -> str:
    if text.endswith(HYPHENS):
        return text[:-1] + line
    return f"{text} {line}" if text else line


def _to_html(level: int, text: str) -> str:
    for hyphen in HYPHENS:
        text = text.replace(hyphen, "")
    return f"<h{level}>{escape(text)}</h{level}>" if level else f"<p>{escape(text)}</p>"
