"""What the Markdown of a page keeps, and what it leaves out."""

from __future__ import annotations

import re

import pytest
from markdown_it import MarkdownIt

from tests.page.pages import scrape_markdown, scrape_page

SPHINX = (
    '<div class="highlight-python3 notranslate"><div class="highlight"><pre><span></span>'
    '<span class="k">if</span> x:\n    <a href="y.html">y</a>\n\n</pre></div></div>'
)


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|")]


def test_a_table_has_outer_pipes_and_a_header_row() -> None:
    table = "<table><tr><th>Name<th>Age<tr><td>Ann<td>7</table>"
    assert scrape_markdown(table) == "| Name | Age |\n| --- | --- |\n| Ann | 7 |"


def test_spans_are_expanded_over_rows_and_columns() -> None:
    table = (
        "<table><caption>People</caption><tr><th colspan=2>Name<th>Age"
        "<tr><td>Ann<td>Bee<td rowspan=2>7<tr><td colspan=2>Carl</table>"
    )
    written = scrape_markdown(table)
    assert written.startswith("People\n\n|")
    assert rows(written) == [
        "| Name | Name | Age |",
        "| --- | --- | --- |",
        "| Ann | Bee | 7 |",
        "| Carl | Carl | 7 |",
    ]


def test_spanning_cells_are_repeated_in_each_column() -> None:
    table = "<table><tr><th>a<th>b<tr><td colspan=2>Section<tr><td>1<td>2</table>"
    assert rows(scrape_markdown(table))[2] == "| Section | Section |"


def test_rowspan_ends_with_its_table_section() -> None:
    table = (
        "<table><tbody><tr><td rowspan=0>x<td>1<tr><td>2</tbody>"
        "<tbody><tr><td>y<td>3</tbody></table>"
    )
    assert rows(scrape_markdown(table))[2:] == ["| x | 1 |", "| x | 2 |", "| y | 3 |"]


def test_cells_shift_right_of_rowspans() -> None:
    table = "<table><tr><td rowspan=2>a<td>b<td rowspan=3>c<tr><td>d<tr><td>e<td>f</table>"
    assert rows(scrape_markdown(table))[2:] == ["| a | b | c |", "| a | d | c |", "| e | f | c |"]


def test_rows_of_different_length_are_filled_up() -> None:
    assert rows(scrape_markdown("<table><tr><td>a<tr><td>b<td>c<td>d</table>")) == [
        "|  |  |  |",
        "| --- | --- | --- |",
        "| a |  |  |",
        "| b | c | d |",
    ]


@pytest.mark.parametrize("span", ["1000000000", "-1", "x", "", "٣", "1e3", "0"])
def test_invalid_spans_still_give_a_table(span: str) -> None:
    table = f'<table><tr><td colspan="{span}" rowspan="{span}">a<td>b<tr><td>c<td>d</table>'
    assert "a" in rows(scrape_markdown(table))[2]


def test_a_table_for_layout_becomes_blocks() -> None:
    inner = "<table><tr><td>1<td>2<tr><td>3<td>4</table>"
    written = scrape_markdown(f"<table><tr><td><h2>Title</h2><p>Text</p>{inner}<td>Side</table>")
    assert "## Title\n\nText\n\n|  |  |\n| --- | --- |\n| 1 | 2 |" in written
    assert written.endswith("Side")


@pytest.mark.parametrize(
    ("page", "written"),
    [
        ("<p>a<br><br>b", "a\n\nb"),
        ("<p>a<br> <br>\n<br>b<br>c", "a\n\nb  \nc"),
        ("<p>a<br><span></span><br>b", "a\n\nb"),
        ("<ul><li>a<br><br>b</ul>", "- a\n\n  b"),
        ("<div><p>a</p><br>b<br></div>", "a\n\nb"),
        ("<div><br>a<span><br><br>b</span></div>", "a\n\nb"),
        ("<table><tr><td>a<br><br>b<td>c</table>", "|  |  |\n| --- | --- |\n| a<br><br>b | c |"),
        ("<p><a href=/x>a<br>b</a>", "[a  \nb](http://site.test/x)"),
    ],
)
def test_line_breaks_in_a_row_set_paragraphs_apart(page: str, written: str) -> None:
    assert scrape_markdown(page) == written


