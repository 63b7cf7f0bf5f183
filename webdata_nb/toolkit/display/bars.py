"""Shows progress and texts without widgets: in a terminal, a cell, marimo, and as log lines.

The painters here have nothing to click.
"""

from __future__ import annotations

import html
import logging
import math
import sys
import threading
import time
from typing import Any, Final, Literal

from webdata_nb.toolkit.display.progress_view import View, counts, status_line
from webdata_nb.toolkit.terminal_text import encodable

log = logging.getLogger("webdata_nb")

_MARKS: Final = {None: "…", "done": "✓", "failed": "✗", "cancelled": "■", "left": "…", "lost": "?"}
COLOURS: Final = {
    None: "#3b7dd8",
    "done": "#2e8b57",
    "failed": "#c0392b",
    "cancelled": "#8a8a8a",
    "left": "#3b7dd8",
    "lost": "#c0392b",
}
ENDED: Final = {
    "done": "done",
    "failed": "failed",
    "cancelled": "cancelled",
    "left": "the job goes on",
    "lost": "the service could not be asked",
}
# The font of the notebook, if it defines one.
FONT: Final = (
    "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px)"
)
# Front ends repaint for each message; faster updates cannot be read.
REPAINT_S: Final = 0.2
_LOG_S: Final = 10.0


class StaticPainter:
    """Base of painters without anything to click."""

    def poll_clicks(self) -> None:
        """Do nothing."""


class Bar(StaticPainter):
    """A tqdm bar on stderr."""

    def __init__(self, view: View) -> None:
        from tqdm.std import tqdm  # noqa: PLC0415 - most calls never show a terminal bar

        class Quiet(tqdm):  # type: ignore[type-arg] # generic in its stubs alone
            monitor_interval = 0  # no monitor thread: the waiting thread repaints

        self._bar = Quiet(
            total=view.goal,
            bar_format=_bar_format(view),
            file=sys.stderr,
            dynamic_ncols=True,
            leave=True,
        )

    def paint(self, view: View) -> None:
        """Move the bar."""
        self._bar.total, self._bar.n = view.goal, view.completed
        self._bar.bar_format = _bar_format(view)
        self._bar.refresh()

    def close(self, view: View) -> None:
        """Replace the bar by the last state, which tqdm would cut at the terminal's width."""
        self._bar.leave = False
        self._bar.close()
        self._bar.write(_on_stderr(f"{_title(view)}: {status_line(view)}"), file=sys.stderr)


def _bar_format(view: View) -> str:
    """Return tqdm's format of the line: our words, and a bar while there is something to fill."""
    bar = "{percentage:3.0f}%|{bar:20}| " if view.goal and not view.phase else ""
    return _on_stderr(f"{_literal(_title(view))}: {bar}{_literal(status_line(view))}")


def _title(view: View) -> str:
    return f"{_MARKS[view.ending]} {view.description}"


def _on_stderr(text: str) -> str:
    return encodable(text, sys.stderr)


def _literal(text: str) -> str:
    """Escape the braces of a text, which tqdm would replace by values."""
    return text.replace("{", "{{").replace("}", "}}")


class CellOutput:
    """One output of a notebook cell, whose content can be replaced."""

    def __init__(self) -> None:
        # Only in a kernel, where IPython is loaded already.
        import IPython.display  # noqa: PLC0415 - scripts never need IPython

        make_handle: Any = IPython.display.DisplayHandle
        self._handle = make_handle()
        self.displayed = False

    def show(self, mimebundle: dict[str, Any]) -> None:
        """Display `mimebundle`, in place of what is displayed already."""
        send = self._handle.update if self.displayed else self._handle.display
        # Set first: an interrupt while sending must not lead to a second output.
        self.displayed = True
        send(mimebundle, raw=True)


