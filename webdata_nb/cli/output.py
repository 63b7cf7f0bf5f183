"""Writes frames to standard output: a table that fits the terminal, CSV, JSON or Markdown."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.measure import Measurement

# ruff: noqa: PLC0415 - a command imports what it needs: `webdata --help` must not wait for pandas

OutputFormat = Literal["table", "csv", "json", "markdown"]

_NUMBER_KINDS: Final = "iuf"
_TIME_KIND: Final = "M"
# Columns that are at most this wide keep their width; wider ones share what is left.
_FIXED_WIDTH: Final = 12
_MIN_WIDTH: Final = 8
_GAP: Final = 2
_ELLIPSIS: Final = "…"
_NO_ROWS: Final = "no rows"


def add_format_flag(parser: argparse.ArgumentParser) -> None:
    """Add the flag that chooses the format of standard output."""
    parser.add_argument(
        "--format",
        dest="output_format",
        choices=get_args(OutputFormat),
        default="table",
        help="of standard output: csv and json have every column (default: table)",
    )


def print_frame(
    frame: pd.DataFrame, output_format: OutputFormat, columns: Sequence[str] | None = None
) -> None:
    """Print a frame; tables have those of `columns` that exist and have values."""
    from webdata_nb.toolkit.frames import exports
    from webdata_nb.toolkit.terminal_text import encodable_json

    match output_format:
        case "csv":
            sys.stdout.write(exports.csv_text(frame))
        case "json":
            sys.stdout.write(encodable_json(exports.json_text(frame)))
        case "markdown":
            print(markdown_table(_text_columns(frame, columns)))
        case "table":
            print(plain_table(_text_columns(frame, columns), shown_width()))


def shown_width() -> int | None:
    """Return the width of the terminal; None if standard output is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of printable cells; numbers are aligned to the right."""

    name: str
    cells: Sequence[str]
    is_number: bool = False

    @property
    def is_url(self) -> bool:
        """Whether the cells are URLs, whose ends matter as much as their beginnings."""
        return self.name == "url" or self.name.endswith("_url")

    @property
    def is_id(self) -> bool:
        """Whether the cells are ids, which are useless when they are cut."""
        return self.name.endswith("_id")


def _text_columns(frame: pd.DataFrame, names: Sequence[str] | None) -> list[TextColumn]:
    from webdata_nb.toolkit.terminal_text import printable_line

    columns: list[TextColumn] = []
    for name in names or frame.columns:
        if name in frame.columns and frame[name].notna().any():
            column: pd.Series[Any] = frame[name]
            kind = getattr(column.dtype, "kind", "")
            if kind == _TIME_KIND:
                column = column.dt.strftime("%Y-%m-%d %H:%M:%S")
            values = column.astype(object).where(column.notna(), "")
            cells = list(map(printable_line, values))
            columns.append(TextColumn(str(column.name), cells, kind in _NUMBER_KINDS))
    return columns


def markdown_table(columns: Sequence[TextColumn]) -> str:
    """Return a table in the Markdown of GitHub."""
    if not columns:
        return _NO_ROWS
    head = [column.name for column in columns]
    rule = ["--:" if column.is_number else "---" for column in columns]
    escapes = str.maketrans({"\\": "\\\\", "|": "\\|", "<": "&lt;"})
    cells = ([cell.translate(escapes) for cell in column.cells] for column in columns)
    rows = zip(*cells, strict=True)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def plain_table(columns: Sequence[TextColumn], width: int | None) -> str:
    """Return an aligned table of at most `width` terminal cells; of any width without one.

    Long texts lose their ends, and long URLs their middles.
    """
    if not columns:
        return _NO_ROWS
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, show_edge=False, padding=(0, _GAP, 0, 0), pad_edge=False)
    widths = [max(map(len, (column.name, *column.cells))) for column in columns]
    for column, widest in zip(columns, widths, strict=True):
        table.add_column(
            ShortenedText(column.name),
            justify="right" if column.is_number else "left",
            no_wrap=column.is_id or widest <= _FIXED_WIDTH,
            min_width=min(widest, _MIN_WIDTH),
        )
    for row in zip(*(column.cells for column in columns), strict=True):
        texts = zip(row, columns, strict=True)
        table.add_row(*(ShortenedText(text, middle=each.is_url) for text, each in texts))
    # Enough even if every character takes two terminal cells.
    unlimited = sum(2 * each + _GAP for each in widths)
    console = Console(width=width or unlimited, color_system=None, highlight=False, markup=False)
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


@dataclass(frozen=True, slots=True)
class ShortenedText:
    """One line of text for rich, cut to the width of its column at the end or in the middle."""

    text: str
    middle: bool = False

    def __rich_measure__(self, _console: Console, options: ConsoleOptions) -> Measurement:
        from rich.cells import cell_len
        from rich.measure import Measurement

        width = cell_len(self.text)
        return Measurement(min(width, _MIN_WIDTH), width).with_maximum(options.max_width)

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        cut = shorten_middle if self.middle else shorten_end
        yield Text(cut(self.text, options.max_width), no_wrap=True, justify=options.justify)


def utc_time(timestamp: float) -> str:
    """Return a time in Unix seconds as text."""
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d %H:%M UTC")


def shorten_end(text: str, width: int) -> str:
    """Return at most `width` terminal cells of a text, with an ellipsis at its end if it is cut."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + _ELLIPSIS if width > 0 else ""


def shorten_middle(text: str, width: int) -> str:
    """Return at most `width` terminal cells of a text: its beginning, an ellipsis and its end."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    if width < 1:
        return ""
    tail_width = (width - 1) // 2
    tail = set_cell_size(text[::-1], tail_width)[::-1]
    return set_cell_size(text, width - 1 - tail_width) + _ELLIPSIS + tail