def test_svg_links_are_labelled_by_the_svg_title() -> None:
    drawn = "<a href=/x><svg><title>Home</title></svg></a>"
    assert scrape_markdown(drawn) == "[Home](http://site.test/x)"
    assert scrape_markdown(f"{drawn}<p>text") == "[Home](http://site.test/x)\n\ntext"
    assert (
        scrape_markdown(f"<a href=/x><svg><style>{'.a{b:c}' * 20}</style></svg></a><p>text")
        == "text"
    )


def test_lists_side_by_side_in_a_table_are_lists() -> None:
    lists = "<td><ul><li><a href=/a>A</a></ul><td><ul><li><b>B</b></ul>"
    assert scrape_markdown(f"<table><tr>{lists}</table>") == "- [A](http://site.test/a)\n\n* **B**"


def test_a_table_of_code_and_line_numbers_is_the_code() -> None:
    table = (
        '<table class="highlighttable"><tr><td class="linenos"><pre>1\n2</pre></td>'
        '<td class="code"><div class="highlight-c"><pre>a;\nb;</pre></div></td></tr></table>'
    )
    assert scrape_markdown(table) == "```c\na;\nb;\n```"


def test_a_code_block_of_sphinx_has_its_language_and_its_links_as_text() -> None:
    assert scrape_markdown(SPHINX) == "```python3\nif x:\n    y\n```"


@pytest.mark.parametrize(
    ("block", "language"),
    [
        ('<pre><code class="language-js">x</code></pre>', "js"),
        ('<pre class="lang-c"><code>x</code></pre>', "c"),
        ('<pre><code class="hljs rust">x</code></pre>', "rust"),
        ('<pre class="brush: php; toolbar: false">x</pre>', "php"),
        (
            '<pre class="sourceCode haskell"><code class="sourceCode haskell">x</code></pre>',
            "haskell",
        ),
        ('<div class="highlight highlight-source-shell"><pre>x</pre></div>', "shell"),
        ('<pre class="src src-emacs-lisp">x</pre>', "emacs-lisp"),
        (
            '<div class="language-bash highlighter-rouge"><div><pre>x</pre></div></div>',
            "bash",
        ),
        ('<pre data-lang="c++">x</pre>', "c++"),
        ('<div class="highlight-default notranslate"><pre>x</pre></div>', ""),
        ('<pre class="language-a`b">x</pre>', ""),
        ('<div class="language-sql"><pre>x</pre><pre>y</pre></div>', ""),
        ("<pre>x</pre>", ""),
    ],
)
def test_fences_name_the_declared_language(block: str, language: str) -> None:
    assert scrape_markdown(block).splitlines()[0] == f"```{language}"


def test_lines_of_code_may_be_elements() -> None:
    assert scrape_markdown("<pre>one<br>two<div>three</div></pre>") == "```\none\ntwo\nthree\n```"


def test_line_numbers_inside_code_are_left_out() -> None:
    block = '<pre><span class="lineno">1 </span>a = 1\n<span class="lineno">2 </span>b = 2</pre>'
    assert scrape_markdown(block) == "```\na = 1\nb = 2\n```"


def test_nested_lists_keep_their_levels_and_numbers() -> None:
    nested = "<ol start=3><li>one<ul><li>a<li>b</ul><li>two</ol>"
    assert scrape_markdown(nested) == "3. one\n   - a\n   - b\n4. two"


@pytest.mark.parametrize(
    ("page", "written"),
    [
        ("<ol start=3><li value=3>a<li value=4>b</ol>", "3. a\n4. b"),
        ("<ol><li value=7>a<li>b</ol>", "7. a\n8. b"),
        ("<ol start=5><li>a<li value=9>b</ol>", "5. a\n6. b"),
        ("<ol reversed><li>a<li>b</ol>", "1. a\n2. b"),
        ("<ol start=-3><li>a</ol>", "1. a"),
        ("<ol start=9999999999><li value=-1>a</ol>", "1. a"),
        ("<ul><li>u<ol><li>a<li value=7>b</ol></ul>", "- u\n  1. a\n  2. b"),
    ],
)
def test_ordered_list_start_numbers_are_written_or_replaced(page: str, written: str) -> None:
    assert scrape_markdown(page) == written


