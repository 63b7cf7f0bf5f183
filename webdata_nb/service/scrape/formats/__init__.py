"""The output formats, one file each: a function of a page and its content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webdata_nb.service.content.structured_data import structured_data
from webdata_nb.service.scrape.formats.headings import headings
from webdata_nb.service.scrape.formats.html import html
from webdata_nb.service.scrape.formats.images import images
from webdata_nb.service.scrape.formats.links import links
from webdata_nb.service.scrape.formats.markdown import markdown
from webdata_nb.service.scrape.formats.raw_html import raw_html
from webdata_nb.service.scrape.formats.tables import TABLES, tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from webdata_nb.service.content.page_content import PageContent
    from webdata_nb.service.content.parsed_page import ParsedPage

WHOLE: dict[str, Callable[[ParsedPage], Any]] = {
    "raw_html": raw_html,
    "structured_data": structured_data,
    TABLES: tables,
}
"""Formats of the page itself, made before its tree is pruned; tables are for extraction alone."""

CONTENT: dict[str, Callable[[ParsedPage, PageContent], Any]] = {
    "links": links,
    "images": images,
    "headings": headings,
    "html": html,
    "markdown": markdown,
}
"""Formats of the content, in the order in which they are made."""
