"""Converts plain text, JSON and XML to HTML: URLs become links, the text stays as it is."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any

from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.page.documents.converted_document import ConvertedDocument

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def convert_xml(text: str, _url: str) -> ConvertedDocument:
    """Convert an XML document."""
    return convert_code(text, "xml")


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


MAX_PARSED_CHARACTERS = 5_000_000
"""Characters up to which a document is parsed for its title."""

_MAX_JSON_TITLE_LENGTH = 300
# A string that is a URL and no key. Values of these keys name a vocabulary, which is no page.
_URL_VALUE = re.compile(
    r'(?P<vocabulary>"(?:\$schema|\$id|\$ref|@context|@type|@vocab|xmlns)"\s*+:\s*+)?'
    r'"(?P<url>https?:\\?/\\?/[^"\s<>\x00-\x20]{1,2000}+)"(?!\s*+:)'
)


def convert_json(text: str, _url: str) -> ConvertedDocument:
    """Convert a JSON document, also JSON Lines or invalid JSON."""
    head = text[:MAX_CODE_CHARACTERS]
    data = _parse(text)
    title = next(filter(None, (_line(data.get(key)) for key in ("title", "name"))), None)
    info = data.get("info")  # OpenAPI
    if title is None and isinstance(info, dict):
        data, title = info, _line(info.get("title"))
    description = _line(data.get("description"))
    parts = [f"<title>{escape(title)}</title>"] if title else []
    if description:
        parts.append(f'<meta name="description" content="{escape(description)}">')
    return convert_code(text, "json", head="".join(parts), body=_link_values(head))


def _parse(text: str) -> dict[str, Any]:
    if len(text) > MAX_PARSED_CHARACTERS:
        return {}
    try:
        data = decode_json(text)
    except MalformedJson:
        return {}
    return data if isinstance(data, dict) else {}


def _line(value: object) -> str | None:
    if not isinstance(value, str) or not 0 < len(value.strip()) <= _MAX_JSON_TITLE_LENGTH:
        return None
    return value.strip()


def _link_values(text: str) -> str:
    """Return JSON as HTML in which the values that are URLs are links."""
    pieces: list[str] = []
    position = 0
    for count, match in enumerate(_URL_VALUE.finditer(text)):
        if count == MAX_BARE_URLS:
            break
        if match["vocabulary"]:
            continue
        start, end = match.span("url")
        url = escape(match["url"].replace("\\/", "/"))
        written = escape(match["url"])
        pieces += escape(text[position:start]), f'<a href="{url}">{written}</a>'
        position = end
    return "".join([*pieces, escape(text[position:])])


MAX_BARE_URLS = 20_000
"""URLs of one text that become links."""

_URL = re.compile(
    r"(?<![A-Za-z0-9])https?://(?:[^\s<>\"`{}|\\^\]\x00-\x20\x7f]|\](?!\()){1,2000}", re.IGNORECASE
)
_CLOSING = {")": "(", "]": "[", "\u00bb": "\u00ab"}
_PUNCTUATION = ".,;:!?'*_~\u2026\u201c\u201d\u2018\u2019"


def find_urls(text: str) -> Iterator[tuple[int, int]]:
    """Return start and end of each http and https URL, without punctuation of the sentence."""
    for count, match in enumerate(_URL.finditer(text)):
        if count == MAX_BARE_URLS:
            return
        end = _end_of_url(text, *match.span())
        if end > match.start() + len("https://"):
            yield match.start(), end


def link_urls(text: str) -> str:
    """Return a text as HTML in which its URLs are links."""
    pieces: list[str] = []
    position = 0
    for start, end in find_urls(text):
        url = escape(text[start:end])
        pieces += escape(text[position:start]), f'<a href="{url}">{url}</a>'
        position = end
    return "".join([*pieces, escape(text[position:])])


def _end_of_url(text: str, start: int, end: int) -> int:
    """Return where a URL ends whose match may include punctuation that follows it."""
    while end > start:
        last = text[end - 1]
        opening = _CLOSING.get(last)
        unbalanced = opening is not None and (
            text.count(last, start, end) > text.count(opening, start, end)
        )
        if not unbalanced and last not in _PUNCTUATION:
            break
        end -= 1
    return end
