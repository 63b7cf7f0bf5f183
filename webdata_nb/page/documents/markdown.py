"""Converts Markdown to HTML, and makes the links of the Markdown itself absolute."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from datetime import date, datetime, time
from functools import cache
from html import escape, unescape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml  # type: ignore[import-untyped]
from markdown_it import MarkdownIt
from markdown_it.rules_inline import html_inline, image, link
from markdown_it.token import Token

from webdata_nb.page.content.links import LinkResolver
from webdata_nb.page.documents.converted_document import ConvertedDocument
from webdata_nb.page.documents.text import find_urls, link_urls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from markdown_it.rules_core import StateCore
    from markdown_it.rules_inline import StateInline

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
        html += f"<pre>{link_urls(rest)}</pre>"
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
            _visit_destination(
                state, start + label_offset, rewriter, disable_nested=not label_offset
            )
        return True

    return visiting_rule


def _visit_destination(
    state: StateInline, label: int, rewriter: LinkRewriter, *, disable_nested: bool
) -> None:
    helpers, source = state.md.helpers, state.src
    start = helpers.parseLinkLabel(state, label, disable_nested) + len("](")
    while source[start : start + 1].isspace():
        start += 1
    destination = helpers.parseLinkDestination(source, start, state.posMax)
    if destination.ok:
        rewriter.add_destination(start, destination.pos, state.md.normalizeLink(destination.str))


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
                yield _text(text[position:start])
                yield Token("link_open", "a", 1, attrs={"href": text[start:end]})
                yield _text(text[start:end])
                yield Token("link_close", "a", -1)
                position = end
            yield _text(text[position:])
        else:
            yield token


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _title(tokens: list[Token]) -> str | None:
    """Return the text of the first heading of level one, or else of the first heading."""
    titles: dict[str, str] = {}
    for opening, content in pairwise(tokens):
        if opening.type == "heading_open" and (text := _text_of(content)):
            titles.setdefault(opening.tag, text)
            if opening.tag == "h1":
                break
    return titles.get("h1") or next(iter(titles.values()), None)


def _text_of(token: Token) -> str:
    texts = (
        " " if child.type in {"softbreak", "hardbreak"} else child.content
        for child in token.children or ()
        if child.type != "html_inline"
    )
    return " ".join("".join(texts).split())


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
    for pattern, parse in _BLOCKS:
        block = pattern.match(text, 0, MAX_FRONT_MATTER_CHARACTERS)
        if block is not None and (fields := _parse(parse, block[1])):
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
    parts.append("<head>")
    if title := _first(values, "title") or title:
        parts.append(f"<title>{escape(title)}</title>")
    for name, keys in _META.items():
        if content := _first(values, *keys):
            parts.append(f'<meta name="{name}" content="{escape(content)}">')
    if canonical := _first(values, "canonical", "canonical_url", "canonicalurl"):
        parts.append(f'<link rel="canonical" href="{escape(canonical)}">')
    return "".join([*parts, "</head>"])


def _parse(parse: Callable[[str], Any], block: str) -> dict[str, Any]:
    try:
        fields = parse(block)
    except (yaml.YAMLError, tomllib.TOMLDecodeError, RecursionError, _UnsafeBlockError):
        return {}
    return fields if isinstance(fields, dict) else {}


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
            lines[number] = "".join(_edited(lines[number], sorted(edits)))
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
            self._offsets = _line_offsets(self._content)
        row = bisect_right(self._offsets, start) - 1
        number = self._first_line + row
        if number >= len(self._lines):
            return
        line, written = self._lines[number], self._content[start:end]
        column = self._column(row)
        position = -1 if column < 0 else column + start - self._offsets[row]
        if line[position : position + len(written)] != written or position < 0:
            # The parser changed the line: it replaced tabs, or escapes in a cell.
            position = line.find(f"({written}") + 1
        if position > 0:
            self._replace(number, position, position + len(written), replacement)

    def _column(self, row: int) -> int:
        """Return where a line of the inline token begins in its line of the document."""
        if row not in self._columns:
            ends = [*self._offsets[row + 1 : row + 2], len(self._content) + 1]
            content = self._content[self._offsets[row] : ends[0] - 1]
            self._columns[row] = self._lines[self._first_line + row].find(content)
        return self._columns[row]

    def _replace(self, number: int, start: int, end: int, replacement: str | None) -> None:
        if replacement is not None:
            self._edits.setdefault(number, set()).add(_Edit(start, end, replacement))


def _edited(line: str, edits: list[_Edit]) -> Iterator[str]:
    position = 0
    for start, end, replacement in edits:
        yield line[position:start]
        yield replacement
        position = end
    yield line[position:]


def _line_offsets(text: str) -> list[int]:
    offsets = [0]
    while position := text.find("\n", offsets[-1]) + 1:
        offsets.append(position)
    return offsets
