"""marimo's own progress bar."""

from __future__ import annotations

import html
import sys
from typing import Any

from webdata_nb.display.bars import ENDED, Deaf
from webdata_nb.display.progress_view import View, sentence


class MarimoBar(Deaf):
    """The bar of the cell that runs; it stays as the cell's output is kept by marimo."""

    def __init__(self, view: View) -> None:
        self._scope: Any = sys.modules["marimo"].status.progress_bar(
            total=_total(view),
            title=html.escape(view.description),
            subtitle=html.escape(sentence(view)),
            show_rate=False,  # its words count from the start, ours over the last 30 s
            show_eta=False,
        )
        self._bar = self._scope.__enter__()
        self._completed = 0

    def paint(self, view: View) -> None:
        """Move the bar; marimo itself draws at most every 150 ms."""
        self._move(view, sentence(view))

    def _move(self, view: View, words: str) -> None:
        self._bar.total = _total(view)
        self._bar.update(increment=view.completed - self._completed, subtitle=html.escape(words))
        self._completed = view.completed

    def close(self, view: View) -> None:
        """Leave the last state in the cell."""
        words = sentence(view) if view.ending != "done" else f"{ENDED['done']}, {sentence(view)}"
        self._move(view, words)
        self._scope.__exit__(None, None, None)


def _total(view: View) -> int:
    return max(1, view.goal or 1, view.completed)
