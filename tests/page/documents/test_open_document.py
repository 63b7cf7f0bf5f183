"""OpenDocument texts, spreadsheets and presentations are read."""

from __future__ import annotations

import pytest

from tests.page.documents.office_files import (
    markdown_of,
    open_file,
    open_part,
    scrape_file,
)

STYLES = (
    '<style:style style:name="B" style:family="text"><style:text-properties fo:font-weight="bold"/>'
    '</style:style><style:style style:name="I" style:family="text" style:parent-style-name="B">'
    '<style:text-properties fo:font-style="italic" fo:font-weight="normal"/></style:style>'
    '<style:style style:name="P1" style:family="paragraph" '
    'style:parent-style-name="Preformatted_20_Text"/>'
    '<style:style style:name="H" style:family="text"><style:text-properties text:display="none"/>'
    '</style:style><text:list-style style:name="L1">'
    '<text:list-level-style-bullet text:level="1"/>'
    '<text:list-level-style-number text:level="2" style:num-format="1" text:start-value="3"/>'
    "</text:list-style>"
)

REPEATED = "table:number-columns-repeated='{}'"
WIDE = "table:number-columns-spanned='2'"


def text_file(body: str, **members: str) -> bytes:
    return open_file("text", body, styles=STYLES, members=members)


def test_text_is_read() -> None:
    body = (
        "<text:tracked-changes><text:changed-region><text:deletion><text:p>old</text:p>"
        "</text:deletion></text:changed-region></text:tracked-changes>"
        '<text:p text:style-name="Title">Bericht</text:p>'
        '<text:h text:outline-level="2">Überblick</text:h>'
        '<text:p>Grüße,<text:s text:c="2"/>世界 <text:span text:style-name="B">bold</text:span> '
        '<text:span text:style-name="I">it</text:span><text:span text:style-name="H">no</text:span>'
        '<text:line-break/>&lt;b&gt; <text:a xlink:href="https://other.test/a?b=1&amp;c=2">site'
        '</text:a> <text:a xlink:href="../next.odt">next</text:a> '
        '<text:a xlink:href="#place">inner</text:a><office:annotation><text:p>comment</text:p>'
        "</office:annotation></text:p>"
        '<text:p text:style-name="P1">if x:<text:line-break/><text:s text:c="4"/>y</text:p>'
        '<text:p text:style-name="Quotations">said</text:p>'
    )
    found = scrape_file(text_file(body), "application/vnd.oasis.opendocument.text")
    assert found.formats["markdown"] == (
        "# Bericht\n\n## Überblick\n\nGrüße, 世界 **bold** *it*  \n\\<b> "
        "[site](https://other.test/a?b=1&c=2) [next](http://site.test/dir/next.odt) inner\n\n"
        "```\nif x:\n    y\n```\n\n> said"
    )
    assert found.formats["links"] == [
        "https://other.test/a?b=1&c=2",
        "http://site.test/dir/next.odt",
    ]
    expected = {
        "title": "The title",
        "author": "Ann",
        "language": "de",
        "published": "2024-05-06T07:08:09",
        "page_count": 3,
        "rung": "odt",
    }
    assert found.metadata | expected == found.metadata


def test_lists_nest_and_number() -> None:
    inner = (
        "<text:list><text:list-item><text:p>b</text:p></text:list-item>"
        "<text:list-item><text:p>c</text:p><text:p>more</text:p></text:list-item></text:list>"
    )
    body = (
        '<text:list text:style-name="L1"><text:list-item><text:p>a</text:p>'
        f"{inner}</text:list-item><text:list-item><text:p>d</text:p></text:list-item></text:list>"
    )
    assert markdown_of(text_file(body)) == "- a\n\n  3. b\n  4. c\n\n     more\n\n- d"


