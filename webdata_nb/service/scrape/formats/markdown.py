"""The `markdown` format: the content as GitHub-flavoured Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webdata_nb.service.markdown.writer import MarkdownWriter

if TYPE_CHECKING:
    from webdata_nb.service.content.content import PageContent
    from webdata_nb.service.content.parsed_page import ParsedPage


def markdown(reading: ParsedPage, content: PageContent) -> str:
    """Write the content as Markdown."""
    return MarkdownWriter(reading.links, content.anchors).write(content.element)
