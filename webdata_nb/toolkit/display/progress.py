"""Chooses a painter for a job's progress, and passes progress from any thread to it.

Only `tick` calls the painter. The bridge runs it on the waiting thread, so that no widget or bar
is used by two threads.
"""

from __future__ import annotations

import functools
import logging
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from webdata_nb.contract.events import Progress
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.errors import JobCancelled, JobError, JobTimeout
from webdata_nb.toolkit.display import bars
from webdata_nb.toolkit.display.bars import (
    Cancel,
    EndState,
    MarimoBar,
    Painter,
    Panel,
    Place,
    ProgressRate,
    View,
    show_notice,
)
from webdata_nb.toolkit.terminal_text import is_terminal

PainterFactory = Callable[[View], Painter]
OnChange = Callable[[View], object]

log: Final = logging.getLogger("webdata_nb")


# Their names are `settings.PROGRESS_KINDS`.
KINDS: Final[dict[str, PainterFactory]] = {
    "bar": bars.Bar,
    "html": bars.Html,
    "log": bars.Log,
    "panel": Panel,
    "marimo": MarimoBar,
}
# Where a painter can be used, if not everywhere.
_PLACES: Final[dict[str, tuple[Place, ...]]] = {
    "html": ("live", "headless"),
    "panel": ("live", "headless"),
    "marimo": ("marimo",),
}


@dataclass(slots=True)
class Listener:
    """Keeps the latest state of one job and paints it at each tick.

    Use it as a context manager inside `bridge.on_tick(listener.tick)`.

    Attributes
    ----------
    view
        The state; at first what is known before the start.
    want
        A name of `KINDS`: that painter, if it works here. True: a bar or panel everywhere. None:
        the bar of marimo, a panel in a live kernel, HTML in a headless kernel, a bar if stderr is a
        terminal, and log lines elsewhere. With False, nothing calls `tick`.
    cancel
        Called once, on any thread, when the Cancel button is clicked.
    detach_on_interrupt
        Whether an interrupt ends only the wait, and the job continues.
    on_change
        Called with each new view, on the thread that reports it.
    job_id : str
        The id of the job, once it has started.
    """

    view: View
    want: str | bool | None
    cancel: Cancel | None = None
    detach_on_interrupt: bool = False
    on_change: OnChange | None = None
    job_id: str = field(default="", init=False)
    _cancelling: bool = field(default=False, init=False)
    _painter: Painter | None = field(default=None, init=False)
    _painted_view: View | None = field(default=None, init=False)
    _rate: ProgressRate = field(default_factory=ProgressRate, init=False)
    _began: float = field(default_factory=time.monotonic, init=False)
    _notice_shown: str = field(default="", init=False)

    def report(self, progress: Progress) -> None:
        """Store `progress`; may be called on any thread."""
        self.job_id = progress.job_id
        self.update(
            phase="",
            total=self.view.total if progress.total is None else progress.total,
            completed=progress.completed,
            failed=sum(progress.failed.values()),
            failures=dict(progress.failed),
            links_checked=progress.links_checked,
            credits=progress.credits,
            reserved=progress.credits_reserved,
            unlimited=progress.credits_unlimited,
            status=progress.status.value,
        )

    def update(self, **changes: Any) -> None:
        """Update fields of the view; may be called on any thread."""
        self.view = replace(self.view, **changes)
        if self.on_change is not None:
            self.on_change(self.view)

    def starting_service(self) -> None:
        """Show that the local service starts; may be called on any thread."""
        self.update(phase="starting the local service")

    def ended(self, status: str, summary: str = "") -> None:
        """Store the final state of the job, and the receipt line without its subject."""
        self.update(status=status, summary=summary)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the call began."""
        return time.monotonic() - self._began

    def tick(self) -> None:
        """Paint changes; must be called on the waiting thread."""
        if self._painted_view is not None and self._painted_view.ending is not None:
            return
        if self.view.notice != self._notice_shown:
            self._notice_shown = self.view.notice
            show_notice(self.view.notice, place())
        now = time.monotonic()
        view = replace(self.view, elapsed=int(now - self._began), cancel_requested=self._cancelling)
        if view == self._painted_view:
            if self._painter is not None:
                self._painter.poll_clicks()
            return
        self._painted_view = view
        # The rate changes with the clock, so it must not count as a change.
        self._rate = self._rate.with_sample(now, view.completed, view.goal)
        view = replace(view, rate=self._rate.rate, remaining=self._rate.remaining())
        if self._painter is None:
            cancel = None if self.cancel is None else self._request_cancel
            self._painter = choose(self.want, cancel)(view)
        if view.ending is None:
            self._painter.paint(view)
            self._painter.poll_clicks()
        else:
            self._painter.close(view)

    def _request_cancel(self) -> None:
        """Call `cancel` at the first click; may be called on any thread."""
        if self.cancel is not None and not self._cancelling:
            self._cancelling = True
            self.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        ending: EndState = "left" if self.detach_on_interrupt else "cancelled"
        if kind is None:
            ended: dict[str, EndState] = {
                JobStatus.FAILED: "failed",
                JobStatus.CANCELLED: "cancelled",
            }
            ending = ended.get(self.view.status, "done")
        elif issubclass(kind, JobTimeout):
            ending = "left"
        elif issubclass(kind, JobCancelled):
            ending = "cancelled"
        elif issubclass(kind, Exception):
            is_known = not self.detach_on_interrupt or issubclass(kind, JobError)
            ending = "failed" if is_known else "lost"
        self.view = replace(self.view, ending=ending)


def choose(want: str | bool | None, cancel: Cancel | None = None) -> PainterFactory:
    """Return the painter for this environment; must be called on the painting thread."""
    output_target = place()
    if isinstance(want, str):
        if output_target in _PLACES.get(want, (output_target,)):
            return _with_button(KINDS[want], cancel)
        log.warning("progress=%r is not available here: %s", want, output_target)
        want = None
    is_other_thread = threading.current_thread() is not threading.main_thread()
    if want is None and is_other_thread and output_target != "marimo":
        return bars.Log  # bars of two threads would overwrite each other
    return _with_button(
        _BY_PLACE[output_target] if not want or output_target in _WITH_BARS else bars.Bar, cancel
    )


_BY_PLACE: Final[dict[Place, PainterFactory]] = {
    "marimo": MarimoBar,
    "live": Panel,
    "headless": bars.Html,
    "terminal": bars.Bar,
    "elsewhere": bars.Log,
}
_WITH_BARS: Final = ("marimo", "live", "headless")


def _with_button(kind: Callable[[View], Painter], cancel: Cancel | None) -> PainterFactory:
    return functools.partial(Panel, cancel=cancel) if kind is Panel else kind


def place() -> Place:
    """Return where the output of this thread goes, without importing anything."""
    marimo: Any = sys.modules.get("marimo")
    if marimo is not None and marimo.running_in_notebook():
        return "marimo"
    ipython: Any = sys.modules.get("IPython")
    kernel = getattr(ipython.get_ipython(), "kernel", None) if ipython is not None else None
    if kernel is not None:
        # papermill and nbclient allow no input, so there is nobody to click.
        return "live" if getattr(kernel, "_allow_stdin", False) else "headless"
    return "terminal" if is_terminal(sys.stderr) else "elsewhere"
