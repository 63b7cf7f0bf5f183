"""PowerPoint presentations become a heading for each slide, with lists, tables and notes."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pptx
from PIL import Image
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from tests.page.documents.office_files import markdown_of, scrape_file


def deck(*fill: Callable[[Any], None]) -> bytes:
    """Write a presentation with a slide for each function, which fills it."""
    presentation = pptx.Presentation()
    presentation.core_properties.author = "Ann"
    for number, change in enumerate(fill):
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text = f"Slide <{number}>"
        change(slide)
    file = io.BytesIO()
    presentation.save(file)
    return file.getvalue()


def add_outline(slide: Any) -> None:
    frame = slide.placeholders[1].text_frame
    frame.text = "Grüße 世界"
    for text, level in (("inner", 1), ("outer", 0)):
        paragraph = frame.add_paragraph()
        paragraph.text, paragraph.level = text, level
    link = frame.add_paragraph().add_run()
    link.text, link.hyperlink.address = "site", "https://other.test/a?b=1&c=2"
    link.font.bold = True
    slide.notes_slide.notes_text_frame.text = "Say\nthis."


def add_table(slide: Any) -> None:
    table = slide.shapes.add_table(3, 3, 0, 0, Inches(3), Inches(3)).table
    for number in range(9):
        table.cell(number // 3, number % 3).text = f"c{number}"
    table.cell(0, 1).merge(table.cell(0, 2))
    table.cell(1, 0).merge(table.cell(2, 0))


def add_picture_group_and_box(slide: Any) -> None:
    image = io.BytesIO()
    Image.new("RGB", (1, 1)).save(image, "PNG")
    image.seek(0)
    picture = slide.shapes.add_picture(image, 0, 0)
    picture._element.nvPicPr.cNvPr.set("descr", "A red cat")
    box = slide.shapes.add_group_shape().shapes.add_textbox(0, 0, 1, 1)
    box.text_frame.text = "boxed\nlines"


new_chart_data: Any = CategoryChartData  # without types


def add_chart(slide: Any) -> None:
    data: Any = new_chart_data()
    data.categories = ["East", "West"]
    data.add_series("Q1", (1.5, 2))
    data.add_series("Q2", (3, None))
    frame = slide.shapes.add_chart(XL_CHART_TYPE.BAR_CLUSTERED, 0, 0, 1, 1, data)
    frame.chart.has_title = True
    frame.chart.chart_title.text_frame.text = "Sales"


def hide(slide: Any) -> None:
    slide._element.set("show", "0")


def remove_title(slide: Any) -> None:
    slide.shapes.title._element.getparent().remove(slide.shapes.title._element)


def test_presentation_of_another_program_is_read() -> None:
    found = scrape_file(
        deck(add_outline, hide, remove_title),
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    )
    assert found.formats["markdown"] == (
        "## Slide <0>\n\n- Grüße 世界\n  - inner\n- outer\n"
        "- [**site**](https://other.test/a?b=1&c=2)\n\n### Notes\n\nSay\n\nthis.\n\n## Slide 3"
    )
    assert [each.url for each in found.outlinks] == ["https://other.test/a?b=1&c=2"]
    assert (found.metadata["rung"], found.metadata["page_count"]) == ("pptx", 2)
    assert found.metadata["author"] == "Ann"
    assert found.title is None  # the title of the template is none of the document


def test_tables_with_merged_cells() -> None:
    assert markdown_of(deck(add_table)) == (
        "## Slide <0>\n\n| c0 | c1<br>c2 | c1<br>c2 |\n| --- | --- | --- |\n"
        "| c3<br>c6 | c4 | c5 |\n| c3<br>c6 | c7 | c8 |"
    )


def test_pictures_groups_and_text_boxes() -> None:
    found = scrape_file(deck(add_picture_group_and_box))
    url = "http://site.test/dir/file#ppt/media/image1.png"
    assert (
        found.formats["images"][0] | {"url": url, "alt": "A red cat"}
        == (found.formats["images"][0])
    )
    assert found.formats["markdown"] == (f"## Slide <0>\n\n![A red cat]({url})\n\nboxed\n\nlines")


def test_charts_become_tables() -> None:
    assert markdown_of(deck(add_chart)) == (
        "## Slide <0>\n\n**Sales**\n\n|  | Q1 | Q2 |\n| --- | --- | --- |\n"
        "| East | 1.5 | 3 |\n| West | 2 |  |"
    )


def test_presentation_without_slides_is_an_empty_row() -> None:
    found = scrape_file(deck())
    assert (found.formats["markdown"], found.metadata["page_count"]) == ("", 0)