def test_link_around_a_list_item_moves_into_the_item() -> None:
    assert scrape_markdown("<ul><a href=/x><li>a</li></a><a href=/y><li>b</li></a></ul>") == (
        "- [a](http://site.test/x)\n- [b](http://site.test/y)"
    )


def test_list_between_list_items_is_nested() -> None:
    assert scrape_markdown("<ul><li>a</li><ul><li>b</ul></ul>") == "- a\n  - b"
    assert scrape_markdown("<ul><ol><li>b</ol></ul>") == "- 1. b"


def test_terms_definitions_and_sub_are_kept_as_text() -> None:
    assert scrape_markdown("<dl><dt>Term<dd>Meaning</dl>H<sub>2</sub>O, x<sup>2</sup>") == (
        "Term\n\nMeaning\n\nH2O, x^2"
    )


def test_links_and_pictures_are_absolute_also_by_base() -> None:
    page = '<base href="/b/"><a href="x.html#part">x</a> <img src="i.png" alt="I">'
    assert scrape_markdown(page) == (
        "[x](http://site.test/b/x.html#part) ![I](http://site.test/b/i.png)"
    )


def test_links_with_unsupported_schemes_become_text() -> None:
    page = (
        '<a href="javascript:x()">js</a> <a href="http://[bad">bad</a> <a name="n">n</a>'
        ' <a href="mailto:a@site.test">mail</a> <a href="">here</a>'
    )
    assert scrape_markdown(page) == (
        "js bad n [mail](mailto:a@site.test) [here](http://site.test/dir/page.html)"
    )


def test_links_without_text_use_their_label_or_are_dropped() -> None:
    page = '<p><a href="/f" aria-label="Find us"><i></i></a> <a href="/g"> </a>end</p>'
    assert scrape_markdown(page) == "[Find us](http://site.test/f) end"


def test_a_link_around_a_heading_becomes_a_linked_heading() -> None:
    page = '<a href="/c"><h3>Card</h3><p>text</p></a>'
    assert scrape_markdown(page) == "### [Card](http://site.test/c)\n\ntext"


def test_lazy_pictures_are_shown_and_inlined_ones_left_out() -> None:
    page = (
        '<img src="data:image/gif;base64,AAAA" data-src="/real.jpg" alt="two\nlines">'
        '<img src="data:image/gif;base64,AAAA" alt="gone">'
    )
    assert scrape_markdown(page) == "![two lines](http://site.test/real.jpg)"


PIXEL = "data:image/gif;base64,AAAA"


@pytest.mark.parametrize(
    ("page", "urls"),
    [
        ('<figure><img alt=x><noscript><img src="/a.png"></noscript></figure>', ["/a.png"]),
        (f'<p><img src="{PIXEL}"> <noscript><img src="/a.png"></noscript>', ["/a.png"]),
        ('<span><img class=lazy></span><noscript><img src="/a.png"></noscript>', ["/a.png"]),
        ('<p>text<noscript><img src="/a.png"></noscript>', ["/a.png"]),
        ('<img data-src="/a.png"><noscript><img src="/a.png"></noscript>', ["/a.png"]),
        ('<p>x<noscript><img height="1" width="1" src="/track"></noscript>', []),
        ("<p>x<noscript>Please enable scripts<img src=/a.png></noscript>", []),
        ('<amp-img src="/a.png"><noscript><img src="/b.png"></noscript></amp-img>', ["/a.png"]),
        ('<img src="/spacer.gif" data-original="/a.png">', ["/a.png"]),
        ('<img src="/s.png" srcset="/l.png 900w, /s.png 100w">', ["/l.png"]),
    ],
)
def test_markdown_and_images_name_the_same_files(page: str, urls: list[str]) -> None:
    scraped = scrape_page(f"<main>{page}</main>", "markdown", "images")
    wanted = [f"http://site.test{url}" for url in urls]
    assert [row["url"] for row in scraped.formats["images"]] == wanted
    assert re.findall(r"!\[[^\]]*\]\(([^)]*)\)", scraped.formats["markdown"]) == wanted


