"""Builds office documents and e-books from XML, and scrapes them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

from tests.page.pages import page_source
from webdata_nb.page.scrape.page import ConversionOptions, Scraped, scrape

FORMATS = ("markdown", "links", "images", "headings", "html", "raw_html")
URL = "http://site.test/dir/file"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
RELATED = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
MATH = "http://schemas.openxmlformats.org/officeDocument/2006/math"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
OPEN = "urn:oasis:names:tc:opendocument:xmlns:"

Members = Mapping[str, str | bytes]


def archive(members: Members, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Write a ZIP archive."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as target:
        for name, content in members.items():
            target.writestr(name, content)
    return file.getvalue()


def scrape_file(
    body: bytes, content_type: str | None = "application/octet-stream", *formats: str
) -> Scraped:
    """Scrape a document, by default sent with the least precise type."""
    source = page_source(body, url=URL, content_type=content_type)
    return scrape(source, ConversionOptions(formats or FORMATS))


def markdown_of(body: bytes) -> str:
    """Return a document's Markdown."""
    text = scrape_file(body).formats["markdown"]
    assert isinstance(text, str)
    return text


def relationships(**targets: str) -> str:
    """Write relationships: id=``kind target``; a target with a scheme is external."""
    written = []
    for identifier, text in targets.items():
        kind, target = text.split(" ", 1)
        mode = ' TargetMode="External"' if ":" in target or kind == "hyperlink" else ""
        written.append(
            f'<Relationship Id="{identifier}" Type="{RELATED}/{kind}" Target="{target}"{mode}/>'
        )
    inner = "".join(written)
    return f'<Relationships xmlns="{PACKAGE}/relationships">{inner}</Relationships>'


def core_properties(title: str = "", creator: str = "") -> str:
    return (
        f'<cp:coreProperties xmlns:cp="{PACKAGE}/metadata/core-properties"'
        ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/">'
        f"<dc:title>{title}</dc:title><dc:creator>{creator}</dc:creator>"
        "<dc:description>About it</dc:description>"
        "<dcterms:created>2024-05-06T07:08:09Z</dcterms:created>"
        "<dcterms:modified>2025-06-07T08:09:10Z</dcterms:modified></cp:coreProperties>"
    )


def word_part(element: str, inner: str) -> str:
    """Write a part of a Word document."""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><w:{element} xmlns:w="{WORD}" xmlns:r="{RELATED}"'
        f' xmlns:m="{MATH}" xmlns:a="{DRAWING}" xmlns:wp="wp" xmlns:wps="wps"'
        f' xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">'
        f"{inner}</w:{element}>"
    )


def word_file(body: str, members: Members | None = None, **related: str) -> bytes:
    """Write a Word document; `related` are the relationships of its main part."""
    return archive(
        {
            "[Content_Types].xml": "<Types/>",
            "_rels/.rels": relationships(a="officeDocument word/document.xml"),
            "word/document.xml": word_part("document", f"<w:body>{body}</w:body>"),
            "word/_rels/document.xml.rels": relationships(**related),
            "docProps/core.xml": core_properties("The title", "Ann Author"),
            "docProps/app.xml": "<Properties><Pages>7</Pages></Properties>",
            **(members or {}),
        }
    )


def paragraph(text: str, properties: str = "") -> str:
    """Write a paragraph of a Word document with one run."""
    return f"<w:p><w:pPr>{properties}</w:pPr>{run(text)}</w:p>"


def run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def open_part(element: str, inner: str) -> str:
    """Write a part of an OpenDocument file."""
    names = ("office", "text", "table", "style", "draw", "presentation", "meta", "number")
    spaces = " ".join(f'xmlns:{name}="{OPEN}{name}:1.0"' for name in names)
    return (
        f'<office:{element} {spaces} xmlns:fo="{OPEN}xsl-fo-compatible:1.0"'
        f' xmlns:svg="{OPEN}svg-compatible:1.0" xmlns:xlink="http://www.w3.org/1999/xlink"'
        f' xmlns:dc="http://purl.org/dc/elements/1.1/">{inner}</office:{element}>'
    )


def open_file(kind: str, body: str, *, styles: str = "", members: Members | None = None) -> bytes:
    """Write an OpenDocument file of the kind text, spreadsheet or presentation."""
    content = (
        f"<office:automatic-styles>{styles}</office:automatic-styles>"
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body>"
    )
    meta = (
        "<office:meta><dc:title>The title</dc:title>"
        "<meta:initial-creator>Ann</meta:initial-creator>"
        "<meta:creation-date>2024-05-06T07:08:09</meta:creation-date><dc:language>de</dc:language>"
        '<meta:document-statistic meta:page-count="3"/></office:meta>'
    )
    return archive(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": open_part("document-content", content),
            "meta.xml": open_part("document-meta", meta),
            "META-INF/manifest.xml": "<manifest/>",
            **(members or {}),
        }
    )


def ebook_file(chapters: Mapping[str, str], members: Members | None = None) -> bytes:
    """Write an e-book; the chapters are XHTML by path, in reading order."""
    items = "".join(
        f'<item id="c{number}" href="{path}" media-type="application/xhtml+xml"/>'
        for number, path in enumerate(chapters)
    )
    spine = "".join(f'<itemref idref="c{number}"/>' for number in range(len(chapters)))
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        "<metadata><dc:title>The book</dc:title><dc:creator>Ann</dc:creator>"
        "<dc:creator>Ben</dc:creator><dc:language>en</dc:language><dc:date>2024-05-06</dc:date>"
        "<dc:description>&lt;p>About&lt;/p></dc:description></metadata>"
        f"<manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    container = (
        '<container><rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
    )
    pages = {f"OEBPS/{path}": text for path, text in chapters.items()}
    return archive(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": container,
            "OEBPS/book.opf": package,
            **pages,
            **(members or {}),
        }
    )
