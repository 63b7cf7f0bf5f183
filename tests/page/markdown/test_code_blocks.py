"""Code blocks of many highlighters keep their language and exact text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.page.pages import page_source, scrape_in_worker, scrape_markdown
from webdata_nb.page.scrape.page import ConversionOptions

PARSER = MarkdownIt("commonmark").enable("table")
PROSE = "<p>" + "Words of the manual that explain the program in the block. " * 10 + "</p>"
LINES = "int a;\n  if (a)"


def blocks(markdown: str) -> list[tuple[str, str]]:
    """Return the language and text of the fences that an independent parser finds."""
    return [(t.info, t.content.rstrip("\n")) for t in PARSER.parse(markdown) if t.type == "fence"]


STRUCTURES = {
    "Pygments": (
        '<div class="highlight-c notranslate"><div class="highlight"><pre><span></span>'
        '<span class="linenos">1</span><span class="kt">int</span> a;\n'
        '<span class="linenos">2</span>  if (a)\n</pre></div></div>'
    ),
    "Pygments table": (
        '<div class="highlight-c"><table class="highlighttable"><tr><td class="linenos">'
        '<div class="linenodiv"><pre><span>1</span>\n<span>2</span></pre></div></td>'
        f'<td class="code"><div><pre>{LINES}\n</pre></div></td></tr></table></div>'
    ),
    "Rouge": (
        '<div class="language-c highlighter-rouge"><div class="highlight"><pre class="highlight">'
        f"<code>{LINES}\n</code></pre></div></div>"
    ),
    "Rouge table": (
        '<div class="language-c highlighter-rouge"><div class="highlight"><code>'
        '<table class="rouge-table"><tbody><tr><td class="rouge-gutter gl"><pre class="lineno">1\n'
        f'2\n</pre></td><td class="rouge-code"><pre>{LINES}\n</pre></td></tr></tbody></table>'
        "</code></div></div>"
    ),
    "Chroma table": (
        '<div class="highlight"><div class="chroma"><table class="lntable"><tr><td class="lntd">'
        '<pre class="chroma"><code><span class="lnt">1\n</span><span class="lnt">2\n</span></code>'
        '</pre></td><td class="lntd"><pre class="chroma"><code class="language-c" data-lang="c">'
        f"{LINES}\n</code></pre></td></tr></table></div></div>"
    ),
    "Chroma lines": (
        '<div class="highlight"><pre class="chroma"><code class="language-c" data-lang="c">'
        '<span class="line"><span class="ln">1</span><span class="cl">int a;\n</span></span>'
        '<span class="line"><span class="ln">2</span><span class="cl">  if (a)\n</span></span>'
        "</code></pre></div>"
    ),
    "highlight.js": f'<pre><code class="hljs language-c">{LINES}</code></pre>',
    "highlight.js with numbers": (
        '<pre><code class="hljs c"><table class="hljs-ln"><tr><td class="hljs-ln-numbers">'
        '<div data-line-number="1"></div></td><td class="hljs-ln-code">int a;</td></tr><tr>'
        '<td class="hljs-ln-numbers"><div data-line-number="2"></div></td>'
        '<td class="hljs-ln-code">  if (a)</td></tr></table></code></pre>'
    ),
    "Prism": (
        f'<div class="code-toolbar"><pre class="line-numbers language-c"><code class="language-c">'
        f'{LINES}<span aria-hidden="true" class="line-numbers-rows"><span></span><span></span>'
        '</span></code></pre><div class="toolbar"><button>Copy</button></div></div>'
    ),
    "Docusaurus": (
        '<div class="language-c codeBlockContainer_x"><div><pre class="prism-code language-c">'
        '<code><span class="token-line">int a;<br></span><span class="token-line">  if (a)<br>'
        "</span></code></pre></div></div>"
    ),
    "Shiki": (
        '<pre class="shiki" data-language="c"><code><span class="line">int a;</span>\n'
        '<span class="line">  if (a)</span></code></pre>'
    ),
    "Shiki without line breaks": (
        '<pre class="shiki" data-language="c"><code><span class="line">int a;</span>'
        '<span class="line">  if (a)</span></code></pre>'
    ),
    "rehype": (
        '<figure data-rehype-pretty-code-figure><pre data-language="c"><code data-language="c"'
        ' style="display: grid;"><span data-line="">int a;</span>\n<span data-line="">  if (a)'
        "</span></code></pre></figure>"
    ),
    "Expressive Code": (
        '<div class="expressive-code"><figure><pre data-language="c"><code><div class="ec-line">'
        '<div class="gutter"><div class="ln">1</div></div><div class="code">int a;</div></div>'
        '<div class="ec-line"><div class="gutter"><div class="ln">2</div></div><div class="code">'
        "  if (a)</div></div></code></pre></figure></div>"
    ),
    "Hexo": (
        '<figure class="highlight c"><table><tr><td class="gutter"><pre><span class="line">1</span>'
        '<br><span class="line">2</span><br></pre></td><td class="code"><pre><span class="line">'
        'int a;</span><br><span class="line">  if (a)</span><br></pre></td></tr></table></figure>'
    ).replace('"highlight c"', '"highlight language-c"'),
    "SyntaxHighlighter": (
        '<div class="syntaxhighlighter  lang-c"><table><tr><td class="gutter">'
        '<div class="line number1">1</div><div class="line number2">2</div></td><td class="code">'
        '<div class="container"><div class="line number1"><code class="c">int&nbsp;a;</code></div>'
        '<div class="line number2"><code>&nbsp;&nbsp;</code><code>if&nbsp;(a)</code></div></div>'
        "</td></tr></table></div>"
    ),
    "table of a file": (
        '<div class="language-c"><table class="highlight"><tr><td class="blob-num"'
        ' data-line-number="1"></td><td class="blob-code">int a;</td></tr><tr><td class="blob-num"'
        ' data-line-number="2"></td><td class="blob-code">  if (a)</td></tr></table></div>'
    ),
    "attribute of the language": f'<pre language="c"><code language="c">{LINES}</code></pre>',
    "attribute of a text language": f'<pre lang="c"><code>{LINES}</code></pre>',
    "brush": f'<pre class="brush: c; gutter: false">{LINES}</pre>',
    "Enlighter": f'<pre class="EnlighterJSRAW" data-enlighter-language="c">{LINES}</pre>',
    "copy button": (
        f'<pre class="language-c"><button class="copy">Copy code</button><code>{LINES}</code>'
        '<span class="clipboard-message">Copied!</span></pre>'
    ),
    "styled code": f'<code class="language-c" style="white-space: pre;">\n{LINES}\n</code>',
    "block of text": f'<div class="code-block" data-lang="c">{LINES}</div>',
}


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("main", [False, True])
def test_a_block_keeps_its_language_and_text(name: str, *, main: bool) -> None:
    page = f"<article><h1>T</h1>{PROSE}{STRUCTURES[name]}{PROSE}</article>"
    assert blocks(scrape_markdown(page, only_main_content=main)) == [("c", LINES)]


@pytest.mark.parametrize(
    ("block", "language"),
    [
        ('<pre class="python">x</pre>', "python"),
        ('<figure class="highlight javascript"><pre>x</pre></figure>', "javascript"),
        ('<pre lang="en">x</pre>', ""),
        ('<pre lang="en-GB">x</pre>', ""),
        ('<div class="python"><pre>x</pre></div>', ""),
        ('<pre class="wide box text">x</pre>', ""),
        ('<pre lang="python">x</pre>', "python"),
    ],
)
def test_class_names_give_the_language_of_code(block: str, language: str) -> None:
    assert blocks(scrape_markdown(block)) == [(language, "x")]


@pytest.mark.parametrize(
    "block",
    [
        "<p>A <code>word</code> in a line</p>",
        '<p>A <code class="language-c">word</code> in a line</p>',
        '<div class="code-block-description">Words\nof text</div>',
        '<div class="code-block"><p>Words</p><p>of text</p></div>',
        '<table class="code-list"><tr><td class="code">A1<td>Name</table>',
        '<p><code style="display: block">word</code></p>',
    ],
)
def test_other_elements_are_no_blocks(block: str) -> None:
    assert blocks(scrape_markdown(block)) == []


@pytest.mark.parametrize(
    "code",
    ["1\n2\n3", "}\n}", "42 = x", "copy\npaste", "1 + 1"],
)
def test_code_like_numbers_or_labels_is_kept(code: str) -> None:
    page = f'<pre class="linenumbers"><code class="copy linenumber">{code}</code></pre>'
    assert blocks(scrape_markdown(page)) == [("", code)]


@given(
    st.lists(st.text(alphabet="ab{}();=+ 0123456789\t", min_size=1).filter(str.strip), min_size=1)
)
def test_code_is_exact(lines: list[str]) -> None:
    code = "\n".join(line.rstrip() for line in lines)
    spans = "\n".join(f'<span class="line" data-line="{n}">{x}</span>' for n, x in enumerate(lines))
    rows = "".join(
        f'<tr><td class="num">{n + 1}</td><td class="code">{x}</td></tr>'
        for n, x in enumerate(lines)
    )
    for page in (f"<pre>{spans}</pre>", f'<table class="highlight">{rows}</table>'):
        found = blocks(scrape_markdown(page))
        assert ["\n".join(x.rstrip() for x in text.split("\n")) for _, text in found] == [code]


SIZE = 200_000
HOSTILE = {
    "nested code": '<code class="block">' * (SIZE // 20) + "x",
    "nested tables in code": "<code><table><tr><td>" * (SIZE // 21),
    "nested blocks": '<div class="code-block" data-lang="c">' * (SIZE // 38) + "x",
    "nested highlighted tables": '<table class="highlight"><tr><td class="code">' * (SIZE // 46),
    "many blocks": '<pre class="line-numbers"><button>Copy</button><code>x</code></pre>' * 3000,
    "labels in a block": "<pre>" + '<span class="copy">copy</span>' * (SIZE // 30),
    "nested labels": "<pre>1" + '<span class="copy gutter">' * (SIZE // 26) + "x",
    "blocks in a wrapper": '<div class="language-c">' + "<pre>x</pre>" * (SIZE // 12),
}


async def test_hostile_code_stays_within_worker_limits() -> None:
    sources = {name: page_source(body) for name, body in HOSTILE.items()}
    await scrape_in_worker(sources, ConversionOptions(only_main_content=False))
