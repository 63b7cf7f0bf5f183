"""Emphasis is written where CommonMark reads it as such, and no text is lost."""

from __future__ import annotations

import re
from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.page.pages import scrape_markdown
from webdata_nb.page.content.parser import parse

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
WORDS = st.text(alphabet="éab .:(,`\\*_<~", min_size=1, max_size=5).map(escape)
INLINE = st.recursive(
    WORDS,
    lambda inner: st.builds(
        lambda tag, parts: f"<{tag}>{''.join(parts)}</{tag.partition(' ')[0]}>",
        st.sampled_from(["b", "i", "em", "strong", "s", "del", "a href=/x", "code", "span"]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("html", "written"),
    [
        ("a <em>é</em> b", "a *é* b"),
        ("<em>é</em><em>a</em> <b>b.</b><strong>c</strong>", "*éa* **b.c**"),
        ("x<strong>é.</strong><em>y</em>", "xé.*y*"),
        ("<em>a</em><del>.é</del>", "*a*~~.é~~"),
        ("は<b>「重」</b>で", "は<strong>「重」</strong>で"),
        ("は<em>重</em>で", "は*重*で"),
        ("は<b>100円<i>。</i></b>で", "は<strong>100円<em>。</em></strong>で"),
        ("は<b>『<i>重</i>』</b>で", "は<strong>『*重*』</strong>で"),
        ("<b>(a)</b><em>b é.</em> c", "(a)*b é.* c"),
        ("x<strong><i>.é</i> b</strong>y", "x.é by"),
        ("<em>a <strong>b</strong></em>", "*a **b***"),
        ("<em>a <em>b</em> c</em>", "*a b c*"),
        ("<b>a <del>b</del></b>c", "a ~~b~~c"),
        ("x <b>a</b><i>b</i> y", "x **a***b* y"),
        ("<b>a<p>b</p>c</b>", "**a**\n\n**b**\n\n**c**"),
        ("x <b>a<br><br>b</b> y", "x **a**\n\n**b** y"),
        ("<b></b><i> </i>x<b><br></b>", "x"),
        ("<a href=/x title='&lt;em>'><em>é</em></a>", '[*é*](http://site.test/x "<em>")'),
        ("<code>` é</code> &lt;em>é&lt;/em> <em>a</em>", "`` ` é `` \\<em>é\\</em> *a*"),
        ("<code>a`**</code><b><b>é</b></b>", "``a`**``**é**"),
        (
            "<table><tr><th>a<th>b<tr><td><ul><li>` <em>é</em> `</ul><td><code>&lt;em></code>",
            "| a | b |\n| --- | --- |\n| <ul><li>\\` *é* \\`</li></ul> | `<em>` |",
        ),
    ],
)
def test_emphasis_depends_on_the_characters_beside_it(html: str, written: str) -> None:
    assert scrape_markdown(html) == written


@pytest.mark.parametrize(
    ("html", "written"),
    [
        (
            "<b>N:</b>é <a href=/x title='f(x) `'>t</a><pre>`&lt;em>x&lt;/em></pre><b>é</b>s",
            'N:é [t](http://site.test/x "f(x) `")\n\n```\n`<em>x</em>\n```\n\n**é**s',
        ),
        (
            "<em>é<a href=/x title='é)&lt;/em>('>b</a></em>s",
            'é[b](http://site.test/x "é)</em>(")s',
        ),
        (
            "<p><b>N:</b>é <code>a`**</code><strong><strong>(x)</strong><b><br></b></strong></p>",
            "N:é ``a`**``**(x)**",
        ),
    ],
)
def test_titles_and_code_stay_as_they_are(html: str, written: str) -> None:
    assert scrape_markdown(html) == written


@pytest.mark.parametrize(
    "inline",
    [
        "<code>`</code><b><code>:</code></b>a",
        "<code>\\`</code><b><code>:</code></b>a",
        "<code>a</code><i></i><code>b</code>",
        "<b><code>a</code></b><i><code>b</code></i>c",
    ],
)
def test_adjacent_code_spans_stay_readable(inline: str) -> None:
    html = f"<p>Qé {inline} Z</p>"
    assert _letters(READER.render(scrape_markdown(html))) == _letters(html)


@given(st.lists(INLINE, min_size=1, max_size=4))
def test_no_text_is_lost_and_no_tag_is_left(parts: list[str]) -> None:
    html = f"<p>Qé {''.join(parts)} Z</p>"
    assert _letters(READER.render(scrape_markdown(html))) == _letters(html)


def _letters(html: str) -> str:
    """Return the text of HTML without what may be a mark."""
    return re.sub(r"[\s*_~`]", "", parse(html).text)
