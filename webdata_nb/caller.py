"""Finds the line of the user's code that called the package, for warnings and short tracebacks."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final

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
