"""Chooses how a job's progress is shown, and passes it from the job's thread to the painter's.

Events arrive on any thread; a painter is called only by `tick`, which the bridge runs on the
thread that waits, so that a widget or a bar is never touched by two threads.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Final, Self

from webdata_nb.contract.events import Progress
from webdata_nb.display import bars
from webdata_nb.display.view import Ending, Painter, View
from webdata_nb.errors import InvalidArgument, JobCancelled


class Silent:
    """Draws nothing."""

    def paint(self, view: View) -> None:
        """Ignore `view`."""

    def close(self, view: View) -> None:
        """Ignore `view`."""


KINDS: Final[dict[str, Callable[[View], Painter]]] = {
    "bar": bars.Bar,
    "html": bars.Html,
    "log": bars.Log,
}


def check(want: object) -> None:
    """Refuse a `progress` argument that names no way of showing it.

    Raises
    ------
    InvalidArgument
        It is none of None, True, False and the names.
    """
    if want is None or isinstance(want, bool) or (isinstance(want, str) and want in KINDS):
        return
    names = ", ".join(f'"{name}"' for name in KINDS)
    raise InvalidArgument(f"progress must be True, False, None (choose by place) or one of {names}")


def listener(
    description: str, total: int | None, want: str | bool | None, *, unit: str = "rows"
) -> Listener:
    """Return a listener that shows the progress of one job.

    Parameters
    ----------
    description
        What the job does, in a few words; control characters must be gone already.
    total
        Rows expected, as far as known at the start.
    unit
        What is counted, where it is not rows.
    want
        False: silent. A name of `KINDS`: that way. True: a bar, whatever the place. None: by
        place: HTML in a live kernel, a bar where stderr is a terminal, the log elsewhere.

    Returns
    -------
    Listener
        To be used as a context manager inside `bridge.on_tick(listener.tick)`.
    """
    return Listener(View(description, total, unit=unit), want)


@dataclass(slots=True)
class Listener:
    """Keeps the latest state of one job and paints it when told to."""

    view: View
    want: str | bool | None
    _painter: Painter | None = field(default=None, init=False)
    _painted: View | None = field(default=None, init=False)
    _began: float = field(default_factory=time.monotonic, init=False)

    def report(self, progress: Progress) -> None:
        """Take note of `progress`; from any thread."""
        self.view = replace(
            self.view,
            total=self.view.total if progress.total is None else progress.total,
            completed=progress.completed,
            failed=sum(progress.failed.values()),
            status=progress.status.value,
        )

    def count(self, rows: int) -> None:
        """Take note that `rows` have arrived; from any thread."""
        self.view = replace(self.view, completed=rows)

    def tick(self) -> None:
        """Paint what is new; only on the thread where painting is allowed."""
        if self._painted is not None and self._painted.ending is not None:
            return
        view = replace(self.view, elapsed=int(time.monotonic() - self._began))
        if view == self._painted:
            return
        if self._painter is None:
            self._painter = choose(self.want)(view)
        (self._painter.paint if view.ending is None else self._painter.close)(view)
        self._painted = view

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.view = replace(self.view, ending=_ending(kind))


def _ending(kind: type[BaseException] | None) -> Ending:
    if kind is None:
        return "done"
    stopped = issubclass(kind, JobCancelled) or not issubclass(kind, Exception)
    return "cancelled" if stopped else "failed"


def choose(want: str | bool | None) -> Callable[[View], Painter]:
    """Return the kind of painter for this place; to be asked on the thread that paints."""
    if isinstance(want, str):
        return KINDS[want]
    if want is False:
        return _silent
    if want is None and threading.current_thread() is not threading.main_thread():
        return bars.Log  # two threads' bars would draw over each other
    if in_kernel():
        return bars.Html
    return bars.Bar if want or _is_terminal(sys.stderr) else bars.Log


def _silent(_view: View) -> Painter:
    return Silent()


def in_kernel() -> bool:
    """Whether this process is a notebook kernel; imports nothing to find out."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def _is_terminal(stream: Any) -> bool:
    try:
        return stream is not None and bool(stream.isatty())
    except ValueError:  # closed
        return False
