"""Wraps the HTML parser turbohtml, which no other module imports, and names sets of tags."""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

import turbohtml
from turbohtml import (
    Document,
    Element,
    Entry,
    Feed,
    MicrodataItem,
    Namespace,
    Node,
    RdfaItem,
    Text,
    TokenType,
)
from turbohtml._html import _collapse_whitespace
from turbohtml.detect import detect_language
from turbohtml.extract import feed as read_feed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

# The names of the parser that other modules use.
# fmt: off
__all__ = [
    "Document", "Element", "Entry", "Feed", "MicrodataItem", "Namespace", "Node", "RdfaItem",
    "Text", "read_feed",
]
# fmt: on

ROOTS = frozenset({"html", "head", "body"})

collapse_whitespace: Final = _collapse_whitespace
"""Replace each run of white space of a text by a space and strip the ends, as `str.split` and
`str.join` would in more than twice the time. The version of the parser is pinned."""

MarkupKind: TypeAlias = Literal["start", "end", "comment", "other"]
_LINE_BREAK: Final = re.compile(r"\r\n?|\n")

_MIN_LANGUAGE_CONFIDENCE = 0.6
# ISO 639-3 to ISO 639-1 codes, which BCP 47 prefers.
# fmt: off
_TWO_LETTER_CODES = {
    "ara": "ar", "ben": "bn", "bul": "bg", "cat": "ca", "ces": "cs", "cmn": "zh", "dan": "da",
    "deu": "de", "ell": "el", "eng": "en", "est": "et", "eus": "eu", "fas": "fa", "fin": "fi",
    "fra": "fr", "gle": "ga", "heb": "he", "hin": "hi", "hrv": "hr", "hun": "hu", "ind": "id",
    "isl": "is", "ita": "it", "jpn": "ja", "kat": "ka", "kor": "ko", "lav": "lv", "lit": "lt",
    "mar": "mr", "mkd": "mk", "nld": "nl", "nob": "no", "pes": "fa", "pol": "pl", "por": "pt",
    "ron": "ro", "rus": "ru", "slk": "sk", "slv": "sl", "spa": "es", "sqi": "sq", "srp": "sr",
    "swe": "sv", "tam": "ta", "tel": "te", "tha": "th", "tur": "tr", "ukr": "uk", "urd": "ur",
    "vie": "vi", "zho": "zh",
}
# fmt: on


# XML's notation of an element without content, which an HTML parser reads as a start tag.
_EMPTY_ELEMENT = re.compile(r"([a-zA-Z][a-zA-Z0-9]*)(?:\s[^>]*)?")
# fmt: off
VOID_ELEMENTS = frozenset({
    "area", "base", "br", "col", "embed", "frame", "hr", "img", "input", "link", "meta", "param",
    "source", "track", "wbr",
})
# fmt: on


def parse(body: str | bytes, encoding: str | None = None, *, xhtml: bool = False) -> Document:
    """Parse an HTML page; malformed markup is accepted.

    Parameters
    ----------
    body
        The page: text, or bytes together with `encoding`.
    encoding
        A WHATWG encoding label; only used for bytes.
    xhtml
        Read ``<script/>`` as ``<script></script>`` in a text. An HTML parser takes the rest of the
        page for the content of the script.

    Raises
    ------
    LookupError
        The label is not an encoding.
    """
    if xhtml and isinstance(body, str):
        body = _close_empty_elements(body)
    return turbohtml.parse(
        body,
        encoding=encoding if isinstance(body, bytes) else None,
        positions=False,
        allow_declarative_shadow_roots=False,
    )


def _close_empty_elements(text: str) -> str:
    *parts, last = text.split("/>")
    output: list[str] = []
    for part in parts:
        start = part.rfind("<") + 1
        tag = _EMPTY_ELEMENT.fullmatch(part, start) if start else None
        if tag is None or tag[1].lower() in VOID_ELEMENTS:
            output += part, "/>"
        else:
            output += part, "></", tag[1], ">"
    return "".join([*output, last])


def read_markup(source: str) -> Iterator[tuple[MarkupKind, str, int, int]]:
    """Return the tags and comments of a source in order; what is between them is text.

    Returns
    -------
    iterator of tuple
        What it is, the name of a tag in lower case, and the place in the source. A tag that the end
        of the source cuts is text.
    """
    line_starts = [0, *(match.end() for match in _LINE_BREAK.finditer(source))]
    text, opening, closing = TokenType.TEXT, TokenType.START_TAG, TokenType.END_TAG
    kind: MarkupKind | None = None
    name, start = "", 0
    for token in turbohtml.tokenize(source, capture_attributes=False):
        end = line_starts[token.line - 1] + token.col
        if kind is not None:
            yield kind, name, start, end
        found = token.type
        if found is text:
            kind = None
            continue
        name, start = token.tag or "", end
        kind = "start" if found is opening else "end" if found is closing else "other"
        if not name and found is TokenType.COMMENT:
            kind = "comment"
    if kind is not None:
        end = source.find(">", start) + 1 if name else 0
        yield kind, name, start, end or len(source)


