"""Plain text, JSON, CSV and feeds: their titles, links and limits, and how a type is detected."""

from __future__ import annotations

import pytest

from tests.page.documents.text_documents import FORMATS, links_of, scrape_text
from tests.page.pages import page_source, scrape_in_worker
from webdata_nb.page.documents import detect_document_type
from webdata_nb.page.documents.text import MAX_CELLS, MAX_CODE_CHARACTERS, MAX_ROWS, find_urls
from webdata_nb.page.errors import ScrapeError
from webdata_nb.page.scrape.page import ConversionOptions

SITE = "http://site.test/"


@pytest.mark.parametrize(
    ("content_type", "path", "kind"),
    [
        ("text/markdown", "page", "markdown"),
        ("text/x-markdown; charset=utf-8", "page.html", "markdown"),
        ("TEXT/X-Web-Markdown", "page", "markdown"),
        ("application/markdown", "page", "markdown"),
        ("text/plain", "README.md", "markdown"),
        ("text/plain; charset=utf-8", "a/GUIDE.MDX?raw=1#x", "markdown"),
        ("application/octet-stream", "page.markdown", "markdown"),
        ("", "page.md", "markdown"),
        (None, "page.md", "markdown"),
        (None, "llms.txt", "markdown"),
        ("text/plain", "docs/llms-full.txt", "markdown"),
        ("text/plain", "my-llms.txt", "text"),
        ("text/plain", "_sources/page.md.txt", "markdown"),
        ("text/html", "page.md", "html"),
        ("text/x-rst", "page", "text"),
        ("application/x-rst", "page", "text"),
        ("text/prs.fallenstein.rst", "page", "text"),
        ("text/plain", "_sources/page.rst.txt", "text"),
        ("text/csv", "page", "csv"),
        ("application/csv", "page", "csv"),
        ("text/tab-separated-values", "page", "csv"),
        ("text/plain", "data.tsv", "csv"),
        ("text/plain", "data.json", "json"),
        ("application/x-ndjson", "data", "json"),
        ("application/feed+json", "feed", "feed"),
        ("text/plain", "md", "text"),
        ("text/plain", "page.md/other", "text"),
        ("text/plain", "page.txt?file=x.md", "text"),
    ],
)
def test_types_by_header_or_path(content_type: str | None, path: str, kind: str) -> None:
    source = page_source(b"# x", url=SITE + path, content_type=content_type)
    assert detect_document_type(source) == kind


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<p align=center>logo</p>\n\n# x", "markdown"),
        (b"<!-- note -->\n# x", "markdown"),
        (b"<!DOCTYPE html><title>Not found</title>", "html"),
        (b"\xef\xbb\xbf<html><body>", "html"),
    ],
)
def test_markdown_may_begin_with_markup_but_is_no_page(body: bytes, kind: str) -> None:
    source = page_source(body, url=f"{SITE}README.md", content_type=None)
    assert detect_document_type(source) == kind


PAGE = b"<!doctype html><title>x</title>"


@pytest.mark.parametrize(
    ("body", "content_type", "kind"),
    [
        (b"%PDF-1.4", "text/html", "pdf"),
        (b"\n\n%PDF-1.4", "application/x-pdf", "pdf"),
        (b"junk %PDF-1.4", "application/force-download", "pdf"),
        (b"%PDF-1.4", "image/png", "pdf"),
        (b"<p>%PDF-1.4 is how a PDF begins", "text/html", "html"),
        (b"how a PDF begins: %PDF-1.4", "text/plain", "text"),
        (PAGE, "application/x-httpd-php", "html"),
        (PAGE, "application/force-download", "html"),
        (PAGE, "application/json", "html"),
        (PAGE, "text/csv", "html"),
        (b"\xef\xbb\xbf\n" + PAGE, "application/x-unheard-of", "html"),
        (b'{"a": 1}', "application/x-download", "json"),
        (b"a,b\n1,2", "text/csv", "csv"),
    ],
)
def test_a_signature_decides_before_the_declared_type(
    body: bytes, content_type: str, kind: str
) -> None:
    source = page_source(body, url=f"{SITE}page", content_type=content_type)
    assert detect_document_type(source) == kind


