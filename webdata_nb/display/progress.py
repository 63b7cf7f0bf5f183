"""Chooses how a job's progress is shown, and passes it from the job's thread to the painter's.

Events arrive on any thread; a painter is called only by `tick`, which the bridge runs on the
thread that waits, so that a widget or a bar is never touched by two threads.
"""

from __future__ import annotations

import functools
import logging
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Final, Literal, Self

from webdata_nb.contract.events import Progress
from webdata_nb.contract.states import JobStatus
from webdata_nb.display import bars
from webdata_nb.display.marimo_bar import MarimoBar
from webdata_nb.display.panel import Cancel, Panel
from webdata_nb.display.progress_rate import Pace
from webdata_nb.display.progress_view import Ending, Painter, View
from webdata_nb.errors import InvalidArgument, JobCancelled, JobError, JobTimeout

Maker = Callable[[View], Painter]
Seen = Callable[[View], object]
Place = Literal["marimo", "live", "headless", "terminal", "elsewhere"]

log = logging.getLogger("webdata_nb")


class Silent(bars.Deaf):
    """Draws nothing."""

    def paint(self, view: View) -> None:
        """Ignore `view`."""

    def close(self, view: View) -> None:
        """Ignore `view`."""


KINDS: Final[dict[str, Maker]] = {
    "bar": bars.Bar,
    "html": bars.Html,
    "log": bars.Log,
    "panel": Panel,
    "marimo": MarimoBar,
}
# What the place must be for a way that not every place can show.
_ONLY_IN: Final[dict[str, tuple[Place, ...]]] = {
    "html": ("live", "headless"),
    "panel": ("live", "headless"),
    "marimo": ("marimo",),
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
    description: str,
    total: int | None,
    want: str | bool | None,
    *,
    unit: str = "rows",
    cancel: Cancel | None = None,
    leaves: bool = False,
    name: str = "",
    also: Seen | None = None,
) -> Listener:
    """Return a listener that shows the progress of one job.

    Parameters
    ----------
    description
        What the job does, in a few words; control characters must be gone already.
    total
        Rows expected, as far as known at the start.
    want
        False: silent. A name of `KINDS`: that way, where the place can show it. True: a bar or
        panel, whatever the place. None: by place: marimo's bar, a panel in a live kernel, HTML in
        a headless one, a bar where stderr is a terminal, the log elsewhere.
    unit
        What is counted, where it is not rows.
    cancel
        What the Cancel button does; called on any thread, once.
    leaves
        Whether an interrupt ends the wait alone, and the job goes on.
    name
        The id of the job, where the wait is for one that is known by it.
    also
        Told each view as it is noted, on the thread that reports it.

    Returns
    -------
    Listener
        To be used as a context manager inside `bridge.on_tick(listener.tick)`.
    """
    view = View(description, total, unit=unit, name=name)
    return Listener(view, want, cancel, leaves, also)