class Html(StaticPainter):
    """A bar of plain HTML, without scripts and widgets."""

    def __init__(self, _view: View) -> None:
        self._output = CellOutput()
        self._painted_at = -math.inf

    def paint(self, view: View) -> None:
        """Display or replace the bar, at most five times a second."""
        if time.monotonic() - self._painted_at >= REPAINT_S:
            self._update(view)

    def close(self, view: View) -> None:
        """Leave the last state in the notebook."""
        self._update(view)

    def _update(self, view: View) -> None:
        self._output.show(mime_bundle(view))
        self._painted_at = time.monotonic()


def mime_bundle(view: View) -> dict[str, str]:
    """Return `view` as plain text and as HTML."""
    words = f"{_title(view)}: {status_line(view)}"
    return {"text/plain": words, "text/html": render_html(view)}


def render_html(view: View) -> str:
    """Return `view` as HTML, with the description escaped."""
    colon = "" if view.ending is None else ":"
    return (
        # The parts wrap in a narrow notebook.
        '<div style="display:flex;flex-wrap:wrap;gap:0 .8em;align-items:center;'
        f'padding:.2em .4em;line-height:1.5;{FONT}">'
        '<span style="max-width:100%;overflow:hidden;text-overflow:ellipsis;white-space:nowrap">'
        f"{_MARKS[view.ending]} {html.escape(view.description)}{colon}</span>"
        f"{_track(view)}"
        f"<span>{html.escape(status_line(view))}</span>{_name(view)}</div>"
    )


def _name(view: View) -> str:
    return f"<small>{html.escape(view.name)}</small>" if view.name else ""


def _track(view: View) -> str:
    if view.ending is not None:
        return ""
    return (
        '<span style="flex:0 0 12em;height:.6em;background:#8883;border-radius:.3em">'
        f'<span style="display:block;height:100%;width:{view.share:.0%};border-radius:.3em;'
        f'background:{COLOURS[view.ending]}"></span></span>'
    )


class Log(StaticPainter):
    """Log lines at the start, at the end and every 10 s."""

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
        words = view.summary or f"{ENDED[view.ending or 'done']}, {counts(view)}"
        log.info("%s: %s", view.description, words)


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


Place = Literal["marimo", "live", "headless", "terminal", "elsewhere"]


def show_notice(text: str, place: Place) -> None:
    """Show `text` on one line; must be called on the thread that paints progress."""
    if place == "marimo":
        print(encodable(text))  # noqa: T201 - it appears below the running cell
    elif threading.current_thread() is not threading.main_thread():
        log.info("%s", text)
    elif place in {"live", "headless"}:
        style = f"padding:.2em .4em;opacity:.75;{FONT}"
        rendered = f'<div style="{style}">{html.escape(text)}</div>'
        CellOutput().show({"text/plain": text, "text/html": rendered})
    elif place == "terminal":
        from tqdm.std import tqdm  # noqa: PLC0415 - most calls never show a terminal bar

        tqdm.write(encodable(text, sys.stderr), file=sys.stderr)
    else:
        log.info("%s", text)


def object_bundle(text: str, line: str, name: str = "") -> dict[str, str]:
    """Return the text and its HTML, with `line` and `name` escaped."""
    small = f" <small>{html.escape(name)}</small>" if name else ""
    body = (
        '<div style="padding:.2em .4em;line-height:1.5;white-space:pre-wrap;'
        f'overflow-wrap:anywhere;{FONT}">'
        f"{html.escape(line)}{small}</div>"
    )
    return {"text/plain": text, "text/html": body}


def usage_error(message: str) -> Exception:
    """Return the error that IPython shows as one line, without a traceback."""
    from IPython.core.error import UsageError  # noqa: PLC0415 - only where IPython runs already

    error: Exception = UsageError(message)
    return error


def show_output(text: str) -> None:
    """Show a text as the output of the cell."""
    import IPython.display as display_module  # noqa: PLC0415 - as above

    display: Any = display_module.display
    display({"text/plain": text}, raw=True)
