"""Formulas are written as LaTeX between dollars, and prices never are."""

# ruff: noqa: RUF001 - the characters of formulas
from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

from tests.page.pages import page_source, scrape_in_worker, scrape_markdown, scrape_page
from webdata_nb.page.content.formulas import clean_latex, mathml_to_latex
from webdata_nb.page.content.parser import parse
from webdata_nb.page.scrape.page import ConversionOptions

PARSER = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin)
MATH = "<math><semantics><mrow><msup><mi>x</mi><mn>2</mn></msup></mrow>%s</semantics></math>"
ANNOTATED = MATH % '<annotation encoding="application/x-tex">x^2</annotation>'
KATEX = (
    f'<span class="katex"><span class="katex-mathml">{ANNOTATED}</span>'
    '<span class="katex-html" aria-hidden="true"><span>x</span><span>2</span></span></span>'
)
PROSE = "<p>" + "Words of an article about numbers that have a square. " * 12 + "</p>"


def formulas(markdown: str) -> list[str]:
    """Return the formulas that an independent parser finds, ``$$`` before those of a block."""
    found: list[str] = []
    for token in PARSER.parse(markdown):
        if token.type == "math_block":
            found.append(f"$${token.content.strip()}")
        children = token.children or ()
        found.extend(child.content for child in children if child.type == "math_inline")
    return found


INLINE = {
    "KaTeX": KATEX,
    "KaTeX without MathML": (
        '<span class="math-inline" data-math="x^2"><span class="katex"><span class="katex-html"'
        ' aria-hidden="true">x2</span></span></span>'
    ),
    "MathJax 2": (
        '<span class="MathJax_Preview">x2</span><span class="MathJax" id="f">'
        '<nobr aria-hidden="true"><span>x</span><span>2</span></nobr>'
        '<span class="MJX_Assistive_MathML"><math><mi>x</mi></math></span></span>'
        '<script type="math/tex">x^2</script>'
    ),
    "MathJax 3": (
        '<mjx-container class="MathJax" jax="CHTML"><mjx-math><mjx-c>x</mjx-c></mjx-math>'
        f"<mjx-assistive-mml>{MATH % ''}</mjx-assistive-mml></mjx-container>"
    ),
    "MathJax 4": (
        '<style id="MJX-CHTML-styles"></style><mjx-container class="MathJax">'
        '<mjx-math data-latex="x^2"></mjx-math></mjx-container>'
    ),
    "MathML in a script": f'<script type="math/mml">{MATH % ""}</script>',
    "MathML": MATH % "",
    "alternative text": '<math alttext="x^2"><mi>?</mi></math>',
    "wiki": (
        '<span class="mwe-math-element"><span class="mwe-math-mathml-inline"'
        ' style="display: none;"><math><semantics><mi>x</mi><annotation'
        ' encoding="application/x-tex">{\\displaystyle x^2}</annotation></semantics></math></span>'
        '<img class="mwe-math-fallback-image-inline" src="/x.svg"'
        ' alt="{\\displaystyle x^2}"></span>'
    ),
    "data-tex": '<span class="ztext-math" data-tex="x^2">x</span>',
    "picture of a class": '<img class="latex" src="/x.png" alt="x^2">',
    "picture of a renderer": '<img src="/cgi/latex.php?x" alt="x^2">',
    "picture with dollars": '<img class="formulaInl" src="/x.png" alt="$x^2$">',
    "source in a class": '<span class="math inline">\\(x^2\\)</span>',
    "dollars in a class": '<span class="math-container">$x^2$</span>',
    "code of a class": '<code class="js-render-math math">x^2</code>',
}
DISPLAY = {
    "KaTeX": f'<span class="katex-display">{KATEX}</span>',
    "MathJax 2": (
        '<div class="MathJax_Display"><span class="MathJax">x2</span></div>'
        '<script type="math/tex; mode=display">x^2</script>'
    ),
    "MathJax 3": (
        '<mjx-container class="MathJax" display="true"><mjx-assistive-mml display="block">'
        '<math display="block"><msup><mi>x</mi><mn>2</mn></msup></math></mjx-assistive-mml>'
        "</mjx-container>"
    ),
    "MathML": '<math display="block" alttext="x^2"><mi>x</mi></math>',
    "data": '<div class="math-block" data-math="x^2"><span class="katex">x2</span></div>',
    "source in a class": '<div class="math notranslate">\\[x^2\\]</div>',
    "block of a class": '<pre class="js-render-math math">x^2</pre>',
}


