"""Shows a call while it runs; a click on its Cancel button ends it as Ctrl-C does.

Every way to the end is one: the task that runs the call is cancelled, and its clean-up cancels
the job at the service. A click can be told from other cancellations, so it becomes JobCancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from webdata_nb import bridge
from webdata_nb.display import progress as display
from webdata_nb.errors import JobCancelled
from webdata_nb.requests.call_options import CallOptions

Instead = Callable[[], Coroutine[Any, Any, object]]


class Stop:
    """Cancels the task it was made in, once, from any thread: as `asyncio.timeout` at its time.

    `instead` is run in place of that, where the task belongs to somebody else or is only waiting.
    """

    def __init__(self, instead: Instead | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._before = self._task.cancelling() if self._task is not None else 0
        self._instead = instead
        self._acting: asyncio.Task[object] | None = None
        self._asked = self._over = False

    def ask(self) -> None:
        """End the block, or do what is to be done instead; from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: there is nothing to end
            self._loop.call_soon_threadsafe(self._act)

    def _act(self) -> None:
        if self._asked or self._over:
            return
        self._asked = True
        if self._instead is not None:
            self._acting = self._loop.create_task(self._instead(), name="webdata-cancel")
        elif self._task is not None:
            self._task.cancel()

    async def over(self) -> bool:
        """Take the cancellation back, and tell whether it was the only one."""
        asked, self._over = self._asked and not self._over, True
        if self._acting is not None:
            await asyncio.wait([self._acting])
            return False
        if not asked or self._task is None:
            return False
        return self._task.uncancel() <= self._before


@asynccontextmanager
async def shown(
    description: str,
    total: int | None,
    call: CallOptions,
    *,
    unit: str = "rows",
    instead: Instead | None = None,
    leaves: bool = False,
    name: str = "",
) -> AsyncIterator[display.Listener]:
    """Show what the block does, as `call` wants it; give the listener that is to be told.

    Parameters
    ----------
    description, total, unit, leaves, name
        As in `display.listener`.
    instead
        What a click does, where it must not cancel the task that runs the block.

    Raises
    ------
    JobCancelled
        A click has ended the block, and the block did not end with an answer all the same.
    """
    stop = Stop(instead)
    listener = display.listener(
        description,
        total,
        call.settings.progress,
        unit=unit,
        cancel=stop.ask,
        leaves=leaves,
        name=name,
        also=call.also,
    )
    silent = call.settings.progress is False
    # The bar is told the ending before the last tick, which draws it.
    painting = contextlib.nullcontext() if silent else bridge.on_tick(listener.tick)
    try:
        with painting, listener:
            yield listener
    except asyncio.CancelledError:
        if not await stop.over():
            raise
        raise JobCancelled(listener.job_id) from None
    finally:
        await stop.over()