def check_selector(selector: str) -> None:
    """Check that the parser supports a CSS selector.

    Raises
    ------
    ValueError
        With the position and reason of the error.
    """
    _EMPTY_DOCUMENT.select(selector)


def body_of(document: Document) -> Element:
    """Return the body, or the root of a page without one."""
    root = cast("Element", document.root)  # the parser makes one for any text
    bodies = (
        child for child in root.children if isinstance(child, Element) and child.tag == "body"
    )
    return next(bodies, root)


def remove_all(elements: Iterable[Element]) -> None:
    """Remove elements with their subtrees, except html, head and body."""
    for element in elements:
        if element.tag not in ROOTS:
            element.decompose()


@contextmanager
def detached(elements: Iterable[Element]) -> Iterator[None]:
    """Take elements out of the tree for a while, so that the rest can be read without them."""
    places: list[tuple[Element, Element, Node | None]] = []
    for element in elements:
        parent = element.parent
        if isinstance(parent, Element) and element.tag not in ROOTS:
            places.append((element, parent, element.next_sibling))
            element.extract()
    try:
        yield
    finally:
        for element, parent, sibling in reversed(places):
            if sibling is not None:
                sibling.insert_before(element)
            else:
                parent.append(element)


def unwrap_all(elements: Iterable[Element]) -> None:
    """Replace each element by its children, except html, head and body."""
    for element in elements:
        if element.tag not in ROOTS and element.parent is not None:
            element.unwrap()


def make_element(tag: str, children: Iterable[Node] = (), **attrs: str) -> Element:
    """Create an element."""
    return Element(tag, attrs, list(children))


def group_by_tag(root: Node, tags: Iterable[str]) -> dict[str, list[Element]]:
    """Group the descendants with one of `tags` by tag, in document order."""
    if isinstance(root, Document):  # it has an index of tags, which an element has not
        return {tag: elements for tag in sorted(tags) if (elements := root.select(tag))}
    groups: defaultdict[str, list[Element]] = defaultdict(list)
    for element in root.iter_elements(tags):
        groups[element.tag].append(element)
    return dict(groups)


def elements_with_tags(groups: Mapping[str, list[Element]], tags: Collection[str]) -> list[Element]:
    """Return the elements of all groups with one of `tags`."""
    return [element for tag, group in groups.items() if tag in tags for element in group]


def comments_of(root: Node) -> list[Node]:
    """Return the comments below a node."""
    nodes = root.xpath("descendant::comment()")
    return [node for node in nodes if isinstance(node, Node)] if isinstance(nodes, list) else []


def microdata_of(document: Document, base: str) -> list[MicrodataItem]:
    """Return the microdata items of a page; none when they nest endlessly."""
    try:
        return document.microdata(base)
    except RecursionError:
        return []


def rdfa_of(document: Document, base: str) -> list[RdfaItem]:
    """Return the RDFa resources of a page; none when they nest too deeply."""
    try:
        return document.rdfa(base)
    except RecursionError:
        return []


def detect_language_code(text: str) -> str | None:
    """Detect the language of a text as an ISO 639 code; None when uncertain."""
    match = detect_language(text)
    if match.language is None or match.confidence < _MIN_LANGUAGE_CONFIDENCE:
        return None
    return _TWO_LETTER_CODES.get(match.language, match.language)


def nearest_ancestor(node: Node, tags: Collection[str], levels: int = 8) -> Element | None:
    """Return the nearest ancestor with one of `tags`, at most `levels` up.

    The bound keeps the work linear on deeply nested pages.
    """
    parent = node.parent
    for _ in range(levels):
        if not isinstance(parent, Element):
            return None
        if parent.tag in tags:
            return parent
        parent = parent.parent
    return None


def contains(outer: Element, inner: Element, levels: int = 30) -> bool:
    """Return whether an element is another one or contains it, at most `levels` deep."""
    return outer == inner or outer in islice(inner.ancestors, levels)


def element_before(node: Node) -> Element | None:
    """Return the element right before a node, white space aside; None if text is between."""
    before = node.previous_sibling
    while before is not None and not isinstance(before, Element):
        if isinstance(before, Text) and before.text.strip():
            return None
        before = before.previous_sibling
    return before


def node_after_last_child(child: Node, ancestor: Element, after: Node | None) -> Node | None:
    """Return the first node after the subtree of a last child.

    Parameters
    ----------
    child
        The last child.
    ancestor
        An element that contains it.
    after
        The first node after the subtree of `ancestor`; None at the end of the page.
    """
    parent = child.parent
    while parent is not None and parent is not ancestor:
        sibling = parent.next_sibling
        if sibling is not None:
            return sibling
        parent = parent.parent
    return after


