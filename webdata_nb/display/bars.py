"""The painters: a terminal bar, a bar of HTML in a notebook, and lines in the log."""

from __future__ import annotations

import html
import logging
import sys
import time
from typing import Any, Final

from webdata_nb.display.view import View

log = logging.getLogger("webdata_nb")

_MARKS: Final = {None: "…", "done": "✓", "failed": "✗", "cancelled": "■"}
_COLOURS: Final = {None: "#3b7dd8", "done": "#2e8b57", "failed": "#c0392b", "cancelled": "#8a8a8a"}
# A notebook front end repaints for each message; a person cannot read faster than this.
_REPAINT_S: Final = 0.2
_LOG_S: Final = 10.0


def counts(view: View) -> str:
    """Return the state in words, such as `12/25 rows, 1 failed`."""
    of = "" if view.total is None else f"/{view.total}"
    failed = f", {view.failed} failed" if view.failed else ""
    return f"{view.completed}{of} {view.unit}{failed}"


class Bar:
    """A tqdm bar on stderr."""

    def __init__(self, view: View) -> None:
        # Only here: most calls never show a terminal bar.
        from tqdm.std import tqdm  # noqa: PLC0415 - keeps tqdm out of notebooks and scripts

        class Quiet(tqdm):  # type: ignore[type-arg] # generic in its stubs alone
            monitor_interval = 0  # no thread of tqdm's own: the waiting thread repaints

        self._bar = Quiet(
            total=view.total,
            desc=view.description,
            unit=f" {view.unit}",
            file=sys.stderr,
            dynamic_ncols=True,
            leave=True,
        )

    def paint(self, view: View) -> None:
        """Move the bar."""
        self._bar.total, self._bar.n = view.total, view.completed
        self._bar.set_postfix_str(_postfix(view), refresh=False)
        self._bar.refresh()

    def close(self, view: View) -> None:
        """Leave the last state in the terminal."""
        self.paint(view)
        self._bar.close()


def _postfix(view: View) -> str:
    words = [f"{view.failed} failed" if view.failed else "", view.ending or view.status]
    return ", ".join(word for word in words if word)


class Html:
    """A bar of plain HTML: no script, no widget, and static once the job is done."""

    def __init__(self, view: View) -> None:
        # Only in a kernel, where IPython is loaded already.
        import IPython.display as show  # noqa: PLC0415 - scripts never need IPython

        self._show: Any = show
        self._handle = self._show.display(self._show.HTML(rendered(view)), display_id=True)
        self._painted_at = time.monotonic()

    def paint(self, view: View) -> None:
        """Replace the bar, at most five times a second."""
        if time.monotonic() - self._painted_at >= _REPAINT_S:
            self._update(view)

    def close(self, view: View) -> None:
        """Leave the last state in the notebook, as text that is saved with it."""
        self._update(view)

    def _update(self, view: View) -> None:
        if self._handle is not None:
            self._handle.update(self._show.HTML(rendered(view)))
        self._painted_at = time.monotonic()


def rendered(view: View) -> str:
    """Return `view` as HTML in which nothing of the description is markup."""
    return (
        '<div style="display:flex;gap:.8em;align-items:center;font-family:monospace;'
        'white-space:nowrap">'
        f'<span style="overflow:hidden;text-overflow:ellipsis">{_MARKS[view.ending]} '
        f"{html.escape(view.description)}</span>"
        f"{_track(view)}"
        f"<span>{html.escape(counts(view))}, {view.elapsed:.0f} s"
        f"{_ended(view)}</span></div>"
    )


def _track(view: View) -> str:
    share = min(1.0, view.completed / view.total) if view.total else float(view.ending == "done")
    return (
        '<span style="flex:0 0 12em;height:.6em;background:#8883;border-radius:.3em">'
        f'<span style="display:block;height:100%;width:{share:.0%};border-radius:.3em;'
        f'background:{_COLOURS[view.ending]}"></span></span>'
    )


def _ended(view: View) -> str:
    return f", {view.ending}" if view.ending in {"failed", "cancelled"} else ""


class Log:
    """Lines of the `webdata_nb` logger: the start, the end, and a sign of life between."""

    def __init__(self, view: View) -> None:
        log.info("%s: started", view.description)
        self._at = time.monotonic()

    def paint(self, view: View) -> None:
        """Say where the job is, at most every ten seconds."""
        if time.monotonic() - self._at >= _LOG_S:
            log.info("%s: %s", view.description, counts(view))
            self._at = time.monotonic()

    def close(self, view: View) -> None:
        """Say how it ended."""
        log.info("%s: %s, %s", view.description, view.ending, counts(view))
