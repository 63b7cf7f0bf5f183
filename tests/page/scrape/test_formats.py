"""Links, images, headings, HTML and structured data of a page."""

from __future__ import annotations

from typing import Any

import pytest

from tests.page.pages import page_source, scrape_format, scrape_page
from webdata_nb.page.content.links import parse_srcset
from webdata_nb.page.content.page_source import check_selectors
from webdata_nb.page.errors import BadInput, ScrapeError
from webdata_nb.page.scrape.page import ConversionOptions, scrape


def test_only_requested_formats_are_returned() -> None:
    assert set(scrape_page("<p>x", "links", "headings").formats) == {"links", "headings"}
    assert scrape_page("<p>x", "raw_html").formats == {"raw_html": "<p>x"}


def test_unrequested_facts_are_not_computed() -> None:
    page = '<title>T</title><h1>Words</h1><p>of a <a href="/x">page</a>'
    bare = scrape_page(page, facts=frozenset())
    assert (bare.title, bare.outlinks[0].anchor) == ("T", "page")
    assert (bare.metadata, bare.quality, bare.sketch, bare.shape) == ({}, {}, b"", b"")
    facts = frozenset({"metadata", "quality", "sketch", "shape"})
    whole = scrape_page(page, facts=facts)
    assert whole.metadata["content_hash"] == whole.content_hash != ""
    assert whole.quality["word_count"] > 0
    assert whole.sketch == whole.shape != b""
    assert whole.formats == bare.formats


def test_links_are_absolute_unique_and_in_order() -> None:
    page = (
        '<a href="b.html">b</a><a href="/a#x">a</a><a href="b.html">again</a><a href="#top">top</a>'
        '<a href="mailto:x@y.test">m</a><a href="http://[bad">bad</a><a href="//Other.TEST/ö">o</a>'
    )
    assert scrape_format(page, "links") == [
        "http://site.test/dir/b.html",
        "http://site.test/a#x",
        "http://other.test/%C3%B6",
    ]


def test_headings_have_level_text_and_anchor_in_tree_order() -> None:
    page = (
        '<section id="intro"><h1>One <b>two</b></h1><h2>Inner</h2></section><h3 id="own">Own</h3>'
        '<h4><a name="named"></a>Named</h4><h2> </h2><h6>Last<a href="#x">¶</a></h6>'
    )
    assert scrape_format(page, "headings") == [
        {"level": 1, "text": "One two", "anchor": "intro"},
        {"level": 2, "text": "Inner", "anchor": None},
        {"level": 3, "text": "Own", "anchor": "own"},
        {"level": 4, "text": "Named", "anchor": "named"},
        {"level": 6, "text": "Last", "anchor": None},
    ]


def test_images_have_largest_source_and_caption() -> None:
    page = (
        '<figure><img src="s.png" srcset="m.png 300w, l.png 900w, s.png 100w" alt=" A  B "'
        ' width="300" height="200px"><figcaption>The <i>caption</i></figcaption></figure>'
        '<picture><source srcset="x.webp 800w"><img src="x.jpg"></picture>'
        '<img src="data:image/png;base64,AAAA"><img src="s2.png" data-src="lazy.png">'
        '<img src="dense.png" srcset="dense2.png 2x"><img src="dense.png" srcset="dense2.png 2x">'
    )
    base = "http://site.test/dir/"
    shape: dict[str, Any] = {"alt": None, "width": None, "height": None, "caption": None}
    assert scrape_format(page, "images") == [
        {
            "url": base + "l.png",
            "alt": "A B",
            "width": 300,
            "height": 200,
            "caption": "The caption",
        },
        shape | {"url": base + "x.webp"},
        shape | {"url": base + "lazy.png"},
        shape | {"url": base + "dense2.png"},
    ]


@pytest.mark.parametrize(
    ("value", "urls"),
    [
        ("a.png 1x, b,c.png 2x", ["a.png", "b,c.png"]),
        ("a.png,b.png 2x", ["a.png,b.png"]),
        ("a.png, b.png 2x", ["a.png", "b.png"]),
        ("data:image/png;base64,AA== 1x, b.png 2x", ["b.png"]),
        (" , ,, a.png 10w ,", ["a.png"]),
        ("a.png 10q", ["a.png"]),
        ("", []),
    ],
)
def test_srcset_is_split_like_in_a_browser(value: str, urls: list[str]) -> None:
    assert [url for _, url in parse_srcset(value)] == urls


def test_html_has_no_scripts_and_absolute_links() -> None:
    page = (
        '<body onload="x()"><script>x()</script><style>p{}</style><!-- c --><p style="color:red"'
        ' onclick="x()" class="k">Text <a href="y.html">y</a><a href="java\nscript:x()">j</a>'
        '<img src="i.png" srcset="i2.png 2x" onerror="x()"><svg onload="x()"></svg>'
        '<iframe srcdoc="<script>x()</script>"></iframe><form action="JavaScript:x()">'
        '<button formaction="vbscript:x">b</button></form><object data="o"></object></p></body>'
    )
    written = scrape_format(page, "html")
    assert '<a href="http://site.test/dir/y.html">y</a><a>j</a>' in written
    assert 'srcset="http://site.test/dir/i2.png 2x"' in written
    assert 'class="k"' in written
    lower = written.lower()
    for gone in ("script", "on", "style", "<!--", "svg", "object", "srcdoc"):
        assert f"{gone}=" not in lower
        assert f"<{gone}" not in lower
    assert "script:" not in lower


