from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.site.reading import Folder, canonical, markdown_words, read_html, recall, words

if TYPE_CHECKING:
    from tests.site.fixtures import Docs

URL = "http://site.test/guide/page.html"


def test_links_are_absolute_unique_and_in_order() -> None:
    page = read_html(
        '<a href="b.html#x">b</a> <a href="../">up</a> <a href="b.html">b</a> <a name="n">n</a>'
        '<a href=" https://Other.test ">o</a> <a href="mailto:a@b.test">m</a> <a href="#top">t</a>',
        URL,
    )
    assert page.links == (
        "http://site.test/guide/b.html",
        "http://site.test/",
        "https://other.test/",
        URL,
    )
    assert page.anchors[0].endswith("b.html#x")
    assert "mailto:a@b.test" in page.anchors


def test_a_base_element_moves_the_links() -> None:
    page = read_html('<base href="/other/"><a href="x">x</a>', URL)
    assert page.links == ("http://site.test/other/x",)


def test_words_are_those_that_a_reader_sees() -> None:
    page = read_html(
        "<title>A  &amp;\n title</title><style>no</style><body><script>no()</script>"
        "<p>un<b>brok</b>en</p><table><tr><td>one<td>two</table><svg><title>no</title></svg>"
        '<div role="main"><h2>In <code>main</code></h2><div>deep</div>end</div>after &amp; all',
        URL,
    )
    assert page.title == "A & title"
    assert page.headings == ("In main",)
    assert page.main_words == ("In", "main", "deep", "end")
    assert page.words == ("unbroken", "one", "two", *page.main_words, "after", "all")


def test_markdown_words_are_the_rendered_ones() -> None:
    text = '# A *title*\n\n[link](/gone "no") `code_x` \\*star\n\n| a | b |\n|---|---|\n| 1 | 2 |\n'
    assert markdown_words(text) == words("A title link code_x star a b 1 2")


def test_recall_counts_repeated_words() -> None:
    assert recall(words("a a b c"), words("a b b")) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("http://A.test", "http://a.test/"),
        ("http://a.test/x>", "http://a.test/x%3E"),
        ("http://a.test/%28?q=a b", "http://a.test/%28?q=a%20b"),
        ("http://a.test/é#Part", "http://a.test/%C3%A9#Part"),
    ],
)
def test_canonical_urls(given: str, written: str) -> None:
    assert canonical(given) == written


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    files = {
        "index.html": '<a href="a.html">a</a><a href="b.html">b</a><a href="index.html">i</a>',
        "a.html": '<a href="c.txt">c</a><a href="gone.html">g</a><a href="https://x.test/">x</a>',
        "b.html": '<a href="sub/">s</a><a href="a.html#part">a</a>',
        "c.txt": "text",
        "sub/index.html": '<a href="../deep.zip">z</a>',
        "deep.zip": "PK",
    }
    (tmp_path / "sub").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return Folder(tmp_path, "http://site.test/")


def test_a_crawl_is_breadth_first_and_counts_what_is_missing(folder: Folder) -> None:
    visits = folder.crawl("http://site.test", 100)
    assert [(visit.url.removeprefix("http://site.test"), visit.depth) for visit in visits] == [
        ("/", 0),
        ("/a.html", 1),
        ("/b.html", 1),
        ("/c.txt", 2),
        ("/gone.html", 2),
        ("/sub/", 2),
        ("/deep.zip", 3),
    ]
    assert [visit.status for visit in visits if visit.url.endswith("gone.html")] == [404]
    assert visits[3].media_type == "text/plain"
    assert visits[-1].media_type == "application/zip"
    assert visits[-1].page is None


def test_a_crawl_stops_at_its_limits(folder: Folder) -> None:
    whole = folder.crawl("http://site.test/", 100)
    assert folder.crawl("http://site.test/", 4) == whole[:4]
    assert {visit.depth for visit in folder.crawl("http://site.test/", 100, max_depth=1)} == {0, 1}


def test_a_folder_knows_only_its_own_site(folder: Folder) -> None:
    assert folder.file("http://other.test/a.html") is None
    assert folder.file("http://site.test/sub") is None


@pytest.mark.slow
def test_the_documentation_is_read_as_one_site(python_docs: Docs) -> None:
    visits = Folder(python_docs.root, python_docs.url).crawl(python_docs.url, 25)
    assert len({visit.url for visit in visits}) == len(visits) == 25
    assert visits[0].page is not None
    assert "Documentation" in visits[0].page.title
    titled = [visit for visit in visits if visit.page is not None and visit.page.title]
    assert len(titled) >= 23
    assert all(visit.page.main_words for visit in titled if visit.page is not None)
