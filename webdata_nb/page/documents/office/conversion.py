"""Converts office documents and e-books to HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from webdata_nb.page.documents.office.archive import DocumentArchive
from webdata_nb.page.documents.office.ebook import convert_ebook
from webdata_nb.page.documents.office.open_document import convert_open_document
from webdata_nb.page.documents.office.presentation import convert_presentation
from webdata_nb.page.documents.office.spreadsheet import convert_spreadsheet
from webdata_nb.page.documents.office.word import convert_word

if TYPE_CHECKING:
    from collections.abc import Callable

    from webdata_nb.page.documents.converted_document import ConvertedDocument

_CONVERTERS: Final[dict[str, Callable[[DocumentArchive], ConvertedDocument]]] = {
    "docx": convert_word,
    "xlsx": convert_spreadsheet,
    "pptx": convert_presentation,
    "odt": convert_open_document,
    "ods": convert_open_document,
    "odp": convert_open_document,
    "epub": convert_ebook,
}


def convert_office_document(body: bytes, office_type: str) -> ConvertedDocument:
    """Convert a document.

    Raises
    ------
    ScrapeError
        `kind` is ``parse``: damaged, encrypted or too large; ``unsupported_type``: the extra
        ``documents`` is not installed.
    """
    return _CONVERTERS[office_type](DocumentArchive(body))
