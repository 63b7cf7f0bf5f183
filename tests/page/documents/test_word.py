"""Word documents become Markdown with headings, lists, tables, links, notes and pictures."""

from __future__ import annotations

import io

import docx
import pytest
from docx.enum.style import WD_STYLE_TYPE

from tests.page.documents.office_files import (
    markdown_of,
    paragraph,
    run,
    scrape_file,
    word_file,
    word_part,
)

LISTS = word_part(
    "numbering",
    '<w:abstractNum w:abstractNumId="1">'
    + "".join(
        f'<w:lvl w:ilvl="{level}"><w:start w:val="1"/><w:numFmt w:val="{kind}"/>'
        f'<w:lvlText w:val="{sign}"/></w:lvl>'
        for level, kind, sign in (
            (0, "bullet", "-"),
            (1, "decimal", "%2."),
            (2, "lowerLetter", "%3)"),
        )
    )
    + '</w:abstractNum><w:abstractNum w:abstractNumId="2"><w:lvl w:ilvl="0"><w:start w:val="4"/>'
    '<w:numFmt w:val="decimal"/></w:lvl></w:abstractNum>'
    '<w:abstractNum w:abstractNumId="3"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/>'
    '<w:lvlText w:val=" "/></w:lvl></w:abstractNum>'
    '<w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num>'
    '<w:num w:numId="2"><w:abstractNumId w:val="2"/></w:num>'
    '<w:num w:numId="3"><w:abstractNumId w:val="3"/></w:num>',
)
STYLES = word_part(
    "styles",
    '<w:style w:type="paragraph" w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Own"><w:name w:val="Own"/>'
    '<w:basedOn w:val="berschrift1"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="T"><w:name w:val="Title"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="A"><w:name w:val="Author"/><w:basedOn w:val="T"/>'
    '</w:style><w:style w:type="paragraph" w:styleId="C"><w:name w:val="Source Code"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Q"><w:name w:val="Quote"/></w:style>'
    '<w:style w:type="character" w:styleId="S"><w:name w:val="Strong"/>'
    "<w:rPr><w:b/></w:rPr></w:style>"
    '<w:style w:type="character" w:styleId="V"><w:name w:val="Verbatim Char"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Loop"><w:basedOn w:val="Loop"/></w:style>',
)


def item(text: str, level: int = 0, number: int = 1) -> str:
    return paragraph(
        text, f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>'
    )


def styled(text: str, style: str) -> str:
    return paragraph(text, f'<w:pStyle w:val="{style}"/>')