@pytest.mark.parametrize("name", INLINE)
@pytest.mark.parametrize("main", [False, True])
def test_a_formula_in_a_line(name: str, *, main: bool) -> None:
    page = f"<article><h1>T</h1>{PROSE}<p>The square {INLINE[name]} of x.</p>{PROSE}</article>"
    markdown = scrape_markdown(page, only_main_content=main)
    assert "The square $x^2$ of x." in markdown
    assert formulas(markdown) == ["x^2"]


@pytest.mark.parametrize("name", DISPLAY)
@pytest.mark.parametrize("main", [False, True])
def test_a_formula_of_its_own_line(name: str, *, main: bool) -> None:
    page = f"<article><h1>T</h1>{PROSE}<p>The square</p>{DISPLAY[name]}{PROSE}</article>"
    markdown = scrape_markdown(page, only_main_content=main)
    assert "The square\n\n$$x^2$$\n\n" in markdown
    assert formulas(markdown) == ["$$x^2"]


@pytest.mark.parametrize(
    ("script", "page", "expected"),
    [
        ("/MathJax.js", r"a \(x_1*y_1*z\) b", ["x_1*y_1*z"]),
        ("/katex.min.js", r"a \[x\] b $$y$$ c", ["$$x", "$$y"]),
        ("/MathJax.js", r"\begin{align*}a&=b\end{align*}", [r"$$\begin{align*}a&=b\end{align*}"]),
        ("/MathJax.js", "it costs $5 to $10", []),
        ("/MathJax.js", r"<code>\(x\)</code>", []),
        ("/other.js", r"a \(x\) b", []),
    ],
)
def test_raw_latex_is_read_where_a_renderer_is_loaded(
    script: str, page: str, expected: list[str]
) -> None:
    markdown = scrape_markdown(f'<script src="{script}"></script><p>{page}</p>')
    assert formulas(markdown) == expected


def test_dollars_delimit_formulas_if_the_page_says_so() -> None:
    head = (
        '<script src="/MathJax.js"></script><script>MathJax = {tex: {inlineMath: '
        "[['$', '$'], ['\\\\(', '\\\\)']]}};</script>"
    )
    markdown = scrape_markdown(f"{head}<p>$x_1$ costs $5 to $10, not $7</p>")
    assert formulas(markdown) == ["x_1"]


PRICES = [
    "<p>It costs $5 to $10</p>",
    "<p>$5-$10</p>",
    "<p>$$$ expensive $$$</p>",
    "<p>from <b>$5</b> to <b>$10</b></p>",
    '<p><a href="/?a=$b">$5</a> and <code>$x</code> and $7</p>',
    "<ul><li>$5<li>$6</ul>",
    "<table><tr><th>a $1<th>$2<tr><td>$3<td>$4</table>",
    "<h2>$5 and $6</h2>",
    '<p><img src="a.png" alt="$5"> and $6</p>',
    "<blockquote>$5<p>$6</blockquote>",
    f"<p>{KATEX} costs $5 or $6</p>",
]


@pytest.mark.parametrize("page", PRICES)
def test_prices_are_no_formulas(page: str) -> None:
    markdown = scrape_markdown(page)
    assert [formula for formula in formulas(markdown) if formula != "x^2"] == []
    rendered = MarkdownIt("commonmark").enable("table").render(markdown)
    assert _text(rendered).count("$") >= _text(page).count("$")


