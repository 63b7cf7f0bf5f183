"""Writes an element as GitHub-flavoured Markdown in one walk over its tree."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeAlias

from webdata_nb.page.content.code_blocks import longest_run, text_of_lines, write_code_block
from webdata_nb.page.content.footnotes import REFERENCE
from webdata_nb.page.content.formulas import (
    LATEX,
    clean_latex,
    mathml_to_latex,
    without_bars,
)
from webdata_nb.page.content.links import best_source
from webdata_nb.page.content.parser import (
    BLOCKS,
    HEADINGS,
    LISTS,
    NOT_TEXT,
    PREFORMATTED,
    Element,
    Text,
    collapse_whitespace,
    nearest_ancestor,
    node_after_last_child,
)
from webdata_nb.page.content.tables import (
    child_elements,
    is_exponent,
    line_number_cells,
    read_table,
    table_rows,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from webdata_nb.page.content.links import AnchorTable, LinkResolver
    from webdata_nb.page.content.parser import Node

    End: TypeAlias = Callable[[Any], None]
    "A writer's method that writes the end of an element."
    Handler: TypeAlias = Callable[[Any, Element], End | None]
    "A writer's method that writes the start of an element and returns what writes its end."
    from webdata_nb.page.content.parsed_page import ParsedPage
    from webdata_nb.page.content.tables import PageTable


BREAK: Final = "\x0b"
"""Placeholder of a hard line break in an unfinished paragraph; white space to Python."""

DOLLAR: Final = "\ufdd0"
"""Placeholder of a dollar sign in an unfinished text; no character."""

CODE_SPACE: Final = "\ufdd1"
"""Placeholder of a no-break space in a code block, where it is no space; no character."""

_SIGNS: Final = "\\`*_[]~"
# A "<" or "&" at the end of a text may begin a tag or an entity with the next text.
_TAG: Final = re.compile(r"<(?=[a-zA-Z/!?]|\Z)")
_ENTITY: Final = re.compile(r"&(?=#?[0-9a-zA-Z]{1,31};|\Z)")
# Signs of a heading, a list, a quotation, the underline of a heading, the second line of a table.
_BLOCK: Final = re.compile(
    r"(?=#{1,6}(?:\s|$)|[-+](?:\s|$)|>|=+\s*$|-{2,}\s*$|[-:|][-:| ]*$)|\d{1,9}(?=[.)](?:\s|$))",
)
BLOCK_SIGNS: Final = frozenset("#-+>=:|0123456789")
"""The characters that may begin a block other than a paragraph."""
_BALANCED: Final = re.compile(r"[^()]*(?:\([^()]*\)[^()]*)*")


def escape(text: str) -> str:
    """Escape characters that Markdown would parse as inline markup."""
    # Most texts need no escapes; searching single characters is faster than a character class.
    if not (
        "_" in text
        or "*" in text
        or "[" in text
        or "]" in text
        or "<" in text
        or "&" in text
        or "`" in text
        or "\\" in text
        or "~" in text
        or "$" in text
    ):
        return text
    if "$" in text:
        text = text.replace("$", DOLLAR)
    for sign in _SIGNS:
        if sign in text:
            text = text.replace(sign, f"\\{sign}")
    if "<" in text:
        text = _TAG.sub(_with_backslash, text)
    return _ENTITY.sub(_with_backslash, text) if "&" in text else text


def resolve_dollars(markdown: str) -> str:
    """Write the dollar signs of text, escaped where a renderer with formulas would pair them.

    A formula does not extend over a blank line: a single dollar between two of them is only a sign.
    """
    if DOLLAR not in markdown:
        return markdown
    parts = markdown.split("\n\n")
    for index, part in enumerate(parts):
        if DOLLAR in part:
            is_single = part.count(DOLLAR) == 1 and "$" not in part
            parts[index] = part.replace(DOLLAR, "$" if is_single else "\\$")
    return "\n\n".join(parts)


def escape_block_sign(line: str) -> str:
    """Escape the start of a line that would begin a block other than a paragraph."""
    match = _BLOCK.match(line)
    return f"{match[0]}\\{line[match.end() :]}" if match is not None else line


def squeeze(text: str) -> str:
    """Fold each run of ASCII white space into one space and trim the ends."""
    if text.isascii():
        return collapse_whitespace(text)
    text = text.replace("\n", " ").replace("\t", " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text.strip()


def destination(url: str) -> str:
    """Write the destination of a link."""
    if "\\" in url:
        url = url.replace("\\", "%5C")
    if "&" in url:
        url = _ENTITY.sub(_with_backslash, url)
    if ("(" in url or ")" in url) and _BALANCED.fullmatch(url) is None:
        url = url.replace("(", "\\(").replace(")", "\\)")
    if url.startswith("http"):
        return url  # absolute, so that it has no white space
    return squeeze(url).replace(" ", "%20").replace("<", "%3C").replace(">", "%3E")


def link_title(text: str) -> str:
    """Write the title of a link or picture, with the space before it; '' where there is none."""
    title = collapse_whitespace(text).replace("\\", "\\\\").replace('"', '\\"')
    if "&" in title:
        title = _ENTITY.sub(_with_backslash, title)
    return f' "{title}"' if title else ""


def _with_backslash(match: re.Match[str]) -> str:
    return f"\\{match[0]}"


def code_span(text: str) -> str:
    """Write code within a line."""
    if "`" not in text:
        return f"`{text}`"
    ticks = "`" * (longest_run(text) + 1)
    pad = " " if "`" in (text[0], text[-1]) else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


CODE: Final = ("code", "kbd", "samp")
_EMPHASIS_SIGNS: Final = {
    "strong": "**",
    "b": "**",
    "em": "*",
    "i": "*",
    "del": "~~",
    "s": "~~",
    "strike": "~~",
}
"""The delimiter that is written before and after an element, by its tag."""
_TAGS: Final = {"**": "strong", "*": "em", "~~": "del"}
"""The tag of an element that CommonMark has no notation for at its place."""
_SIGN_CHARACTERS: Final = frozenset("*~")
_SEPARATOR: Final = "<!-- -->"
_TITLES: Final = frozenset({*HEADINGS, "summary", "dt"})
_MAX_LABEL_CHARACTERS: Final = 100
_MAX_JOINED_CODE_CHARACTERS: Final = 200


def skip(_: InlineWriter) -> None:
    """Mark an element whose content is not visited; never called."""


def open_block(writer: InlineWriter, _: Element) -> End | None:
    """Mark a block without markup of its own; the walk ends the block itself."""
    raise NotImplementedError


class InlineWriter:
    """Writes elements on one line, without separate blocks: a heading, a cell, a link.

    Parameters
    ----------
    links
        The absolute forms of the page's URLs.
    anchors
        The links of the page with the texts they had before it was cleaned; a link without text
        gets a label from them. Without them it is omitted.
    footnotes
        The names of the footnotes that the text may refer to.
    """

    def __init__(
        self,
        links: LinkResolver,
        anchors: AnchorTable | None = None,
        footnotes: frozenset[str] = frozenset(),
    ) -> None:
        self._links = links
        self._anchors = anchors
        self._footnotes = footnotes
        self._original_texts: dict[Element, str] | None = None
        self._pieces: list[str] = []
        self._delimiters: list[Delimiter] = []
        self._emphasis: list[str] = []  # the signs of open elements, '' within one of the same
        self._link: Element | None = None
        self._href = ""
        self._link_start = 0
        self._link_delimiters = 0
        self._joined_code = (-1, "")

    def write(self, element: Element) -> str:
        """Write the content of an element on one line."""
        children = element.children
        if len(children) == 1 and type(children[0]) is Text:
            return squeeze(escape(children[0].data))
        self._walk(element)
        return squeeze(self._take_line())

    def _walk(self, root: Element) -> None:
        """Call the handlers of all nodes in `root`, in document order.

        An element ends before the node that follows it, so the walk needs no recursion.
        """
        pieces, handlers = self._pieces, self.handlers
        outer: list[tuple[Element, Node | None, End | None]] = []
        innermost, following, end = root, None, None
        resume: Node | None = None
        for node in root.descendants:
            if resume is not None:
                if node is not resume:
                    continue
                resume = None
            while node is following:
                if end is not None:
                    end(self)
                elif pieces:
                    self._end_block()
                innermost, following, end = outer.pop()
            if type(node) is Text:
                data = node.data
                if pieces or not data.isspace():
                    pieces.append(escape(data))
            elif type(node) is Element and (handler := handlers.get(node.tag)) is not None:
                if handler is open_block:
                    if pieces:
                        self._end_block()
                    node_end = None
                elif (node_end := handler(self, node)) is None:
                    continue
                node_following = node.next_sibling
                if node_following is None:
                    node_following = node_after_last_child(node, innermost, following)
                if node_end is not skip:
                    outer.append((innermost, following, end))
                    innermost, following, end = node, node_following, node_end
                elif node_following is None:
                    break
                else:
                    resume = node_following
        while outer:
            if end is not None:
                end(self)
            elif pieces:
                self._end_block()
            innermost, following, end = outer.pop()

    def _take_line(self) -> str:
        """Return the line and begin a new one."""
        pieces, delimiters = self._pieces, self._delimiters
        if delimiters:
            line = with_emphasis(pieces, delimiters)
            delimiters.clear()
        else:
            line = "".join(pieces)
        pieces.clear()
        self._joined_code = (-1, "")
        return line

    def _end_block(self) -> None:
        """Separate blocks by a space."""
        self._pieces.append(" ")

    def _write_space(self) -> None:
        if self._pieces:
            self._pieces.append(" ")

    def _write_break(self, _: Element) -> None:
        self._write_space()

    def _open_quote(self, _: Element) -> End:
        self._pieces.append('"')
        return lambda _: self._pieces.append('"')

    def _open_emphasis(self, node: Element) -> End:
        sign = _EMPHASIS_SIGNS[node.tag]
        if not self._emphasis and self._write_simple_emphasis(node, sign):
            return skip
        if sign in self._emphasis:
            sign = ""
        else:
            self._delimiters.append(Delimiter(len(self._pieces), sign, opening=True))
        self._emphasis.append(sign)
        return InlineWriter._close_emphasis

    def _write_simple_emphasis(self, node: Element, sign: str) -> bool:
        """Write emphasis of one text or code, if the characters next to it are known."""
        if len(node) != 1 or self._is_delimited():
            return False
        text = self._simple_text(node)
        if not text:
            return False
        after = node.next_sibling
        if not (text[:1].isalnum() and text[-1:].isalnum() and type(after) is not Element):
            if text[0].isspace() or text[-1].isspace() or type(after) is not Text:
                return False
            before = self._pieces[-1][-1:] if self._pieces else ""
            if not (flanks(text[0], before) and flanks(text[-1], after.data[:1])):
                return False
        self._pieces.append(f"{sign}{text}{sign}")
        return True

    def _simple_text(self, node: Element) -> str | None:
        """Write an element whose only content is one text or one code span; None for others.

        Elements in between that write nothing themselves, such as `span`, make no difference.
        """
        child = node.children[0]
        while type(child) is Element and len(child) == 1 and child.tag not in self.handlers:
            child = child.children[0]
        if type(child) is Text:
            return escape(child.data)
        if type(child) is Element and child.tag in CODE:
            text = child.text if len(child) == 1 else ""
            code = squeeze(text)
            return code_span(code) if code and len(code) == len(text) else None
        return None

    def _close_emphasis(self) -> None:
        sign = self._emphasis.pop()
        if sign:
            self._delimiters.append(Delimiter(len(self._pieces), sign, opening=False))

    def _is_delimited(self) -> bool:
        """Return whether the line ends, or may end, with a sign of emphasis."""
        pieces, delimiters = self._pieces, self._delimiters
        if delimiters and delimiters[-1].position == len(pieces):
            return True
        return bool(pieces) and (not pieces[-1] or pieces[-1][-1] in _SIGN_CHARACTERS)

    def _write_preformatted(self, node: Element) -> End:
        self._write_space()
        self._write_code(node)
        self._write_space()
        return skip

    def _write_code(self, node: Element) -> End:
        text = node.text if len(node) == 1 else text_of_lines(node)
        code = squeeze(text)
        if not code:
            self._write_space()
            return skip
        pieces = self._pieces
        if text[0].isspace():
            pieces.append(" ")
        end, last_code = self._joined_code
        is_adjacent = end == len(pieces) and not self._is_delimited()
        if is_adjacent and last_code and len(last_code) < _MAX_JOINED_CODE_CHARACTERS:
            code = last_code + code
            pieces.pop()
            self._joined_code = (-1, "")
        self._append_code(f"`{code}`" if "`" not in code else code_span(code))
        self._joined_code = (len(pieces), code)
        if text[-1].isspace():
            pieces.append(" ")
        return skip

    def _append_code(self, span: str) -> None:
        """Append a code span, separated from an adjacent one."""
        if self._joined_code[0] == len(self._pieces):
            self._pieces.append(_SEPARATOR)
        self._pieces.append(span)
        self._joined_code = (len(self._pieces), "")

    def _write_raised(self, node: Element) -> End | None:
        """Write a reference to a footnote, or "^" before the number of an exponent."""
        name = node.attr(REFERENCE) if self._footnotes else None
        if name is None or name not in self._footnotes:
            if self._pieces and self._pieces[-1][-1:].isalnum() and is_exponent(node):
                self._pieces.append("^")
            return None
        self._escape_exclamation()
        self._pieces.append(f"[^{name}]")
        following = node.next_sibling
        if len(self._pieces) == 1 and type(following) is Text and following.data[:1] == ":":
            self._pieces.append("\\")  # at the start of a line, "[^1]:" would begin the note
        return skip

    def _escape_exclamation(self) -> None:
        """Escape a "!" at the end of the line, which would turn a link into an image."""
        pieces = self._pieces
        if pieces and pieces[-1][-1:] == "!":
            pieces[-1] = f"{pieces[-1][:-1]}\\!"

    def _write_image(self, image: Element) -> None:
        if latex := image.attr(LATEX):
            self._append_formula(clean_latex(latex), image)
            return
        source = best_source(image)
        if source is not None:
            alt = escape(collapse_whitespace(image.attr("alt") or ""))
            url = destination(self._links[source] or source)
            self._pieces.append(f"![{alt}]({url}{link_title(image.attr('title') or '')})")

    def _write_formula(self, formula: Element) -> End | None:
        latex = clean_latex(formula.attr(LATEX) or "") or mathml_to_latex(formula)
        if not latex:
            return None
        self._append_formula(latex, formula)
        return skip

    def _append_formula(self, latex: str, element: Element) -> None:
        """Append a formula, apart from another one and from a digit after it."""
        pieces = self._pieces
        if pieces and pieces[-1][-1:] == "$":
            pieces.append(" ")
        if self._link is not None and latex.count("[") != latex.count("]"):
            latex = latex.replace("[", r"\lbrack ").replace("]", r"\rbrack ")
        pieces.append(f"${latex}$")
        following = element.next_sibling
        if type(following) is Text and following.data[:1].isdigit():
            pieces.append(_SEPARATOR)

    def _open_link(self, link: Element) -> End | None:
        if self._link is not None:
            return None
        href = link.attr("href")
        if href is None:
            return None
        if len(link) == 1 and (text := self._simple_text(link)) is not None:
            self._write_link(link, href, text)
            return skip
        self._begin_link(link, href)
        return InlineWriter._close_link

    def _begin_link(self, link: Element, href: str) -> None:
        self._link = link
        self._href = href
        self._link_start = len(self._pieces)
        self._joined_code = (-1, "")
        self._link_delimiters = len(self._delimiters)

    def _close_link(self) -> None:
        link, self._link = self._link, None
        if link is None:
            return
        # The text since its start leaves the line.
        start, first = self._link_start, self._link_delimiters
        inner = self._pieces[start:]
        if len(self._delimiters) > first:
            delimiters = [
                delimiter._replace(position=delimiter.position - start)
                for delimiter in self._delimiters[first:]
            ]
            text = with_emphasis(inner, delimiters, "[", "]")
            del self._delimiters[first:]
        else:
            text = "".join(inner)
        del self._pieces[start:]
        self._joined_code = (-1, "")
        self._write_link(link, self._href, text)

    def _write_link(self, link: Element, href: str, text: str) -> None:
        pieces = self._pieces
        label = text.strip() or self._label_of(link)
        if not label:
            pieces.append(text)
            return
        self._escape_exclamation()
        markdown = self._link_to(link, href, label)
        if len(label) != len(text):
            markdown = f"{' ' * text[:1].isspace()}{markdown}{' ' * text[-1:].isspace()}"
        pieces.append(markdown)

    def _link_to(self, link: Element, href: str, label: str) -> str:
        if label == href and "://" in href:
            return f"<{href}>"
        title = link.attr("title")
        return f"[{label}]({destination(href)}{link_title(title) if title else ''})"

    def _label_of(self, link: Element) -> str:
        """Return a name for a link without text."""
        if self._anchors is None:
            return ""
        name = link.attr("aria-label") or link.attr("title")
        if not name:
            if self._original_texts is None:
                texts = zip(self._anchors.elements, self._anchors.texts, strict=True)
                self._original_texts = dict(texts)
            name = self._original_texts.get(link, "")
        name = collapse_whitespace(name)
        return escape(name) if len(name) <= _MAX_LABEL_CHARACTERS else ""

    def _open_button(self, button: Element) -> End | None:
        """Omit a button unless it is the whole text of a title."""
        title = nearest_ancestor(button, _TITLES)
        if title is not None and len(title.text.split()) == len(button.text.split()):
            return None
        return skip

    def _write_input(self, field: Element) -> None:
        """Write the check box of a task list; omit other fields."""
        if (field.attr("type") or "").lower() == "checkbox":
            item = nearest_ancestor(field, {"li"}, levels=2)
            task = item is not None and "task" in (item.attr("class") or "")
            if item is not None and (task or field.attr("disabled") is not None):
                self._pieces.append("[ ] " if field.attr("checked") is None else "[x] ")

    handlers: ClassVar[dict[str, Handler]] = {
        **dict.fromkeys(NOT_TEXT, lambda _writer, _element: skip),
        **dict.fromkeys(BLOCKS, open_block),
        **dict.fromkeys(_EMPHASIS_SIGNS, _open_emphasis),
        **dict.fromkeys(CODE, _write_code),
        **dict.fromkeys(PREFORMATTED, _write_preformatted),
        "a": _open_link,
        "br": _write_break,
        "button": _open_button,
        "img": _write_image,
        "input": _write_input,
        "math": _write_formula,
        "q": _open_quote,
        "sup": _write_raised,
    }
    """The methods that write elements, by tag; other tags are ignored."""


class Delimiter(NamedTuple):
    """One end of an element of emphasis.

    Attributes
    ----------
    position
        The number of pieces of the line before it.
    sign
        The characters that are written for it.
    opening
        Whether the element starts here.
    """

    position: int
    sign: str
    opening: bool


def with_emphasis(
    pieces: Sequence[str], delimiters: Sequence[Delimiter], before: str = "", after: str = ""
) -> str:
    """Join the pieces of a line with the delimiters between them.

    Parameters
    ----------
    pieces
        The line without its emphasis.
    delimiters
        Its emphasis, in order; elements of the same sign do not nest.
    before, after
        The characters next to the line.
    """
    line = _EmphasisLine(before)
    start = 0
    for position, sign, opening in delimiters:
        line.add_text("".join(pieces[start:position]))
        start = position
        if opening:
            line.open(sign)
        else:
            line.close()
    line.add_text("".join(pieces[start:]))
    return line.finish(after)


class _EmphasisLine:
    """A line with emphasis, written from left to right.

    White space at the ends of an element is moved out of it. An element without text is omitted,
    and adjacent elements of the same kind are joined. An element whose signs would not be parsed
    is text, except beside characters of languages without spaces: there it has tags.
    """

    def __init__(self, before: str) -> None:
        self._written: list[str] = []
        self._last = before  # the last character that is not a sign
        self._space = ""  # white space that is not written yet
        self._unopened: list[str] = []  # signs that are written before the next text
        self._opened: list[tuple[str, int, str]] = []  # sign, position, sign or tag as written
        self._closed: list[
            tuple[str, int, int]
        ] = []  # signs with positions, valid or not depending on the next text

    def add_text(self, text: str) -> None:
        body = text.strip()
        if not body:
            self._space = self._space or text
            return
        if len(body) < len(text):
            self._space += text[: -len(text.lstrip())]
        closed = self._resolve_closed(self._space[:1] or body[0])
        if self._space:
            self._written.append(self._space)
            self._last = self._space[-1]
            closed = []
        if self._unopened:
            # Opening signs are valid if CommonMark parses them.
            signs, self._unopened = self._unopened, []
            if not closed:
                valid, outside = self._last not in _SIGN_CHARACTERS, self._last
            elif closed[-1][0] == signs[0][0]:
                # Only one sign can follow one other of the same character directly.
                valid, outside = len(closed) == len(signs) == 1 and closed != signs, self._last
            else:
                valid, outside = True, closed[-1][0]
            for number, sign in enumerate(signs):
                inside = _next_other_character(signs[number:], body[0])
                is_emphasis = valid and flanks(inside, outside)
                notation = sign if is_emphasis else _tag_beside(sign, inside, outside)
                self._opened.append((sign, len(self._written), notation))
                self._written.append(sign)
                if is_emphasis and number + 1 < len(signs) and signs[number + 1][0] != sign[0]:
                    outside = sign[0]
        self._written.append(body)
        self._last = body[-1]
        self._space = text[len(text.rstrip()) :] if len(body) < len(text) else ""

    def open(self, sign: str) -> None:
        if self._closed and not self._space and not self._unopened:
            last_sign, start, end = self._closed[-1]
            if last_sign == sign and end == len(self._written) - 1:
                self._closed.pop()
                self._written.pop()
                self._opened.append((sign, start, sign))
                return
        self._unopened.append(sign)

    def close(self) -> None:
        if self._unopened:
            self._unopened.pop()
            return
        sign, start, notation = self._opened.pop()
        if notation == sign:
            self._closed.append((sign, start, len(self._written)))
            self._written.append(sign)
        else:
            self._written[start] = notation
            self._written.append(notation.replace("<", "</"))

    def finish(self, after: str) -> str:
        self._resolve_closed(self._space[:1] or after)
        parts: list[str] = []
        for piece in filter(None, self._written):
            if piece[0] == "`" and parts and parts[-1][-1] == "`":
                parts.append(_SEPARATOR)  # code spans would otherwise merge
            parts.append(piece)
        return "".join(parts) + self._space

    def _resolve_closed(self, following: str) -> list[str]:
        """Remove the signs of elements that are not emphasis in CommonMark; return the others."""
        if not self._closed:
            return []
        closed, self._closed = self._closed, []
        signs = [sign for sign, _, _ in closed]
        written_signs: list[str] = []
        inside = self._last
        for number, (sign, start, end) in enumerate(closed):
            if written_signs and written_signs[-1][0] != sign[0]:
                inside = written_signs[-1][0]
            outside = _next_other_character(signs[number:], following)
            if flanks(inside, outside):
                written_signs.append(sign)
            else:
                self._written[start] = _tag_beside(sign, inside, outside)
                self._written[end] = self._written[start].replace("<", "</")
        return written_signs


def _next_other_character(signs: list[str], following: str) -> str:
    """Return the character after a run of the same sign."""
    return next((sign[0] for sign in signs if sign[0] != signs[0][0]), following)


def flanks(inside: str, outside: str) -> bool:
    """Return whether a sign between two characters delimits the text on its inner side."""
    return inside.isalnum() or not (
        _is_punctuation(inside)
        and outside
        and not outside.isspace()
        and not _is_punctuation(outside)
    )


def _tag_beside(sign: str, *characters: str) -> str:
    """Return the start tag for an element whose sign would not be parsed, or nothing."""
    is_wide = any(unicodedata.east_asian_width(each) in "WF" for each in characters if each)
    return f"<{_TAGS[sign]}>" if is_wide else ""


def _is_punctuation(character: str) -> bool:
    if character == DOLLAR:
        return True
    return not character.isalnum() and unicodedata.category(character)[0] in "PS"


def write_table(table: PageTable, cells: CellWriter) -> str:
    """Write a table; one without a header has an empty one, which Markdown requires."""
    header, rows = table.write_cells(cells.write)
    columns = table.width
    header += [""] * (columns - len(header))
    lines = [_line(header), f"|{' --- |' * columns}", *map(_line, rows)]
    return "\n".join(lines)


def _line(texts: list[str]) -> str:
    return f"| {' | '.join(texts)} |"


class CellWriter(InlineWriter):
    """Writes the cells of a table, with breaks and lists as HTML."""

    def write(self, element: Element) -> str:
        """Write the content of a cell."""
        text = super().write(element)
        return text.replace("|", "\\|") if "|" in text else text

    def _append_formula(self, latex: str, element: Element) -> None:
        super()._append_formula(without_bars(latex) if "|" in latex else latex, element)

    def _write_break(self, _: Element) -> None:
        if self._pieces:
            self._pieces.append("<br>")

    def _write_preformatted(self, node: Element) -> End:
        """Write the lines of code."""
        lines = [line.rstrip() for line in text_of_lines(node).splitlines()]
        for line in filter(None, lines):
            self._write_break(node)
            self._append_code(code_span(line))
        return skip

    def _write_tags(self, element: Element) -> End:
        self._pieces.append(f"<{element.tag}>")
        return lambda _: self._pieces.append(f"</{element.tag}>")

    handlers: ClassVar[dict[str, Handler]] = {
        **InlineWriter.handlers,
        **dict.fromkeys(PREFORMATTED, _write_preformatted),
        **dict.fromkeys(("br", "tr"), _write_break),
        **dict.fromkeys(("li", "ol", "ul"), _write_tags),
    }


MAX_NESTED_CONTAINERS: Final = 20
"""Maximum nesting of lists and quotations; deeper levels are not written."""

# A number in HTML syntax, with the digits that Markdown allows.
_NUMBER: Final = re.compile(r"\s*\+?(\d{1,9})(?!\d)")
_LARGEST_NUMBER: Final = 999_999_999


@dataclass(slots=True)
class OpenContainer:
    """A list or quotation that is being written.

    Attributes
    ----------
    prefix
        The start of each line of the outer container.
    first_prefix
        The start of the first line of its first block, if different.
    start
        The number of blocks written before it.
    delimiter
        The character after the number of an item, or the bullet; '' for a quotation.
    number
        The number of the next item; None in a list without numbers.
    in_item
        Whether an item has begun.
    gaps
        The number of blank lines when the item began.
    """

    prefix: str
    first_prefix: str | None
    start: int
    delimiter: str = ""
    number: int | None = None
    in_item: bool = False
    gaps: int = 0


class MarkdownWriter(InlineWriter):
    """Writes an element with all its blocks.

    Parameters
    ----------
    links
        The absolute forms of the page's URLs.
    anchors
        The links of the element, with their texts before the page was cleaned.
    footnotes
        The names of the footnotes that the text may refer to.
    """

    def __init__(
        self,
        links: LinkResolver,
        anchors: AnchorTable | None,
        footnotes: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(links, anchors, footnotes)
        self._line = InlineWriter(links, footnotes=footnotes)
        self._cell = CellWriter(links, anchors, footnotes)
        self._blocks: list[str] = []
        self._containers: list[OpenContainer] = []
        self._prefix = ""
        self._first_prefix: str | None = None
        self._blank_prefix = ""
        self._tight = False
        self._gaps = 0
        self._last_list = (0, "", "")  # blocks up to its end, prefix, delimiter
        self._skipped_cells: set[Element] = set()
        self._titled_tables: list[PageTable] = []

    def write(self, element: Element) -> str:
        """Write the content of an element."""
        self._walk(element)
        self._end_paragraph()
        markdown = "".join(self._blocks).replace("\xa0", " ").replace(CODE_SPACE, "\xa0")
        return resolve_dollars(markdown)

    def _end_block(self) -> None:
        """End the paragraph before or in a block; within a link, write a space instead."""
        if self._pieces:
            if self._link is None:
                self._end_paragraph()
            else:
                self._pieces.append(" ")

    def _end_paragraph(self) -> None:
        """Write the text since the last block as a paragraph; open emphasis continues after it."""
        pieces = self._pieces
        if self._emphasis:
            # It is closed at the end of the line and reopened in the next one.
            signs = list(filter(None, self._emphasis))
            end = len(pieces)
            self._delimiters += (Delimiter(end, sign, opening=False) for sign in reversed(signs))
            text = self._take_line()
            self._delimiters += (Delimiter(0, sign, opening=True) for sign in signs)
        elif self._delimiters:
            text = self._take_line()
        else:
            text = pieces[0] if len(pieces) == 1 else "".join(pieces)
            pieces.clear()
            self._joined_code = (-1, "")
        if BREAK in text:
            lines = [line for part in text.split(BREAK) if (line := squeeze(part))]
            text = "  \n".join(map(escape_block_sign, lines))
        else:
            text = squeeze(text)
            if text[:1] in BLOCK_SIGNS:
                text = escape_block_sign(text)
        if text:
            self._write_block(text)

    def _write_block(self, block: str) -> None:
        """Write a block below the last one, with the markers of its containers."""
        prefix, first_prefix = self._prefix, self._first_prefix
        if not prefix and first_prefix is None:
            self._blocks.append(f"\n\n{block}" if self._blocks else block)
            return
        if "\n" in block:
            block = block.replace("\n", f"\n{prefix}")
        start = prefix if first_prefix is None else first_prefix
        if not self._blocks:
            self._blocks.append(f"{start}{block}")
        elif self._tight:
            self._blocks.append(f"\n{start}{block}")
            self._tight = False
        else:
            self._blocks.append(f"\n{self._blank_prefix.rstrip()}\n{start}{block}")
            self._gaps += first_prefix is None
        self._first_prefix = None
        self._blank_prefix = prefix

    def _write_break(self, _: Element) -> None:
        """Write a hard break; a second one ends the paragraph."""
        pieces = self._pieces
        if self._link is None and pieces:
            last = -2 if len(pieces) > 1 and pieces[-1].isspace() and pieces[-1] != BREAK else -1
            if pieces[last] == BREAK:
                self._end_paragraph()
                return
        pieces.append(BREAK)

    def _write_heading(self, node: Element) -> End:
        link, href = self._link, self._href
        self._link = None  # the link is written inside the heading
        self._end_block()
        text = self._line.write(node)
        if text:
            if link is not None:
                text = self._link_to(link, href, text)
            if text[-1] == "#":
                text = f"{text[:-1]}\\#"
            self._write_block(f"{'#' * int(node.tag[1])} {text}")
            self._tight = bool(self._containers)
        elif link is not None:
            self._begin_link(link, href)
        return skip

    def _write_rule(self, _: Element) -> None:
        self._end_block()
        if self._link is None:
            self._write_block("---" if self._first_prefix is None else "___")

    def _write_code_block(self, node: Element) -> End:
        if self._link is not None:
            return self._write_code(node)
        self._end_block()
        if block := write_code_block(node):
            self._write_block(block.replace("\xa0", CODE_SPACE))
        return skip

    def _write_formula(self, formula: Element) -> End | None:
        if formula.attr("display") != "block" or self._link is not None:
            return super()._write_formula(formula)
        latex = clean_latex(formula.attr(LATEX) or "") or mathml_to_latex(formula)
        if not latex:
            return None
        self._end_block()
        self._write_block(f"$${latex}$$")  # on one line, since "-" or "=" may not begin one
        return skip

    def _open_blockquote(self, _: Element) -> End:
        self._end_block()
        if self._link is not None or len(self._containers) == MAX_NESTED_CONTAINERS:
            return MarkdownWriter._end_block
        self._open_container("")
        self._begin(self._prefix, self._first_prefix, "> ", "> ")
        return MarkdownWriter._close_container

    def _open_list(self, node: Element) -> End:
        self._end_block()
        if self._link is not None or len(self._containers) == MAX_NESTED_CONTAINERS:
            return MarkdownWriter._end_block
        number = None
        delimiters = "-*"
        if node.tag == "ol":
            first = next(iter(child_elements(node, {"li"})), None)
            number = _number(first, "value") if first is not None else None
            number = _number(node, "start", 1) if number is None else number
            delimiters = ".)"
        outer = self._containers[-1] if self._containers else None
        if outer is not None and outer.delimiter and not outer.in_item:
            self._begin_item(outer)
        list_end = (len(self._blocks), self._prefix, delimiters[0])
        container = self._open_container(delimiters[list_end == self._last_list])
        container.number = number
        if outer is not None and outer.delimiter:
            self._tight = number in {None, 1}
        return MarkdownWriter._close_container

    def _open_item(self, _: Element) -> End:
        moved_link = None
        parent = self._link.parent if self._link is not None else None
        if isinstance(parent, Element) and parent.tag in LISTS:
            moved_link, self._link = self._link, None  # a link around an item becomes a link in it
        self._end_block()
        if self._link is None and self._containers and self._containers[-1].delimiter:
            self._begin_item(self._containers[-1])
        if moved_link is not None:
            self._begin_link(moved_link, self._href)
        return MarkdownWriter._end_block

    def _begin_item(self, container: OpenContainer) -> None:
        """Begin an item, which ends at the next one: lists may be between the items."""
        first_prefix = container.first_prefix
        if len(self._blocks) > container.start:
            first_prefix = None
            if container.in_item:
                self._tight = self._gaps == container.gaps
                self._blank_prefix = container.prefix
        container.in_item = True
        container.gaps = self._gaps
        marker = f"{container.delimiter} "
        if container.number is not None:
            marker = f"{container.number}{marker}"
            container.number = min(container.number + 1, _LARGEST_NUMBER)
        self._begin(container.prefix, first_prefix, marker, " " * len(marker))

    def _begin(self, prefix: str, first_prefix: str | None, marker: str, indentation: str) -> None:
        """Write a marker before the next block, and indent the following lines."""
        self._first_prefix = (prefix if first_prefix is None else first_prefix) + marker
        self._prefix = prefix + indentation

    def _open_container(self, delimiter: str) -> OpenContainer:
        container = OpenContainer(
            self._prefix, self._first_prefix, len(self._blocks), delimiter, gaps=self._gaps
        )
        self._containers.append(container)
        return container

    def _close_container(self) -> None:
        self._end_block()
        container = self._containers.pop()
        self._prefix = self._blank_prefix = container.prefix
        self._first_prefix = (
            container.first_prefix if len(self._blocks) == container.start else None
        )
        self._tight = False
        if container.delimiter:
            self._last_list = (len(self._blocks), container.prefix, container.delimiter)

    def _open_table(self, table: Element) -> End:
        self._end_block()
        if self._link is not None:
            return MarkdownWriter._end_block
        data = read_table(table)
        if data is None:
            self._skipped_cells |= line_number_cells(table_rows(table))
            return MarkdownWriter._end_block
        if not data.titles:
            self._write_block(write_table(data, self._cell))
            return skip
        # A title may hold any blocks; they are written first.
        self._titled_tables.append(data)
        cells = (cell for row in table_rows(table) for cell in row.cells)
        self._skipped_cells.update(cell for cell in cells if cell not in data.titles)
        return MarkdownWriter._close_titled_table

    def _close_titled_table(self) -> None:
        self._end_block()
        self._write_block(write_table(self._titled_tables.pop(), self._cell))

    def _open_cell(self, cell: Element) -> End:
        self._end_block()
        return skip if cell in self._skipped_cells else MarkdownWriter._end_block

    handlers: ClassVar[dict[str, Handler]] = {
        **InlineWriter.handlers,
        **dict.fromkeys(HEADINGS, _write_heading),
        **dict.fromkeys((*LISTS, "menu", "dir"), _open_list),
        **dict.fromkeys(PREFORMATTED, _write_code_block),
        **dict.fromkeys(("td", "th"), _open_cell),
        "blockquote": _open_blockquote,
        "br": _write_break,
        "hr": _write_rule,
        "li": _open_item,
        "math": _write_formula,
        "table": _open_table,
    }


def _number(element: Element, attribute: str, default: int | None = None) -> int | None:
    """Return the number in an attribute, if Markdown can write it."""
    match = _NUMBER.match(element.attr(attribute) or "")
    return int(match[1]) if match is not None else default


_LINE_START: Final = re.compile(r"\n(?=[^\n])")
# Text that continues the line of the mark; other blocks begin below it.
_NO_PARAGRAPH: Final = re.compile(r"[-*+#]+\s|[>|]|```|~~~|\d+[.)]\s|\$\$|<")


def write_with_footnotes(content: ParsedPage) -> str:
    """Write the content of a page as Markdown, its footnotes as definitions at the end."""
    footnotes, links = content.footnotes, content.link_resolver
    notes = footnotes.notes if footnotes is not None else {}
    names = frozenset(notes)
    if footnotes is not None:
        footnotes.section.extract()
    blocks = [MarkdownWriter(links, content.anchors, names).write(content.element)]
    for name, note in notes.items():
        # A link without text gets no label here: the table of labels would be built for each note.
        text = MarkdownWriter(links, None, names).write(note)
        separator = "\n    " if _NO_PARAGRAPH.match(text) else " "
        blocks.append(f"[^{name}]:{separator}{_LINE_START.sub(chr(10) + '    ', text)}".rstrip())
    return "\n\n".join(filter(None, blocks))
