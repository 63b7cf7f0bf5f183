"""Converts texts to HTML: plain text, Markdown, JSON, XML, tables of separated values, and feeds.

URLs become links and the text stays as it is; a table of values becomes a table; each entry of a
feed (RSS, Atom, JSON Feed) becomes an article.
"""

from __future__ import annotations

import csv
import re
import tomllib
from bisect import bisect_right
from collections import Counter
from datetime import date, datetime, time
from functools import cache
from html import escape, unescape
from io import StringIO
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml  # type: ignore[import-untyped]
from markdown_it import MarkdownIt
from markdown_it.rules_inline import html_inline, image, link
from markdown_it.token import Token

from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.page.content.links import LinkResolver
from webdata_nb.page.content.parser import (
    Entry,
    Feed,
    body_of,
    parse,
    read_feed,
)
from webdata_nb.page.documents.converted_document import ConvertedDocument, write_head

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from markdown_it.rules_core import StateCore
    from markdown_it.rules_inline import StateInline

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
    code = link_parts(text, find_urls(text))
    html = f'{head}<body><pre><code class="language-">{code}</code></pre></body>'
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
    try:
        data = decode_json(text) if len(text) <= MAX_PARSED_CHARACTERS else None
    except MalformedJson:
        data = None
    if not isinstance(data, dict):
        data = {}
    title = next(filter(None, (_line(data.get(key)) for key in ("title", "name"))), None)
    info = data.get("info")  # OpenAPI
    if title is None and isinstance(info, dict):
        data, title = info, _line(info.get("title"))
    html_head = write_head(title, [("description", _line(data.get("description")))])
    return convert_code(text, "json", head=html_head, body=link_parts(head, _url_values(head)))


def _line(value: object) -> str | None:
    if not isinstance(value, str) or not 0 < len(value.strip()) <= _MAX_JSON_TITLE_LENGTH:
        return None
    return value.strip()


def _url_values(text: str) -> Iterator[tuple[int, int]]:
    """Return start and end of each value of a JSON text that is a URL."""
    for match in islice(_URL_VALUE.finditer(text), MAX_BARE_URLS):
        if not match["vocabulary"]:
            yield match.span("url")


MAX_BARE_URLS = 20_000
"""URLs of one text that become links."""

_URL = re.compile(
    r"(?<![A-Za-z0-9])https?://(?:[^\s<>\"`{}|\\^\]\x00-\x20\x7f]|\](?!\()){1,2000}", re.IGNORECASE
)
_CLOSING = {")": "(", "]": "[", "\u00bb": "\u00ab"}
_PUNCTUATION = ".,;:!?'*_~\u2026\u201c\u201d\u2018\u2019"


def find_urls(text: str) -> Iterator[tuple[int, int]]:
    """Return start and end of each http and https URL, without punctuation of the sentence."""
    for match in islice(_URL.finditer(text), MAX_BARE_URLS):
        start, end = match.span()
        while end > start:
            last = text[end - 1]
            opening = _CLOSING.get(last)
            unbalanced = opening is not None and (
                text.count(last, start, end) > text.count(opening, start, end)
            )
            if not unbalanced and last not in _PUNCTUATION:
                break
            end -= 1
        if end > start + len("https://"):
            yield start, end