def _text(html: str) -> str:
    return re.sub(r"<[^>]*>|\$x\^2\$", "", html)


def test_a_single_dollar_needs_no_escape() -> None:
    assert scrape_markdown("<p>only $5</p><p>now $4</p>") == "only $5\n\nnow $4"


@given(st.lists(st.sampled_from(["$5", "$", "$$", " ", "x", "\\", "<b>$</b>", "`", "<br>"])))
def test_text_with_dollars_never_becomes_a_formula(pieces: list[str]) -> None:
    page = f"<p>{''.join(pieces)}</p>"
    markdown = scrape_markdown(page)
    assert formulas(markdown) == []
    assert markdown.count("$") == page.count("$")


def test_adjacent_formulas_stay_apart() -> None:
    math = '<math data-latex="x"></math>'
    assert formulas(scrape_markdown(f"<p>{math}{math}{math}2</p>")) == ["x", "x", "x"]


def test_bars_do_not_end_a_cell() -> None:
    cell = '<math data-latex="|x| + \\|y\\|"></math>'
    markdown = scrape_markdown(f"<table><tr><th>a<th>b<tr><td>{cell}<td>c</table>")
    assert formulas(markdown) == [r"\vert x\vert + \Vert y\Vert"]


def test_the_html_keeps_the_formula() -> None:
    html = scrape_page(f"<p>{KATEX}</p>", "html").formats["html"]
    assert '<math data-latex="x^2"' in html
    assert "katex-html" not in html


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{\\displaystyle x}", "x"),
        ("{\\displaystyle x} {y}", "{\\displaystyle x} {y}"),
        ("a % note\nb", "a b"),
        ("5\\% of x", "5\\% of x"),
        ("\\text{if $x$}", "\\text{if \\(x\\)}"),
        ("a$b", "a\\$b"),
        ("x\\ ", "x\\ {}"),
        ("$$x$$", "x"),
    ],
)
def test_latex_is_written_on_one_line(source: str, expected: str) -> None:
    assert clean_latex(source) == expected


@pytest.mark.parametrize(
    ("mathml", "latex"),
    [
        ("<mfrac><mn>1</mn><mi>n</mi></mfrac>", r"\frac{1}{n}"),
        ("<msqrt><mi>x</mi><mo>+</mo><mn>1</mn></msqrt>", r"\sqrt{x + 1}"),
        ("<mroot><mi>x</mi><mn>3</mn></mroot>", r"\sqrt[3]{x}"),
        ("<msubsup><mi>x</mi><mi>i</mi><mn>10</mn></msubsup>", "x_i^{10}"),
        ("<msup><mi>f</mi><mo>′</mo></msup>", "f'"),
        (
            (
                "<munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi>"
                "</munderover><mi>i</mi>"
            ),
            r"\sum_{i = 1}^ni",
        ),
        ("<munder><mo>lim</mo><mi>x</mi></munder>", r"\lim_x"),
        ("<mover><mi>x</mi><mo>→</mo></mover>", r"\vec{x}"),
        ("<mover><mi>x</mi><mo>^</mo></mover>", r"\hat{x}"),
        ("<munder><mi>x</mi><mi>y</mi></munder>", r"\underset{y}{x}"),
        ("<mi>α</mi><mi>x</mi><mo>∈</mo><mi>ℝ</mi>", r"\alpha x \in \mathbb{R}"),
        ('<mi mathvariant="bold">v</mi>', r"\mathbf{v}"),
        ("<mi>sin</mi><mi>x</mi>", r"\sin x"),
        ("<mtext>if 5 % of {x}</mtext>", r"\text{if 5 \% of \{x\}}"),
        (
            (
                "<mo>(</mo><mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>0</mn></mtd></mtr><mtr><mtd>"
                "<mn>0</mn></mtd><mtd><mn>1</mn></mtd></mtr></mtable><mo>)</mo>"
            ),
            r"\left(\begin{matrix} 1 & 0 \\ 0 & 1 \end{matrix}\right)",
        ),
        ('<mfenced open="[" close=")"><mi>a</mi><mi>b</mi></mfenced>', r"\left[ a, b \right)"),
        (
            "<mmultiscripts><mi>U</mi><mprescripts/><mn>92</mn><mn>238</mn></mmultiscripts>",
            "{}_{92}^{238}U",
        ),
        ('<menclose notation="box"><mi>x</mi></menclose>', r"\boxed{x}"),
        ("<mphantom><mi>x</mi></mphantom>", ""),
        ("<mo>{</mo><mi>a</mi><mo>}</mo>", r"\{a\}"),
        ("<mi>𝔸</mi><mo>⁢</mo><mi>𝐱</mi>", r"\mathbb{A}\mathbf{x}"),
        ("<unknown><mi>x</mi></unknown>", "x"),
        ("<mfrac></mfrac>", r"\frac{}{}"),
    ],
)
def test_mathml_becomes_latex(mathml: str, latex: str) -> None:
    math = parse(f"<math>{mathml}</math>").select_one("math")
    assert math is not None
    assert mathml_to_latex(math) == latex


