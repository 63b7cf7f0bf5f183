"""Writes an element as GitHub-flavoured Markdown in one walk over its tree."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from webdata_nb.page.content.formulas import LATEX
from webdata_nb.page.content.parser import HEADINGS, LISTS, PREFORMATTED, Element
from webdata_nb.page.content.tables import (
    child_elements,
    header_text,
    line_number_cells,
    read_table,
    table_rows,
)
from webdata_nb.page.markdown.code_blocks import text_of_lines, write_code_block
from webdata_nb.page.markdown.escaping import (
    BLOCK_SIGNS,
    BREAK,
    CODE_SPACE,
    code_span,
    escape_block_sign,
    resolve_dollars,
    squeeze,
)
from webdata_nb.page.markdown.inline import Delimiter, InlineWriter, skip
from webdata_nb.page.markdown.latex import (
    clean_latex,
    display_formula,
    mathml_to_latex,
    without_bars,
)

if TYPE_CHECKING:
    from webdata_nb.page.content.links import AnchorTable, LinkResolver
    from webdata_nb.page.content.page_content import PageContent
    from webdata_nb.page.content.tables import PageTable
    from webdata_nb.page.markdown.inline import End, Handler


def write_table(table: PageTable, cells: CellWriter) -> str:
    """Write a table; one without a header has an empty one, which Markdown requires."""
    texts: dict[Element | None, str] = {None: ""}
    for cell in table.cells():
        if cell not in texts:
            texts[cell] = cells.write(cell)
    columns = table.width
    header = [header_text([texts[cell] for cell in names]) for names in table.header]
    header += [""] * (columns - len(header))
    lines = [_line(header), f"|{' --- |' * columns}"]
    lines += (_line([texts[cell] for cell in row]) for row in table.rows)
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

    def _open_row(self, row: Element) -> None:
        """Begin a row of a table in the cell on a new line."""
        self._write_break(row)

    def _open_ul(self, _: Element) -> End:
        self._pieces.append("<ul>")
        return CellWriter._close_ul

    def _close_ul(self) -> None:
        self._pieces.append("</ul>")

    def _open_ol(self, _: Element) -> End:
        self._pieces.append("<ol>")
        return CellWriter._close_ol

    def _close_ol(self) -> None:
        self._pieces.append("</ol>")

    def _open_li(self, _: Element) -> End:
        self._pieces.append("<li>")
        return CellWriter._close_li

    def _close_li(self) -> None:
        self._pieces.append("</li>")

    handlers: ClassVar[dict[str, Handler]] = {
        **InlineWriter.handlers,
        **dict.fromkeys(PREFORMATTED, _write_preformatted),
        "br": _write_break,
        "li": _open_li,
        "ol": _open_ol,
        "tr": _open_row,
        "ul": _open_ul,
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
            text = self._take_line_with_open_emphasis()
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

    def _take_line_with_open_emphasis(self) -> str:
        """Return a line with open emphasis, closed at its end and reopened in the next line."""
        signs = list(filter(None, self._emphasis))
        end = len(self._pieces)
        self._delimiters += (Delimiter(end, sign, opening=False) for sign in reversed(signs))
        line = self._take_line()
        self._delimiters += (Delimiter(0, sign, opening=True) for sign in signs)
        return line

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
        self._write_block(display_formula(latex))
        return skip

    def _open_blockquote(self, _: Element) -> End:
        self._end_block()
        if self._link is not None or len(self._containers) == MAX_NESTED_CONTAINERS:
            return MarkdownWriter._end_block
        self._open_container("")
        self._begin(self._prefix, self._first_prefix, "> ", "> ")
        return MarkdownWriter._close_blockquote

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
        return MarkdownWriter._close_list

    def _open_item(self, _: Element) -> End:
        moved_link = self._link if self._link is not None and _is_in_list(self._link) else None
        if moved_link is not None:
            self._link = None  # a link around an item becomes a link in it
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

    def _close_blockquote(self) -> None:
        self._close_container()

    def _close_container(self) -> OpenContainer:
        self._end_block()
        container = self._containers.pop()
        self._prefix = self._blank_prefix = container.prefix
        self._first_prefix = (
            container.first_prefix if len(self._blocks) == container.start else None
        )
        self._tight = False
        return container

    def _close_list(self) -> None:
        container = self._close_container()
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


def _is_in_list(node: Element) -> bool:
    return isinstance(node.parent, Element) and node.parent.tag in LISTS


def _number(element: Element, attribute: str, default: int | None = None) -> int | None:
    """Return the number in an attribute, if Markdown can write it."""
    match = _NUMBER.match(element.attr(attribute) or "")
    return int(match[1]) if match is not None else default


_LINE_START: Final = re.compile(r"\n(?=[^\n])")
# Text that continues the line of the mark; other blocks begin below it.
_NO_PARAGRAPH: Final = re.compile(r"[-*+#]+\s|[>|]|```|~~~|\d+[.)]\s|\$\$|<")


def write_with_footnotes(content: PageContent, links: LinkResolver) -> str:
    """Write the content of a page as Markdown, its footnotes as definitions at the end."""
    footnotes = content.footnotes
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
