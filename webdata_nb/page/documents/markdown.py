"""Converts Markdown to HTML, and makes the links of the Markdown itself absolute.

The parser is imported with this module, which only the first Markdown document needs.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from markdown_it import MarkdownIt
from markdown_it.rules_inline import html_inline, image, link
from markdown_it.token import Token

from webdata_nb.page.content.links import LinkResolver
from webdata_nb.page.documents.bare_urls import find_urls, link_urls
from webdata_nb.page.documents.converted_document import ConvertedDocument
from webdata_nb.page.documents.front_matter import head_of, split_front_matter
from webdata_nb.page.documents.link_rewriter import LinkRewriter

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
    parsed, rest = _split_by_cost(content)
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


def _split_by_cost(text: str) -> tuple[str, str]:
    """Split a text after the last line up to which it may be parsed."""
    end = len(text)
    while (cost := _parse_cost(text, end)) > MAX_PARSE_COST:
        end = max(0, text.rfind("\n", 0, int(end * MAX_PARSE_COST / cost)))
    return text[:end], text[end:]


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
            yield from _split_text(token)
        else:
            yield token


def _split_text(token: Token) -> Iterator[Token]:
    position, text = 0, token.content
    for start, end in find_urls(text):
        yield _text(text[position:start])
        yield Token("link_open", "a", 1, attrs={"href": text[start:end]})
        yield _text(text[start:end])
        yield Token("link_close", "a", -1)
        position = end
    yield _text(text[position:])


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
