"""A PDF document as an HTML page: headings by font size, paragraphs by the gaps between lines."""

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
"""Characters of text that are read from one document."""
MAX_LINKS = 10_000
"""Links that are read from one document, repeated ones counted."""
MAX_PAGES = 5000
"""Pages whose links are read."""

_HEADING_GROWTH = 1.15  # times the body's font size from which a short line is a heading
_LONGEST_HEADING = 150
_DEEPEST_HEADING = 4
_PARAGRAPH_GAP = 1.6  # times the font size between two lines from which a paragraph ends
_LEADER = ". . ."  # a table of contents leads the eye to its page numbers by dots
_HYPHENS = ("\x02", "\ufffe", "\xad")  # what pdfium puts where a word is broken at a line's end


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of text: its font size and its top, in points from the page's foot."""

    text: str
    size: float
    top: float


def pdf_to_html(body: bytes) -> str:
    """Write a PDF document as an HTML page.

    Not safe to call in two threads at once: pdfium keeps state of its own.

    Raises
    ------
    ScrapeError
        `kind` is ``parse``: the document is damaged or needs a password.
    """
    # A large library that most pages do without; it ships no types.
    import pypdfium2  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        with closing(pypdfium2.PdfDocument(body)) as document:
            about = document.get_metadata_dict()
            pages = list(_pages(document))
            links = _links(document)
    except pypdfium2.PdfiumError as error:
        raise ScrapeError("parse", f"the PDF document cannot be read: {error}") from error
    return (
        f"<!doctype html><html><head>{_head(about)}</head><body>{_body(pages)}{links}</body></html>"
    )


def _pages(document: Any) -> Iterator[list[_Line]]:
    left = MAX_CHARACTERS
    for number in range(len(document)):
        with closing(document[number]) as page, closing(page.get_textpage()) as text:
            lines = list(_lines(text))
        yield lines
        left -= sum(len(line.text) for line in lines)
        if left < 0:
            return


def _lines(text: Any) -> Iterator[_Line]:
    """Read the lines of one page, with where and how large each begins."""
    from pypdfium2 import raw  # noqa: PLC0415 - as in pdf_page

    at = 0
    left, right, bottom, top = c_double(), c_double(), c_double(), c_double()
    for line in text.get_text_range().split("\r\n"):
        if line.strip():
            raw.FPDFText_GetCharBox(text, at, left, right, bottom, top)
            yield _Line(line.strip(" "), raw.FPDFText_GetFontSize(text, at), top.value)
        at += len(line) + 2


def _links(document: Any) -> str:
    """Write the links of all pages as an image map: they lead somewhere and are no text."""
    found = dict.fromkeys(islice(_targets(document), MAX_LINKS))
    areas = "".join(f'<area href="{escape(target)}">' for target in found)
    return f"<map>{areas}</map>" if areas else ""


def _targets(document: Any) -> Iterator[str]:
    """Read the web addresses that links of the document open, page by page."""
    from pypdfium2 import raw  # noqa: PLC0415 - as in pdf_page

    for number in range(min(len(document), MAX_PAGES)):
        with closing(document[number]) as page:
            at, link = c_int(0), raw.FPDF_LINK()
            while raw.FPDFLink_Enumerate(page, at, link):
                action = raw.FPDFLink_GetAction(link)
                if action and raw.FPDFAction_GetType(action) == raw.PDFACTION_URI:
                    size = raw.FPDFAction_GetURIPath(document, action, None, 0)
                    written = create_string_buffer(size)
                    raw.FPDFAction_GetURIPath(document, action, written, size)
                    yield written.value.decode("utf-8", "replace")


def _head(about: dict[str, str]) -> str:
    parts = [f"<title>{escape(about['Title'])}</title>" if about.get("Title") else ""]
    for key, name in (("Author", "author"), ("Subject", "description")):
        if about.get(key):
            parts.append(f'<meta name="{name}" content="{escape(about[key])}">')
    if date := _date(about.get("CreationDate", "")):
        parts.append(f'<meta name="date" content="{date}">')
    return "".join(parts)


def _date(written: str) -> str:
    """Read ``D:20250208122313Z``, the day of it."""
    digits = written.removeprefix("D:")[:8]
    if len(digits) < 8 or not (digits.isascii() and digits.isdecimal()):  # noqa: PLR2004 - YYYYMMDD
        return ""
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:]}"


def _body(pages: list[list[_Line]]) -> str:
    sizes: Counter[float] = Counter()
    for line in (line for page in pages for line in page):
        sizes[round(line.size, 1)] += len(line.text)
    body = sizes.most_common(1)[0][0] if sizes else 0.0
    larger = sorted((size for size in sizes if size >= body * _HEADING_GROWTH), reverse=True)
    levels = {size: min(level, _DEEPEST_HEADING) for level, size in enumerate(larger, 1)}
    return "".join(_block(level, text) for page in pages for level, text in _blocks(page, levels))


def _blocks(page: list[_Line], levels: dict[float, int]) -> Iterator[tuple[int, str]]:
    """Join the lines of a page into headings (level 1 and up) and paragraphs (level 0)."""
    level, text, before = 0, "", None
    for line in page:
        own = levels.get(round(line.size, 1), 0) if _may_be_heading(line.text) else 0
        far = before is not None and abs(before.top - line.top) > _PARAGRAPH_GAP * max(
            line.size, before.size
        )
        if text and (own != level or far):
            yield level, text
            text = ""
        text = _joined(text, line.text)
        level, before = own, line
    if text:
        yield level, text


def _may_be_heading(text: str) -> bool:
    return len(text) <= _LONGEST_HEADING and _LEADER not in text


def _joined(text: str, line: str) -> str:
    if text.endswith(_HYPHENS):
        return text[:-1] + line
    return f"{text} {line}" if text else line


def _block(level: int, text: str) -> str:
    for hyphen in _HYPHENS:
        text = text.replace(hyphen, "")
    return f"<h{level}>{escape(text)}</h{level}>" if level else f"<p>{escape(text)}</p>"