@pytest.mark.parametrize(
    ("ruby", "text"),
    [
        ("<ruby>漢字<rt>かんじ</rt></ruby>", "漢字(かんじ)"),
        ("<ruby>学<rp>【</rp><rt>まな</rt><rp>】</rp></ruby>ぶ", "学【まな】ぶ"),
        ("<ruby>東<rt>とう</rt>京<rt>きょう</rt></ruby>", "東(とう)京(きょう)"),
        ("<ruby>東<rt></rt></ruby>", "東"),
        ("<ruby>学\n<rp>(</rp>\n<rt>まな</rt>\n<rp>)</rp>\n</ruby>", "学 ( まな )"),
    ],
)
def test_readings_stand_in_parentheses(ruby: str, text: str) -> None:
    assert scrape_markdown(f"<p>{ruby}</p>") == text


def test_invisible_elements_are_left_out() -> None:
    page = (
        "<p>seen<span hidden>A</span><span style='DISPLAY : none'>B</span><svg><text>C</text></svg>"
        "<button>D</button><select><option>E</select><textarea>F</textarea><noscript>G</noscript>"
        "<template>H</template><script>I()</script><style>J{}</style><dialog>K</dialog>"
        "<iframe>L</iframe><video>M</video><canvas>N</canvas><!-- O --><input value=P></p>"
    )
    assert scrape_markdown(page) == "seen"


def test_collapsed_lists_and_sections_are_kept() -> None:
    items = "".join(f'<li><a href="/{n}">Part {n}</a></li>' for n in range(9))
    assert "Part 8" in scrape_markdown(f'<p>Page</p><ul style="display:none">{items}</ul>')
    assert "word" in scrape_markdown(f"<p>Page</p><div hidden>{'word ' * 40}</div>")
    assert scrape_markdown("<body hidden><p>All of it</p></body>") == "All of it"


SHADOW = "<template shadowrootmode=open>"


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        # A browser shows the shadow root alone; what no slot takes stays all the same.
        (f"<div>{SHADOW}<p>shadow</p></template><p>light</p></div>", "shadow\n\nlight"),
        (
            f"<div><p>light</p>{SHADOW}<h2>Up</h2><slot>none</slot></template></div>",
            "## Up\n\nlight",
        ),
        (f"<x-a>{SHADOW}<slot><p>none given</p></slot></template> </x-a>", "none given"),
        (
            f"<x-a>{SHADOW}<p><slot name=b></slot>, <slot></slot></template>A<b slot=b>B</b></x-a>",
            "**B**, A",
        ),
        (
            f"<x-a>{SHADOW}<x-b>{SHADOW}<p><slot></slot>!</template><slot></slot></x-b></template>words",
            "words!",
        ),
        (
            f"<div>{SHADOW}<a href=/x>in</a><style>p{{}}</style></template></div>",
            "[in](http://site.test/x)",
        ),
        # None of these is a shadow root to a browser.
        (f"<ul><li>{SHADOW}no</template>item</ul>", "- item"),
        (f"<div>{SHADOW}first</template>{SHADOW}second</template></div>", "first"),
        ("<div><template shadowrootmode=no>no</template>yes</div>", "yes"),
    ],
)
def test_declarative_shadow_roots_are_flattened_into_their_host(page: str, shown: str) -> None:
    assert scrape_markdown(page) == shown


def test_nested_shadow_roots_are_read_to_a_limit() -> None:
    page = f"<div>{SHADOW}<p>word</p>" * 3000
    assert scrape_markdown(page).count("word") >= 10


def test_permalink_signs_of_headings_are_left_out() -> None:
    page = (
        '<h2 id="a">One<a class="headerlink" href="#a">¶</a></h2>'
        '<h3><a href="#b"></a>Two <a href="#b">#</a></h3><p>see <a href="#a">#1</a></p>'
    )
    assert scrape_markdown(page) == (
        "## One\n\n### Two\n\nsee [#1](http://site.test/dir/page.html#a)"
    )


