"""Shows progress with the progress bar of marimo."""

from __future__ import annotations

import html
import sys
from typing import Any

from webdata_nb.toolkit.display.bars import ENDED, StaticPainter
from webdata_nb.toolkit.display.progress_view import View, status_line


class MarimoBar(StaticPainter):
    """The progress bar of the running cell."""

    def __init__(self, view: View) -> None:
        self._scope: Any = sys.modules["marimo"].status.progress_bar(
            total=_total(view),
            title=html.escape(view.description),
            subtitle=html.escape(status_line(view)),
            show_rate=False,  # marimo averages since the start, this package over the last 30 s
            show_eta=False,
        )
        self._bar = self._scope.__enter__()
        self._completed = 0

    def paint(self, view: View) -> None:
        """Update the bar; marimo draws at most every 150 ms."""
        self._move(view, status_line(view))

    def _move(self, view: View, words: str) -> None:
        self._bar.total = _total(view)
        self._bar.update(increment=view.completed - self._completed, subtitle=html.escape(words))
        self._completed = view.completed

    def close(self, view: View) -> None:
        """Leave the last state in the cell."""
        words = status_line(view)
        if view.ending == "done" and not view.summary:
            words = f"{ENDED['done']}, {words}"
        self._move(view, words)
        self._scope.__exit__(None, None, None)


def _total(view: View) -> int:
    return max(1, view.goal or 1, view.completed)