@dataclass(slots=True)
class Listener:
    """Keeps the latest state of one job and paints it when told to.

    Attributes
    ----------
    job_id : str
        The job, once there is one.
    """

    view: View
    want: str | bool | None
    cancel: Cancel | None = None
    leaves: bool = False
    also: Seen | None = None
    job_id: str = field(default="", init=False)
    _cancelling: bool = field(default=False, init=False)
    _painter: Painter | None = field(default=None, init=False)
    _seen: View | None = field(default=None, init=False)
    _pace: Pace = field(default_factory=Pace, init=False)
    _began: float = field(default_factory=time.monotonic, init=False)

    def report(self, progress: Progress) -> None:
        """Take note of `progress`; from any thread."""
        self.job_id = progress.job_id
        self.note(
            total=self.view.total if progress.total is None else progress.total,
            completed=progress.completed,
            failed=sum(progress.failed.values()),
            failures=dict(progress.failed),
            **_credits(progress),
            status=progress.status.value,
        )

    def count(self, rows: int) -> None:
        """Take note that `rows` have arrived; from any thread."""
        self.note(completed=rows)

    def note(self, **changes: Any) -> None:
        """Take note of fields of the view; from any thread."""
        self.view = replace(self.view, **changes)
        if self.also is not None:
            self.also(self.view)

    def ended(self, status: str) -> None:
        """Take note of the state that the job ended in."""
        self.note(status=status)

    def tick(self) -> None:
        """Paint what is new; only on the thread where painting is allowed."""
        if self._seen is not None and self._seen.ending is not None:
            return
        now = time.monotonic()
        elapsed = int(now - self._began)
        view = replace(self.view, elapsed=elapsed, cancelling=self._cancelling)
        if view != self._seen:
            self._seen = view
            self._paint(view, now)
        elif self._painter is not None:
            self._painter.attend()

    def _paint(self, view: View, now: float) -> None:
        # The speed changes with each look at the clock, so it must not decide what is new.
        self._pace = self._pace.after(now, view.completed)
        left = self._pace.remaining(view.completed, view.goal)
        view = replace(view, rate=self._pace.rate, remaining=left)
        if self._painter is None:
            cancel = None if self.cancel is None else self._ask_to_cancel
            self._painter = choose(self.want, cancel)(view)
        if view.ending is None:
            self._painter.paint(view)
            self._painter.attend()
        else:
            self._painter.close(view)

    def _ask_to_cancel(self) -> None:
        """Pass a click on; on any thread, and the first one alone."""
        if self.cancel is not None and not self._cancelling:
            self._cancelling = True
            self.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.view = replace(self.view, ending=_ending(kind, self.view.status, leaves=self.leaves))


def _credits(progress: Progress) -> dict[str, Any]:
    """Return what the job has cost and what is held for it; the contract need not tell."""
    return {
        "credits": progress.credits,
        "reserved": progress.credits_reserved,
        "unlimited": progress.credits_unlimited,
    }


def _ending(kind: type[BaseException] | None, status: str, *, leaves: bool) -> Ending:
    if kind is None:
        ends: dict[str, Ending] = {JobStatus.FAILED: "failed", JobStatus.CANCELLED: "cancelled"}
        return ends.get(status, "done")
    if issubclass(kind, JobTimeout):
        return "left"
    if issubclass(kind, JobCancelled):
        return "cancelled"
    if issubclass(kind, Exception):
        return "failed" if not leaves or issubclass(kind, JobError) else "lost"
    return "left" if leaves else "cancelled"


def choose(want: str | bool | None, cancel: Cancel | None = None) -> Maker:
    """Return the kind of painter for this place; to be asked on the thread that paints."""
    if want is False:
        return _silent
    here = place()
    if isinstance(want, str):
        if here in _ONLY_IN.get(want, (here,)):
            return _with_button(KINDS[want], cancel)
        log.warning("progress=%r cannot be shown here: %s", want, here)
        want = None
    others_draw = threading.current_thread() is not threading.main_thread()
    if want is None and others_draw and here != "marimo":
        return bars.Log  # two threads' bars would draw over each other
    return _with_button(_BY_PLACE[here] if not want or here in _BARRED else bars.Bar, cancel)


_BY_PLACE: Final[dict[Place, Maker]] = {
    "marimo": MarimoBar,
    "live": Panel,
    "headless": bars.Html,
    "terminal": bars.Bar,
    "elsewhere": bars.Log,
}
_BARRED: Final = ("marimo", "live", "headless")


def _with_button(kind: Callable[[View], Painter], cancel: Cancel | None) -> Maker:
    return functools.partial(Panel, cancel=cancel) if kind is Panel else kind


def _silent(_view: View) -> Painter:
    return Silent()


def place() -> Place:
    """Return where this thread's output goes; imports nothing to find out."""
    marimo: Any = sys.modules.get("marimo")
    if marimo is not None and marimo.running_in_notebook():
        return "marimo"
    ipython: Any = sys.modules.get("IPython")
    kernel = getattr(ipython.get_ipython(), "kernel", None) if ipython is not None else None
    if kernel is not None:
        # papermill and nbclient take no questions: nobody is there to click.
        return "live" if getattr(kernel, "_allow_stdin", False) else "headless"
    return "terminal" if _is_terminal(sys.stderr) else "elsewhere"


def _is_terminal(stream: Any) -> bool:
    try:
        return stream is not None and bool(stream.isatty())
    except ValueError:  # closed
        return False
