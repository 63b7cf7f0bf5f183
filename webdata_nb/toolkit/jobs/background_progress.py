"""Shows the live panel of a job that no cell waits for, painted by the kernel's own event loop.

Only the main thread paints. Its loop is idle between two cells, stands still while a cell
computes, and is served by the waits of other calls in a cell.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final

from webdata_nb.toolkit import bridge
from webdata_nb.toolkit.display import progress as display
from webdata_nb.toolkit.requests.call_options import CallOptions

# The coroutine paints itself at once, before any request is sent.
_FIRST_PAINT_S: Final = 1.0
_LIVE_MODES: Final = (None, True, "panel", "html")


class LivePanel:
    """The panel of one job; showing it again moves it to the current cell."""

    def __init__(self) -> None:
        self._call: bridge.PortalCall[Any] | None = None
        self._painting: asyncio.Task[None] | None = None

    def __reduce__(self) -> tuple[type[LivePanel], tuple[()]]:
        # A job pickles; its panel stays in this kernel.
        return LivePanel, ()

    def show(self, follow_job: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Show the progress of `follow_job` below this cell, until the job has ended."""
        self.close()
        self._call = bridge.PORTAL.submit(follow_job())
        # The first paint happens here, so that it becomes this cell's output.
        self._call.ticks.registered.wait(_FIRST_PAINT_S)
        self._call.ticks.run()
        self._painting = bridge.paint_in_background(self._call)

    def close(self) -> None:
        """End the panel; the job continues."""
        if self._call is not None:
            self._call.cancel()


def can_show_panel(options: CallOptions) -> bool:
    """Whether this kernel can show a live panel, and the loop of this thread can paint it."""
    if options.settings.progress not in _LIVE_MODES or display.place() != "live":
        return False
    if threading.current_thread() is not threading.main_thread():
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
