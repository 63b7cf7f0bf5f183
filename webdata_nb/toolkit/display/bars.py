"""Shows progress and texts without widgets: in a terminal, a cell, marimo, and as log lines.

The painters here have nothing to click.
"""

from __future__ import annotations

import contextlib
import functools
import html
import logging
import math
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol

from webdata_nb.toolkit.terminal_text import encodable

# What is shown of a job's progress: its counts, its rate, its remaining time and how it ended.


# The speed of a crawl changes with the part of the site, so older samples are ignored.
WINDOW_S: Final = 30.0
_SAMPLE_INTERVAL_S: Final = 1.0
# An estimate needs this many seconds and units, and a total that changed by at most this share: a
# crawl that still finds pages does not know how many there are.
_ESTIMATE_S: Final = 5.0
_ESTIMATE_UNITS: Final = 5
_TOTAL_CHANGE: Final = 0.1


@dataclass(frozen=True, slots=True)
class ProgressSample:
    """The progress at a time in seconds: completed units, and their total if known."""

    at: float
    completed: int
    total: int | None = None


@dataclass(frozen=True, slots=True)
class ProgressRate:
    """Samples of the last 30 s."""

    samples: tuple[ProgressSample, ...] = ()

    def with_sample(self, at: float, completed: int, total: int | None = None) -> ProgressRate:
        """Return the rate with one more sample; at most one per second is kept."""
        recent = [sample for sample in self.samples if at - sample.at <= WINDOW_S]
        # The newest sample before the window marks its beginning.
        older = self.samples[: len(self.samples) - len(recent)][-1:]
        samples = (*older, *recent)
        if len(samples) > 1 and at - samples[-2].at < _SAMPLE_INTERVAL_S:
            samples = samples[:-1]
        return ProgressRate((*samples, ProgressSample(at, completed, total)))

    @property
    def rate(self) -> float | None:
        """Units per second, or None while there are too few samples."""
        if len(self.samples) < 2:  # noqa: PLR2004 - a difference takes two
            return None
        first, last = self.samples[0], self.samples[-1]
        if last.at - first.at < _SAMPLE_INTERVAL_S or last.completed <= first.completed:
            return None
        return (last.completed - first.completed) / (last.at - first.at)

    def remaining(self) -> float | None:
        """Return the seconds until the total at this rate; None while an estimate means nothing."""
        rate, last = self.rate, self.samples[-1] if self.samples else None
        if rate is None or last is None or last.total is None or last.total <= last.completed:
            return None
        earlier = [each for each in self.samples if last.at - each.at >= _ESTIMATE_S]
        if not earlier or last.completed - self.samples[0].completed < _ESTIMATE_UNITS:
            return None
        before, total = earlier[-1].total, last.total
        is_steady = before and total and abs(total - before) <= _TOTAL_CHANGE * total
        return (total - last.completed) / rate if is_steady else None


# `left`: the wait has ended and the job continues.
# `lost`: the wait failed, and the state of the job is unknown.
EndState = Literal["done", "failed", "cancelled", "left", "lost"]

# The unit that a job of each kind counts.
UNITS: Final = {"search": "results", "crawl": "pages", "creatives": "creatives"}
_KINDS_NAMED: Final = 4


@dataclass(frozen=True, slots=True)
class Inputs:
    """The numbers of inputs: in all, ended, and ended with an error."""

    total: int
    ended: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """The state of a call that a painter shows.

    `phase` says what the call does before its job starts, and replaces the counts. `notice` is a
    sentence that is shown once, above the progress. `elapsed` is in seconds, `rate` in units per
    second, and `remaining` is the estimated number of seconds left. `ending` is None while the job
    runs. `failures` counts failed units by kind of error. `estimated_total` replaces an unknown
    `total`. `links_checked` counts links to other sites. `inputs` is set for a call with several
    inputs, and `name` for a job that is shown by its id. `summary` is the receipt line of an ended
    call, without its subject.
    """

    description: str
    total: int | None
    completed: int = 0
    failed: int = 0
    status: str = ""
    elapsed: float = 0.0
    ending: EndState | None = None
    unit: str = "rows"
    failures: Mapping[str, int] = field(default_factory=dict)
    rate: float | None = None
    remaining: float | None = None
    credits: float | None = None
    reserved: float | None = None
    unlimited: bool = False
    cancel_requested: bool = False
    estimated_total: int | None = None
    links_checked: int = 0
    inputs: Inputs | None = None
    name: str = ""
    phase: str = ""
    notice: str = ""
    summary: str = ""

    @property
    def goal(self) -> int | None:
        """The total, or its estimate."""
        return self.estimated_total if self.total is None else self.total

    @property
    def share(self) -> float:
        """The completed share from 0 to 1; 0 without a total."""
        goal = self.goal
        return min(1.0, self.completed / goal) if goal else float(self.ending == "done")


