"""Shows the progress of a call while it waits or runs in the background, and cancels it by a click.

A click on Cancel cancels the task that runs the call, as Ctrl-C does; its clean-up cancels the job
at the service. The cancellation of a click is told apart from others and becomes JobCancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from webdata_nb.errors import JobCancelled
from webdata_nb.toolkit import bridge
from webdata_nb.toolkit.display import progress as display
from webdata_nb.toolkit.requests.call_options import CallOptions

OnCancelClick = Callable[[], Coroutine[Any, Any, object]]


class TaskCanceller:
    """Cancels the task that created it, once, from any thread; as `asyncio.timeout` does in time.

    `on_cancel` runs instead, where the task must not be cancelled.
    """

    def __init__(self, on_cancel: OnCancelClick | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._earlier_cancellations = self._task.cancelling() if self._task is not None else 0
        self._on_cancel = on_cancel
        self._running: asyncio.Task[object] | None = None
        self._requested = self._closed = False

    def request(self) -> None:
        """Cancel the task or run `on_cancel`; from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing is left to cancel
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._requested or self._closed:
            return
        self._requested = True
        if self._on_cancel is not None:
            self._running = self._loop.create_task(self._on_cancel(), name="webdata-cancel")
        elif self._task is not None:
            self._task.cancel()

    async def close(self) -> bool:
        """Take the cancellation back; return whether it was the task's only one."""
        requested, self._closed = self._requested and not self._closed, True
        if self._running is not None:
            await asyncio.wait([self._running])
            return False
        if not requested or self._task is None:
            return False
        return self._task.uncancel() <= self._earlier_cancellations


@asynccontextmanager
async def show_progress(
    description: str,
    total: int | None,
    options: CallOptions,
    *,
    unit: str = "rows",
    on_cancel: OnCancelClick | None = None,
    detach_on_interrupt: bool = False,
    name: str = "",
) -> AsyncIterator[display.Listener]:
    """Show the progress of the block as the options ask for; yield the listener to report to.

    Parameters
    ----------
    description, total, unit, detach_on_interrupt, name
        As in `display.listener`.
    on_cancel
        What a click does, where it must not cancel the task that runs the block.

    Raises
    ------
    JobCancelled
        A click cancelled the block, and the block did not return a result all the same.
    """
    canceller = TaskCanceller(on_cancel)
    listener = display.listener(
        description,
        total,
        options.settings.progress,
        unit=unit,
        cancel=canceller.request,
        detach_on_interrupt=detach_on_interrupt,
        name=name,
        on_change=options.also,
    )
    silent = options.settings.progress is False
    # The listener exits first, so that the last tick paints its last state.
    painting = contextlib.nullcontext() if silent else bridge.on_tick(listener.tick)
    try:
        with painting, listener:
            yield listener
    except asyncio.CancelledError:
        if not await canceller.close():
            raise
        raise JobCancelled(listener.job_id) from None
    finally:
        await canceller.close()


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
