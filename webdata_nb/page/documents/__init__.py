"""Documents other than HTML: detects their type, and converts them to HTML, which one parser reads.

This is the door of the package: other packages import its names from here only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from webdata_nb.page.charset import decode_text, sniff_charset
from webdata_nb.page.content.parsed_page import ParsedPage, parse_converted_page
from webdata_nb.page.documents.converted_document import ConvertedDocument
from webdata_nb.page.documents.document_type import DocumentType, detect_document_type

if TYPE_CHECKING:
    from webdata_nb.page.content.page_source import PageSource

__all__ = ["ConvertedDocument", "DocumentType", "detect_document_type", "parse_document"]

_TEXT_CONVERTERS: Final[dict[DocumentType, str]] = {
    "csv": "csv_table.convert_csv",
    "feed": "feeds.convert_feed",
    "json": "text.convert_json",
    "markdown": "markdown.convert_markdown",
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
    "epub": "epub.convert_epub",
}
"""Functions from the body of a document to the converted document."""


def parse_document(
    source: PageSource, document_type: DocumentType
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