class Painter(Protocol):
    """Draws views. `close` draws the last one, which stays visible.

    Nothing appears in a notebook before the first `paint`: an interrupt while a painter is made
    must not leave an output behind that nobody closes.
    """

    def paint(self, view: View) -> None:
        """Draw `view`."""

    def poll_clicks(self) -> None:
        """Handle clicks; called at each tick, even if there is nothing to draw."""

    def close(self, view: View) -> None:
        """Draw the last view and release the output."""


def counts(view: View) -> str:
    """Return the counts, such as `12/25 rows, 1 failed (timeout)`; before them, the phase."""
    if view.phase:
        return view.phase
    inputs = of = ""
    if view.inputs is not None:
        failed = f" ({view.inputs.failed} failed)" if view.inputs.failed else ""
        inputs = f"{view.inputs.ended}/{view.inputs.total} inputs{failed}, "
    if view.total is not None:
        # A crawl that has not read its start page knows of no page.
        of = f"/{view.total}" if view.total or view.ending else ""
    elif view.estimated_total is not None and view.ending is None:
        of = f" of about {view.estimated_total}"
    failed = f", {view.failed} failed{_by_kind(view.failures)}" if view.failed else ""
    links = f", {view.links_checked} links checked" if view.links_checked else ""
    return f"{inputs}{view.completed}{of} {view.unit}{failed}{links}"


def _by_kind(failures: Mapping[str, int]) -> str:
    """Return the most frequent kinds of error, with their counts where there are several."""
    if not failures:
        return ""
    ranked = sorted(failures.items(), key=lambda each: (-each[1], each[0]))
    if len(ranked) == 1:
        return f" ({ranked[0][0]})"
    words = [f"{kind} {count}" for kind, count in ranked[:_KINDS_NAMED]]
    return f" ({', '.join([*words, '…'] if len(ranked) > _KINDS_NAMED else words)})"


def pace(view: View) -> str:
    """Return rate and cost, such as `3.1 rows/s, 12 s left, 4 credits`."""
    words = []
    if view.rate is not None:
        words.append(f"{view.rate:.1f} {view.unit}/s")
    if view.remaining is not None and view.ending is None:
        words.append(f"{duration(view.remaining)} left")
    if not view.unlimited and view.ending is None and view.reserved is not None:
        used = "" if view.credits is None else f"{view.credits:g} of "
        words.append(f"{used}{view.reserved:g} credits{'' if used else ' held'}")
    elif not view.unlimited and view.credits is not None:
        words.append(f"{view.credits:g} credit{'' if view.credits == 1 else 's'}")
    return ", ".join(words)


def duration(seconds: float) -> str:
    """Return a duration such as `8 s`, `1 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    minutes, left = divmod(whole, 60)
    if minutes == 0:
        return f"{whole} s"
    hours, minutes = divmod(minutes, 60)
    if hours == 0:
        return f"{minutes} min {left} s" if left else f"{minutes} min"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def status_line(view: View) -> str:
    """Return everything except the description on one line."""
    if view.ending is not None and view.summary:
        return view.summary
    # The state of a running job that is shown by its id.
    state = view.status if view.name and view.ending is None else ""
    if view.ending is None:
        end = "cancelling" if view.cancel_requested else ""
    else:
        end = "" if view.ending == "done" else ENDED[view.ending]
    parts = [state, counts(view), pace(view), duration(view.elapsed), end]
    return ", ".join(part for part in parts if part)


log: Final = logging.getLogger("webdata_nb")

_MARKS: Final = {None: "…", "done": "✓", "failed": "✗", "cancelled": "■", "left": "…", "lost": "?"}
COLOURS: Final[dict[str | None, str]] = {
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
        words = f"{_title(view)}: {status_line(view)}"
        self._bar.write(encodable(words, sys.stderr), file=sys.stderr)


def _bar_format(view: View) -> str:
    """Return tqdm's format of the line: our words, and a bar while there is something to fill."""
    bar = "{percentage:3.0f}%|{bar:20}| " if view.goal and not view.phase else ""
    return encodable(f"{_literal(_title(view))}: {bar}{_literal(status_line(view))}", sys.stderr)


