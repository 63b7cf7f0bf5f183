"""Detects office documents and e-books by the members of their archives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from webdata_nb.page.errors import ScrapeError

if TYPE_CHECKING:
    from collections.abc import Sequence

OfficeType: TypeAlias = Literal["docx", "xlsx", "pptx", "odt", "ods", "odp", "epub"]

_ARCHIVE_MAGIC: Final = b"PK\x03\x04"
_LEGACY_MAGIC: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # OLE compound file
_RTF_MAGIC: Final = b"{\\rtf"
_OFFICE_XML: Final = "application/vnd.openxmlformats-officedocument."
_OPEN_DOCUMENT: Final = "application/vnd.oasis.opendocument."
_EBOOK: Final = "application/epub+zip"
LEGACY_TYPES: Final = frozenset(
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


def detect_office_type(body: bytes, declared: str) -> OfficeType | None:
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
        raise _compound_file_error(body)
    if body.startswith(_RTF_MAGIC) and not declared.startswith("text/"):
        raise ScrapeError("unsupported_type", "RTF documents cannot be read")
    is_declared = declared.startswith((_OFFICE_XML, _OPEN_DOCUMENT, _EBOOK))
    if not body.startswith(_ARCHIVE_MAGIC):
        if is_declared:
            raise ScrapeError("parse", f"declared as {declared}, but it is no ZIP archive")
        return None
    return _type_of_archive(body, declared if is_declared else "")


def _type_of_archive(body: bytes, declared: str) -> OfficeType | None:
    # Imported late: most crawls have no archives.
    from webdata_nb.page.documents.office.archive import DocumentArchive  # noqa: PLC0415

    archive = DocumentArchive(body)
    office_type = _by_media_type((archive.read("mimetype") or b"")[:100]) or _by_names(
        archive.names
    )
    if office_type is None and declared:
        raise ScrapeError("parse", f"declared as {declared}, but the archive has no such document")
    return office_type


def _by_media_type(content: bytes) -> OfficeType | None:
    """Return the type that the member ``mimetype`` of the archive declares."""
    media_type = content.decode("ascii", "replace").strip()
    if media_type == _EBOOK:
        return "epub"
    if not media_type.startswith(_OPEN_DOCUMENT):
        return None
    kind = media_type.removeprefix(_OPEN_DOCUMENT).partition("-")[0]
    if kind not in _OPEN_DOCUMENT_TYPES:
        raise ScrapeError("unsupported_type", f"documents of type {media_type} cannot be read")
    return _OPEN_DOCUMENT_TYPES[kind]


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


def _compound_file_error(body: bytes) -> ScrapeError:
    """Return the error for a compound file: a legacy format, or an encrypted new one."""
    if "EncryptedPackage".encode("utf-16-le") in body:
        return ScrapeError("parse", "the document is encrypted with a password")
    for stream, message in _STREAMS.items():
        if stream.encode("utf-16-le") in body:
            return ScrapeError("unsupported_type", message)
    return ScrapeError("unsupported_type", "OLE compound files cannot be read")