def test_buttons_are_kept_only_as_headings() -> None:
    page = (
        "<h2><button>Question?</button></h2><h3>Title <button>Edit</button></h3><button>Go</button>"
    )
    assert scrape_markdown(page) == "## Question?\n\n### Title"


def test_a_task_list_keeps_its_boxes() -> None:
    page = (
        "<ul><li><input type=checkbox disabled checked> done"
        "<li><input type=checkbox disabled> open</ul>"
    )
    assert scrape_markdown(page) == "- [x] done\n- [ ] open"
    assert scrape_markdown(page.replace("done", "<b>é</b> x")) == "- [x] **é** x\n- [ ] open"


def test_menu_checkboxes_are_not_task_items() -> None:
    assert scrape_markdown("<ul><li><input type=checkbox id=nav><a href='/m'>Menu</a></ul>") == (
        "- [Menu](http://site.test/m)"
    )


@pytest.mark.parametrize(
    "html",
    [
        "<p>x <i>café</i> y, <b>plain</b></p>",
        "<p><b>“quoted”</b> x <b>plain</b></p>",
        "<p><em>space&nbsp;</em>x <b>plain</b></p>",
        "<p>漢<b>字</b>。<b>plain</b></p>",
        "<p><b>Note:</b>x <i>é</i> <b>plain</b></p>",
        "<p><del>é</del> <b>a</b><i>é</i></p>",
        "<p><b>x <b>é</b></b> y</p>",
        "<table><tr><th>a<th><b>é|x</b><tr><td><i>ö</i> q<td>2</table>",
    ],
)
def test_emphasis_is_written_without_html_tags(html: str) -> None:
    written = scrape_markdown(html)
    assert "<" not in written
    rendered = MarkdownIt("commonmark").enable("table").render(written)
    assert "*" not in rendered


@pytest.mark.parametrize(
    ("html", "written"),
    [
        ("<p><b>Note:</b>é <i>è</i> x</p>", "Note:é *è* x"),
        ("<p>x<b><i>é.</i></b>y</p>", "xé.y"),
        ("<p><i>é</i>s x<b>é.</b><i>y</i> <i>z</i><b>.é</b></p>", "*é*s xé.*y* *z*.é"),
        ("<p><b>é:&nbsp;</b>x <b>&nbsp;y</b></p>", "**é:** x  **y**"),
        ("<p>x <b>é.&nbsp;</b></p><p><i>&nbsp;</i></p>z", "x **é.**\n\nz"),
        ("<ul><li><a href=/a>A</a><li><i>é</i>s</ul>", "- [A](http://site.test/a)\n- *é*s"),
        ("<p>&lt;em>é&lt;/em> <em>é</em>s</p>", "\\<em>é\\</em> *é*s"),
    ],
)
def test_emphasis_that_could_not_be_read_is_text(html: str, written: str) -> None:
    assert scrape_markdown(html) == written


def test_tags_in_code_are_no_emphasis() -> None:
    assert scrape_markdown("<p><i>é</i>s <code>&lt;em>`&lt;/em></code> <b>x</b></p>") == (
        "*é*s ``<em>`</em>`` **x**"
    )
    assert scrape_markdown("<p><i>é</i>s</p><pre>&lt;em>``é&lt;/em></pre><p><i>é</i>s") == (
        "*é*s\n\n```\n<em>``é</em>\n```\n\n*é*s"
    )


def test_signs_of_markdown_in_text_are_escaped() -> None:
    written = scrape_markdown("<p># 1 &lt; 2 * 3 [x] _y_ `z`</p><p>- no</p>")
    text = MarkdownIt("commonmark").render(written)
    assert text == "<p># 1 &lt; 2 * 3 [x] _y_ `z`</p>\n<p>- no</p>\n"


