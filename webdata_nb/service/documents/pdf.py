"""Converts PDF to HTML: headings by font size, paragraphs by the gaps between lines."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from ctypes import c_double, c_int, create_string_buffer
from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any

from webdata_nb.service.errors import ScrapeError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_CHARACTERS = 5_000_000
"""Characters read from one document."""
MAX_LINKS = 10_000
"""Links read from one document, duplicates included."""
MAX_PAGES = 5000
"""Pages of one document whose links are read."""

_HEADING_SIZE_RATIO = 1.15  # a short line of this many times the body font size is a heading
_MAX_HEADING_LENGTH = 150
_MAX_HEADING_LEVEL = 4
_PARAGRAPH_GAP_RATIO = 1.6  # a gap of this many font sizes between lines ends a paragraph
_DOT_LEADER = ". . ."  # in a table of contents, before the page number
_HYPHENS = ("\x02", "\ufffe", "\xad")  # pdfium's signs for a word broken at the end of a line


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of text with its font size and its top, in points from the bottom of the page."""

    text: str
    size: float
    top: float


def pdf_to_html(body: bytes) -> str:
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
            pages = list(_pages(document))
            links = _links(document)
    except pypdfium2.PdfiumError as error:
        raise ScrapeError("parse", f"the PDF document cannot be read: {error}") from error
    return (
        f"<!doctype html><html><head>{_head(info)}</head><body>{_body(pages)}{links}</body></html>"
    )


def _pages(document: Any) -> Iterator[list[_Line]]:
    characters_left = MAX_CHARACTERS
    for number in range(len(document)):
        with closing(document[number]) as page, closing(page.get_textpage()) as text:
            lines = list(_lines(text))
        yield lines
        characters_left -= sum(len(line.text) for line in lines)
        if characters_left < 0:
            return


def _lines(text: Any) -> Iterator[_Line]:
    """Read the lines of one page, with position and font size of their first characters."""
    from pypdfium2 import raw  # noqa: PLC0415 - as in pdf_page

    offset = 0
    left, right, bottom, top = c_double(), c_double(), c_double(), c_double()
    for line in text.get_text_range().split("\r\n"):
        if line.strip():
            raw.FPDFText_GetCharBox(text, offset, left, right, bottom, top)
            yield _Line(line.strip(" "), raw.FPDFText_GetFontSize(text, offset), top.value)
        offset += len(line) + 2


def _links(document: Any) -> str:
    """Write the links of all pages as an image map, which is no visible text."""
    targets = dict.fromkeys(islice(_targets(document), MAX_LINKS))
    areas = "".join(f'<area href="{escape(target)}">' for target in targets)
    return f"<map>{areas}</map>" if areas else ""


def _targets(document: Any) -> Iterator[str]:
    """Read the URLs of links, page by page."""
    from pypdfium2 import raw  # noqa: PLC0415 - as in pdf_page

    for number in range(min(len(document), MAX_PAGES)):
        with closing(document[number]) as page:
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


def _body(pages: list[list[_Line]]) -> str:
    sizes: Counter[float] = Counter()
    for line in (line for page in pages for line in page):
        sizes[round(line.size, 1)] += len(line.text)
    body = sizes.most_common(1)[0][0] if sizes else 0.0
    larger = sorted((size for size in sizes if size >= body * _HEADING_SIZE_RATIO), reverse=True)
    levels = {size: min(level, _MAX_HEADING_LEVEL) for level, size in enumerate(larger, 1)}
    return "".join(_to_html(level, text) for page in pages for level, text in _blocks(page, levels))


def _blocks(page: list[_Line], levels: dict[float, int]) -> Iterator[tuple[int, str]]:
    """Join the lines of a page to headings (level 1 and up) and paragraphs (level 0)."""
    level, text, previous = 0, "", None
    for line in page:
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
    if text.endswith(_HYPHENS):
        return text[:-1] + line
    return f"{text} {line}" if text else line


def _to_html(level: int, text: str) -> str:
    for hyphen in _HYPHENS:
        text = text.replace(hyphen, "")
    return f"<h{level}>{escape(text)}</h{level}>" if level else f"<p>{escape(text)}</p>"
