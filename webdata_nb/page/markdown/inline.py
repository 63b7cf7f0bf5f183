"""Writes the inline content of an element: text, emphasis, links, images, code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

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
from webdata_nb.page.markdown.emphasis import (
    SEPARATOR,
    SIGN_CHARACTERS,
    SIGNS,
    Delimiter,
    flanks,
    with_emphasis,
)
from webdata_nb.page.markdown.escaping import (
    code_span,
    destination,
    escape,
    link_title,
    squeeze,
)
from webdata_nb.page.markdown.latex import clean_latex, inline_formula
from webdata_nb.page.markdown.mathml import mathml_to_latex

if TYPE_CHECKING:
    from collections.abc import Callable

    from webdata_nb.page.content.links import AnchorTable, LinkResolver
    from webdata_nb.page.content.parser import Node

    End: TypeAlias = Callable[[Any], None]
    """A writer's method that writes the end of an element."""
    Handler: TypeAlias = Callable[[Any, Element], End | None]
    """A writer's method that writes the start of an element and returns what writes its end."""

CODE: Final = ("code", "kbd", "samp")
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
        sign = SIGNS[node.tag]
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
        return bool(pieces) and (not pieces[-1] or pieces[-1][-1] in SIGN_CHARACTERS)

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
            self._pieces.append(SEPARATOR)
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
            pieces.append(SEPARATOR)

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
        **dict.fromkeys(SIGNS, _open_emphasis),
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
