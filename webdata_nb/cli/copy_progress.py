"""Shows on standard error how far a copy is."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from webdata_nb.service.store.backends import CopyProgress

_INTERVAL_S: Final = 0.2
_ERASE_LINE: Final = "\r\x1b[K"


class CopyProgressLines:
    """One line that is rewritten on a terminal; elsewhere a line for each table and step."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._last_step: tuple[str, str] | None = None
        self._last_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_terminal and self._last_step is not None:
            self._write(_ERASE_LINE)

    def show(self, progress: CopyProgress) -> None:
        """Show a step, unless it was shown a moment ago."""
        step = (progress.step, progress.table)
        is_due = self._is_terminal and time.monotonic() - self._last_at >= _INTERVAL_S
        if step == self._last_step and not is_due:
            return
        self._last_step, self._last_at = step, time.monotonic()
        line = f"webdata: {_text(progress)}"
        self._write(f"{_ERASE_LINE}{line}" if self._is_terminal else f"{line}\n")

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def _text(progress: CopyProgress) -> str:
    if progress.step == "verify":
        return f"comparing {progress.row_count:,} rows of {progress.table}"
    return f"copied {progress.rows_done:,} of {progress.row_count:,} rows of {progress.table}"
