"""Converts CSV and similar tables to HTML tables."""

from __future__ import annotations

import csv
import re
from collections import Counter
from html import escape
from io import StringIO
from itertools import islice
from typing import TYPE_CHECKING

from webdata_nb.page.documents.converted_document import ConvertedDocument
from webdata_nb.page.documents.text import convert_plain_text, find_urls

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        f"<body>{_table(head_rows, columns)}</body>", text=head, metadata=nonzero
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


def _table(rows: list[list[str]], columns: int) -> str:
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
