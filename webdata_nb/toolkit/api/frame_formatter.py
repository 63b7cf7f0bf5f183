"""Displays result frames as compact tables in IPython and marimo, without an extension to load."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from webdata_nb import settings
from webdata_nb.toolkit.display import compact_table
from webdata_nb.toolkit.display.compact_table import FrameView
from webdata_nb.toolkit.frames import frame, schemas
from webdata_nb.toolkit.sites import changes_file

if TYPE_CHECKING:
    import pandas as pd

_HTML: Final = "text/html"
_MARIMO_REGISTRIES: Final = ("OPINIONATED_FORMATTERS", "FORMATTERS")

HtmlFormatter = Callable[[Any], str | None]


def register_in_ipython() -> None:
    """Register the formatter in the shell of this process, if there is one.

    Imports nothing: a script that never loads IPython does not pay for it.
    """
    ipython: Any = sys.modules.get("IPython")
    get_shell = getattr(ipython, "get_ipython", None)  # missing while IPython is being imported
    shell = get_shell() if get_shell is not None else None
    if shell is not None:
        register(shell)


def register_in_marimo() -> None:
    """Register the formatter in marimo, if this process runs a notebook of it.

    marimo has no public registry for a class of another package; where a release has renamed
    this one, frames are displayed as marimo does.
    """
    marimo: Any = sys.modules.get("marimo")
    formatting: Any = sys.modules.get("marimo._output.formatting")
    if marimo is None or formatting is None or not marimo.running_in_notebook():
        return
    for name in _MARIMO_REGISTRIES:
        formatters = getattr(getattr(formatting, name, None), "formatters", {})
        previous = formatters.get(frame.DATA_FRAME)
        if previous is not None and not isinstance(previous, MarimoFormatter):
            formatters[frame.DATA_FRAME] = MarimoFormatter(previous)


def register(shell: Any) -> None:
    """Register the formatter in a shell; a second call changes nothing."""
    html_formatter = shell.display_formatter.formatters[_HTML]
    previous = html_formatter.for_type(frame.DATA_FRAME)
    if not isinstance(previous, FrameFormatter):
        html_formatter.for_type(frame.DATA_FRAME, FrameFormatter(previous))


@dataclass(frozen=True, slots=True)
class FrameFormatter:
    """Formats result frames as compact tables, and other frames with the previous formatter."""

    previous: HtmlFormatter | None

    def __call__(self, df: pd.DataFrame) -> str | None:
        """Return the HTML of a frame, or None where the plain text is displayed."""
        html = self.previous(df) if self.previous is not None else _pandas_html(df)
        # None means that HTML is switched off for frames, which holds for result frames too.
        if html is None or not is_result(df) or not settings.current().compact_tables:
            return html
        return compact_html(df)


@dataclass(frozen=True, slots=True)
class MarimoFormatter:
    """Formats result frames as compact tables, and other frames as marimo does."""

    previous: Callable[[Any], tuple[str, str]]

    def __call__(self, df: pd.DataFrame) -> tuple[str, str]:
        """Return the MIME type and the content that marimo displays."""
        if is_result(df) and settings.current().compact_tables:
            return _HTML, compact_html(df)
        return self.previous(df)


def _pandas_html(df: Any) -> str | None:
    html: str | None = df._repr_html_()
    return html


def is_result(df: pd.DataFrame) -> bool:
    """Return whether the rows of a frame are those of a result.

    False for a pivot or an aggregation, which inherits the attrs of its source.
    """
    plain = df.index.nlevels == 1 and df.columns.nlevels == 1 and df.index.name is None
    has_rows = plain and (df.index.inferred_type == "integer" or df.empty)
    return has_rows and frame.has_receipt(df) and all(isinstance(name, str) for name in df.columns)


def compact_html(df: pd.DataFrame) -> str:
    """Return a result frame as a compact table."""
    head = df.head(compact_table.first_rows(len(df)))
    tables = (*schemas.SCHEMAS.values(), changes_file.CHANGES_SCHEMA)
    known = {name for schema in tables for name in schema.names}
    view = FrameView(
        columns=[str(name) for name in df.columns],
        rows=frame.to_lists(head),
        total=len(df),
        empty=frame.empty_columns(df),
        known=known,
        index=frame.labels(head),
        line=frame.receipt_line(df),
    )
    return compact_table.render(view)
