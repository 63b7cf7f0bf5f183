"""Document type detection, and conversion of PDF, feeds, JSON, XML and text."""

from __future__ import annotations

import pytest

from tests.page.pages import URL, page_source
from webdata_nb.page.documents import detect_document_type
from webdata_nb.page.errors import ScrapeError
from webdata_nb.page.scrape.page import ConversionOptions, Scraped, scrape

ALL_FORMATS = ("markdown", "html", "raw_html", "links", "images", "headings", "structured_data")
RSS = b"""<?xml version="1.0"?><rss version="2.0"><channel><title>News &amp; more</title>
<link>http://site.test/</link><description>Daily</description><item><title>One &lt;b&gt;</title>
<link>/1</link><pubDate>Mon, 06 May 2024 07:08:09 GMT</pubDate>
<description>&lt;p&gt;Text &lt;i&gt;in&lt;/i&gt; &lt;img src="p.png"&gt;&lt;/p&gt;</description>
</item></channel></rss>"""
ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><title>A</title><entry><title>E</title>
<link href="e"/><author><name>Ann</name></author><content type="html">&lt;p&gt;c</content></entry>
</feed>"""


def scrape_document(body: bytes, content_type: str | None, *formats: str) -> Scraped:
    return scrape(
        page_source(body, content_type=content_type), ConversionOptions(formats or ALL_FORMATS)
    )


def build_pdf(*pages: list[tuple[int, str]], actions: tuple[str, ...] = ()) -> bytes:
    """Write a PDF document: each page is a list of (font size, line), from the top down.

    Each page has a link for each of `actions`.
    """
    annotations = " ".join(
        f"<< /Type /Annot /Subtype /Link /Rect [50 700 90 720] /A << {each} >> >>"
        for each in actions
    )
    count = len(pages)
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, lines in enumerate(pages):
        drawn, y = [], 760
        for size, line in lines:
            drawn.append(f"BT /F1 {size} Tf 50 {y} Td ({line}) Tj ET" if line else "")
            y -= int(size * 1.2) if line else 30
        stream = "\n".join(drawn)
        objects += [
            (
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800]"
                f" /Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * number} 0 R"
                f" /Annots [{annotations}] >>"
            ),
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    objects.append("<< /Title (The title) /Author (Ann) /CreationDate (D:20240506070809Z) >>")
    body, offsets = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{each}\nendobj\n".encode()
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    trailer = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R >>"
    return (
        body
        + (
            f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}\n"
            f"startxref\n{len(body)}\n%%EOF"
        ).encode()
    )


def test_pdf_headings_by_font_size_and_paragraphs_by_gaps() -> None:
    body = build_pdf(
        [(24, "Big title"), (12, "One line"), (12, "and its end."), (0, ""), (12, "Another.")],
        [(18, "Section"), (12, "Last words.")],
    )
    found = scrape_document(body, "application/pdf")
    assert found.formats["markdown"] == (
        "# Big title\n\nOne line and its end.\n\nAnother.\n\n## Section\n\nLast words."
    )
    assert [each["text"] for each in found.formats["headings"]] == ["Big title", "Section"]
    assert found.formats["raw_html"] == ""
    assert (
        found.metadata
        | {
            "title": "The title",
            "author": "Ann",
            "published": "2024-05-06",
            "rung": "pdf",
            "charset": None,
        }
        == found.metadata
    )


def test_pdf_links_are_outlinks_but_not_text() -> None:
    targets = ("https://other.test/a?b=1&c=2", "mailto:ann@other.test", "next.pdf#page=2")
    actions = (*(f"/S /URI /URI ({each})" for each in targets), "/S /JavaScript /JS (x)", "")
    found = scrape_document(
        build_pdf([(12, "One")], [(12, "Two")], actions=actions), "application/pdf"
    )
    whole = ["https://other.test/a?b=1&c=2", "http://site.test/dir/next.pdf#page=2"]
    assert found.formats["links"] == whole
    assert [each.url for each in found.outlinks] == [each.partition("#")[0] for each in whole]
    assert found.formats["markdown"] == "One\n\nTwo"
    assert scrape_document(build_pdf([(12, "One")]), "application/pdf").formats["links"] == []


def test_damaged_pdf_is_a_parse_error() -> None:
    for body in (b"%PDF-1.4 broken", build_pdf([(12, "x")])[:200]):
        with pytest.raises(ScrapeError) as raised:
            scrape_document(body, "application/pdf")
        assert raised.value.kind == "parse"


def test_feed_entries_become_content() -> None:
    found = scrape_document(RSS, "application/rss+xml")
    assert found.title == "News & more"
    assert found.formats["markdown"] == (
        "# [News & more](http://site.test/)\n\nDaily\n\n## [One \\<b>](http://site.test/1)\n\n"
        "Mon, 06 May 2024 07:08:09 GMT\n\nText *in* ![](http://site.test/dir/p.png)"
    )
    assert found.formats["links"] == ["http://site.test/", "http://site.test/1"]
    assert found.formats["raw_html"] == RSS.decode()
    assert [each.url for each in found.outlinks] == found.formats["links"]
    assert found.metadata["rung"] == "feed"
    atom = scrape_document(ATOM, "text/html")
    assert atom.formats["markdown"] == "# A\n\n## [E](http://site.test/dir/e)\n\nAnn\n\nc"


def test_json_and_xml_become_code_blocks() -> None:
    assert scrape_document(b'{"a": 1}', "application/json").formats["markdown"] == (
        '```json\n{"a": 1}\n```'
    )
    found = scrape_document(b"<?xml version='1.0'?><a>1 &lt; 2</a>", "text/xml")
    assert found.formats["markdown"] == "```xml\n<?xml version='1.0'?><a>1 &lt; 2</a>\n```"
    assert found.text == "<?xml version='1.0'?><a>1 &lt; 2</a>"


def test_plain_text_is_unchanged() -> None:
    found = scrape_document("ü *a* <b>\n  two".encode(), "text/plain; charset=utf-8")
    assert found.formats["markdown"] == found.text == "ü *a* <b>\n  two"
    assert "&lt;b&gt;" in found.formats["html"]
    assert found.formats["links"] == []
    assert found.metadata["rung"] == "text"


@pytest.mark.parametrize(
    ("content_type", "body", "kind"),
    [
        (None, b"<!DOCTYPE html><p>x", "html"),
        (None, b"\xef\xbb\xbf  <div>x", "html"),
        (None, b"plain", "text"),
        (None, b"", "text"),
        (None, b'{"a": 1}', "json"),
        (None, b"%PDF-1.7", "pdf"),
        (None, b"\xff\xfea\x00b\x00", "text"),
        ("", b"<!-- c --><p>", "html"),
        ("text/html", b"", "html"),
        ("TEXT/HTML;charset=x", b"\x00\x01", "html"),
        ("application/octet-stream", b"<html>", "html"),
        ("text/plain", b"<html><p>", "html"),
        ("text/plain", b"<p>text about tags", "text"),
        ("text/plain", b'{"a": 1}', "text"),
        ("text/plain", b"<?xml version='1.0'?><rss version='2.0'>", "feed"),
        ("text/xml", b"<?xml version='1.0'?><!-- c --><?p i?><html xmlns='x'>", "html"),
        ("application/xml", b"<!-- unclosed <rss", "xml"),
        ("application/xhtml+xml", b"<html>", "html"),
        ("application/ld+json", b"{}", "json"),
        ("application/atom+xml", b"", "feed"),
        ("text/x-log", b"# x", "text"),
    ],
)
def test_document_type_detection(content_type: str | None, body: bytes, kind: str) -> None:
    assert detect_document_type(page_source(body, content_type=content_type)) == kind


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("image/png", b"\x89PNG"),
        ("image/svg+xml", b"<svg/>"),
        ("application/zip", b"PK"),
        ("video/mp4", b""),
        (None, b"\x89PNG\r\n\x1a\n\x00"),
        ("application/octet-stream", b"MZ\x00\x01"),
    ],
)
def test_unsupported_types_are_rejected(content_type: str | None, body: bytes) -> None:
    with pytest.raises(ScrapeError) as raised:
        scrape_document(body, content_type)
    assert raised.value.kind == "unsupported_type"


def test_invalid_feed_is_shown_as_xml() -> None:
    found = scrape_document(b"<oops>", "application/rss+xml", "markdown")
    assert found.formats["markdown"] == "```xml\n<oops>\n```"
    assert URL in found.metadata["final_url"]