def test_many_event_handlers_are_removed() -> None:
    handlers = " ".join(f"on{n}=x" for n in range(5000))
    assert (
        scrape_format(f"<div><p {handlers}>kept</p></div>", "html")
        == "<body><div>kept</div></body>"
    )


def test_structured_data_by_syntax() -> None:
    page = (
        '<meta property="og:title" content="O"><meta name="keywords" content="a">'
        '<meta property="og:image" content="1"><meta property="og:image" content="2">'
        '<script type="application/ld+json">{"@type": "Thing"}</script>'
        '<script type="application/ld+json">{broken</script>'
        '<script type="application/ld+json"><!-- {"a": "line\nbreak", "b": NaN} --></script>'
        '<div itemscope itemtype="https://schema.org/Product"><b itemprop="name">N</b>'
        '<a itemprop="url" href="/u">u</a><div itemprop="offers" itemscope>'
        '<meta itemprop="price" content="3"></div></div>'
        '<div vocab="https://schema.org/" typeof="Person"><b property="name">P</b></div>'
    )
    data = scrape_format(page, "structured_data")
    assert data["json_ld"] == [{"@type": "Thing"}, {"a": "line\nbreak", "b": None}]
    assert data["opengraph"] == {"og:title": "O", "og:image": ["1", "2"]}
    assert data["meta"]["keywords"] == "a"
    [product] = data["microdata"]
    assert product["type"] == "https://schema.org/Product"
    assert product["properties"]["url"] == ["http://site.test/u"]
    assert product["properties"]["offers"][0]["properties"] == {"price": ["3"]}
    [person] = data["rdfa"]
    assert person["properties"] == {"https://schema.org/name": ["P"]}


@pytest.mark.parametrize(
    "page",
    [
        '<div itemscope id=a itemref="a">' * 3,
        "<div itemscope>" + "<div itemprop=a itemscope>" * 1000,
        "<div typeof=x property=y>" * 1000,
        '<script type="application/ld+json">' + "[" * 100_000 + "</script>",
        '<script type="application/ld+json">{"a": "\\ud800", \n"b": "x\ny"}</script>',
    ],
)
def test_structured_data_of_any_depth_is_accepted(page: str) -> None:
    data = scrape_format(page, "structured_data")
    assert set(data) == {"json_ld", "microdata", "opengraph", "rdfa", "meta"}


def test_markdown_mode_overrides_main_content() -> None:
    text = "<p>" + "The harbour was built long before the bridge that crosses it. " * 12 + "</p>"
    page = f'<body><nav><a href="/n">Menu</a></nav><main><h1>Harbour</h1>{text}</main></body>'
    main = scrape_page(page, "markdown", "links", "html", only_main_content=True)
    assert "Menu" not in main.formats["markdown"]
    assert main.formats["links"] == []
    mixed = scrape_page(page, "markdown", "links", only_main_content=True, markdown_mode="full")
    assert "Menu" in mixed.formats["markdown"]
    assert mixed.formats["links"] == []
    assert "Menu" not in mixed.text
    article = scrape_page(page, "markdown", "links", markdown_mode="article")
    assert "Menu" not in article.formats["markdown"]
    assert article.formats["links"] == ["http://site.test/n"]
    assert scrape_page(page, markdown_mode="article").metadata["rung"] == "main"


def test_outlinks_include_whole_page() -> None:
    page = '<nav><a href="/n">Menu</a></nav><main><p>Text</p></main>'
    assert [each.url for each in scrape_page(page, only_main_content=True).outlinks] == [
        "http://site.test/n"
    ]


def test_selectors_limit_content() -> None:
    page = '<div class="a">A<p class="a">inner</p></div><p>B</p><p class="c">C</p><div>D</div>'
    assert scrape_page(page, include_tags=(".a", "p")).formats["markdown"] == "A\n\ninner\n\nB\n\nC"
    assert scrape_page(page, exclude_tags=(".a", "p.c")).formats["markdown"] == "B\n\nD"
    both = scrape_page(page, include_tags=("p",), exclude_tags=(".c",))
    assert both.formats["markdown"] == "inner\n\nB"
    assert both.metadata["rung"] == "selected"
    assert scrape_page(page, include_tags=("#none",)).formats["markdown"] == ""
    assert scrape_page(page, exclude_tags=("*",)).formats["markdown"] == ""


def test_invalid_selector_is_rejected_with_location() -> None:
    check_selectors(("main > .a:not(.b)", "[data-x]"), loc=("body", "include_tags"))
    with pytest.raises(BadInput, match="identifier") as raised:
        check_selectors(("p", "a["), loc=("body", "include_tags"))
    assert raised.value.loc == ("body", "include_tags", 1)


@pytest.mark.parametrize("name", ["screenshot", "extract", "pdf"])
def test_unknown_format_is_rejected(name: str) -> None:
    with pytest.raises(ScrapeError, match=f"no such format: {name}"):
        scrape(page_source("<p>x"), ConversionOptions(("markdown", name)))


def test_json_ld_arrays_are_flattened() -> None:
    block = '<script type="application/ld+json">%s</script>'
    page = block % '[{"name": "a"}, {"name": "b"}]' + block % '{"name": "c"}'
    assert [item["name"] for item in scrape_format(page, "structured_data")["json_ld"]] == [
        *("a", "b", "c")
    ]