@pytest.mark.parametrize("content_type", ["application/force-download", "image/png", "video/mp4"])
def test_binary_data_is_refused(content_type: str) -> None:
    with pytest.raises(ScrapeError, match=r"cannot be read|binary data"):
        detect_document_type(page_source(b"\x00\x01\x02", content_type=content_type))


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        (
            "see http://a.test/x, (http://b.test/y). Or <https://c.test>!",
            ["http://a.test/x", "http://b.test/y", "https://c.test"],
        ),
        (
            "http://a.test/w_(x) [http://b.test/y](http://c.test/z)",
            ["http://a.test/w_(x)", "http://b.test/y", "http://c.test/z"],
        ),
        (
            "HTTP://A.test 'https://b.test/?x[]=1' \u201chttp://[::1]/\u201d",
            ["HTTP://A.test", "https://b.test/?x[]=1", "http://[::1]/"],
        ),
        ("http:// https://. xhttp://a.test", []),
        ('{"a":"http://a.test/b"}', ["http://a.test/b"]),
        ("http://a.test/" + ")" * 5000, ["http://a.test/"]),
    ],
)
def test_bare_urls_end_before_punctuation(text: str, urls: list[str]) -> None:
    assert [text[start:end] for start, end in find_urls(text)] == urls


def test_plain_text_has_links_and_stays_as_it_is() -> None:
    text = "Notes & more\n\n  * see http://site.test/dir/a <b>\n  * http://site.test/dir/a\n"
    scraped = scrape_text(text, "text/plain")
    assert scraped.formats["markdown"] == scraped.text == text
    assert links_of(scraped) == ["a"]
    assert [link.url for link in scraped.outlinks] == ["http://site.test/dir/a"]
    assert "&lt;b&gt;" in scraped.formats["html"]
    assert scraped.title == "Notes & more"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Release notes\n\ntext", "Release notes"),
        ("\n\nRelease notes 1.2\n=====\ntext", "Release notes 1.2"),
        ("=====\nManual\n=====\n", "Manual"),
        ("# A note\n\ntext", "A note"),
        ("a line of prose that goes on\nover two lines", None),
        ("A sentence.\n\nAnother.", None),
        ("one line", None),
        ("12345\n\n6", None),
        ("https://site.test/a\n\nb", None),
        ("x" * 121 + "\n\ny", None),
        ("", None),
    ],
)
def test_first_line_of_plain_text_is_its_title_where_it_looks_like_one(
    text: str, title: str | None
) -> None:
    assert scrape_text(text, "text/plain").title == title


def test_json_values_that_are_urls_are_links() -> None:
    text = (
        '{"$schema": "http://site.test/dir/schema", "next": "http://site.test/dir/2",\n'
        ' "http://site.test/dir/key": {"url": "http:\\/\\/site.test\\/dir\\/3?a=1&b"},'
        ' "text": "see http://site.test/dir/4", "list": ["http://site.test/dir/5"]}'
    )
    scraped = scrape_text(text, "application/json")
    assert links_of(scraped) == ["2", "3?a=1&b", "5"]
    assert len(scraped.outlinks) == 3
    assert scraped.formats["markdown"] == f"```json\n{text}\n```"
    lines = '{"url": "http://site.test/dir/1"}\n{"url": "http://site.test/dir/2"}\n'
    assert links_of(scrape_text(lines, "application/x-ndjson")) == ["1", "2"]