def test_tables_notes_pictures_and_formulas() -> None:
    def cell(text: str, attributes: str = "") -> str:
        return f"<table:table-cell {attributes}><text:p>{text}</text:p></table:table-cell>"

    covered = "<table:covered-table-cell/>"
    body = (
        "<table:table><table:table-header-rows><table:table-row>"
        f"{cell('A')}{cell('wide', WIDE)}{covered}"
        "</table:table-row></table:table-header-rows>"
        f"<table:table-row>{cell('x', REPEATED.format(3))}"
        "</table:table-row></table:table>"
        '<text:p>text<text:note text:note-class="footnote"><text:note-citation>1'
        "</text:note-citation><text:note-body><text:p>The note.</text:p></text:note-body>"
        '</text:note><draw:frame><draw:image xlink:href="Pictures/a.png"/>'
        "<svg:desc>A red cat</svg:desc></draw:frame>"
        '<draw:frame><draw:object xlink:href="./Object 1"/></draw:frame></text:p>'
        "<text:p><draw:frame><draw:text-box><text:p>boxed</text:p></draw:text-box></draw:frame>"
        "</text:p>"
    )
    formula = (
        '<math xmlns="http://www.w3.org/1998/Math/MathML"><semantics><mfrac><mn>1</mn><mi>x</mi>'
        '</mfrac><annotation encoding="StarMath 5.0">1 over x</annotation></semantics></math>'
    )
    members = {"Pictures/a.png": "", "Object 1/content.xml": formula}
    found = scrape_file(text_file(body, **members))
    text = found.formats["markdown"]
    assert text.startswith("| A | wide | wide |\n| --- | --- | --- |\n| x | x | x |\n\ntext")
    assert "![A red cat](http://site.test/dir/file#Pictures/a.png)" in text
    assert text.index("boxed") < text.index("The note.")
    assert "<mfrac><mn>1</mn><mi>x</mi></mfrac>" in found.formats["html"]
    assert "over" not in text


def test_spreadsheet_is_read() -> None:
    def cell(text: str, attributes: str = "") -> str:
        inner = "".join(f"<text:p>{line}</text:p>" for line in text.split("\n") if line)
        return f"<table:table-cell {attributes}>{inner}</table:table-cell>"

    lines = "a\nb"
    link = '<text:a xlink:href="https://a.test/">site</text:a>'
    body = (
        '<table:table table:name="Daten"><table:table-row>'
        f"{cell('Größe')}{cell('wide', WIDE)}"
        "<table:covered-table-cell/></table:table-row>"
        '<table:table-row table:number-rows-repeated="2">'
        f"{cell('25,6 %')}{cell(lines)}"
        f"{cell(link)}{cell('', REPEATED.format(16000))}"
        '</table:table-row><table:table-row table:number-rows-repeated="1048573">'
        f"{cell('', REPEATED.format(16384))}"
        '</table:table-row></table:table><table:table table:name="Leer"/>'
    )
    found = scrape_file(open_file("spreadsheet", body))
    row = "| 25,6 % | a<br>b | [site](https://a.test/) |"
    assert found.formats["markdown"] == (
        f"## Daten\n\n| Größe | wide | wide |\n| --- | --- | --- |\n{row}\n{row}\n\n## Leer"
    )
    assert found.metadata | {"rung": "ods", "sheet_count": 2} == found.metadata


def test_presentation_is_read() -> None:
    def page(title: str, inner: str) -> str:
        return (
            '<draw:page><draw:frame presentation:class="title"><draw:text-box><text:p>'
            f"{title}</text:p></draw:text-box></draw:frame>{inner}<presentation:notes><draw:frame "
            'presentation:class="notes"><draw:text-box><text:p>Say this.</text:p></draw:text-box>'
            "</draw:frame></presentation:notes></draw:page>"
        )

    outline = (
        '<draw:frame presentation:class="outline"><draw:text-box><text:list><text:list-item>'
        "<text:p>a</text:p></text:list-item></text:list></draw:text-box></draw:frame>"
        "<draw:custom-shape><text:p>shape</text:p></draw:custom-shape>"
    )
    found = scrape_file(open_file("presentation", page("One", outline) + page("", "")))
    assert found.formats["markdown"] == (
        "## One\n\n- a\n\nshape\n\n### Notes\n\nSay this.\n\n## Slide 2\n\n### Notes\n\nSay this."
    )
    assert found.metadata | {"rung": "odp", "page_count": 2} == found.metadata


@pytest.mark.parametrize("kind", ["text", "spreadsheet", "presentation"])
def test_empty_documents_are_empty_rows(kind: str) -> None:
    assert markdown_of(open_file(kind, "")) == ""


def test_styles_of_the_second_part_are_used() -> None:
    style = (
        '<style:style style:name="Own" style:family="text">'
        '<style:text-properties fo:font-style="italic"/></style:style>'
    )
    part = open_part("document-styles", f"<office:styles>{style}</office:styles>")
    body = '<text:p><text:span text:style-name="Own">x</text:span></text:p>'
    assert markdown_of(open_file("text", body, members={"styles.xml": part})) == "*x*"