def _title(view: View) -> str:
    return f"{_MARKS[view.ending]} {view.description}"


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
        self.displayed: bool = False

    def show(self, mimebundle: dict[str, Any]) -> None:
        """Display `mimebundle`, in place of what is displayed already."""
        send = self._handle.update if self.displayed else self._handle.display
        # Set first: an interrupt while sending must not lead to a second output.
        self.displayed = True
        send(mimebundle, raw=True)


@dataclass(frozen=True, slots=True)
class _Ended:
    """The last bar that ended in a cell with a receipt line; `cell` is the cell's number."""

    cell: int
    view: View
    output: CellOutput


_ENDED_BARS: Final[list[_Ended]] = []


def _close_output(output: CellOutput, view: View) -> None:
    """Leave the last state of a bar in its cell."""
    output.show(mime_bundle(view))
    _ENDED_BARS[:] = [_Ended(_cell_number(), view, output)] if view.summary else []


def leave_receipt_to_table(line: str) -> None:
    """Take a receipt line out of the bar above, as the table that is displayed now has it too.

    Only in the cell that drew the bar, so that each cell has the line once; their times may differ.
    """
    for ended in _ENDED_BARS:
        timeless = [re.sub(r"; \d+\.\d s$", "", text) for text in (line, ended.view.summary)]
        if ended.cell == _cell_number() and timeless[0].endswith(timeless[1]):
            _ENDED_BARS.clear()
            ended.output.show(mime_bundle(replace(ended.view, summary="")))


def _cell_number() -> int:
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "execution_count", 0)


class Html(StaticPainter):
    """A bar of plain HTML, without scripts and widgets."""

    def __init__(self, _view: View) -> None:
        self._output = CellOutput()
        self._painted_at = -math.inf

    def paint(self, view: View) -> None:
        """Display or replace the bar, at most five times a second."""
        if time.monotonic() - self._painted_at >= REPAINT_S:
            self._output.show(mime_bundle(view))
            self._painted_at = time.monotonic()

    def close(self, view: View) -> None:
        """Leave the last state in the notebook."""
        _close_output(self._output, view)


def mime_bundle(view: View) -> dict[str, str]:
    """Return `view` as plain text and as HTML."""
    words = f"{_title(view)}: {status_line(view)}"
    return {"text/plain": words, "text/html": render_html(view)}