def letters_and_digits(text: str) -> str:
    """Return a text in lower case without anything else, for comparisons of titles and ids."""
    return "".join(filter(str.isalnum, text)).lower()


def text_of(node: Node) -> str:
    """Return the text below a node with collapsed white space."""
    return collapse_whitespace(node.text)


_EMPTY_DOCUMENT = parse("")


DECLARATIONS = frozenset({"html", "title", "meta", "link", "base", "script"})
"""Elements with declarations about the page."""

# fmt: off
NOT_RENDERED = frozenset({
    "script", "style", "template", "noscript", "svg", "link", "meta", "title", "base", "object",
    "embed", "applet", "param", "frame", "frameset", "noframes", "datalist",
})
"""Elements without visible text: never rendered, or drawn."""

NOT_TEXT = frozenset({
    "select", "textarea", "progress", "meter", "output", "iframe", "video", "audio", "canvas",
    "map", "annotation", "annotation-xml",
})
"""Elements whose text belongs to a control, a fallback or a machine."""
# fmt: on

HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
LISTS = frozenset({"ul", "ol"})

# fmt: off
BLOCKS = frozenset({
    *HEADINGS, "address", "article", "aside", "blockquote", "body", "caption", "center", "dd",
    "details", "dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer",
    "form", "header", "hgroup", "hr", "html", "legend", "li", "main", "menu", "nav", "ol",
    "optgroup", "option", "p", "search", "section", "summary", "table", "tbody", "td", "tfoot",
    "th", "thead", "tr", "ul",
})
"""Elements that begin and end a line."""
# fmt: on
PREFORMATTED = ("pre", "listing", "xmp")

INDEXED = frozenset(
    {
        *DECLARATIONS,
        *NOT_RENDERED,
        *("h1", "h2", "h3", "a", "area", "img", "amp-img", "dialog", "time", "rt", "iframe"),
    }
)
"""All tags that any step looks for; one walk over the page indexes them."""


# Recognizes hidden elements, and removes those that are no content.


MIN_SECTION_WORDS = 8
"""A hidden element with links, headings or items is content from this many words on."""
MIN_MENU_LINKS = 2
"""A hidden element with fewer words is content if it has this many links: a menu."""
MIN_TEXT_WORDS = 30
"""A hidden element of plain text is content above this many words."""

_HIDING_STYLES = ("display:none", "visibility:hidden")
MAY_BE_HIDDEN: Final = '[hidden],[style*="none" i],[style*="hidden" i]'
"""A selector of the elements that `is_hidden_part` may accept: it has the values of all
`_HIDING_STYLES`."""

_STRUCTURE = "a[href],h1,h2,h3,h4,h5,h6,li"


def remove_hidden_elements(content: Element, elements_by_tag: dict[str, list[Element]]) -> None:
    """Remove elements that are never rendered, and short hidden ones.

    Menus, tabs and dialogs are hidden until a click, and many pages hide everything until a
    script runs. Only short hidden elements go: status messages, bot traps, labels.
    """
    elements = [element for element in content.select(MAY_BE_HIDDEN) if is_hidden_part(element)]
    dialogs = elements_by_tag.get("dialog", ())
    elements += [
        dialog for dialog in dialogs if dialog.attr("open") is None and not _is_section(dialog)
    ]
    elements += elements_with_tags(elements_by_tag, NOT_RENDERED)
    for element in elements:
        element.decompose()


def is_hidden_part(element: Element) -> bool:
    """Return whether an element is hidden, and too short to be a section that a click shows."""
    return _is_hidden(element) and not _is_section(element)


def _is_hidden(element: Element) -> bool:
    if element.tag in ROOTS:
        return False
    hidden = element.attr("hidden")
    if hidden is not None and hidden.lower() != "until-found":
        return True
    style = "".join((element.attr("style") or "").lower().split())
    return any(declaration in style for declaration in _HIDING_STYLES)


def is_concealed(element: Element) -> bool:
    """Return whether an element is hidden from people or from screen readers."""
    return _is_hidden(element) or element.attr("aria-hidden") == "true"


def show(element: Element) -> None:
    """Remove the attributes that hide an element."""
    for name in ("hidden", "style", "aria-hidden"):
        if element.attr(name) is not None:
            del element.attrs[name]


def _is_section(hidden: Element) -> bool:
    """Return whether a hidden element has enough text for a section that a click would show."""
    if hidden.tag == "tr":
        return True
    words = len(hidden.text.split(None, MIN_TEXT_WORDS))
    if words < MIN_SECTION_WORDS:
        return len(hidden.select("a[href]")) >= MIN_MENU_LINKS
    return words > MIN_TEXT_WORDS or hidden.select_one(_STRUCTURE) is not None
