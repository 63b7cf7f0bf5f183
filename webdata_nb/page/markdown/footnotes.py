"""Writes content with footnotes: ``[^1]`` in the text, and the notes below it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from webdata_nb.page.markdown.writer import MarkdownWriter

if TYPE_CHECKING:
    from webdata_nb.page.content.links import LinkResolver
    from webdata_nb.page.content.page_content import PageContent

_LINE_START: Final = re.compile(r"\n(?=[^\n])")
# Text that continues the line of the mark; other blocks begin below it.
_NO_PARAGRAPH: Final = re.compile(r"[-*+#]+\s|[>|]|```|~~~|\d+[.)]\s|\$\$|<")


def write_with_footnotes(content: PageContent, links: LinkResolver) -> str:
    """Write the content of a page as Markdown, its footnotes as definitions at the end."""
    footnotes = content.footnotes
    notes = footnotes.notes if footnotes is not None else {}
    names = frozenset(notes)
    if footnotes is not None:
        footnotes.section.extract()
    blocks = [MarkdownWriter(links, content.anchors, names).write(content.element)]
    for name, note in notes.items():
        # A link without text gets no label here: the table of labels would be built for each note.
        blocks.append(_definition(name, MarkdownWriter(links, None, names).write(note)))
    return "\n\n".join(filter(None, blocks))


def _definition(name: str, text: str) -> str:
    separator = "\n    " if _NO_PARAGRAPH.match(text) else " "
    return f"[^{name}]:{separator}{_LINE_START.sub(chr(10) + '    ', text)}".rstrip()