def cell(inner: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{inner}</w:tc>"


def table(*rows: list[str]) -> str:
    return f"<w:tbl>{''.join(f'<w:tr>{chr(10).join(row)}</w:tr>' for row in rows)}</w:tbl>"


def with_styles(body: str) -> bytes:
    members = {"word/styles.xml": STYLES, "word/numbering.xml": LISTS}
    return word_file(body, members, s="styles styles.xml", n="numbering numbering.xml")


def test_document_of_another_program_is_read() -> None:
    document = docx.Document()
    document.core_properties.title, document.core_properties.author = "Bericht", "Ann"
    document.add_heading("Überblick", 1)
    document.add_paragraph("Grüße, 世界 🎉 & <b>")
    document.add_paragraph("one", style="List Bullet")
    document.add_paragraph("two", style="List Bullet 2")
    document.add_paragraph("first", style="List Number")
    document.add_heading("Zahlen", 2)
    rows = document.add_table(2, 3)
    for number, field in enumerate(field for row in rows.rows for field in row.cells):
        field.text = f"c{number}"
    rows.cell(0, 1).merge(rows.cell(0, 2)).text = "wide"
    code = document.styles.add_style("HTML Preformatted", WD_STYLE_TYPE.PARAGRAPH)
    document.add_paragraph("if x:\n    y", style=code)
    file = io.BytesIO()
    document.save(file)
    found = scrape_file(
        file.getvalue(),
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    )
    assert found.formats["markdown"] == (
        "# Überblick\n\nGrüße, 世界 🎉 & \\<b>\n\n- one\n  - two\n\n1. first\n\n## Zahlen\n\n"
        "| c0 | wide | wide |\n| --- | --- | --- |\n| c3 | c4 | c5 |\n\n```\nif x:\n    y\n```"
    )
    assert [each["text"] for each in found.formats["headings"]] == ["Überblick", "Zahlen"]
    assert (found.title, found.metadata["author"]) == ("Bericht", "Ann")
    assert (found.metadata["rung"], found.metadata["charset"]) == ("docx", None)
    assert found.formats["raw_html"] == ""


def test_properties_become_metadata() -> None:
    found = scrape_file(word_file(paragraph("x")))
    assert found.title == "The title"
    expected = {
        "author": "Ann Author",
        "description": "About it",
        "published": "2024-05-06T07:08:09+00:00",
        "page_count": 7,
    }
    assert found.metadata | expected == found.metadata


def test_headings_by_style_name_inheritance_and_outline_level() -> None:
    body = (
        styled("One", "berschrift1")
        + styled("Own", "Own")
        + styled("Title", "T")
        + styled("Author", "A")
        + paragraph("Direct", '<w:outlineLvl w:val="2"/>')
        + paragraph("Body", '<w:outlineLvl w:val="9"/>')
        + styled("Loop", "Loop")
    )
    assert markdown_of(with_styles(body)) == (
        "# One\n\n# Own\n\n# Title\n\nAuthor\n\n### Direct\n\nBody\n\nLoop"
    )


def test_character_formatting() -> None:
    inner = (
        run("a ")
        + run("bold", "<w:b/>")
        + run(" more", "<w:b/><w:i/>")
        + run(" x ", '<w:b w:val="0"/>')
        + run("style", '<w:rStyle w:val="S"/>')
        + run(" ")
        + run("code", '<w:rStyle w:val="V"/>')
        + run(" ")
        + run("gone", "<w:strike/>")
        + run("hidden", "<w:vanish/>")
        + "<w:r><w:br/><w:t>next</w:t><w:tab/><w:t>e</w:t><w:noBreakHyphen/><w:t>f</w:t></w:r>"
        + "<w:r><w:softHyphen/></w:r>"
    )
    assert markdown_of(with_styles(f"<w:p>{inner}</w:p>")) == (
        "a **bold *more*** x **style** `code` ~~gone~~  \nnext e-f"
    )


def test_readings_stand_in_parentheses() -> None:
    ruby = (
        "<w:r><w:ruby><w:rubyPr/><w:rt><w:r><w:t>かんじ</w:t></w:r></w:rt>"
        "<w:rubyBase><w:r><w:t>漢字</w:t></w:r></w:rubyBase></w:ruby></w:r>"
    )
    assert markdown_of(word_file(f"<w:p>{run('の')}{ruby}{run('を')}</w:p>")) == "の漢字(かんじ)を"


def test_lists_nest_number_and_continue() -> None:
    body = (
        item("a") + item("b", 1) + item("c", 1) + item("d", 2) + item("e") + paragraph("between")
        + item("four", 0, 2) + item("more", 0, 3) + item("five", 0, 2) + paragraph("end")
        + item("six", 0, 2) + item("odd", 5, 1) + item("none", 0, 99)
    )  # fmt: skip
    assert markdown_of(with_styles(body)) == (
        "- a\n  1. b\n  2. c\n     1. d\n- e\n\nbetween\n\n4. four\n\n   more\n\n5. five\n\nend\n\n"
        "6. six\n   - odd\n\n   none"
    )


def test_tables_with_merged_cells_headers_and_nested_blocks() -> None:
    start, more = '<w:vMerge w:val="restart"/>', "<w:vMerge/>"
    body = table(
        [cell(paragraph("A")), cell(paragraph("B")), cell(paragraph("C|D"))],
        [cell(paragraph("tall"), start), cell(paragraph("wide"), '<w:gridSpan w:val="2"/>')],
        [cell(paragraph(""), more), cell(paragraph("x") + paragraph("y")), cell(item("i"))],
    )
    assert markdown_of(with_styles(body)) == (
        "| A | B | C\\|D |\n| --- | --- | --- |\n| tall | wide | wide |\n"
        "| tall | x<br>y | <ul><li>i</li></ul> |"
    )


def test_links_of_relationships_and_fields() -> None:
    def mark(kind: str) -> str:
        return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'

    code = '<w:r><w:instrText> HYPERLINK "https://b.test/?x=1&amp;y" \\h </w:instrText></w:r>'
    body = (
        f'<w:p><w:hyperlink r:id="l">{run("one")}</w:hyperlink>{run(" ")}'
        f"{mark('begin')}{code}{mark('separate')}{run('two')}{mark('end')}{run(' ')}"
        f'<w:fldSimple w:instr="HYPERLINK next.docx">{run("three")}</w:fldSimple>'
        f'{run(" ")}<w:hyperlink w:anchor="x">{run("inner")}</w:hyperlink>'
        f'{run(" ")}<w:hyperlink r:id="j">{run("script")}</w:hyperlink></w:p>'
    )
    found = scrape_file(
        word_file(body, l="hyperlink https://a.test/x", j="hyperlink javascript:alert(1)")
    )
    links = ["https://a.test/x", "https://b.test/?x=1&y", "http://site.test/dir/next.docx"]
    assert found.formats["links"] == links
    assert [each.url for each in found.outlinks] == links
    assert found.formats["markdown"] == (
        "[one](https://a.test/x) [two](https://b.test/?x=1&y) "
        "[three](http://site.test/dir/next.docx) inner script"
    )


def test_tracked_changes_show_the_new_text() -> None:
    body = (
        f"<w:p>{run('a')}<w:ins>{run('new')}</w:ins><w:del><w:r><w:delText>old</w:delText></w:r>"
        f"</w:del><w:moveFrom>{run('away')}</w:moveFrom><w:moveTo>{run('here')}</w:moveTo></w:p>"
        f"<w:sdt><w:sdtPr/><w:sdtContent>{paragraph('control')}</w:sdtContent></w:sdt>"
    )
    assert markdown_of(word_file(body)) == "anewhere\n\ncontrol"


def test_pictures_have_their_alternative_text() -> None:
    def drawing(description: str, attributes: str) -> str:
        return (
            f'<w:r><w:drawing><wp:inline><wp:docPr id="1" name="p" {description}/>'
            f"<a:blip {attributes}/></wp:inline></w:drawing></w:r>"
        )

    pictures = (
        drawing('descr="A red cat"', 'r:embed="p"')
        + drawing('descr="Linked"', 'r:link="q"')
        + drawing("", 'r:embed="p"')
    )
    found = scrape_file(
        word_file(f"<w:p>{pictures}</w:p>", p="image media/cat.png", q="image https://i.test/c.png")
    )
    rows = [(each["url"], each["alt"]) for each in found.formats["images"]]
    assert rows == [
        ("http://site.test/dir/file#word/media/cat.png", "A red cat"),
        ("https://i.test/c.png", "Linked"),
    ]
    assert "![A red cat](" in found.formats["markdown"]
    assert found.formats["links"] == []


def test_footnotes_are_written_at_the_end() -> None:
    notes = word_part(
        "footnotes",
        f'<w:footnote w:id="-1">{paragraph("separator")}</w:footnote>'
        f'<w:footnote w:id="2">{paragraph("Second.")}</w:footnote>'
        f'<w:footnote w:id="1">{paragraph("The note.")}</w:footnote>',
    )
    body = (
        f'<w:p>{run("text")}<w:r><w:footnoteReference w:id="2"/></w:r>{run(" more")}'
        '<w:r><w:footnoteReference w:id="1"/></w:r></w:p>'
    )
    document = word_file(body, {"word/footnotes.xml": notes}, f="footnotes footnotes.xml")
    assert markdown_of(document) == "text[^1] more[^2]\n\n[^1]: Second.\n\n[^2]: The note."


def test_text_boxes_once_and_formulas() -> None:
    box = f"<wps:txbx><w:txbxContent>{paragraph('boxed')}</w:txbxContent></wps:txbx>"
    alternatives = (
        f"<mc:AlternateContent><mc:Choice><w:drawing>{box}</w:drawing></mc:Choice>"
        f"<mc:Fallback><w:pict>{box}</w:pict></mc:Fallback></mc:AlternateContent>"
    )
    fraction = (
        "<m:f><m:num><m:r><m:t>1</m:t></m:r></m:num><m:den><m:r><m:t>x</m:t></m:r></m:den></m:f>"
    )
    body = (
        f"<w:p>{run('text')}<w:r>{alternatives}</w:r></w:p><w:p><m:oMath>{fraction}</m:oMath></w:p>"
    )
    found = scrape_file(word_file(body))
    assert found.formats["markdown"] == "text\n\nboxed\n\n$\\frac{1}{x}$"


@pytest.mark.parametrize("body", ["", "<w:p/>", "<w:tbl/>", paragraph(" ")])
def test_empty_documents_are_empty_rows(body: str) -> None:
    assert markdown_of(word_file(body)) == ""


def test_strict_namespaces_and_unusual_part_names() -> None:
    strict = "http://purl.oclc.org/ooxml/wordprocessingml/main"
    inner = "<d:body><d:p><d:r><d:t>x</d:t></d:r></d:p></d:body>"
    part = f'<d:document xmlns:d="{strict}">{inner}</d:document>'
    body = word_file("", {"word/document.xml": part})
    assert markdown_of(body) == "x"


def test_code_and_quotations() -> None:
    body = styled("a  b", "C") + styled("", "C") + styled("c", "C") + styled("said", "Q")
    assert markdown_of(with_styles(body)) == "```\na  b\n\nc\n```\n\n> said"
