"""Writes the inline content of an element: text, emphasis, links, images, code.

Emphasis is written so that CommonMark parses it, by its rules for flanking delimiters.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeAlias

from webdata_nb.page.content.footnotes import REFERENCE
from webdata_nb.page.content.formulas import LATEX
from webdata_nb.page.content.links import best_source
from webdata_nb.page.content.parser import (
    BLOCKS,
    HEADINGS,
    NOT_TEXT,
    PREFORMATTED,
    Element,
    Text,
    collapse_whitespace,
    nearest_ancestor,
    node_after_last_child,
)
from webdata_nb.page.content.tables import is_exponent
from webdata_nb.page.markdown.code_blocks import text_of_lines
from webdata_nb.page.markdown.escaping import (
    DOLLAR,
    code_span,
    destination,
    escape,
    link_title,
    squeeze,
)
from webdata_nb.page.markdown.latex import clean_latex, inline_formula, mathml_to_latex

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from webdata_nb.page.content.links import AnchorTable, LinkResolver
    from webdata_nb.page.content.parser import Node

    End: TypeAlias = Callable[[Any], None]
    """A writer's method that writes the end of an element."""
    Handler: TypeAlias = Callable[[Any, Element], End | None]
    """A writer's method that writes the start of an element and returns what writes its end."""

CODE: Final = ("code", "kbd", "samp")
_SIGNS: Final = {
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

    def _write_nothing(self, _: Element) -> End:
        return skip

    def _end_block(self) -> None:
        """Separate blocks by a space."""
        self._pieces.append(" ")

    def _write_space(self) -> None:
        if self._pieces:
            self._pieces.append(" ")

    def _write_break(self, _: Element) -> None:
        self._write_space()

    def _open_quote(self, _: Element) -> End:
        self._close_quote()
        return InlineWriter._close_quote

    def _close_quote(self) -> None:
        self._pieces.append('"')

    def _open_emphasis(self, node: Element) -> End:
        sign = _SIGNS[node.tag]
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
        pieces.append(inline_formula(latex))
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
        link = self._link
        self._link = None
        if link is not None:
            self._write_link(link, self._href, self._take_link_text())

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

    def _take_link_text(self) -> str:
        """Remove the text since the start of a link from the line, and return it."""
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
        return text

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
        **dict.fromkeys(NOT_TEXT, _write_nothing),
        **dict.fromkeys(BLOCKS, open_block),
        **dict.fromkeys(_SIGNS, _open_emphasis),
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
            self._write_opening_signs(body[0], closed)
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
        return _join(self._written) + self._space

    def _write_opening_signs(self, following: str, closing: list[str]) -> None:
        """Write the opening signs before a text, marked as valid if CommonMark parses them."""
        signs, self._unopened = self._unopened, []
        valid = self._last not in _SIGN_CHARACTERS if not closing else _can_follow(closing, signs)
        outside = closing[-1][0] if closing and closing[-1][0] != signs[0][0] else self._last
        for number, sign in enumerate(signs):
            inside = _next_other_character(signs[number:], following)
            is_emphasis = valid and flanks(inside, outside)
            notation = sign if is_emphasis else _tag_beside(sign, inside, outside)
            self._opened.append((sign, len(self._written), notation))
            self._written.append(sign)
            if is_emphasis and number + 1 < len(signs) and signs[number + 1][0] != sign[0]:
                outside = sign[0]

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


def _join(pieces: Sequence[str]) -> str:
    """Join pieces, with an empty comment between code spans that would otherwise merge."""
    parts: list[str] = []
    for piece in filter(None, pieces):
        if piece[0] == "`" and parts and parts[-1][-1] == "`":
            parts.append(_SEPARATOR)
        parts.append(piece)
    return "".join(parts)


def _next_other_character(signs: list[str], following: str) -> str:
    """Return the character after a run of the same sign."""
    return next((sign[0] for sign in signs if sign[0] != signs[0][0]), following)


def _can_follow(closing: list[str], opening: list[str]) -> bool:
    """Return whether closing signs can directly precede opening ones."""
    if closing[-1][0] != opening[0][0]:
        return True
    return len(closing) == len(opening) == 1 and closing != opening


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
