"""Converts e-books (.epub) to HTML: the documents of the spine, one after the other."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from webdata_nb.page.charset import decode_text, sniff_charset
from webdata_nb.page.content.parser import body_of, children_of, parse, remove_all, serialize
from webdata_nb.page.documents.archive import (
    DocumentArchive,
    attribute,
    child,
    children,
    descendants,
    read_part,
    text_below,
)
from webdata_nb.page.documents.converted_document import (
    MAX_CHARACTERS,
    ConvertedDocument,
    DocumentProperties,
)
from webdata_nb.page.errors import ScrapeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.page.content.parser import Document, Element
    from webdata_nb.page.documents.archive import XmlElement

_DOCUMENT_TYPES: Final = frozenset(
    {"application/xhtml+xml", "text/html", "application/x-dtbook+xml"}
)
# Obfuscated fonts are no protection of the text.
_FONT_ALGORITHMS: Final = (
    "http://www.idpf.org/2008/embedding",
    "http://ns.adobe.com/pdf/enc#RC",
)


def convert_epub(body: bytes) -> ConvertedDocument:
    """Convert an e-book.

    Raises
    ------
    ScrapeError
        `kind` is ``parse``: damaged, or protected against copying.
    """
    archive = DocumentArchive(body)
    container = read_part(archive, "META-INF/container.xml")
    paths = (attribute(file, "full-path") for file in descendants(container, "rootfile"))
    found = next(filter(None, paths), None)
    path = found or next((name for name in archive.names if name.endswith(".opf")), "")
    package = read_part(archive, path)
    if package is None:
        raise ScrapeError("parse", "the e-book has no package document")
    parts = list(_spine(package, posixpath.dirname(path)))
    encryption = read_part(archive, "META-INF/encryption.xml")
    for data in descendants(encryption, "EncryptedData"):
        algorithm = attribute(child(data, "EncryptionMethod"), "Algorithm") or ""
        reference = attribute(child(data, "CipherData", "CipherReference"), "URI") or ""
        if unquote(reference) in parts and algorithm not in _FONT_ALGORITHMS:
            raise ScrapeError("parse", "the e-book is protected against copying (DRM)")
    pieces: list[str] = []
    characters_left = MAX_CHARACTERS
    for part in parts:
        pieces.append(_read_document(archive, part, parts))
        characters_left -= len(pieces[-1])
        if characters_left < 0:
            break
    metadata: dict[str, Any] = {"truncated": True} if characters_left < 0 else {}
    html = _properties(package).to_html("".join(pieces))
    return ConvertedDocument(html, metadata=metadata)


def _spine(package: XmlElement, folder: str) -> Iterator[str]:
    """Yield the paths of the documents in reading order, each once."""
    items = {
        attribute(item, "id"): posixpath.normpath(
            posixpath.join(folder, unquote(attribute(item, "href") or ""))
        )
        for item in children(child(package, "manifest"), "item")
        if attribute(item, "media-type") in _DOCUMENT_TYPES
    }
    references = children(child(package, "spine"), "itemref")
    yield from dict.fromkeys(
        items[identifier]
        for reference in references
        if (identifier := attribute(reference, "idref")) in items
    )


def _read_document(archive: DocumentArchive, path: str, parts: list[str]) -> str:
    """Return the body of a document; its links into the book become links in the page."""
    body = archive.read(path)
    if body is None:
        return ""
    text = decode_text(body, sniff_charset(body, "application/xhtml+xml"))
    document = parse(text, xhtml=True)
    root = body_of(document)
    if root is None:
        return ""
    remove_all(list(document.iter_elements(("script", "style", "link", "base", "title", "meta"))))
    _rename_anchors(document, path, parts)
    return f"<div>{''.join(map(serialize, children_of(root)))}</div>"


def _rename_anchors(document: Document, path: str, parts: list[str]) -> None:
    """Make ids unique in the book, and point its inner links and pictures to them."""
    numbers = {part: number for number, part in enumerate(parts)}
    own = numbers[path]
    for element in document.iter_elements():
        if (identifier := element.attr("id")) is not None:
            element.attrs["id"] = f"part{own}-{identifier}"
    for link in document.iter_elements(("a",)):
        target = _inner_target(link, "href", path)
        if target is None:
            continue
        part, _, fragment = target.partition("#")
        if part in numbers and fragment:
            link.attrs["href"] = f"#part{numbers[part]}-{fragment}"
        else:
            del link.attrs["href"]
    for image in document.iter_elements(("img",)):
        source = _inner_target(image, "src", path)
        if source is None:
            continue
        if (image.attr("alt") or "").strip():
            image.attrs["src"] = f"#{source}"
        else:
            del image.attrs["src"]


def _inner_target(element: Element, name: str, path: str) -> str | None:
    """Return the path and fragment of a target in the book; None for targets outside of it."""
    target = (element.attr(name) or "").strip()
    if not target or ":" in target.partition("/")[0] or target.startswith("//"):
        return None
    file, mark, fragment = target.partition("#")
    if file:
        file = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(file)))
    return f"{file or path}{mark}{fragment}"


def _properties(package: XmlElement) -> DocumentProperties:
    metadata = child(package, "metadata")
    authors = ", ".join(filter(None, map(text_below, children(metadata, "creator"))))
    changed = (
        text_below(meta)
        for meta in children(metadata, "meta")
        if attribute(meta, "property") == "dcterms:modified"
    )
    # The description may be HTML.
    description = text_below(child(metadata, "description"))
    return DocumentProperties(
        title=text_below(child(metadata, "title")),
        author=authors,
        description=" ".join(parse(description).text.split()) if description else "",
        language=text_below(child(metadata, "language")),
        created=text_below(child(metadata, "date")),
        modified=next(changed, ""),
    )
