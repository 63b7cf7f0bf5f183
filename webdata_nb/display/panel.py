"""The panel in a live notebook: a bar that moves, what it says in words, and a Cancel button."""

from __future__ import annotations

import contextlib
import html
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from webdata_nb.display import click_listener
from webdata_nb.display.bars import COLOURS, FONT, REPAINT_S, CellOutput, bundle
from webdata_nb.display.progress_view import View, sentence

Cancel = Callable[[], object]

_WIDGET: Final = "application/vnd.jupyter.widget-view+json"


class Panel:
    """Widgets while the job runs, and plain HTML in their place from its end on.

    A saved notebook must not hold a dead widget, so the same output is replaced.
    """

    def __init__(self, view: View, cancel: Cancel | None = None) -> None:
        # Only in a kernel, where both are there already or the first call may wait for them.
        import ipywidgets  # type: ignore[import-untyped]  # noqa: PLC0415 - scripts need no widgets

        self._made = Widgets(ipywidgets, view, can_cancel=cancel is not None)
        self._until_closed = contextlib.ExitStack()
        self._pump: Callable[[], None] | None = None
        self._painted_at = time.monotonic()
        self._last = view
        if cancel is not None:
            kernel = sys.modules["IPython"].get_ipython().kernel
            self._pump = self._until_closed.enter_context(
                click_listener.heard(kernel, self._made.button, cancel)
            )
        self._output = CellOutput()

    def _bundle(self, view: View) -> dict[str, Any]:
        box = self._made.box
        return {
            "text/plain": view.description,
            "text/html": without_widgets(view.description),
            _WIDGET: {"version_major": 2, "version_minor": 0, "model_id": box.model_id},
        }

    def paint(self, view: View) -> None:
        """Move the bar, at most five times a second; a click shows at once."""
        self._last = view
        if not self._output.displayed:
            self._output.show(self._bundle(view))
        due = time.monotonic() - self._painted_at >= REPAINT_S
        if due or view.cancelling != self._made.cancelling:
            self._paint(view)

    def _paint(self, view: View) -> None:
        self._made.show(view)
        self._painted_at = time.monotonic()

    def attend(self) -> None:
        """Read clicks where nobody else does, and draw what was held back."""
        if self._pump is not None:
            self._pump()
        if self._last is not self._made.shown:
            self.paint(self._last)

    def close(self, view: View) -> None:
        """Put plain HTML in place of the widgets."""
        self._until_closed.close()
        self._output.show(bundle(view))
        self._made.close()


def without_widgets(what: str) -> str:
    """Return what a front end shows that has no widgets."""
    return (
        f'<div style="{FONT}">… {html.escape(what)}: this front end shows no '
        'widgets; <code>progress="html"</code> shows a bar</div>'
    )


class Widgets:
    """The widgets of one panel."""

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
        # In a narrow notebook the parts stand below each other rather than squeezed.
        self._row = ipywidgets.HBox(
            [self.title, self.bar, self.button],
            layout=layout(align_items="center", flex_flow="row wrap"),
        )
        self.box = ipywidgets.VBox(
            [self._row, self.words], layout=layout(max_width="56em", padding=".2em .4em")
        )
        self.shown: View | None = None
        self.show(view)

    @property
    def cancelling(self) -> bool:
        """Whether the button says that it was clicked."""
        return bool(self.button.disabled)

    def show(self, view: View) -> None:
        """Say what `view` says; what has not changed is not sent."""
        goal = view.goal
        self.bar.max = max(1, goal or 1, view.completed)
        self.bar.value = min(view.completed, goal) if goal else 0
        self.title.value = _one_line(view.description)
        self.words.value = _lines(sentence(view))
        if view.cancelling and not self.button.disabled:
            self.button.disabled = True
            self.button.description = "Cancelling"
        self.shown = view

    def close(self) -> None:
        """Let go of every model, on both sides."""
        parts = (self.box, self._row, self.title, self.bar, self.button, self.words)
        for widget in parts:
            for child in ("layout", "style"):
                if widget.has_trait(child) and getattr(widget, child) is not None:
                    getattr(widget, child).close()
            widget.close()


def _one_line(text: str) -> str:
    """Return `text` as HTML in which nothing of it is markup, cut off where there is no room."""
    return (
        f'<div style="{FONT};white-space:nowrap;overflow:hidden;text-overflow:ellipsis">'
        f"{html.escape(text)}</div>"
    )


def _lines(text: str) -> str:
    """Return `text` as HTML that takes as many lines as it needs."""
    return f'<div style="{FONT};line-height:1.5">{html.escape(text)}</div>'
