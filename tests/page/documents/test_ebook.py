"""E-books become one page: their chapters in reading order."""

from __future__ import annotations

import pytest

from tests.page.documents.office_files import ebook_file, markdown_of, scrape_file
from webdata_nb.page.errors import ScrapeError


def chapter(body: str) -> str:
    return (
        '<?xml version="1.0"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml" '
        'xmlns:epub="http://www.idpf.org/2007/ops"><head><title>no</title><style>p{}</style>'
        f'<link rel="stylesheet" href="a.css"/></head><body>{body}</body></html>'
    )


BOOK = {
    "text/one.xhtml": chapter(
        '<h1 id="top">Eins: Grüße</h1><p>text &amp; 世界<br/><a href="two.xhtml#x">inner</a> '
        '<a href="https://other.test/a?b=1&amp;c=2">site</a> <a href="two.xhtml">next</a></p>'
        "<script>no()</script><script/>"
    ),
    "text/two.xhtml": chapter(
        '<h1 id="x">Zwei</h1><ul><li>a<ol><li>b</li></ol></li></ul><table><tr><th>A</th><th>B</th>'
        '</tr><tr><td>1</td><td>2</td></tr></table><p><img src="../img/cat.png" alt="A red cat"/>'
        '<img src="../img/dot.png" alt=""/></p>'
    ),
}


def test_chapters_are_read_in_order() -> None:
    found = scrape_file(ebook_file(BOOK), "application/epub+zip")
    assert found.formats["markdown"] == (
        "# Eins: Grüße\n\ntext & 世界  \n[inner](http://site.test/dir/file#part1-x) "
        "[site](https://other.test/a?b=1&c=2) next\n\n# Zwei\n\n- a\n  1. b\n\n"
        "| A | B |\n| --- | --- |\n| 1 | 2 |\n\n"
        "![A red cat](http://site.test/dir/file#OEBPS/img/cat.png)"
    )
    assert [each.url for each in found.outlinks] == ["https://other.test/a?b=1&c=2"]
    expected = {
        "title": "The book",
        "author": "Ann, Ben",
        "language": "en",
        "published": "2024-05-06",
        "description": "About",
        "rung": "epub",
    }
    assert found.metadata | expected == found.metadata
    assert [each["text"] for each in found.formats["headings"]] == ["Eins: Grüße", "Zwei"]


def test_chapters_that_are_missing_or_broken_do_not_matter() -> None:
    broken = {"one.xhtml": "<html><body><p>open <b>text", "two.xhtml": ""}
    assert markdown_of(ebook_file(broken)) == "open **text**"
    assert markdown_of(ebook_file({})) == ""


@pytest.mark.parametrize(
    "head", ["<title/>", '<script src="s.js"/>', "<style/>", "<title>x</title>"]
)
def test_empty_elements_do_not_hide_the_chapter(head: str) -> None:
    text = (
        f'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head>{head}</head>'
        '<body><a id="p"/><p>A <ruby>漢<rt>かん</rt></ruby><i/> text</p></body></html>'
    )
    assert markdown_of(ebook_file({"one.xhtml": text})) == "A 漢(かん) text"


def protection(algorithm: str, path: str) -> dict[str, str]:
    return {
        "META-INF/encryption.xml": "<encryption><EncryptedData>"
        f'<EncryptionMethod Algorithm="{algorithm}"/>'
        f'<CipherData><CipherReference URI="{path}"/></CipherData></EncryptedData></encryption>'
    }


def test_protected_books_are_failures_but_obfuscated_fonts_are_not() -> None:
    fonts = protection("http://www.idpf.org/2008/embedding", "OEBPS/font.otf")
    assert "Zwei" in markdown_of(ebook_file(BOOK, fonts))
    drm = protection("http://www.w3.org/2001/04/xmlenc#aes128-cbc", "OEBPS/text/one.xhtml")
    with pytest.raises(ScrapeError, match="DRM") as raised:
        markdown_of(ebook_file(BOOK, drm))
    assert raised.value.kind == "parse"


def test_picture_only_ebook_reports_low_confidence() -> None:
    pages = {"one.xhtml": chapter('<p><img src="a.png" alt="A scanned page"/></p>')}
    found = scrape_file(ebook_file(pages), "application/epub+zip").quality
    assert (found["low_confidence"], found["reason"]) == (True, "pictures only")