NAMES = """
mrow mfrac msqrt mroot msub msup msubsup munder mover munderover mtable mtr mtd mfenced menclose
mstyle semantics mmultiscripts
"""
ELEMENTS = st.sampled_from(NAMES.split())


@given(st.recursive(st.just(""), lambda inner: st.tuples(ELEMENTS, st.lists(inner, max_size=4))))
def test_latex_of_any_mathml_has_balanced_braces(tree: object) -> None:
    math = parse(f"<math>{_written(tree)}</math>").select_one("math")
    assert math is not None
    latex = mathml_to_latex(math)
    assert latex.count("{") == latex.count("}")


def _written(tree: object) -> str:
    if not isinstance(tree, tuple):
        return "<mn>7</mn>"
    tag, children = tree
    return f"<{tag}>{''.join(map(_written, children))}</{tag}>"


SIZE = 200_000
HOSTILE = {
    "dollars": "<p>" + "$" * SIZE,
    "prices": "<p>" + "$5 " * (SIZE // 3),
    "openings": '<script src="/MathJax.js"></script><p>' + "\\( \\[ " * (SIZE // 6),
    "environments": '<script src="/MathJax.js"></script><p>' + "\\begin{align}" * (SIZE // 13),
    "nested MathML": "<math>" + "<mrow>" * (SIZE // 6) + "<mi>x",
    "nested fractions": "<math>" + "<mfrac><mn>1</mn>" * (SIZE // 17),
    "nested fences": "<math>" + "<mrow><mo>(</mo><mtable><mtr><mtd>" * (SIZE // 33),
    "nested math": "<math><mi>" * (SIZE // 10),
    "many formulas": "<p>" + '<math alttext="x_1"><mi>x</mi></math>' * (SIZE // 37),
    "nested carriers": '<span class="katex">' * (SIZE // 20) + "<math><mi>x",
    "carriers of one formula": '<span class="katex">' * 5000 + ANNOTATED * 500,
    "many scripts": '<script type="math/tex">x</script>' * (SIZE // 33),
    "data in data": '<span class="katex" data-math="x^2">' * (SIZE // 36),
    "braces": '<math data-latex="' + "{" * SIZE + '">',
    "comments": '<math data-latex="' + "%" * SIZE + '">',
    "backslashes": '<math data-latex="' + "\\" * SIZE + '$">',
}


async def test_hostile_formulas_stay_within_worker_limits() -> None:
    sources = {name: page_source(body) for name, body in HOSTILE.items()}
    await scrape_in_worker(sources, ConversionOptions(only_main_content=False))
