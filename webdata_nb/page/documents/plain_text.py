"""Converts plain text, JSON and XML to HTML: URLs become links, the text stays as it is."""

from __future__ import annotations

import re
from html import escape

from webdata_nb.page.documents.bare_urls import find_urls, link_urls
from webdata_nb.page.documents.converted_document import ConvertedDocument

MAX_CODE_CHARACTERS = 1_000_000
"""Characters of a JSON or XML document that its formats contain; `raw_html` has all."""

_MAX_TITLE_LENGTH = 120
_UNDERLINE = re.compile(r"([=\-*#~])\1{2,}")
_DECORATION = " \t#=*-~_"
_NO_TITLE_END = tuple(".,;:!?{}()[]<>\\|/")


def convert_plain_text(text: str, _url: str) -> ConvertedDocument:
    """Convert plain text; its first line is the title if it looks like one."""
    title = find_title(text)
    head = f"<head><title>{escape(title)}</title></head>" if title else ""
    html = f'{head}<body><pre><code class="language-">{link_urls(text)}</code></pre></body>'
    return ConvertedDocument(html, markdown=text, text=text)


def convert_code(text: str, language: str, *, head: str = "", body: str = "") -> ConvertedDocument:
    """Convert a text in a formal language to a code block.

    Parameters
    ----------
    text
        The text.
    language
        The language of the code block.
    head
        The content of the page's head.
    body
        The text as HTML; the escaped text without it.
    """
    shortened = text[:MAX_CODE_CHARACTERS]
    code = body or escape(shortened)
    html = (
        f"<head>{head}</head><body><pre>"
        f'<code class="language-{language}">{code}</code></pre></body>'
    )
    return ConvertedDocument(html, text=shortened, metadata=omitted_characters(text, shortened))


def omitted_characters(text: str, head: str) -> dict[str, int]:
    """Return the metadata of a document of which only the beginning is converted."""
    omitted = len(text) - len(head)
    return {"characters_omitted": omitted} if omitted else {}


def find_title(text: str) -> str | None:
    """Return the first line of a text if it is short, stands alone and is no sentence."""
    lines = text.lstrip("\ufeff\r\n\t ")[: 3 * _MAX_TITLE_LENGTH].splitlines()
    if lines and _UNDERLINE.fullmatch(lines[0].strip()):  # the title is between two lines
        lines = lines[1:]
    if len(lines) < 2:  # noqa: PLR2004 - a line alone is the text
        return None
    title, below = lines[0].strip(_DECORATION), lines[1].strip()
    is_apart = not below or _UNDERLINE.fullmatch(below) is not None
    is_title = (
        is_apart
        and 0 < len(title) <= _MAX_TITLE_LENGTH
        and any(character.isalpha() for character in title)
        and not title.endswith(_NO_TITLE_END)
        and not any(find_urls(title))
    )
    return title if is_title else None