def test_a_paragraph_styled_to_keep_its_spaces_is_no_code() -> None:
    assert scrape_markdown(
        '<h2 style="white-space: pre-wrap">T</h2><p style="white-space:pre">p</p>'
    ) == ("## T\n\np")


@pytest.mark.parametrize(
    ("page", "written"),
    [
        ("<ul><li><p>a</p><li><p>b</p></ul>", "- a\n- b"),
        ("<ul><li>a<li><p>b<p>c<li>d</ul>", "- a\n- b\n\n  c\n\n- d"),
        ("<ol start=99><li>a<p>c<li>b<p>d</ol>", "99. a\n\n    c\n\n100. b\n\n     d"),
        ("<ol><li> <li> <li>b</ol>c", "3. b\n\nc"),
        ("<ul><li>a</ul><ul><li>b</ul><ol><li>c</ol>", "- a\n\n* b\n\n1. c"),
        ("<ul><li>a<ol start=3><li>b</ol></ul>", "- a\n\n  3. b"),
        ("<ul><li><ul><li><li>a</ul><li>b</ul>", "- - a\n- b"),
        ("<ul><li>a<li><pre>x</pre></ul>", "- a\n- ```\n  x\n  ```"),
        ("<ul><li><hr>a</ul>", "- ___\n\n  a"),
        ("<ul><li><h3>t</h3>x</ul>", "- ### t\n  x"),
        ("<ul><li>a<blockquote>q<p>r</blockquote></ul>", "- a\n\n  > q\n  >\n  > r"),
        ("<blockquote>a</blockquote><blockquote><ul><li>b</ul></blockquote>", "> a\n\n> - b"),
        ("<blockquote>a<blockquote>b</blockquote>c</blockquote>d", "> a\n>\n> > b\n>\n> c\n\nd"),
    ],
)
def test_containers_indent_their_blocks(page: str, written: str) -> None:
    assert scrape_markdown(page) == written


@pytest.mark.parametrize(
    ("page", "written"),
    [
        ("<h1> </h1><p>x </p><div> </div><p>y", "x\n\ny"),
        ("<p>x</p><ul><li></li></ul><p>y", "x\n\ny"),
        ("<ul><li><ul><li><ul><li></ul></ul></ul>x", "x"),
        ("<ul><li>&nbsp;<li>b&nbsp;</ul><h2>&nbsp;</h2>c", "- b\n\nc"),
        ("<p>a&nbsp;</p><p>&nbsp;</p><p>b &nbsp; &nbsp;<br>c&#8239;", "a\n\nb  \nc"),
        (
            "<table><tr><td>a<td>b</table><pre> </pre><blockquote></blockquote>",
            "|  |  |\n| --- | --- |\n| a | b |",
        ),
    ],
)
def test_blocks_without_content_are_left_out(page: str, written: str) -> None:
    assert scrape_markdown(page) == written


@pytest.mark.parametrize(
    ("page", "written"),
    [
        ("a&nbsp;b &nbsp;c <b>d&nbsp;</b> e", "a b  c **d**  e"),
        ("a<em>&nbsp;b</em>&#8239;c", "a *b*\u202fc"),
        ("<p>&nbsp;2. x</p><blockquote>&nbsp;y</blockquote>", "2\\. x\n\n> y"),
        ("a &amp;#160; <code>&amp;#160;</code>", "a \\&#160; `&#160;`"),
        ("<pre>- \n\n\n\n&amp;#160;</pre>", "```\n- \n\n\n\n&#160;\n```"),
        ("<a href=/x> a </a>b<b> c </b>d", "[a](http://site.test/x) b **c** d"),
    ],
)
def test_white_space_is_kept_where_it_counts(page: str, written: str) -> None:
    assert scrape_markdown(page) == written


