"""Shows a job that nobody waits for: the kernel's own loop paints, while it has nothing to run.

The rule is that of every call: one thread paints, the one that would wait. Here it is the thread
of the cells, whose loop is idle between two of them. While a cell computes, the panel stands
still; while a cell waits for another of our calls, that wait paints this panel as well.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final

from webdata_nb import bridge
from webdata_nb.display import progress as display
from webdata_nb.requests.call_options import CallOptions

# The coroutine shows itself at once, before anything is sent.
_PROMPT_S: Final = 1.0
_LIVE: Final = (None, True, "panel", "html")


class Watch:
    """The one place where a job is shown live; showing it again moves the panel there."""

    def __init__(self) -> None:
        self._call: bridge.Call[Any] | None = None
        self._attending: asyncio.Task[None] | None = None

    def __reduce__(self) -> tuple[type[Watch], tuple[()]]:
        # A job pickles; what shows it here shows nothing elsewhere.
        return Watch, ()

    def show(self, follow: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Show what `follow` shows below this cell, until it has ended."""
        self.end()
        self._call = bridge.PORTAL.submit(follow())
        # Painted here for the first time, so that it is this cell's output.
        self._call.ticks.begun.wait(_PROMPT_S)
        self._call.ticks.run()
        self._attending = bridge.attend(self._call)

    def end(self) -> None:
        """Let go of the panel; the job goes on, and what is left says so."""
        if self._call is not None:
            self._call.cancel()


def possible(call: CallOptions) -> bool:
    """Whether a panel can live here: somebody watches, and this thread's loop can paint."""
    if call.settings.progress not in _LIVE or display.place() != "live":
        return False
    if threading.current_thread() is not threading.main_thread():
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
