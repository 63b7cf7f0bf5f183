"""Writes tables: one line for each row, and one line of text for each cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from webdata_nb.page.content.parser import PREFORMATTED
from webdata_nb.page.content.tables import header_text
from webdata_nb.page.markdown.code_blocks import text_of_lines
from webdata_nb.page.markdown.escaping import code_span
from webdata_nb.page.markdown.inline import InlineWriter, skip
from webdata_nb.page.markdown.latex import without_bars

if TYPE_CHECKING:
    from webdata_nb.page.content.parser import Element
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