@pytest.mark.parametrize(
    ("text", "title", "description"),
    [
        ('{"title": " A ", "description": "B"}', "A", "B"),
        ('{"name": "<n>", "title": {"en": "x"}}', "<n>", None),
        ('{"openapi": "3.1", "info": {"title": "API", "description": "D"}}', "API", "D"),
        (r'{"title": "A \ud83d", "description": "D"}', "A \ufffd", "D"),
        ('{"title": "A", "n": NaN}', "A", None),
        ('[{"title": "A"}]', None, None),
        ('{"title": "A"', None, None),
        ("[" * 100_000, None, None),
    ],
)
def test_json_objects_declare_a_title(
    text: str, title: str | None, description: str | None
) -> None:
    scraped = scrape_text(text, "application/json")
    assert (scraped.title, scraped.metadata["description"]) == (title, description)


def test_long_json_is_cut_in_all_formats_but_the_raw_one() -> None:
    text = '["' + "x" * (2 * MAX_CODE_CHARACTERS) + '"]'
    scraped = scrape_text(text, "application/json")
    assert scraped.metadata["characters_omitted"] == len(text) - MAX_CODE_CHARACTERS
    assert len(scraped.formats["markdown"]) < MAX_CODE_CHARACTERS + 100
    assert scraped.formats["raw_html"] == text


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,http://site.test/dir/x\n",
        "\ufeffa;b\r\n1;http://site.test/dir/x\r\n",
        'a\tb\n"1"\thttp://site.test/dir/x',
        "a|b\n\n1|http://site.test/dir/x\n\n",
        "sep=,\na,b\n1,http://site.test/dir/x\n",
        "\ufeffSEP=;\r\na;b\r\n1;http://site.test/dir/x\r\n",
        '"sep=;"\na;b\n1;http://site.test/dir/x\n',
        "sep=\t\na\tb\n1\thttp://site.test/dir/x\n",
        "sep=^\ra^b\r1^http://site.test/dir/x\r",
        "sep=;;\na;b\n1;http://site.test/dir/x\n",
    ],
)
def test_csv_becomes_a_table_with_links(text: str) -> None:
    scraped = scrape_text(text, "text/csv")
    assert scraped.formats["markdown"] == (
        "| a | b |\n| --- | --- |\n| 1 | <http://site.test/dir/x> |"
    )
    assert links_of(scraped) == ["x"]
    assert [link.url for link in scraped.outlinks] == ["http://site.test/dir/x"]


def test_csv_sep_line_overrides_the_detected_delimiter() -> None:
    scraped = scrape_text("sep=;\n1,5;2,5\n3,5;4,5\n", "text/csv")
    assert scraped.formats["markdown"] == "| 1,5 | 2,5 |\n| --- | --- |\n| 3,5 | 4,5 |"
    assert scraped.text == "1,5;2,5\n3,5;4,5\n"
    # The line must be the first, and name one separator.
    for text in ("sep=\n1,2\n", "sep=ab,c\n1,2\n", "a,b\nsep=;,2\n"):
        assert "sep=" in scrape_text(text, "text/csv").formats["markdown"]


def test_csv_cells_are_text() -> None:
    scraped = scrape_text('a,"b|\nc"\n<i>x</i>,see http://a.test/\n1,2,3\n4\n', "text/csv")
    assert scraped.formats["markdown"] == (
        "| a | b\\|<br>c |  |\n| --- | --- | --- |\n"
        "| \\<i>x\\</i> | see http://a.test/ |  |\n| 1 | 2 | 3 |\n| 4 |  |  |"
    )
    assert scraped.formats["links"] == []


def test_long_and_wide_csv_is_cut() -> None:
    rows = 2 * MAX_ROWS
    scraped = scrape_text("a,b\n" + "1,2\n" * rows, "text/csv")
    assert scraped.formats["markdown"].count("\n") == MAX_ROWS
    assert scraped.metadata["rows_omitted"] == rows + 1 - MAX_ROWS
    wide = scrape_text("a," * 999 + "a\n" + "b\n" * 999, "text/csv")
    assert wide.metadata["columns_omitted"] == 800
    assert wide.formats["html"].count("<td>") <= MAX_CELLS
    assert wide.metadata["rows_omitted"] == 1000 - MAX_CELLS // 200


