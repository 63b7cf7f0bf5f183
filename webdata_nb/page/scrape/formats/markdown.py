"""The `markdown` format: the content as GitHub-flavoured Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webdata_nb.page.markdown.footnotes import write_with_footnotes
from webdata_nb.page.markdown.writer import MarkdownWriter

if TYPE_CHECKING:
    from webdata_nb.page.content.page_content import PageContent
    from webdata_nb.page.content.parsed_page import ParsedPage


def markdown(page: ParsedPage, content: PageContent) -> str:
    """Write the content as Markdown."""
    if content.footnotes is not None:
        return write_with_footnotes(content, page.link_resolver)
    return MarkdownWriter(page.link_resolver, content.anchors).write(content.element)
