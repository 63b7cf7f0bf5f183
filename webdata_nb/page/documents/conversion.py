"""Converts documents of all types to HTML, which one parser reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webdata_nb.page.charset import decode_text, sniff_charset
from webdata_nb.page.content.parsed_page import ParsedPage, parse_converted_page
from webdata_nb.page.documents.converted_document import ConvertedDocument
from webdata_nb.page.documents.csv_table import convert_csv
from webdata_nb.page.documents.document_type import OFFICE_TYPES
from webdata_nb.page.documents.feed import convert_feed
from webdata_nb.page.documents.json_text import convert_json
from webdata_nb.page.documents.pdf import convert_pdf
from webdata_nb.page.documents.plain_text import convert_code, convert_plain_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from webdata_nb.page.content.page_source import PageSource
    from webdata_nb.page.documents.document_type import DocumentType


def parse_document(
    source: PageSource, document_type: DocumentType
) -> tuple[ParsedPage, ConvertedDocument]:
    """Convert a document to HTML and parse it.

    Raises
    ------
    ScrapeError
        `kind` is ``parse``: the document cannot be read; ``unsupported_type``: the extra
        ``documents`` is not installed.
    """
    if document_type == "pdf":
        document, charset = convert_pdf(source.body), None
    elif document_type in OFFICE_TYPES:
        document, charset = _convert_office_document(source.body, document_type), None
    else:
        charset = sniff_charset(source.body, source.content_type)
        text = decode_text(source.body, charset)
        document = _TEXT_CONVERTERS[document_type](text, source.final_url)
    return parse_converted_page(source, document.html, charset), document


def _convert_xml(text: str, _url: str) -> ConvertedDocument:
    return convert_code(text, "xml")


# The parsers of the other types are imported when the first document of the type arrives: most
# crawls have none.


def _convert_office_document(body: bytes, document_type: str) -> ConvertedDocument:
    from webdata_nb.page.documents.office import conversion  # noqa: PLC0415

    return conversion.convert_office_document(body, document_type)


def _convert_markdown(text: str, url: str) -> ConvertedDocument:
    from webdata_nb.page.documents.markdown import convert_markdown  # noqa: PLC0415

    return convert_markdown(text, url)


_TEXT_CONVERTERS: dict[DocumentType, Callable[[str, str], ConvertedDocument]] = {
    "csv": convert_csv,
    "feed": convert_feed,
    "json": convert_json,
    "markdown": _convert_markdown,
    "text": convert_plain_text,
    "xml": _convert_xml,
}
"""Functions from the text of a document and its URL to the converted document, by type."""