def link_parts(text: str, places: Iterable[tuple[int, int]]) -> str:
    """Return a text as HTML in which the URLs at some places are links."""
    pieces: list[str] = []
    position = 0
    for start, end in places:
        url = escape(text[start:end])
        address = url.replace("\\/", "/")  # as JSON may write it
        pieces += escape(text[position:start]), f'<a href="{address}">{url}</a>'
        position = end
    return "".join([*pieces, escape(text[position:])])


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
    table = head
    if len(head) == MAX_TABLE_CHARACTERS:
        table = head[: head.rfind("\n") + 1] or head  # the last row may be incomplete
    sample = table[:_SAMPLE_CHARACTERS]
    # The one that gives most rows the same number of cells, more than one.
    delimiter = (named and named["separator"]) or max(
        _DELIMITERS, key=lambda each: _regularity(sample, each)
    )
    reader = csv.reader(StringIO(table, newline=""), delimiter=delimiter)
    try:
        rows = [row for row in reader if any(row)]
    except csv.Error:  # a cell of more than 131,072 characters
        rows = []
    if not rows:
        return convert_plain_text(text, url)
    width = max(map(len, rows))
    columns = min(width, MAX_COLUMNS)
    head_rows = rows[: max(1, min(MAX_ROWS, MAX_CELLS // columns))]
    metadata = {"rows_omitted": len(rows) - len(head_rows) + whole.count("\n", len(head))}
    metadata["columns_omitted"] = width - columns
    nonzero = {name: count for name, count in metadata.items() if count}
    header, *body = ("".join(_cells(row, columns)) for row in head_rows)
    header = header.replace("<td>", "<th>").replace("</td>", "</th>")
    lines = "".join(f"<tr>{cells}</tr>" for cells in body)
    html = f"<table><thead><tr>{header}</tr></thead><tbody>{lines}</tbody></table>"
    return ConvertedDocument(f"<body>{html}</body>", text=head, metadata=nonzero)


def _regularity(sample: str, delimiter: str) -> tuple[int, int]:
    try:
        reader = csv.reader(StringIO(sample, newline=""), delimiter=delimiter)
        widths = Counter(len(row) for row in islice(reader, _SAMPLE_ROWS) if len(row) > 1)
    except csv.Error:
        return 0, 0
    width, count = max(widths.items(), key=lambda item: item[1], default=(0, 0))
    return count, width


def _cells(row: list[str], columns: int) -> Iterator[str]:
    """Yield the cells of a row as HTML; a cell that is one URL is a link."""
    for index in range(columns):
        text = row[index].strip() if index < len(row) else ""
        is_url = next(find_urls(text), None) == (0, len(text)) if "://" in text else False
        html = escape(text).replace("\n", "<br>")
        yield f'<td><a href="{html}">{html}</a></td>' if is_url else f"<td>{html}</td>"


_CDATA = re.compile(r"(<!\[CDATA\[.*?\]\]>)", re.DOTALL)
_REFERENCE = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\d{1,7}|#x[0-9a-fA-F]{1,6});)(\w{1,31};)?")
# Control characters that no XML document may have.
_CONTROLS = dict.fromkeys((*range(9), 11, 12, *range(14, 32)), " ")


def convert_feed(text: str, _url: str) -> ConvertedDocument:
    """Convert a feed; text that is no feed becomes a code block. HTML of entries is kept."""
    is_json = text.lstrip("\ufeff \t\r\n").startswith("{")
    if is_json:
        feed = read_json_feed(text)
    else:
        # Feeds take over from HTML what is not well-formed: white space before the declaration,
        # control characters, names of characters, and a bare "&". Every other part is a CDATA
        # section, where "&" is a character like others.
        parts = _CDATA.split(text.lstrip("\ufeff \t\r\n").translate(_CONTROLS))
        parts[::2] = (_REFERENCE.sub(_xml_reference, part) for part in parts[::2])
        feed = read_feed("".join(parts))
    if feed is None:
        return convert_code(text, "json" if is_json else "xml")
    title = escape(feed.title or "")
    metas = [("description", feed.description), ("article:modified_time", feed.updated)]
    head = f"<title>{title}</title>{write_head(None, metas)}"
    heading = _linked(title, feed.link)
    entries = "".join(map(_entry_to_html, feed.entries))
    description = f"<p>{escape(feed.description)}</p>" if feed.description else ""
    return ConvertedDocument(
        f"<!doctype html><html><head>{head}</head><body><main>"
        f"<h1>{heading}</h1>{description}{entries}</main></body></html>"
    )


def _xml_reference(match: re.Match[str]) -> str:
    name = match[1] or ""
    character = unescape(f"&{name}") if name else "&"
    return escape(character) if not character.endswith(";") else f"&amp;{name}"


def _entry_to_html(entry: Entry) -> str:
    heading = _linked(escape(entry.title or entry.link or ""), entry.link)
    byline = ", ".join(filter(None, (entry.author, entry.published or entry.updated)))
    content = (entry.content if isinstance(entry.content, str) else None) or entry.summary or ""
    if "<" in content:  # all its elements have to be closed, or the next entry would be in it
        content = body_of(parse(content)).inner_html
    return (
        f"<article><h2>{heading}</h2>"
        + (f"<p>{escape(byline)}</p>" if byline else "")
        + f"<div>{content}</div></article>"
    )


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
        title=_field(data, "title"),
        link=_field(data, "home_page_url"),
        description=_field(data, "description"),
        updated=None,
        entries=entries,
    )


def _read_entry(item: dict[str, Any]) -> Entry:
    text = _field(item, "content_text")
    authors = item.get("authors") or [item.get("author")]
    names = [_field(author, "name") for author in authors if isinstance(author, dict)]
    return Entry(
        title=_field(item, "title"),
        link=_field(item, "url") or _field(item, "external_url"),
        id=_field(item, "id"),
        updated=_field(item, "date_modified"),
        published=_field(item, "date_published"),
        summary=escape(_field(item, "summary") or ""),
        content=_field(item, "content_html") or (text and escape(text)),
        author=(", ".join(filter(None, names)) or None),
    )


def _field(values: dict[str, Any], key: str) -> str | None:
    value = values.get(key)
    return value if isinstance(value, str) else None


# Converts Markdown to HTML, and makes the links of the Markdown itself absolute.


MAX_PARSE_COST: Final = 1_200_000
"""The work that one document may take; about as many microseconds."""

# What a character may cost the parser, in microseconds: measured on texts that consist of little
# else. Others cost a fraction of the least of these.
_COSTS: Final = {
    "[": 30,
    "\n": 25,
    "|": 14,
    "*": 6,
    "_": 6,
    "~": 4,
    "<": 16,
    "&": 4,
    "`": 2,
    "\\": 2,
}
_CHARACTERS_PER_COST: Final = 10


def convert_markdown(text: str, url: str) -> ConvertedDocument:
    """Convert a Markdown document: CommonMark with tables, strikethrough and bare URLs.

    Front matter becomes metadata and leaves the text. A text that would take too long to parse is
    parsed in part; the rest follows as plain text, and the metadata's `characters_not_parsed`
    counts it.

    Parameters
    ----------
    text
        The document.
    url
        The URL that its relative links refer to.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    fields, content = split_front_matter(text)
    end = len(content)
    while (cost := _parse_cost(content, end)) > MAX_PARSE_COST:
        end = max(0, content.rfind("\n", 0, int(end * MAX_PARSE_COST / cost)))
    parsed, rest = content[:end], content[end:]
    rewriter = LinkRewriter(parsed, LinkResolver(url).__getitem__)
    parser = _parser()
    env: dict[str, Any] = {"rewriter": rewriter}
    tokens = parser.parse(parsed, env)
    html = parser.renderer.render(tokens, parser.options, env)
    if rest:
        html += f"<pre>{link_parts(rest, find_urls(rest))}</pre>"
    metadata: dict[str, Any] = {"front_matter": fields} if fields else {}
    if rest:
        metadata["characters_not_parsed"] = len(rest)
    markdown = (rewriter.rewritten_text() + rest).strip("\n")
    page = f"{head_of(fields, _title(tokens))}<body>{html}</body>"
    return ConvertedDocument(page, markdown=markdown, text=markdown, metadata=metadata)


def _parse_cost(text: str, end: int) -> int:
    special = sum(cost * text.count(character, 0, end) for character, cost in _COSTS.items())
    return special + end // _CHARACTERS_PER_COST


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    parser.core.ruler.before("inline", "block_links", _visit_blocks)
    parser.core.ruler.at("inline", _parse_inline)
    parser.core.ruler.after("inline", "bare_urls", _link_bare_urls)
    parser.inline.ruler.at("link", _visiting_links(link, label_offset=0))
    parser.inline.ruler.at("image", _visiting_links(image, label_offset=1))
    parser.inline.ruler.at("html_inline", _visit_html)
    return parser


def _visit_blocks(state: StateCore) -> None:
    """Pass reference definitions and blocks of HTML to the rewriter."""
    rewriter: LinkRewriter = state.env["rewriter"]
    references = state.env.setdefault("references", {})
    for label, reference in list(references.items()):
        if label.startswith("^") and "://" not in reference["href"]:
            del references[label]  # a footnote of one word
        else:
            first_line, end_line = reference["map"]
            rewriter.add_definition(first_line, end_line, reference["href"])
    for token in state.tokens:
        if token.type == "html_block" and token.map:
            rewriter.add_html_block(*token.map)


def _parse_inline(state: StateCore) -> None:
    rewriter: LinkRewriter = state.env["rewriter"]
    for token in state.tokens:
        if token.type == "inline":
            token.children = []
            rewriter.begin(token)
            state.md.inline.parse(token.content, state.md, state.env, token.children)


def _visiting_links(
    rule: Callable[[StateInline, bool], bool], *, label_offset: int
) -> Callable[[StateInline, bool], bool]:
    """Return a rule that also passes the destination of an inline link to the rewriter."""

    def visiting_rule(state: StateInline, silent: bool) -> bool:
        start = state.pos
        if not rule(state, silent):
            return False
        rewriter: LinkRewriter = state.env["rewriter"]
        is_inline_link = state.src[state.pos - 1] == ")"
        if not silent and is_inline_link and state.tokens is rewriter.children:
            helpers, source = state.md.helpers, state.src
            label_end = helpers.parseLinkLabel(state, start + label_offset, not label_offset)
            start = label_end + len("](")
            while source[start : start + 1].isspace():
                start += 1
            found = helpers.parseLinkDestination(source, start, state.posMax)
            if found.ok:
                rewriter.add_destination(start, found.pos, state.md.normalizeLink(found.str))
        return True

    return visiting_rule


def _visit_html(state: StateInline, silent: bool) -> bool:
    start = state.pos
    if not html_inline(state, silent):
        return False
    rewriter: LinkRewriter = state.env["rewriter"]
    if not silent and state.tokens is rewriter.children:
        rewriter.add_html(start, state.pos)
    return True


def _link_bare_urls(state: StateCore) -> None:
    for block in state.tokens:
        if block.type == "inline" and block.children and "://" in block.content:
            block.children = list(_with_links(block.children))


def _with_links(tokens: list[Token]) -> Iterator[Token]:
    """Return tokens in which the bare URLs of texts outside of links are links."""
    links = 0
    for token in tokens:
        if token.type == "html_inline":
            tag = token.content[:3].lower()
            links += (tag in {"<a ", "<a>", "<a\n"}) - (tag == "</a")
        links += (token.type == "link_open") - (token.type == "link_close")
        if token.type == "text" and links <= 0 and "://" in token.content:
            position, text = 0, token.content
            for start, end in find_urls(text):
                yield _text_token(text[position:start])
                yield Token("link_open", "a", 1, attrs={"href": text[start:end]})
                yield _text_token(text[start:end])
                yield Token("link_close", "a", -1)
                position = end
            yield _text_token(text[position:])
        else:
            yield token


def _text_token(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _title(tokens: list[Token]) -> str | None:
    """Return the text of the first heading of level one, or else of the first heading."""
    titles: dict[str, str] = {}
    for opening, content in pairwise(tokens):
        if opening.type == "heading_open":
            texts = (
                " " if child.type in {"softbreak", "hardbreak"} else child.content
                for child in content.children or ()
                if child.type != "html_inline"
            )
            if text := " ".join("".join(texts).split()):
                titles.setdefault(opening.tag, text)
                if opening.tag == "h1":
                    break
    return titles.get("h1") or next(iter(titles.values()), None)


MAX_FRONT_MATTER_CHARACTERS: Final = 64 * 1024
"""A longer block is content."""

_MAX_NODES: Final = 5000
_MAX_DEPTH: Final = 20
_YAML_BLOCK: Final = re.compile(r"---[ \t]*\n(.*?)(?<=\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TOML_BLOCK: Final = re.compile(r"\+\+\+[ \t]*\n(.*?)(?<=\n)\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL)

# The fields that say the same as a declaration of an HTML page, the preferred spelling first.
_META: Final = {
    "description": ("description", "summary", "excerpt", "subtitle"),
    "author": ("author", "authors", "by"),
    "date": (
        "date",
        "published",
        "publishdate",
        "published_at",
        "pubdate",
        "created",
        "created_at",
    ),
    "article:modified_time": (
        *("lastmod", "modified", "updated", "last_modified", "last_updated", "last_update"),
        *("updated_at", "modified_at"),
    ),
    "keywords": ("keywords", "tags"),
    "robots": ("robots",),
}


class _UnsafeBlockError(Exception):
    """The block has aliases, or more or deeper values than metadata needs."""


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Split a document into its metadata and its content.

    A block that is no mapping, is malformed, or has YAML aliases is content.

    Parameters
    ----------
    text
        The document, with line feeds as line ends.

    Returns
    -------
    tuple
        The metadata (strings, numbers, booleans, lists and mappings), and the text after the block.
    """
    for pattern, read in _BLOCKS:
        block = pattern.match(text, 0, MAX_FRONT_MATTER_CHARACTERS)
        if block is None:
            continue
        try:
            fields = read(block[1])
        except (yaml.YAMLError, tomllib.TOMLDecodeError, RecursionError, _UnsafeBlockError):
            continue
        if fields and isinstance(fields, dict):
            return fields, text[block.end() :]
    return {}, text


def head_of(fields: dict[str, Any], title: str | None) -> str:
    """Return the head of an HTML page that declares the fields.

    Parameters
    ----------
    fields
        The front matter.
    title
        The title of a document whose front matter has none.
    """
    values = {name.lower().replace("-", "_"): value for name, value in fields.items()}
    parts = (
        [f'<html lang="{escape(lang)}">'] if (lang := _first(values, "lang", "language")) else []
    )
    metas = ((name, _first(values, *keys)) for name, keys in _META.items())
    parts += "<head>", write_head(_first(values, "title") or title, metas)
    if canonical := _first(values, "canonical", "canonical_url", "canonicalurl"):
        parts.append(f'<link rel="canonical" href="{escape(canonical)}">')
    return "".join([*parts, "</head>"])


def _parse_yaml(block: str) -> Any:
    """Read YAML; scalars are strings.

    The library's own constructor recurses: deep nesting crashes it. Aliases can make a short text
    stand for billions of values.
    """
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    collections: list[list[Any]] = [[]]
    for count, event in enumerate(yaml.parse(block, Loader=loader)):
        if isinstance(event, yaml.AliasEvent) or count > _MAX_NODES:
            raise _UnsafeBlockError
        if isinstance(event, yaml.ScalarEvent):
            collections[-1].append(event.value)
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(collections) > _MAX_DEPTH:
                raise _UnsafeBlockError
            collections.append([])
        elif isinstance(event, yaml.CollectionEndEvent):
            items = collections.pop()
            is_mapping = isinstance(event, yaml.MappingEndEvent)
            collections[-1].append(
                {str(key): value for key, value in zip(items[::2], items[1::2], strict=True)}
                if is_mapping
                else items
            )
    return next(iter(collections[0]), None)


def _parse_toml(block: str) -> Any:
    # The library recurses for arrays and inline tables, and looks up the parts of dotted keys.
    if max(map(block.count, "[{.")) > _MAX_NODES // 2:
        raise _UnsafeBlockError
    return _plain(tomllib.loads(block), 0)


def _plain(value: Any, depth: int) -> Any:
    """Return a value as JSON has it."""
    if depth > _MAX_DEPTH:
        raise _UnsafeBlockError
    if isinstance(value, dict):
        return {key: _plain(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each, depth + 1) for each in value]
    return value.isoformat() if isinstance(value, date | datetime | time) else value


def _first(values: dict[str, Any], *keys: str) -> str | None:
    """Return the first of some fields as text."""
    return next((text for key in keys if (text := _metadata_text(values.get(key)))), None)


def _metadata_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(filter(None, map(_metadata_text, value)))
    if isinstance(value, dict):
        return _metadata_text(value.get("name", value.get("date", "")))
    return " ".join(str(value).split()) if isinstance(value, str | int | float) else ""


_BLOCKS: Final = ((_YAML_BLOCK, _parse_yaml), (_TOML_BLOCK, _parse_toml))


_HTML_ATTRIBUTE = re.compile(r"""\s(?:href|src)\s*+=\s*+(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
_DEFINITION = re.compile(r"\]:\s*+(<[^<>\n]*>|[^\s<]\S*)")
_HAS_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_NEEDS_BRACKETS = re.compile(r"[()\s]")


class _Edit(NamedTuple):
    """A part of a line, and what replaces it."""

    start: int
    end: int
    replacement: str


class LinkRewriter:
    """Collects the relative links of one document while it is parsed, and replaces them.

    A parser reads blocks without the indentation and the marks of quotes and lists, so a position
    in a block is looked up in the line that it comes from.

    Parameters
    ----------
    text
        The document, with line feeds as line ends.
    resolve
        Returns the absolute URL of a link; None for links without one.
    """

    def __init__(self, text: str, resolve: Callable[[str], str | None]) -> None:
        self._lines = text.split("\n")
        self._resolve = resolve
        self._edits: dict[int, set[_Edit]] = {}
        # The inline token in progress: its first line, the offsets of its lines in its text, and
        # the column of each in the document.
        self._first_line = 0
        self._content = ""
        self._offsets: list[int] = []
        self._columns: dict[int, int] = {}
        # Where the next cell of a table row begins at the earliest.
        self._row_ends: dict[int, int] = {}
        self.children: list[Token] | None = None

    def begin(self, token: Token) -> None:
        """Prepare for the links of an inline token."""
        self.children, self._content = token.children, token.content
        self._first_line = token.map[0] if token.map else 0
        self._offsets, self._columns = [], {}
        if "\n" not in token.content:
            earliest = self._row_ends.get(self._first_line, 0)
            column = self._lines[self._first_line].find(token.content, earliest)
            self._columns[0] = column
            if column >= 0:
                self._row_ends[self._first_line] = column + len(token.content)

    def add_destination(self, start: int, end: int, href: str) -> None:
        """Replace the destination of a link between two positions of the inline token."""
        self._replace_inline(start, end, self._markdown_url(href))

    def add_html(self, start: int, end: int) -> None:
        """Replace the URLs in a tag of HTML between two positions of the inline token."""
        for match in _HTML_ATTRIBUTE.finditer(self._content, start, end):
            group = match.lastindex or 1
            self._replace_inline(*match.span(group), self._html_url(match[group]))

    def add_html_block(self, first_line: int, end_line: int) -> None:
        """Replace the URLs in a block of HTML."""
        for number in range(first_line, min(end_line, len(self._lines))):
            for match in _HTML_ATTRIBUTE.finditer(self._lines[number]):
                group = match.lastindex or 1
                self._replace(number, *match.span(group), self._html_url(match[group]))

    def add_definition(self, first_line: int, end_line: int, href: str) -> None:
        """Replace the destination of the reference definition in some lines."""
        lines = self._lines[first_line:end_line]
        match = _DEFINITION.search("\n".join(lines))
        if match is None:
            return
        before = match.string[: match.start(1)]
        row, column = before.count("\n"), match.start(1) - (before.rfind("\n") + 1)
        url = self._markdown_url(href)
        self._replace(first_line + row, column, column + len(match[1]), url)

    def rewritten_text(self) -> str:
        """Return the document with absolute links."""
        lines = list(self._lines)
        for number, edits in self._edits.items():
            line, position = lines[number], 0
            pieces: list[str] = []
            for start, end, replacement in sorted(edits):
                pieces += line[position:start], replacement
                position = end
            lines[number] = "".join([*pieces, line[position:]])
        return "\n".join(lines)

    def _markdown_url(self, href: str) -> str | None:
        url = self._absolute(href)
        return f"<{url}>" if url is not None and _NEEDS_BRACKETS.search(url) else url

    def _html_url(self, attribute: str) -> str | None:
        url = self._absolute(unescape(attribute).strip())
        return None if url is None else escape(url)

    def _absolute(self, href: str) -> str | None:
        """Return the absolute URL of a relative link; None for others, which stay as they are."""
        return None if not href or _HAS_SCHEME.match(href) else self._resolve(href)

    def _replace_inline(self, start: int, end: int, replacement: str | None) -> None:
        if replacement is None:
            return
        if not self._offsets:
            self._offsets = [0]
            while next_line := self._content.find("\n", self._offsets[-1]) + 1:
                self._offsets.append(next_line)
        row = bisect_right(self._offsets, start) - 1
        number = self._first_line + row
        if number >= len(self._lines):
            return
        line, written = self._lines[number], self._content[start:end]
        if row not in self._columns:
            ends = [*self._offsets[row + 1 : row + 2], len(self._content) + 1]
            self._columns[row] = line.find(self._content[self._offsets[row] : ends[0] - 1])
        column = self._columns[row]
        position = -1 if column < 0 else column + start - self._offsets[row]
        if line[position : position + len(written)] != written or position < 0:
            # The parser changed the line: it replaced tabs, or escapes in a cell.
            position = line.find(f"({written}") + 1
        if position > 0:
            self._replace(number, position, position + len(written), replacement)

    def _replace(self, number: int, start: int, end: int, replacement: str | None) -> None:
        if replacement is not None:
            self._edits.setdefault(number, set()).add(_Edit(start, end, replacement))
