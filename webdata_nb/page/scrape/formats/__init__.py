"""Maps the name of each output format to the function that makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webdata_nb.page.content.page_source import SOURCE
from webdata_nb.page.content.structured_data import structured_data
from webdata_nb.page.extract.visible.labels import LABELS, read_labels
from webdata_nb.page.extract.visible.values import VISIBLE, read_visible_values
from webdata_nb.page.scrape.formats.headings import headings
from webdata_nb.page.scrape.formats.html import html
from webdata_nb.page.scrape.formats.images import images
from webdata_nb.page.scrape.formats.links import links
from webdata_nb.page.scrape.formats.markdown import markdown
from webdata_nb.page.scrape.formats.raw_html import raw_html
from webdata_nb.page.scrape.formats.tables import TABLES, read_tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from webdata_nb.page.content.page_content import PageContent
    from webdata_nb.page.content.parsed_page import ParsedPage

PAGE_FORMATS: dict[str, Callable[[ParsedPage], Any]] = {
    "raw_html": raw_html,
    SOURCE: raw_html,
    "structured_data": structured_data,
    TABLES: read_tables,
    LABELS: read_labels,
    VISIBLE: read_visible_values,
}
"""Formats of the whole page, made before its tree is pruned; not all of them are public."""

CONTENT_FORMATS: dict[str, Callable[[ParsedPage, PageContent], Any]] = {
    "links": links,
    "images": images,
    "headings": headings,
    "html": html,
    "markdown": markdown,
}
"""Formats of the content, in the order in which they are made."""