def test_json_feeds_have_entries() -> None:
    feed = """{"version": "https://jsonfeed.org/version/1.1", "title": "News & more",
 "home_page_url": "/", "description": "Daily", "items": [
 {"id": "1", "url": "1", "title": "One <b>", "content_text": "a < b",
  "date_published": "2026-01-02T03:04:05Z", "authors": [{"name": "Ann"}, {"name": "Bob"}]},
 {"id": "2", "external_url": "2", "content_html": "<p>See <a href=\\"3\\">three</a>"}, "x"]}"""
    for content_type in ("application/feed+json", "application/json"):
        scraped = scrape_text(feed, content_type)
        assert scraped.title == "News & more"
        assert scraped.metadata["description"] == "Daily"
        assert scraped.metadata["rung"] == "feed"
        assert scraped.formats["markdown"] == (
            "# [News & more](http://site.test/)\n\nDaily\n\n## [One \\<b>](http://site.test/dir/1)"
            "\n\nAnn, Bob, 2026-01-02T03:04:05Z\n\na < b\n\n## [2](http://site.test/dir/2)\n\n"
            "See [three](http://site.test/dir/3)"
        )
        assert len(scraped.outlinks) == 4
    other = scrape_text('{"a": 1}', "application/feed+json")
    assert other.formats["markdown"] == '```json\n{"a": 1}\n```'


@pytest.mark.parametrize(
    ("before", "title", "heading"),
    [
        ('\n <?xml version="1.0"?>', "Bay", "Bay"),
        ("", "Tide&nbsp;&raquo; news", "Tide » news"),
        ("", "Salt & pepper &amp; &#38; &unheard;", "Salt & pepper & & \\&unheard;"),
        ("", "Bay\x0b\x1f", "Bay"),
    ],
)
def test_malformed_feeds_are_repaired(before: str, title: str, heading: str) -> None:
    feed = (
        f"{before}<rss version='2.0'><channel><title>{title}</title><item><title>One</title>"
        "<description><![CDATA[<b>north</b> &amp; <a href='/map'>A&B</a>]]></description>"
        "</item></channel></rss>"
    )
    scraped = scrape_text(feed, "application/rss+xml")
    assert scraped.formats["markdown"] == (
        f"# {heading}\n\n## One\n\n**north** & [A&B](http://site.test/map)"
    )
    assert [link.url for link in scraped.outlinks] == ["http://site.test/map"]


def test_markup_of_a_feed_entry_ends_with_the_entry() -> None:
    items = "".join(
        f"<item><title>{number}</title><link>/{number}</link><description>{text}</description></item>"
        for number, text in enumerate(("&lt;b&gt;bold &lt;!-- ", "&lt;a href='x'&gt;cut", "end"))
    )
    scraped = scrape_text(
        f"<rss version='2.0'><channel>{items}</channel></rss>", "application/rss+xml"
    )
    assert [each["text"] for each in scraped.formats["headings"]] == ["0", "1", "2"]
    assert scraped.formats["markdown"].endswith("## [2](http://site.test/2)\n\nend")


HOSTILE = (
    ("application/json", '"'),
    ("application/json", '"$id"     '),
    ("application/json", '["http://a.test/b",\n'),
    ("text/csv", ","),
    ("text/csv", '"a\n'),
    ("text/csv", "http://a.test/b,\n"),
    ("text/plain", "http://a.test/(("),
    ("text/plain", "http://a.test/;;"),
    ("text/plain", "http://a.test/b\n"),
)


async def test_hostile_texts_stay_within_worker_limits() -> None:
    sources = {
        f"{content_type} of {unit}": page_source(
            unit * (2_000_000 // len(unit)), content_type=content_type
        )
        for content_type, unit in HOSTILE
    }
    await scrape_in_worker(sources, ConversionOptions(FORMATS))