@pytest.mark.parametrize(
    ("page", "written"),
    [
        ("1. x<br>2) y<br>3.z", "1\\. x  \n2\\) y  \n3.z"),
        ("- x<br>-y<br>+ z", "\\- x  \n-y  \n\\+ z"),
        ("# x<br>#y<br>&gt;z", "\\# x  \n#y  \n\\>z"),
        ("a<br>===<br>---<br>-", "a  \n\\===  \n\\---  \n\\-"),
        ("a | b<br>:-- | --", "a | b  \n\\:-- | --"),
        ("<h2>C #</h2>", "## C \\#"),
        ("&lt;<span>b></span> a &lt; b &amp;<i></i>lt;", "\\<b> a < b \\&lt;"),
        ("wow!<a href=/x>y</a>", "wow\\![y](http://site.test/x)"),
        (
            "<a href='/x(y'>z</a> <a href='/x(y)'>z</a>",
            "[z](http://site.test/x\\(y) [z](http://site.test/x(y))",
        ),
        ("<a href='mailto:a b@c.d'>z</a>", "[z](mailto:a%20b@c.d)"),
        ("<a href=/x title='say \"hi\"'>y</a>", '[y](http://site.test/x "say \\"hi\\"")'),
        ("<code>a</code><code>b</code> <code>`</code>", "`ab` `` ` ``"),
    ],
)
def test_text_is_escaped_where_it_would_be_markup(page: str, written: str) -> None:
    assert scrape_markdown(f"<div>{page}</div>") == written


def test_a_caption_may_hold_blocks() -> None:
    table = "<table><caption><h3>T</h3><p>c</caption><tr><td>1<td>2<tr><td>3<td>4</table>"
    assert scrape_markdown(table) == "### T\n\nc\n\n|  |  |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |"


@pytest.mark.parametrize("tag", ["div", "blockquote", "ul><li", "span", "b", "q", "a href=x"])
def test_deeply_nested_elements_are_written(tag: str) -> None:
    assert scrape_markdown(f"<{tag}>" * 50_000 + "x").strip('>-*" \n').startswith(("x", "[x]"))


def test_an_item_that_starts_with_an_empty_line_keeps_its_content() -> None:
    written = scrape_markdown("<ul><li> <span> </span> <div>one</div> <div>two</div></li></ul>")
    assert "<li>\n<p>one</p>\n<p>two</p>\n</li>" in MarkdownIt("commonmark").render(written)


def test_xhtml_with_a_prolog_is_read_to_its_end() -> None:
    page = (
        '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html PUBLIC "x" "y">\n'
        '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>T</title><script src="s"/></head>'
        '<body><p>one<br/>two <a id="z"/>three</p><div/><p>four</p></body></html>'
    )
    assert scrape_markdown(page) == "one  \ntwo three\n\nfour"
    assert scrape_page(page).title == "T"


def test_a_fragment_and_an_empty_page_are_pages() -> None:
    assert scrape_markdown("just <b>a</b> fragment") == "just **a** fragment"
    assert scrape_markdown("") == ""


def test_table_with_one_row_of_lists_is_layout() -> None:
    lists = "<tr><td><ul><li>a<li>b</ul><td>x"
    assert scrape_markdown(f"<table><tr></tr>{lists}</table>") == scrape_markdown(
        f"<table>{lists}</table>"
    )


def test_cells_of_formulas_are_not_those_of_a_table() -> None:
    table = "<table><tr><td>a<math><td>q</td></math><tr><td>a<td>b</table>"
    assert rows(scrape_markdown(table))[-1] == "| a | b |"


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("10<sup>6</sup>", "10^6"),
        ("x<sup>-2</sup>", "x^-2"),
        ("£25<sup>99</sup>", "£25^99"),
        ("1<sup>st</sup>", "1st"),
        ("end.<sup>1</sup>", "end.1"),
        ("H<sub>2</sub>O", "H2O"),
    ],
)
def test_superscript_numbers_are_written_as_exponents(html: str, markdown: str) -> None:
    assert scrape_markdown(f"<p>{html}</p>") == markdown


def test_a_short_hidden_menu_is_kept_but_no_hidden_link() -> None:
    menu = '<ul style="display:none"><li><a href="/a">A</a><li><a href="/b">B</a></ul>'
    trap = '<div style="display:none"><a href="/trap">Trap</a></div>'
    assert scrape_markdown(f"<p>Page</p>{menu}{trap}") == (
        "Page\n\n- [A](http://site.test/a)\n- [B](http://site.test/b)"
    )
