"""Documents other than HTML: detects their type, and converts them to HTML, which one parser reads.

Other packages import the names of this package from here only.
"""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from webdata_nb.page.charset import decode_text, sniff_charset
from webdata_nb.page.content.parsed_page import ParsedPage, parse_converted_page
from webdata_nb.page.documents.converted_document import ConvertedDocument
from webdata_nb.page.errors import ScrapeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webdata_nb.page.content.page_source import FetchedResponse


__all__ = ["ConvertedDocument", "DocumentType", "detect_document_type", "parse_document"]

_TEXT_CONVERTERS: Final[dict[DocumentType, str]] = {
    "csv": "text.convert_csv",
    "feed": "text.convert_feed",
    "json": "text.convert_json",
    "markdown": "text.convert_markdown",
    "text": "text.convert_plain_text",
    "xml": "text.convert_xml",
}
"""Functions from the text of a document and its URL to the converted document."""
_BINARY_CONVERTERS: Final[dict[DocumentType, str]] = {
    "pdf": "pdf.convert_pdf",
    "docx": "word.convert_word",
    "xlsx": "spreadsheet.convert_spreadsheet",
    "pptx": "presentation.convert_presentation",
    "odt": "open_document.convert_open_document",
    "ods": "open_document.convert_open_document",
    "odp": "open_document.convert_open_document",
    "epub": "open_document.convert_epub",
}
"""Functions from the body of a document to the converted document."""


def parse_document(
    source: FetchedResponse, document_type: DocumentType
) -> tuple[ParsedPage, ConvertedDocument]:
    """Convert a document to HTML and parse it.

    The converters are imported when the first document of their type arrives: most crawls have
    none.

    Raises
    ------
    ScrapeError
        `kind` is ``parse``: the document cannot be read; ``unsupported_type``: the extra
        ``documents`` is not installed.
    """
    path = _BINARY_CONVERTERS.get(document_type) or _TEXT_CONVERTERS[document_type]
    module, _, name = path.partition(".")
    convert = getattr(import_module(f"{__name__}.{module}"), name)
    charset = None
    if document_type in _BINARY_CONVERTERS:
        document: ConvertedDocument = convert(source.body)
    else:
        charset = sniff_charset(source.body, source.content_type)
        document = convert(decode_text(source.body, charset), source.final_url)
    return parse_converted_page(source, document.html, charset), document


OfficeType: TypeAlias = Literal["docx", "xlsx", "pptx", "odt", "ods", "odp", "epub"]

_ARCHIVE_MAGIC: Final = b"PK\x03\x04"
_LEGACY_MAGIC: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # OLE compound file
_RTF_MAGIC: Final = b"{\\rtf"
_OFFICE_XML: Final = "application/vnd.openxmlformats-officedocument."
_OPEN_DOCUMENT: Final = "application/vnd.oasis.opendocument."
_EBOOK: Final = "application/epub+zip"
_LEGACY_TYPES: Final = frozenset(
    {"application/msword", "application/vnd.ms-excel", "application/vnd.ms-powerpoint"}
)
"""Types of the binary formats. Servers also send them for newer formats, HTML and text."""
_MEDIA: Final = ("image/", "audio/", "video/", "font/")
_OPEN_DOCUMENT_TYPES: Final[dict[str, OfficeType]] = {
    "text": "odt",
    "spreadsheet": "ods",
    "presentation": "odp",
    "graphics": "odp",
}
_FOLDERS: Final[dict[str, OfficeType]] = {"word/": "docx", "xl/": "xlsx", "ppt/": "pptx"}
# Streams of compound files; their names are stored in UTF-16.
_STREAMS: Final = {
    "WordDocument": "Word 97-2003 documents (.doc) cannot be read, .docx can",
    "Workbook": "Excel 97-2003 workbooks (.xls) cannot be read, .xlsx can",
    "PowerPoint Document": "PowerPoint 97-2003 presentations (.ppt) cannot be read, .pptx can",
}

DocumentType = Literal["html", "feed", "json", "xml", "text", "markdown", "csv", "pdf"] | OfficeType

