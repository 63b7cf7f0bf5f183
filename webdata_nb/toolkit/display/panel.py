"""The panel in a live notebook: a progress bar, a status line and a Cancel button.

A kernel handles shell messages one after the other, so a click waits behind the cell that it is
meant to end. `ClickTap` reads each message where it enters the kernel and passes it on unchanged
and in order. It uses private names of ipykernel. Where these differ from the versions that
`benchmarks.kernel_matrix` tests, the kernel is left alone, and only the Stop button works.
"""

from __future__ import annotations

import contextlib
import functools
import html
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from webdata_nb.toolkit.display.bars import COLOURS, FONT, REPAINT_S, CellOutput, mime_bundle
from webdata_nb.toolkit.display.progress_view import View, status_line

Action = Callable[[], object]
Frames = Any

log = logging.getLogger("webdata_nb")

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
            action = self._actions.get(self._clicked_comm(frames) or "")
            if action is not None:
                action()
        return self._forward(frames)

    def _clicked_comm(self, frames: Frames) -> str | None:
        """Return the comm id of the clicked button, or None for any other message."""
        _, parts = self._session.feed_identities(frames, copy=False)
        # Reading the header alone checks the signature and does not mark it as seen.
        message = self._session.deserialize(parts, content=False, copy=False)
        if message["header"]["msg_type"] != "comm_msg":
            return None
        content = self._session.unpack(message["content"])
        clicked = content["data"].get("content", {}).get("event") == "click"
        return str(content["comm_id"]) if clicked else None


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
    try:
        yield _safe_pump(tap)
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


def _safe_pump(tap: ClickTap | None) -> Callable[[], None]:
    def pump() -> None:
        if tap is not None:
            with contextlib.suppress(Exception):
                tap.pump()

    return pump


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

    def _bundle(self, view: View) -> dict[str, Any]:
        box = self._widgets.box
        return {
            "text/plain": view.description,
            "text/html": without_widgets(view.description),
            _WIDGET: {"version_major": 2, "version_minor": 0, "model_id": box.model_id},
        }

    def paint(self, view: View) -> None:
        """Update the widgets at most five times a second, and at once after a click."""
        self._last = view
        if not self._output.displayed:
            self._output.show(self._bundle(view))
        due = time.monotonic() - self._painted_at >= REPAINT_S
        if due or view.cancel_requested != self._widgets.cancel_requested:
            self._paint(view)

    def _paint(self, view: View) -> None:
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
        self._output.show(mime_bundle(view))
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
        self.title = ipywidgets.HTML(
            layout=layout(flex="0 1 auto", width="auto", max_width="100%", margin="0 .8em 0 0")
        )
        self.bar = ipywidgets.IntProgress(
            style={"bar_color": COLOURS[None]},
            layout=layout(
                flex="1 1 8em", width="auto", min_width="6em", height="1.3em", margin="0 .8em 0 0"
            ),
        )
        self.button = ipywidgets.Button(
            description="Cancel",
            icon="stop",
            tooltip="End the job at the service",
            layout=layout(
                flex="0 0 auto", width="auto", margin="0", display="" if can_cancel else "none"
            ),
        )
        self.words = ipywidgets.HTML(layout=layout(margin="0"))
        # The parts wrap in a narrow notebook.
        self._row = ipywidgets.HBox(
            [self.title, self.bar, self.button],
            layout=layout(align_items="center", flex_flow="row wrap"),
        )
        self.box = ipywidgets.VBox(
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
        self.title.value = _one_line(view.description)
        self.words.value = _lines(status_line(view))
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


def _one_line(text: str) -> str:
    """Return `text` escaped, on one line that is cut off at the end of the box."""
    return (
        f'<div style="{FONT};white-space:nowrap;overflow:hidden;text-overflow:ellipsis">'
        f"{html.escape(text)}</div>"
    )


def _lines(text: str) -> str:
    """Return `text` escaped, on as many lines as it needs."""
    return f'<div style="{FONT};line-height:1.5">{html.escape(text)}</div>'
