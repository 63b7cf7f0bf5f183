"""Converts charts to tables of their cached values: a row for each category."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from webdata_nb.page.documents.office.html_blocks import Cell, write_table
from webdata_nb.page.documents.office.xml_parts import (
    attribute,
    child,
    children,
    descendants,
    text_below,
    to_int,
)

if TYPE_CHECKING:
    from webdata_nb.page.documents.office.xml_parts import XmlElement

MAX_POINTS: Final = 1000
MAX_SERIES: Final = 50


def chart_to_html(root: XmlElement | None) -> str:
    """Convert a chart; nothing for one without values."""
    chart = child(root, "chart")
    series = list(descendants(child(chart, "plotArea"), "ser"))[:MAX_SERIES]
    if not series:
        return ""
    title = "".join(text.text or "" for text in descendants(child(chart, "title"), "t"))
    heading = f"<p><strong>{escape(title.strip())}</strong></p>" if title.strip() else ""
    names = [_name(each, number) for number, each in enumerate(series, 1)]
    categories = _points(
        child(series[0], "cat") if child(series[0], "cat") is not None else child(series[0], "xVal")
    )
    values = [_points(next(children(each, "val", "yVal"), None)) for each in series]
    indexes = sorted({index for points in (categories, *values) for index in points})
    rows = [["", *names]]
    rows += [
        [categories.get(index, ""), *(points.get(index, "") for points in values)]
        for index in indexes
    ]
    return heading + write_table(
        [Cell(column, [escape(text)]) for column, text in enumerate(row)] for row in rows
    )


def _name(series: XmlElement, number: int) -> str:
    return text_below(next(descendants(child(series, "tx"), "v"), None)) or f"Series {number}"


def _points(data: XmlElement | None) -> dict[int, str]:
    """Return the cached values of an axis or a series by their indexes."""
    points: dict[int, str] = {}
    for point in descendants(data, "pt"):
        if len(points) == MAX_POINTS:
            break
        points.setdefault(to_int(attribute(point, "idx")), text_below(child(point, "v")))
    return points