_SNIFFED_BYTES = 1024
_TYPES: Final = tomllib.loads(Path(__file__).with_name("types.toml").read_text("utf-8"))
_VAGUE_TYPES: Final = frozenset(_TYPES["vague"])
_TEXT_SUBTYPES: Final[dict[str, DocumentType]] = _TYPES["text_subtypes"]
_PATH_ENDS: Final[dict[str, DocumentType]] = _TYPES["path_ends"]
# Markdown by its definition (llmstxt.org).
_LLMS_FILES = ("/llms.txt", "/llms-full.txt")
_JSON_FEED = b"jsonfeed.org/version/"
_FEED_ROOT = re.compile(rb"<(?:rss|feed|rdf:RDF)[\s>]", re.IGNORECASE)
_HTML_ROOT = re.compile(rb"<(?:!doctype\s+html|html)[\s>]", re.IGNORECASE)
_HTML_START = re.compile(
    rb"<(?:!doctype\s+html|html|head|body|title|meta|script|style|h1|div|p|table|a|b|br|ul|font"
    rb"|iframe|article|section|main|nav|header|!--)[\s>/-]",
    re.IGNORECASE,
)
# "Binary data bytes" of the MIME Sniffing standard: no text contains them.
_BINARY = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def detect_document_type(source: FetchedResponse) -> DocumentType:
    """Detect a document type: by the signature of the body, else by the Content-Type.

    Only a type that says nothing leaves the decision to the path and the first bytes.

    Raises
    ------
    ScrapeError
        `kind` is ``unsupported_type``: no supported document; or ``parse``: declared as PDF,
        but it is none.
    """
    declared = (source.content_type or "").partition(";")[0].strip().lower()
    start = source.body[:_SNIFFED_BYTES]
    # Some servers send PDF files behind other bytes. A text may mention the signature, but no text
    # begins with it.
    if b"%PDF-" in start and (
        declared in _TYPES["pdf"]
        or (declared in _VAGUE_TYPES and declared != "text/plain")
        or _without_mark(start).lstrip().startswith(b"%PDF-")
    ):
        return "pdf"
    office_type = _office_type(source.body, declared)
    if office_type is not None:
        return office_type
    if declared in _TYPES["html"]:
        return "feed" if _FEED_ROOT.match(_without_prolog(start)) else "html"
    if declared in _VAGUE_TYPES or declared in _LEGACY_TYPES:
        unmarked = _without_mark(start)
        text = unmarked.lstrip()
        if _HTML_ROOT.match(text):
            return "html"
        if text.startswith(b"<?xml") or _FEED_ROOT.match(text):
            return _xml_type(start)
        by_path = _by_path(source.final_url)
        is_markup = declared != "text/plain" and _HTML_START.match(text) is not None
        if is_markup and by_path != "markdown":  # which may begin with HTML
            return "html"
        if unmarked == start and _BINARY.search(start):
            raise ScrapeError("unsupported_type", "the body is binary data of no declared type")
        if by_path is not None:
            return by_path
        if declared != "text/plain" and text[:1] in {b"{", b"["}:
            return "feed" if _JSON_FEED in start else "json"
        return "text"
    if _HTML_ROOT.match(_without_mark(start).lstrip()):
        return "html"  # a page in place of the declared document, often one about an error
    if declared in _TYPES["pdf"]:
        raise ScrapeError("parse", "declared as PDF, but it does not begin as one")
    subtype = declared.partition("/")[2]
    if declared.startswith(("text/", "application/")):
        document_type = _TEXT_SUBTYPES.get(subtype.removeprefix("x-"))
        if document_type is not None:
            return document_type
    if declared in _TYPES["feed"]:
        return "feed"
    if subtype == "json" or subtype.endswith("+json") or subtype in _TYPES["json_lines"]:
        return "feed" if _JSON_FEED in start else "json"
    if not declared.startswith(_MEDIA):
        if subtype == "xml" or subtype.endswith("+xml"):
            return _xml_type(start)
        if declared.startswith("text/"):
            return "text"
    raise ScrapeError("unsupported_type", f"pages of type {declared} cannot be read")


