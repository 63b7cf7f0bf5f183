"""Footnotes of many structures become `[^1]` with their text at the end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from mdit_py_plugins.footnote import footnote_plugin

from tests.page.pages import page_source, scrape_in_worker, scrape_markdown, scrape_page
from webdata_nb.page.scrape.page import ConversionOptions

RENDER = MarkdownIt("commonmark").use(footnote_plugin).render
PROSE = "<p>" + "Words of the article that stand before its notes. " * 12 + "</p>"

STRUCTURES = {
    "Markdown renderers": (
        '<p>Text<sup id="fnref:1"><a href="#fn:1" class="footnote-ref">1</a></sup>.</p>'
        '<div class="footnotes"><hr><ol><li id="fn:1"><p>The note. '
        '<a href="#fnref:1" class="footnote-backref">↩</a></p></li></ol></div>'
    ),
    "GitHub": (
        '<p>Text<sup><a href="#user-content-fn-1" id="user-content-fnref-1" data-footnote-ref'
        ' aria-describedby="footnote-label">1</a></sup>.</p><section data-footnotes'
        ' class="footnotes"><ol><li id="user-content-fn-1"><p>The note. <a'
        ' href="#user-content-fnref-1" data-footnote-backref>↩</a></p></li></ol></section>'
    ),
    "wiki": (
        '<p>Text<sup id="cite_ref-1" class="reference"><a href="#cite_note-1">'
        "<span>[</span>1<span>]</span></a></sup>.</p>"
        '<ol class="references"><li id="cite_note-1"><span class="mw-cite-backlink"><b>'
        '<a href="#cite_ref-1">^</a></b></span> <span>The note.</span></li></ol>'
    ),
    "EPUB": (
        '<p>Text<a href="#n1" epub:type="noteref">1</a>.</p>'
        '<aside epub:type="footnote" id="n1"><p>The note.</p></aside>'
    ),
    "DPUB-ARIA": (
        '<p>Text<a id="r1" href="#n1" role="doc-noteref">1</a>.</p>'
        '<section role="doc-endnotes"><ol><li id="n1">The note. '
        '<a href="#r1" role="doc-backlink">back</a></li></ol></section>'
    ),
    "AsciiDoc": (
        '<p>Text<sup class="footnote">[<a id="_footnoteref_1" href="#_footnotedef_1">1</a>]</sup>'
        '.</p><div id="footnotes"><hr><div class="footnote" id="_footnotedef_1">'
        '<a href="#_footnoteref_1">1</a>. The note.</div></div>'
    ),
    "docutils": (
        '<p>Text<a class="footnote-reference brackets" href="#id4" id="id2" role="doc-noteref">'
        '<span class="fn-bracket">[</span>1<span class="fn-bracket">]</span></a>.</p>'
        '<aside class="footnote-list brackets"><aside class="footnote brackets" id="id4" '
        'role="note"><span class="label"><span class="fn-bracket">[</span><a role="doc-backlink" '
        'href="#id2">1</a><span class="fn-bracket">]</span></span><p>The note.</p></aside></aside>'
    ),
    "anchors in list items": (
        '<p>Text <a href="#r1">[1]</a>.</p><ol><li><a name="r1"></a>The note.</li></ol>'
    ),
    "Word": (
        '<p>Text<a href="#_ftn1" name="_ftnref1"><sup>[1]</sup></a>.</p>'
        '<p><a href="#_ftnref1" name="_ftn1">[1]</a> The note.</p>'
    ),
    "definition list": (
        '<p>Text<a class="footnote-reference" href="#id2" id="id1">[1]</a>.</p>'
        '<dl class="footnote"><dt id="id2"><a href="#id1">1</a></dt><dd><p>The note.</p></dd></dl>'
    ),
    "table": (
        '<p>Text<sup><a href="#f1">1</a></sup>.</p>'
        '<table><tr><td><a name="f1">1</a></td><td>The note.</td></tr></table>'
    ),
    "heading with the number": (
        '<p>Text<a id="DOCF1" href="#FOOT1"><sup>1</sup></a>.</p>'
        '<h5><a id="FOOT1" href="#DOCF1">(1)</a></h5><p>The note.</p>'
    ),
    "one paragraph": (
        '<p>Text<sup><a href="#f1">1</a></sup>.</p><p><a id="f1">1.</a> The note.</p>'
    ),
    "stars": '<p>Text<sup><a href="#s">*</a></sup>.</p><p id="s">* The note.</p>',
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_note_is_a_definition(name: str) -> None:
    markdown = scrape_markdown(f"<h1>T</h1>{PROSE}{STRUCTURES[name]}")
    assert "Text[^1]." in markdown.replace("Text [^", "Text[^").replace("\\[[^1]\\]", "[^1]")
    assert markdown.endswith("[^1]: The note.")


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_note_survives_main_content_extraction(name: str) -> None:
    page = f"<nav><a href=/a>Home</a></nav><article><h1>T</h1>{PROSE}{STRUCTURES[name]}</article>"
    assert scrape_markdown(page, only_main_content=True).endswith("[^1]: The note.")


def test_a_note_below_the_article_belongs_to_it() -> None:
    page = (
        f'<article><h1>T</h1>{PROSE}<p>Text<sup><a href="#fn1">1</a></sup>.</p></article>'
        f'<footer><ol class="footnotes"><li id="fn1">The note.</li></ol></footer>'
    )
    assert scrape_markdown(page, only_main_content=True).endswith("[^1]: The note.")


def test_a_renderer_shows_notes_with_several_blocks() -> None:
    page = (
        '<p>One<sup><a href="#fn1">1</a></sup> two<sup><a href="#fn2">2</a></sup>'
        ' one<sup><a href="#fn1">1</a></sup></p><ol><li id="fn1"><p>First.</p><ul><li>Item</ul>'
        '<pre>code\n\nmore</pre></li><li id="fn2"><pre>only</pre></li></ol>'
    )
    html = RENDER(scrape_markdown(page))
    assert html.count('class="footnote-item"') == 2
    assert html.count('class="footnote-ref"') == 3
    assert "<li>Item" in html
    assert "<pre><code>code\n\nmore\n</code></pre>" in html
    assert "<pre><code>only\n</code></pre>" in html


def test_notes_may_refer_to_notes() -> None:
    page = (
        '<p>Text<sup><a href="#a">1</a></sup></p><ol><li id="a">See <sup><a href="#b">2</a></sup>'
        '<li id="b">Back to <sup><a href="#a">1</a></sup></ol>'
    )
    assert scrape_markdown(page) == "Text[^1]\n\n[^1]: See [^2]\n\n[^2]: Back to [^1]"


def test_the_html_keeps_notes_with_their_links() -> None:
    html = scrape_page(
        '<p>Text<sup><a href="#a">1</a></sup></p><ol><li id="a"><a href="/x">Note</a></ol>', "html"
    ).formats["html"]
    assert '<section role="doc-endnotes"><ol><li id="fn-1" role="doc-footnote">' in html
    assert 'href="http://site.test/x"' in html


@pytest.mark.parametrize(
    "page",
    [
        '<ul><li><a href="#s1">1</a> <a href="#s2">2</a></ul><h2 id="s1">1</h2><p>Section</p>',
        "<p>10<sup>2</sup> m<sup>2</sup></p><p>More</p>",
        '<p>See <a href="#t">[1]</a></p><h2 id="t">A section</h2><p>Text</p>',
        '<p>Equation <a href="#eq1">(1)</a></p><p id="eq1">E equals m</p>',
        '<p>x<sup><a href="/other#n">1</a></sup></p>',
        "<p>A list [^1] and [^1]: no note</p>",
        "<p>Text<sup>1</sup>.</p><hr><p><sup>1</sup> A note without a link.</p>",
        '<p>Text<span class="sidenote">A note in the text.</span>.</p>',
        '<pre><a href="#L1" id="L1">1</a> code</pre>',
    ],
)
def test_other_marks_are_no_notes(page: str) -> None:
    assert "[^" not in scrape_markdown(page).replace("\\[^", "")


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from(["li", "p", "div", "dd", "td", "h4", "span"])),
        max_size=12,
    ),
    st.booleans(),
)
def test_no_text_is_lost(links: list[tuple[int, str]], raised: bool) -> None:
    references = "".join(
        f'word{number} <sup><a href="#n{target}">{target}</a></sup>'
        if raised
        else f'word{number} <a href="#n{target}">[{target}]</a>'
        for number, (target, _) in enumerate(links)
    )
    notes = "".join(
        f'<{tag} id="n{number}">note{number} <a href="#n{target}">{target}</a></{tag}>'
        for number, (target, tag) in enumerate(links)
    )
    markdown = scrape_markdown(f"<p>{references}</p><div>{notes}</div>")
    for number in range(len(links)):
        assert f"word{number}" in markdown
        assert f"note{number}" in markdown


def many_notes(count: int) -> str:
    references = "".join(f'<sup><a href="#n{n}">{n}</a></sup>' for n in range(count))
    notes = "".join(
        f'<li id="n{n}">note <sup><a href="#n{(n * 7 + 1) % count}">{n}</a></sup>'
        for n in range(count)
    )
    return f"<p>{references}</p><ol>{notes}</ol>"


HOSTILE = {
    "many notes": many_notes(4000),
    "nested notes": "".join(f'<sup><a href="#n{n}">{n}</a></sup>' for n in range(2000))
    + "".join(f'<div id="n{n}"><a href="#n{n}">^</a>' for n in range(2000)),
    "one block of notes": "".join(f'<sup><a href="#n{n}">{n}</a></sup>' for n in range(3000))
    + "<p>"
    + "".join(f'<a id="n{n}">{n}</a> note<br>' for n in range(3000)),
    "many raised numbers": "<p>word<sup>1</sup>" * 10_000,
    "nested sidenotes": "<p>text " + '<span class="sidenote">a note of words ' * 3000,
    "one reference, many backlinks": '<p>t<sup><a href="#n" id="r">1</a></sup><p id="n">1 note'
    + '<a href="#r">x</a>' * 10_000,
    "deep references": "<b>" * 3000 + '<sup><a href="#n">1</a></sup>' * 500 + '<p id="n">1 note',
}


async def test_hostile_notes_stay_within_worker_limits() -> None:
    sources = {name: page_source(body) for name, body in HOSTILE.items()}
    await scrape_in_worker(sources, ConversionOptions(only_main_content=False))