def render_html(view: View) -> str:
    """Return `view` as HTML, with the description escaped."""
    colon, track = ":", ""
    if view.ending is None:
        colon = ""
        track = (
            '<span style="flex:0 0 12em;height:.6em;background:#8883;border-radius:.3em">'
            f'<span style="display:block;height:100%;width:{view.share:.0%};border-radius:.3em;'
            f'background:{COLOURS[None]}"></span></span>'
        )
    name = f"<small>{html.escape(view.name)}</small>" if view.name else ""
    return (
        # The parts wrap in a narrow notebook.
        '<div style="display:flex;flex-wrap:wrap;gap:0 .8em;align-items:center;'
        f'padding:.2em .4em;line-height:1.5;{FONT}">'
        '<span style="max-width:100%;overflow:hidden;text-overflow:ellipsis;white-space:nowrap">'
        f"{_MARKS[view.ending]} {html.escape(view.description)}{colon}</span>"
        f"{track}<span>{html.escape(status_line(view))}</span>{name}</div>"
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


# The panel in a live notebook: a progress bar, a status line and a Cancel button.
#
# A kernel handles shell messages one after the other, so a click waits behind the cell that it is
# meant to end. `ClickTap` reads each message where it enters the kernel and passes it on unchanged
# and in order. It uses private names of ipykernel. Where these differ from the versions that
# `benchmarks.kernel_matrix` tests, the kernel is left alone, and only the Stop button works.


Action = Callable[[], object]
Frames = Any

# The reading thread only passes messages on, so it answers soon.
_INSTALL_TIMEOUT_S: Final = 1.0
_TAPS: Final[dict[Any, ClickTap]] = {}  # by kernel; a process has one


class ClickTap:
    """Reads the messages of one kernel while there is a button to listen for."""

    def __init__(self, kernel: Any) -> None:
        self._session = kernel.session
        self._stream = kernel.shell_stream
        self._actions: dict[str, Action] = {}
        self._lock = threading.Lock()
        # Since ipykernel 7 a separate thread reads the shell socket; before, the main thread did,
        # between cells.
        self._thread = getattr(kernel, "shell_channel_thread", None)
        self._forward: Callable[[Frames], object] = (
            functools.partial(kernel.schedule_dispatch, kernel.dispatch_shell)
            if self._thread is None
            else kernel.shell_channel_thread_main
        )

    def add(self, comm_id: str, action: Action) -> None:
        """Call `action` on the reading thread at each click of the widget with this comm."""
        with self._lock:
            self._actions[comm_id] = action
            if len(self._actions) == 1:
                self._receive_by(self._read)

    def forget(self, comm_id: str) -> None:
        """Stop listening for a widget; restore the kernel after the last one."""
        with self._lock:
            if self._actions.pop(comm_id, None) is not None and not self._actions:
                self._receive_by(self._forward)

    def pump(self) -> None:
        """Read pending messages if the blocked thread is the one that reads them."""
        if self._thread is None:
            self._stream.flush()

    def _receive_by(self, callback: Callable[[Frames], object]) -> None:
        if self._thread is None:
            self._stream.on_recv(callback, copy=False)
            return
        installed = threading.Event()

        def place() -> None:
            self._stream.on_recv(callback, copy=False)
            installed.set()

        self._thread.io_loop.add_callback(place)  # a stream belongs to its loop's thread
        # The button must not be displayed before its clicks are received.
        installed.wait(_INSTALL_TIMEOUT_S)

    def _read(self, frames: Frames) -> object:
        # Errors must not reach the kernel.
        with contextlib.suppress(Exception):
            _, parts = self._session.feed_identities(frames, copy=False)
            # Reading the header alone checks the signature and does not mark it as seen.
            message = self._session.deserialize(parts, content=False, copy=False)
            if message["header"]["msg_type"] == "comm_msg":
                content = self._session.unpack(message["content"])
                is_click = content["data"].get("content", {}).get("event") == "click"
                action = self._actions.get(str(content["comm_id"])) if is_click else None
                if action is not None:
                    action()
        return self._forward(frames)


@contextlib.contextmanager
def listen_for_clicks(kernel: Any, button: Any, action: Action) -> Iterator[Callable[[], None]]:
    """Call `action` at each click of `button` inside the block, even while the kernel is busy.

    `action` may be called on any thread and more than once.

    Yields
    ------
    Callable[[], None]
        The waiting thread must call it at each tick.
    """

    def clicked(_button: object) -> None:
        action()

    # For an idle kernel: a cell that awaits, or a subshell.
    button.on_click(clicked)
    tap, comm_id = _install_tap(kernel, button, action)

    def pump() -> None:
        if tap is not None:
            with contextlib.suppress(Exception):
                tap.pump()

    try:
        yield pump
    finally:
        if tap is not None:
            with contextlib.suppress(Exception):
                tap.forget(comm_id)
        button.on_click(clicked, remove=True)


def _install_tap(kernel: Any, button: Any, action: Action) -> tuple[ClickTap | None, str]:
    """Install the tap; return None if this kind of kernel is unknown."""
    try:
        tap = _TAPS.get(kernel)
        if tap is None:
            tap = _TAPS[kernel] = ClickTap(kernel)
        comm_id = str(button.comm.comm_id)
        tap.add(comm_id, action)
    except Exception:
        log.info("the Cancel button works only after the cell has ended; use Stop", exc_info=True)
        return None, ""
    return tap, comm_id


Cancel = Callable[[], object]

_WIDGET: Final = "application/vnd.jupyter.widget-view+json"


class Panel:
    """Shows widgets while the job runs and replaces them by plain HTML at its end.

    Widgets of a saved notebook would not work.
    """

    def __init__(self, view: View, cancel: Cancel | None = None) -> None:
        import ipywidgets  # type: ignore[import-untyped]  # noqa: PLC0415 - scripts need no widgets

        self._widgets = Widgets(ipywidgets, view, can_cancel=cancel is not None)
        self._until_closed = contextlib.ExitStack()
        self._pump: Callable[[], None] | None = None
        self._painted_at = time.monotonic()
        self._last = view
        if cancel is not None:
            kernel = sys.modules["IPython"].get_ipython().kernel
            self._pump = self._until_closed.enter_context(
                listen_for_clicks(kernel, self._widgets.button, cancel)
            )
        self._output = CellOutput()

    def paint(self, view: View) -> None:
        """Update the widgets at most five times a second, and at once after a click."""
        self._last = view
        if not self._output.displayed:
            model = {
                "version_major": 2,
                "version_minor": 0,
                "model_id": self._widgets.box.model_id,
            }
            self._output.show(
                {
                    "text/plain": view.description,
                    "text/html": without_widgets(view.description),
                    _WIDGET: model,
                }
            )
        due = time.monotonic() - self._painted_at >= REPAINT_S
        if due or view.cancel_requested != self._widgets.cancel_requested:
            self._widgets.show(view)
            self._painted_at = time.monotonic()

    def poll_clicks(self) -> None:
        """Read clicks, and draw an update that was delayed."""
        if self._pump is not None:
            self._pump()
        if self._last is not self._widgets.view:
            self.paint(self._last)

    def close(self, view: View) -> None:
        """Replace the widgets by plain HTML."""
        self._until_closed.close()
        _close_output(self._output, view)
        self._widgets.close()


def without_widgets(text: str) -> str:
    """Return the HTML for front ends without widgets."""
    return (
        f'<div style="{FONT}">… {html.escape(text)}: this front end shows no '
        'widgets; <code>progress="html"</code> shows a bar</div>'
    )


class Widgets:
    """The widgets of one panel, created from the first view."""

    def __init__(self, ipywidgets: Any, view: View, *, can_cancel: bool) -> None:
        layout = ipywidgets.Layout
        self.title: Any = ipywidgets.HTML(
            layout=layout(flex="0 1 auto", width="auto", max_width="100%", margin="0 .8em 0 0")
        )
        self.bar: Any = ipywidgets.IntProgress(
            style={"bar_color": COLOURS[None]},
            layout=layout(
                flex="1 1 8em", width="auto", min_width="6em", height="1.3em", margin="0 .8em 0 0"
            ),
        )
        self.button: Any = ipywidgets.Button(
            description="Cancel",
            icon="stop",
            tooltip="End the job at the service",
            layout=layout(
                flex="0 0 auto", width="auto", margin="0", display="" if can_cancel else "none"
            ),
        )
        self.words: Any = ipywidgets.HTML(layout=layout(margin="0"))
        # The parts wrap in a narrow notebook.
        self._row = ipywidgets.HBox(
            [self.title, self.bar, self.button],
            layout=layout(align_items="center", flex_flow="row wrap"),
        )
        self.box: Any = ipywidgets.VBox(
            [self._row, self.words], layout=layout(max_width="56em", padding=".2em .4em")
        )
        self.view: View | None = None
        self.show(view)

    @property
    def cancel_requested(self) -> bool:
        """Whether the button shows that it was clicked."""
        return bool(self.button.disabled)

    def show(self, view: View) -> None:
        """Show `view`; ipywidgets sends only what has changed."""
        goal = view.goal
        self.bar.max = max(1, goal or 1, view.completed)
        self.bar.value = min(view.completed, goal) if goal else 0
        # On one line, which is cut off at the end of the box.
        self.title.value = (
            f'<div style="{FONT};white-space:nowrap;overflow:hidden;text-overflow:ellipsis">'
            f"{html.escape(view.description)}</div>"
        )
        line = html.escape(status_line(view))
        self.words.value = f'<div style="{FONT};line-height:1.5">{line}</div>'
        if view.cancel_requested and not self.button.disabled:
            self.button.disabled = True
            self.button.description = "Cancelling"
        self.view = view

    def close(self) -> None:
        """Close every model in the kernel and in the front end."""
        parts = (self.box, self._row, self.title, self.bar, self.button, self.words)
        for widget in parts:
            for child in ("layout", "style"):
                if widget.has_trait(child) and getattr(widget, child) is not None:
                    getattr(widget, child).close()
            widget.close()
