"""Runs the changes of one lane in order, those that wait together in one transaction."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from webdata_nb.service.store.sql.connection import Lane, wait_applied

Change = TypeVar("Change")
_MAX_GROUP: Final = 32
_Waiting = tuple[Change, asyncio.Future[Any]]


class OrderedLanes(Generic[Change]):
    """Queues of changes by lane; lanes run concurrently, each applies one group after the other.

    A group that fails is run again change by change, so that each receives its own error.

    Parameters
    ----------
    run
        Applies changes in one transaction, and returns their values.
    on_applied
        Called with the lane after each transaction.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Change]], Awaitable[Sequence[Any]]],
        on_applied: Callable[[Lane], None],
    ) -> None:
        self._run, self._on_applied = run, on_applied
        self._lanes: dict[Lane, deque[_Waiting[Change]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def add(self, lane: Lane, change: Change) -> Any:
        """Apply a change after the earlier ones of its lane; return its value.

        The change of a caller that is cancelled is applied all the same.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        queue = self._lanes.get(lane)
        if queue is None:
            queue = self._lanes[lane] = deque()
            task = asyncio.create_task(self._drain(lane, queue))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        queue.append((change, future))
        return await wait_applied(future)

    async def close(self) -> None:
        """Wait until every change is applied."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _drain(self, lane: Lane, queue: deque[_Waiting[Change]]) -> None:
        max_group = _MAX_GROUP if lane.grouped else 1
        while queue:
            group = [queue.popleft() for _ in range(min(len(queue), max_group))]
            await self._apply(group)
            self._on_applied(lane)
        del self._lanes[lane]

    async def _apply(self, group: Sequence[_Waiting[Change]]) -> None:
        try:
            values = await self._run([change for change, _ in group])
        except Exception as error:  # noqa: BLE001 - the callers receive it
            if len(group) == 1:
                _fail(group[0][1], error)
                return
            for waiting in group:
                await self._apply([waiting])
            return
        for (_, future), value in zip(group, values, strict=True):
            if not future.cancelled():
                future.set_result(value)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.cancelled():
        future.set_exception(error)
