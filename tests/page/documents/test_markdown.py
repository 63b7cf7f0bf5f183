"""Markdown documents: their links, title, headings and front matter."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.page.documents.text_documents import links_of, scrape_text
from tests.page.pages import page_source, scrape_in_worker
from webdata_nb.page.documents.text import convert_markdown, split_front_matter
from webdata_nb.page.scrape.page import ConversionOptions

FOLDER = "http://site.test/dir/"


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("[a](b.md)", f"[a]({FOLDER}b.md)"),
        ("[a](/b?x=1#y 'T') [c](d)", f"[a](http://site.test/b?x=1#y 'T') [c]({FOLDER}d)"),
        ("[a](<b c>)", f"[a]({FOLDER}b%20c)"),
        ("[a](b(1))", f"[a](<{FOLDER}b(1)>)"),
        ("![i](p.png) [![i](q.png)](r)", f"![i]({FOLDER}p.png) [![i]({FOLDER}q.png)]({FOLDER}r)"),
        ("[a][r] [r]\n\n[r]: b.md 'T'", f"[a][r] [r]\n\n[r]: {FOLDER}b.md 'T'"),
        ("[r]\n\n[r]:\n  b.md", f"[r]\n\n[r]:\n  {FOLDER}b.md"),
        ("> - x [a](b)\n>   [c](d)", f"> - x [a]({FOLDER}b)\n>   [c]({FOLDER}d)"),
        (
            "| a | b |\n|---|---|\n| `[x](y)` | [x](y) |\n| [x](y) | [x](y) |",
            (
                f"| a | b |\n|---|---|\n| `[x](y)` | [x]({FOLDER}y) |\n"
                f"| [x]({FOLDER}y) | [x]({FOLDER}y) |"
            ),
        ),
        ("| a |\n|---|\n| b\\|c [x](y) |", f"| a |\n|---|\n| b\\|c [x]({FOLDER}y) |"),
        ("x [a](b)\n===", f"x [a]({FOLDER}b)\n==="),
        ("[a](#part)", "[a](http://site.test/dir/page#part)"),
        (
            "<a href=\"b?c=1&amp;d\">x</a> <img src='p.png'>",
            f"<a href=\"{FOLDER}b?c=1&amp;d\">x</a> <img src='{FOLDER}p.png'>",
        ),
        (
            '<div>\n<a\n  href="b">x</a>\n</div>\n\ny',
            f'<div>\n<a\n  href="{FOLDER}b">x</a>\n</div>\n\ny',
        ),
    ],
)
def test_relative_links_become_absolute(text: str, markdown: str) -> None:
    assert scrape_text(text).formats["markdown"] == markdown


@pytest.mark.parametrize(
    "text",
    [
        "`[a](b.md)` ``` [c](d) ```",
        "```sh\ncurl https://x.test [a](b.md)\n```",
        "~~~\n[a](b.md) <a href='b'>\n~~~",
        "    [a](b.md)\n",
        "- x\n\n  ```\n  [a](b.md)\n  ```",
        "\\[a](b.md)",
        "[a](mailto:ann@site.test) [b](javascript:alert(1))",
        "<!-- [a](b.md) -->",
        "a  b\nc\\\n* d\n*   e\n\n***\n1) f",
    ],
)
def test_code_and_text_without_links_stay_as_they_are(text: str) -> None:
    scraped = scrape_text(text)
    assert scraped.formats["markdown"] == text.strip("\n")
    assert scraped.formats["links"] == []
    assert scraped.outlinks == ()


def test_links_are_outlinks_in_document_order() -> None:
    text = (
        "[a](a.md) <http://site.test/dir/b> bare http://site.test/dir/c, [d][r] <a href='e'>x</a>"
        " [a](a.md#part) ![i](no.png) ([see http://site.test/dir/f](http://site.test/dir/g))\n\n"
        "[r]: d.md\n[unused]: no.md"
    )
    scraped = scrape_text(text)
    assert links_of(scraped) == ["a.md", "b", "c", "d.md", "e", "a.md#part", "g"]
    outlinks = [link.url.removeprefix(FOLDER) for link in scraped.outlinks]
    assert outlinks == ["a.md", "b", "c", "d.md", "e", "g"]
    assert scraped.outlinks[0].anchor == "a"
    assert scraped.formats["images"][0]["url"] == f"{FOLDER}no.png"


def test_footnotes_of_one_word_are_no_links() -> None:
    scraped = scrape_text("text[^1] and[^2]\n\n[^1]: Word\n[^2]: https://other.test/")
    assert scraped.formats["links"] == ["https://other.test/"]


def test_headings_have_levels() -> None:
    scraped = scrape_text(
        "Intro\n\n## A *b* `c`\n\n# D\n\nE\n---\n\n    # no\n\n```\n# no\n```\n\n#no"
    )
    assert [(each["level"], each["text"]) for each in scraped.formats["headings"]] == [
        (2, "A b c"),
        (1, "D"),
        (2, "E"),
    ]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: From front matter\n---\n# Heading", "From front matter"),
        ("## Second\n\n# First *one* &amp; `code`", "First one & code"),
        ("### Only\n\n### Other", "Only"),
        ("Title\nin two lines\n===", "Title in two lines"),
        ("no heading", None),
        ("# \n\n# Real", "Real"),
    ],
)
def test_title_is_that_of_the_front_matter_or_a_heading(text: str, title: str | None) -> None:
    scraped = scrape_text(text)
    assert scraped.title == scraped.metadata["title"] == title


@pytest.mark.parametrize(
    ("block", "fields"),
    [
        ("---\na: 1\nb: [x, 'y: z']\n---\n", {"a": "1", "b": ["x", "y: z"]}),
        ("---\na: >\n  long\n  text\nb:\n  - c: d\n...\n", {"a": "long text\n", "b": [{"c": "d"}]}),
        (
            "+++\na = 1\nd = 2026-01-02\n[b]\nc = ['x']\n+++\n",
            {"a": 1, "d": "2026-01-02", "b": {"c": ["x"]}},
        ),
    ],
)
def test_front_matter_becomes_metadata(block: str, fields: dict[str, Any]) -> None:
    scraped = scrape_text(f"\ufeff{block}# Heading\n".encode())
    assert scraped.metadata["front_matter"] == fields
    assert scraped.formats["markdown"] == "# Heading"
    assert scraped.text == "# Heading"


def test_front_matter_gives_the_metadata_of_meta_tags() -> None:
    text = """---