def _without_mark(start: bytes) -> bytes:
    """Return the first bytes without a byte order mark."""
    for mark in _BYTE_ORDER_MARKS:
        start = start.removeprefix(mark)
    return start


def _by_path(url: str) -> DocumentType | None:
    """Return the type that the extension of a URL's path suggests."""
    path = url.partition("#")[0].partition("?")[0].lower()
    if path.endswith(_LLMS_FILES):
        return "markdown"
    _, dot, end = path.removesuffix(".txt").rpartition("/")[2].rpartition(".")
    return _PATH_ENDS.get(end) if dot else None


def _xml_type(start: bytes) -> DocumentType:
    root = _without_prolog(start)
    if _HTML_ROOT.match(root):
        return "html"
    return "feed" if _FEED_ROOT.match(root) else "xml"


def _without_prolog(start: bytes) -> bytes:
    """Return an XML document from its first element or document type on."""
    position = 0
    while (position := start.find(b"<", position)) >= 0:
        if start.startswith(b"<!--", position):
            position = max(start.find(b"-->", position), position + 1)
        elif start.startswith(b"<?", position):
            position = max(start.find(b"?>", position), position + 1)
        else:
            return start[position:]
    return b""


def _office_type(body: bytes, declared: str) -> OfficeType | None:
    """Detect an office document or e-book; None for any other document.

    The content decides: servers send these documents with many types. `declared` is the media type
    in lower case.

    Raises
    ------
    ScrapeError
        `kind` is ``unsupported_type``: an office format that cannot be read; or ``parse``: damaged,
        encrypted, or declared as a document that it is not.
    """
    if declared.startswith(_MEDIA):
        return None
    if body.startswith(_LEGACY_MAGIC):
        if "EncryptedPackage".encode("utf-16-le") in body:
            raise ScrapeError("parse", "the document is encrypted with a password")
        for stream, message in _STREAMS.items():
            if stream.encode("utf-16-le") in body:
                raise ScrapeError("unsupported_type", message)
        raise ScrapeError("unsupported_type", "OLE compound files cannot be read")
    if body.startswith(_RTF_MAGIC) and not declared.startswith("text/"):
        raise ScrapeError("unsupported_type", "RTF documents cannot be read")
    is_declared = declared.startswith((_OFFICE_XML, _OPEN_DOCUMENT, _EBOOK))
    if not body.startswith(_ARCHIVE_MAGIC):
        if is_declared:
            raise ScrapeError("parse", f"declared as {declared}, but it is no ZIP archive")
        return None
    # Imported late: most crawls have no archives.
    from webdata_nb.page.documents.archive import DocumentArchive  # noqa: PLC0415

    archive = DocumentArchive(body)
    media_type = (archive.read("mimetype") or b"")[:100].decode("ascii", "replace").strip()
    if media_type == _EBOOK:
        return "epub"
    if media_type.startswith(_OPEN_DOCUMENT):
        kind = media_type.removeprefix(_OPEN_DOCUMENT).partition("-")[0]
        if kind not in _OPEN_DOCUMENT_TYPES:
            raise ScrapeError("unsupported_type", f"documents of type {media_type} cannot be read")
        return _OPEN_DOCUMENT_TYPES[kind]
    office_type = _by_names(archive.names)
    if office_type is None and is_declared:
        raise ScrapeError("parse", f"declared as {declared}, but the archive has no such document")
    return office_type


def _by_names(names: Sequence[str]) -> OfficeType | None:
    if "xl/workbook.bin" in names:
        message = "binary Excel workbooks (.xlsb) cannot be read, .xlsx can"
        raise ScrapeError("unsupported_type", message)
    for folder, office_type in _FOLDERS.items():
        if any(name.startswith(folder) for name in names):
            return office_type
    if "meta-inf/container.xml" in names:
        return "epub"
    if "content.xml" in names and "meta-inf/manifest.xml" in names:
        return "odt"
    if any(name.endswith(".iwa") for name in names):
        message = "documents of Pages, Numbers and Keynote cannot be read"
        raise ScrapeError("unsupported_type", message)
    return None
