"""The `markdown` format: the content as GitHub-flavoured Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webdata_nb.service.markdown.writer import MarkdownWriter

if TYPE_CHECKING:
    from webdata_nb.service.content.content import Content
    from webdata_nb.service.content.parsed_page import Reading


def markdown(reading: Reading, content: Content) -> str:
    """Write the content as Markdown."""
    return MarkdownWriter(reading.links, content.anchors).write(content.element)
