"""The panel in a live notebook: a progress bar, a status line and a Cancel button."""

from __future__ import annotations

import contextlib
import html
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from webdata_nb.toolkit.display import click_listener
from webdata_nb.toolkit.display.bars import COLOURS, FONT, REPAINT_S, CellOutput, mime_bundle
from webdata_nb.toolkit.display.progress_view import View, status_line

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
                click_listener.listen_for_clicks(kernel, self._widgets.button, cancel)
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
