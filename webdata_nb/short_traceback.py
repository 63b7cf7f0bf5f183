"""Formats errors for notebooks: the message and the place of the call, or the whole traceback.

IPython asks an error for its traceback (`_render_traceback_`); marimo has no such hook, so the
blocking functions remove the package's frames there. Scripts keep Python's traceback, and so do
notebooks that a program runs, in which nobody could enter `%tb`.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import Any, Final

from webdata_nb import caller

_MAX_LINES: Final = 4
_BOLD: Final = "\x1b[1m"
_PLAIN: Final = "\x1b[0m"


class ErrorDisplay:
    """How notebooks show errors.

    Attributes
    ----------
    is_full : Callable[[], bool]
        Returns whether the whole traceback is shown; called for each error. The settings set it to
        read `options.tracebacks`.
    """

    def __init__(self) -> None:
        self.is_full: Callable[[], bool] = lambda: False

    def lines(self, error: BaseException) -> list[str]:
        """Return the lines that IPython shows.

        The whole traceback for the magic `%tb`, and where nobody could enter it.
        """
        is_full = _is_requested_by_magic() or _is_unattended() or self.is_full()
        return _full(error) if is_full else _short(error)

    def hide_internals(self, error: BaseException) -> None:
        """Remove the package's frames from an error that is raised to a marimo notebook.

        marimo shows the message, and below it the traceback, which no hook can shorten.
        """
        marimo: Any = sys.modules.get("marimo")
        if marimo is not None and marimo.running_in_notebook() and not self.is_full():
            error.__traceback__ = None


DISPLAY: Final = ErrorDisplay()


def _short(error: BaseException) -> list[str]:
    """Return type and message, notes, and the place of the call."""
    shell = _running_shell()
    colored = str(getattr(shell, "colors", "")).lower() not in {"", "nocolor"}
    name = type(error).__name__
    head = f"{_BOLD}{name}{_PLAIN}" if colored else name
    text = "\n".join([str(error), *getattr(error, "__notes__", ())])
    lines = [f"{head}: {_few_lines(text)}"]
    if (location := _location(error, shell)) is not None:
        lines.append(location)
    return lines


def _few_lines(text: str) -> str:
    """Return a long text, such as one with the end of a log, as its beginning and its last line."""
    lines = text.splitlines()
    if len(lines) <= _MAX_LINES:
        return text
    return "\n".join([*lines[: _MAX_LINES - 2], "...", lines[-1]])


def _location(error: BaseException, shell: Any) -> str | None:
    line = caller.line_in_traceback(error.__traceback__)
    if line is None:
        return None
    named = shell.compile.format_code_name(line.filename) if shell is not None else None
    place = " ".join(named) if named else f"File {line.filename}"
    return f"{place}, line {line.number}"


def _full(error: BaseException) -> list[str]:
    """Return the whole traceback, as the shell formats any other error."""
    shell = _running_shell()
    if shell is None:
        return traceback.format_exception(error)
    lines: list[str] = shell.InteractiveTB.structured_traceback(
        type(error), error, error.__traceback__
    )
    return lines


def _is_requested_by_magic() -> bool:
    """Return whether the user entered `%tb`, which shows the last error again."""
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to the stack
    while (outer := frame.f_back) is not None:
        frame = outer
        module = frame.f_globals.get("__name__")
        if frame.f_code.co_name == "tb" and module == "IPython.core.magics.execution":
            return True
    return False


def _is_unattended() -> bool:
    """Return whether a program such as papermill runs the notebook: it allows no input."""
    kernel = getattr(_running_shell(), "kernel", None)
    return kernel is not None and not getattr(kernel, "_allow_stdin", False)


def _running_shell() -> Any:
    """Return the running IPython shell; None outside IPython. Imports nothing."""
    ipython: Any = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()