Title: "A: b"
summary: <About> it
authors: [{name: Ann}, Bob]
date: 2025-12-03
last-modified: 2025-12-05
lang: de
canonical_url: /other
---
x"""
    metadata = scrape_text(text.replace("\n", "\r\n")).metadata
    expected = {
        "title": "A: b",
        "description": "<About> it",
        "author": "Ann, Bob",
        "published": "2025-12-03",
        "modified": "2025-12-05",
        "language": "de",
        "canonical": "http://site.test/other",
        "rung": "markdown",
    }
    assert metadata | expected == metadata


@pytest.mark.parametrize(
    "text",
    [
        "---\nno mapping\n---\nx",
        "---\na: [\n---\nx",
        "---\n\nx\n\n---\n",
        "text\n---\na: b\n---",
        "--- \n---\n",
        "+++\nno toml\n+++\nx",
        "---\na: b",
        "---\na: &a [x]\nb: [*a, *a]\n---\nx",
        "---\na: " + "[" * 30_000 + "\n---\nx",
        "---\n" + "- " * 30_000 + "\n---\nx",
        "---\n" + "a: b\n" * 20_000 + "---\nx",
        "+++\na = " + "[" * 30_000 + "\n+++\nx",
        "+++\na = " + "{b=" * 900 + "\n+++\nx",
    ],
)
def test_other_blocks_at_the_beginning_stay_content(text: str) -> None:
    assert split_front_matter(text) == ({}, text)


def test_excluded_elements_are_excluded_from_markdown() -> None:
    scraped = scrape_text("# A\n\n| x |\n|---|\n\n[b](c)", exclude_tags=("table",))
    assert scraped.formats["markdown"] == f"# A\n\n[b]({FOLDER}c)"


def test_wrong_encodings_are_decoded_as_browsers_do() -> None:
    text = "# Grüße\n\n[ä](ä.md)"
    for body, content_type in (
        (text.encode(), "text/markdown"),
        (text.encode("utf-16"), "text/markdown; charset=utf-8"),
        (text.encode("cp1252"), "text/markdown; charset=latin1"),
        (text.encode("cp1252"), "text/markdown; charset=no-such"),
    ):
        scraped = scrape_text(body, content_type)
        assert scraped.title == "Grüße", content_type
        assert links_of(scraped) == ["%C3%A4.md"]
    broken = scrape_text(text.encode("cp1252"), "text/markdown; charset=utf-8")
    assert broken.title == "Gr\ufffd\ufffde"


def test_text_that_is_expensive_to_parse_is_parsed_in_part() -> None:
    text = "# T\n\n" + "[a](b)\n" * 100_000 + "http://site.test/dir/last\n"
    scraped = scrape_text(text)
    omitted = scraped.metadata["characters_not_parsed"]
    assert len(text) / 2 < omitted < len(text)
    assert links_of(scraped) == ["b", "last"]
    assert len(scraped.formats["markdown"].splitlines()) == 100_003


HOSTILE = (
    *("[", "![", "[a](", "[![a](b)](c)", "*a_ ", "- a\n", "> ", "|a", "<a ", "<!--", "`a", "&a"),
    "[a]: ",
)


@pytest.mark.slow
async def test_hostile_texts_stay_within_worker_limits() -> None:
    sources = {
        unit: page_source(unit * (1_000_000 // len(unit)), content_type="text/markdown")
        for unit in HOSTILE
    }
    await scrape_in_worker(sources, ConversionOptions())


_WORDS = ("a", "b.md", "](", "[a](b)", "![", "```", "\n\n", "| ", "|-|-|\n", "    ")
_PIECES = st.sampled_from([*"[]()<>!#*_`~|\\-> \n\t\"'&", *_WORDS])


@given(st.lists(_PIECES, max_size=60).map("".join))
def test_absolute_links_change_nothing_else(text: str) -> None:
    document = convert_markdown(text, "http://site.test/dir/page")
    assert document.markdown is not None
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    # Without link targets, both texts are the same document.
    assert _outline(reader, document.markdown) == _outline(reader, text.strip("\n"))


def _outline(reader: MarkdownIt, text: str) -> list[tuple[str, str]]:
    tokens = reader.parse(text)
    children = [child for token in tokens for child in (token, *(token.children or ()))]
    return [
        (token.type, token.content)
        for token in children
        if token.type not in {"inline", "html_block", "html_inline"}
    ]
