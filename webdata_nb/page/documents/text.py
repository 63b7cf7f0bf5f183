"""Converts texts to HTML: plain text, JSON, XML, tables of separated values, and feeds.

URLs become links and the text stays as it is; a table of values becomes a table; each entry of a
feed (RSS, Atom, JSON Feed) becomes an article.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from html import escape, unescape
from io import StringIO
from itertools import islice
from typing import TYPE_CHECKING, Any

from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.page.content.parser import (
    Entry,
    Feed,
    body_of,
    children_of,
    parse,
    read_feed,
    serialize,
)
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


MAX_ROWS = 5000
"""Rows of a table, the header included."""
MAX_COLUMNS = 200
"""Columns of a table."""
MAX_CELLS = 100_000
"""Cells of a table."""
MAX_TABLE_CHARACTERS = 1_000_000
"""Characters of a document that are read."""

_DELIMITERS = ",;\t|"
_SEPARATOR_LINE = re.compile(
    r"""[ ]*("?)sep=(?P<separator>[^\w"\r\n])(?P=separator)*\1[ ]*(?:\r\n?|\n|$)""", re.IGNORECASE
)
_SAMPLE_ROWS = 20
_SAMPLE_CHARACTERS = 20_000


def convert_csv(text: str, url: str) -> ConvertedDocument:
    """Convert a table of comma-, semicolon-, tab- or bar-separated values.

    A first line ``sep=;``, which spreadsheet programs write and read, names another separator and
    is no data. The first row is the header. Rows and columns beyond the limits are omitted; the
    metadata's `rows_omitted` and `columns_omitted` count them.
    """
    whole = text.removeprefix("\ufeff")
    named = _SEPARATOR_LINE.match(whole)
    if named is not None:
        whole = whole[named.end() :]
    head = whole[:MAX_TABLE_CHARACTERS]
    rows = _read_rows(head, named["separator"] if named is not None else None)
    if not rows:
        return convert_plain_text(text, url)
    width = max(map(len, rows))
    columns = min(width, MAX_COLUMNS)
    head_rows = rows[: max(1, min(MAX_ROWS, MAX_CELLS // columns))]
    metadata = {"rows_omitted": len(rows) - len(head_rows) + whole.count("\n", len(head))}
    metadata["columns_omitted"] = width - columns
    nonzero = {name: count for name, count in metadata.items() if count}
    return ConvertedDocument(
        f"<body>{_value_table(head_rows, columns)}</body>", text=head, metadata=nonzero
    )


def _read_rows(text: str, delimiter: str | None) -> list[list[str]]:
    """Read the rows that are not empty; none where the text is no table."""
    if len(text) == MAX_TABLE_CHARACTERS:
        text = text[: text.rfind("\n") + 1] or text  # the last row may be incomplete
    delimiter = delimiter or _delimiter(text[:_SAMPLE_CHARACTERS])
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter)
    try:
        return [row for row in reader if any(row)]
    except csv.Error:  # a cell of more than 131,072 characters
        return []


def _delimiter(sample: str) -> str:
    """Return the delimiter that gives most rows the same number of cells, more than one."""
    return max(_DELIMITERS, key=lambda delimiter: _regularity(sample, delimiter))


def _regularity(sample: str, delimiter: str) -> tuple[int, int]:
    try:
        reader = csv.reader(StringIO(sample, newline=""), delimiter=delimiter)
        widths = Counter(len(row) for row in islice(reader, _SAMPLE_ROWS) if len(row) > 1)
    except csv.Error:
        return 0, 0
    width, count = max(widths.items(), key=lambda item: item[1], default=(0, 0))
    return count, width


def _value_table(rows: list[list[str]], columns: int) -> str:
    header, *body = ("".join(_cells(row, columns)) for row in rows)
    header = header.replace("<td>", "<th>").replace("</td>", "</th>")
    lines = "".join(f"<tr>{cells}</tr>" for cells in body)
    return f"<table><thead><tr>{header}</tr></thead><tbody>{lines}</tbody></table>"


def _cells(row: list[str], columns: int) -> Iterator[str]:
    for index in range(columns):
        cell = row[index].strip() if index < len(row) else ""
        yield f"<td>{_cell(cell)}</td>"


def _cell(text: str) -> str:
    """Return a cell as HTML; a cell that is one URL is a link."""
    is_url = next(find_urls(text), None) == (0, len(text)) if "://" in text else False
    html = escape(text).replace("\n", "<br>")
    return f'<a href="{html}">{html}</a>' if is_url else html


_CDATA = re.compile(r"(<!\[CDATA\[.*?\]\]>)", re.DOTALL)
_REFERENCE = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\d{1,7}|#x[0-9a-fA-F]{1,6});)(\w{1,31};)?")
# Control characters that no XML document may have.
_CONTROLS = dict.fromkeys((*range(9), 11, 12, *range(14, 32)), " ")


def convert_feed(text: str, _url: str) -> ConvertedDocument:
    """Convert a feed; text that is no feed becomes a code block."""
    is_json = text.lstrip("\ufeff \t\r\n").startswith("{")
    feed = read_json_feed(text) if is_json else read_feed(_as_well_formed(text))
    if feed is None:
        return convert_code(text, "json" if is_json else "xml")
    return ConvertedDocument(_feed_to_html(feed))


def _as_well_formed(text: str) -> str:
    """Repair what feeds take over from HTML, for a parser that keeps no markup of others.

    These are white space before the declaration, HTML's names of characters, a bare "&", and
    control characters.
    """
    parts = _CDATA.split(text.lstrip("\ufeff \t\r\n").translate(_CONTROLS))
    # Every other part is a CDATA section, where "&" is a character like others.
    parts[::2] = (_REFERENCE.sub(_xml_reference, part) for part in parts[::2])
    return "".join(parts)


def _xml_reference(match: re.Match[str]) -> str:
    name = match[1] or ""
    character = unescape(f"&{name}") if name else "&"
    return escape(character) if not character.endswith(";") else f"&amp;{name}"


def _feed_to_html(feed: Feed) -> str:
    """Write a feed as a page with an article for each entry; HTML of entries is kept."""
    title = escape(feed.title or "")
    head = f"<title>{title}</title>"
    if feed.description:
        head += f'<meta name="description" content="{escape(feed.description)}">'
    if feed.updated:
        head += f'<meta property="article:modified_time" content="{escape(feed.updated)}">'
    heading = _linked(title, feed.link)
    entries = "".join(map(_entry_to_html, feed.entries))
    description = f"<p>{escape(feed.description)}</p>" if feed.description else ""
    return (
        f"<!doctype html><html><head>{head}</head><body><main>"
        f"<h1>{heading}</h1>{description}{entries}</main></body></html>"
    )


def _entry_to_html(entry: Entry) -> str:
    heading = _linked(escape(entry.title or entry.link or ""), entry.link)
    byline = ", ".join(filter(None, (entry.author, entry.published or entry.updated)))
    content = entry.content if isinstance(entry.content, str) else None
    return (
        f"<article><h2>{heading}</h2>"
        + (f"<p>{escape(byline)}</p>" if byline else "")
        + f"<div>{_closed(content or entry.summary or '')}</div></article>"
    )


def _closed(html: str) -> str:
    """Return the HTML of an entry with all elements closed, so that the next entry is not in it."""
    if "<" not in html:
        return html
    body = body_of(parse(html))
    return "" if body is None else "".join(map(serialize, children_of(body)))


def _linked(html: str, url: str | None) -> str:
    return f'<a href="{escape(url)}">{html}</a>' if url and html else html


MAX_ENTRIES = 10_000
"""Entries read from one feed."""


def read_json_feed(text: str) -> Feed | None:
    """Read a JSON Feed; None for other JSON and for invalid JSON."""
    try:
        data = decode_json(text)
    except MalformedJson:
        return None
    items = data.get("items") if isinstance(data, dict) else None
    if not isinstance(items, list):
        return None
    entries = tuple(_read_entry(item) for item in items[:MAX_ENTRIES] if isinstance(item, dict))
    return Feed(
        type="json",
        title=_text(data, "title"),
        link=_text(data, "home_page_url"),
        description=_text(data, "description"),
        updated=None,
        entries=entries,
    )


def _read_entry(item: dict[str, Any]) -> Entry:
    text = _text(item, "content_text")
    authors = item.get("authors") or [item.get("author")]
    names = [_text(author, "name") for author in authors if isinstance(author, dict)]
    return Entry(
        title=_text(item, "title"),
        link=_text(item, "url") or _text(item, "external_url"),
        id=_text(item, "id"),
        updated=_text(item, "date_modified"),
        published=_text(item, "date_published"),
        summary=escape(_text(item, "summary") or ""),
        content=_text(item, "content_html") or (text and escape(text)),
        author=(", ".join(filter(None, names)) or None),
    )


def _text(values: dict[str, Any], key: str) -> str | None:
    value = values.get(key)
    return value if isinstance(value, str) else None
