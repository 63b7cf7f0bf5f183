"""Finds the line of the user's code that called the package, for warnings and short tracebacks."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final

_PACKAGE: Final = str(Path(__file__).parent)
_STANDARD_LIBRARY: Final = str(Path(warnings.__file__).parent)
# Packages that call ours on the way from the user's code, such as IPython for a magic.
_HOSTS: Final = ("IPython", "ipykernel", "marimo", "nest_asyncio2", "pandas")


class WebdataWarning(UserWarning):
    """The category of the package's warnings."""


@dataclass(frozen=True, slots=True)
class CallerLine:
    """One line of code, without its frame, which would hold the user's variables."""

    filename: str
    number: int
    module: str

    @classmethod
    def of_frame(cls, frame: FrameType, number: int) -> CallerLine:
        """Return the line of a frame."""
        module = frame.f_globals.get("__name__") or "<unknown>"
        return cls(frame.f_code.co_filename, number, module)


# A task copies its context, so a line that a call sets reaches every task and thread of the call.
_CALLER: Final[ContextVar[CallerLine | None]] = ContextVar("webdata_caller", default=None)


@contextmanager
def called_here() -> Iterator[None]:
    """Attribute warnings inside the block to the user's line that is on the stack now.

    Inside another such block, nothing changes.
    """
    line = None if _CALLER.get() is not None else _line_on_stack()
    if line is None:
        yield
        return
    token = _CALLER.set(line)
    try:
        yield
    finally:
        _CALLER.reset(token)


def warn(message: str) -> None:
    """Show a warning that points to the user's line; each call of a line shows its own."""
    line = _CALLER.get() or _line_on_stack()
    if line is None:
        warnings.warn(message, WebdataWarning, stacklevel=2)
        return
    warnings.warn_explicit(message, WebdataWarning, line.filename, line.number, line.module)


def _line_on_stack() -> CallerLine | None:
    """Return the innermost line of the stack that belongs to the user's code."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - warnings cannot skip a package
    while frame is not None:
        if _is_user_code(frame):
            return CallerLine.of_frame(frame, frame.f_lineno)
        frame = frame.f_back
    return None


def line_in_traceback(trace: TracebackType | None) -> CallerLine | None:
    """Return the last line of the user's code before the package was called."""
    line = None
    while trace is not None and not _is_ours(trace.tb_frame):
        if _is_user_code(trace.tb_frame):
            line = CallerLine.of_frame(trace.tb_frame, trace.tb_lineno)
        trace = trace.tb_next
    return line


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_PACKAGE)


def _is_user_code(frame: FrameType) -> bool:
    if str(frame.f_globals.get("__name__")).partition(".")[0] in _HOSTS:
        return False
    filename = frame.f_code.co_filename
    is_installed = "site-packages" in filename or not filename.startswith(_STANDARD_LIBRARY)
    return is_installed and not _is_ours(frame) and not filename.startswith("<frozen")


# Formats errors for notebooks: the message and the place of the call, or the whole traceback.
#
# IPython asks an error for its traceback (`_render_traceback_`); marimo has no such hook, so the
# blocking functions remove the package's frames there. Scripts keep Python's traceback, and so do
# notebooks that a program runs, in which nobody could enter `%tb`.


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
        ipython: Any = sys.modules.get("IPython")
        shell = None if ipython is None else ipython.get_ipython()
        # The magic `%tb` shows the last error again.
        is_requested = any(
            frame.f_code.co_name == "tb"
            and frame.f_globals.get("__name__") == "IPython.core.magics.execution"
            for frame, _ in traceback.walk_stack(sys._getframe())  # noqa: SLF001 - the documented way
        )
        # A program that runs the notebook, such as papermill, allows no input.
        kernel = getattr(shell, "kernel", None)
        is_unattended = kernel is not None and not getattr(kernel, "_allow_stdin", False)
        if not (is_requested or is_unattended or self.is_full()):
            return _short(error, shell)
        if shell is None:
            return traceback.format_exception(error)
        lines: list[str] = shell.InteractiveTB.structured_traceback(
            type(error), error, error.__traceback__
        )
        return lines

    def hide_internals(self, error: BaseException) -> None:
        """Remove the package's frames from an error that is raised to a marimo notebook.

        marimo shows the message, and below it the traceback, which no hook can shorten.
        """
        marimo: Any = sys.modules.get("marimo")
        if marimo is not None and marimo.running_in_notebook() and not self.is_full():
            error.__traceback__ = None


DISPLAY: Final = ErrorDisplay()


def _short(error: BaseException, shell: Any) -> list[str]:
    """Return type and message, notes, and the place of the call."""
    colored = str(getattr(shell, "colors", "")).lower() not in {"", "nocolor"}
    name = type(error).__name__
    head = f"{_BOLD}{name}{_PLAIN}" if colored else name
    text = "\n".join([str(error), *getattr(error, "__notes__", ())])
    # Of a long text, such as one with the end of a log, the beginning and the last line.
    if len(lines := text.splitlines()) > _MAX_LINES:
        text = "\n".join([*lines[: _MAX_LINES - 2], "...", lines[-1]])
    message = f"{head}: {text}"
    if (line := line_in_traceback(error.__traceback__)) is None:
        return [message]
    named = shell.compile.format_code_name(line.filename) if shell is not None else None
    place = " ".join(named) if named else f"File {line.filename}"
    return [message, f"{place}, line {line.number}"]
