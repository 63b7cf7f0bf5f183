"""Streams of items that support both `async for` and a plain `for` loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Generic, TypeVar

from webdata_nb.caller import called_here
from webdata_nb.toolkit.bridge import (
    PORTAL,
    TICK_S,
    CallerTask,
    PortalCall,
    cancel_and_wait,
    hang_at_exit,
    run_ticks,
)

T = TypeVar("T")

_ItemFuture = concurrent.futures.Future[T]


class Stream(Generic[T]):
    """Items as they arrive, at most one of them ahead of the reader.

    Nothing starts before the first item is requested, and each loop starts anew. Leaving a loop
    early closes its source, which cancels a job. In async code that follows shortly after a
    `break`; `contextlib.aclosing(aiter(stream))` waits for it.

    Parameters
    ----------
    source : Callable[[], AsyncGenerator]
        Returns a new generator of the items.

    Examples
    --------
    >>> async def count():
    ...     for number in range(3):
    ...         yield number
    >>> list(Stream(count))
    [0, 1, 2]
    """

    def __init__(self, source: Callable[[], AsyncGenerator[T, None]]) -> None:
        self._source = source

    def __aiter__(self) -> AsyncGenerator[T, None]:  # noqa: PYI058 - aclosing needs its aclose
        return self._source()

    def __iter__(self) -> Iterator[T]:
        PORTAL.refuse_own_thread()
        pump = _ItemPump[T]()
        caller = CallerTask()
        with called_here():
            call = PORTAL.submit(pump.run(self._source))
        try:
            while (item := _next_item(pump, call, caller)) is not None:
                yield item.result()
            hang_at_exit()
        finally:
            cancel_and_wait(call)
            call.ticks.run()
        call.result()


async def merged(
    sources: Sequence[Callable[[], AsyncGenerator[T, None]]], max_concurrent: int
) -> AsyncGenerator[T, None]:
    """Yield the items of several generators as they arrive; at most `max_concurrent` of them run.

    The queue holds one item, so a slow reader slows all generators down. Leaving early closes every
    generator concurrently; the first error closes the others and is raised.
    """
    queue: asyncio.Queue[tuple[T] | Exception | None] = asyncio.Queue(1)
    remaining = iter(sources)

    async def feed() -> None:
        try:
            for source in remaining:
                async with aclosing(source()) as items:
                    async for item in items:
                        await queue.put((item,))
        except Exception as error:  # noqa: BLE001 - raised to the reader
            await queue.put(error)
        await queue.put(None)

    feeders = [asyncio.create_task(feed()) for _ in range(min(max_concurrent, len(sources)))]
    try:
        running = len(feeders)
        while running:
            item = await queue.get()
            if item is None:
                running -= 1
            elif isinstance(item, Exception):
                raise item
            else:
                yield item[0]
    finally:
        for feeder in feeders:
            feeder.cancel()
        await asyncio.gather(*feeders, return_exceptions=True)


class _ItemPump(Generic[T]):
    """Runs a generator in one task of the portal, and sets one requested future per item."""

    def __init__(self) -> None:
        self._requests: asyncio.Queue[_ItemFuture[T]] = asyncio.Queue()

    def request(self) -> _ItemFuture[T]:
        """Request the next item, from the reading thread."""
        item: _ItemFuture[T] = concurrent.futures.Future()
        PORTAL.soon(self._requests.put_nowait, item)
        return item

    async def run(self, source: Callable[[], AsyncGenerator[T, None]]) -> None:
        async with aclosing(source()) as items:
            async for item in items:
                (await self._requests.get()).set_result(item)


def _next_item(
    pump: _ItemPump[T], call: PortalCall[None], caller: CallerTask
) -> _ItemFuture[T] | None:
    """Wait for the next item in ticks; None where the stream has ended or failed."""
    item = pump.request()
    while True:
        run_ticks(call)
        caller.raise_if_cancelled()
        waited: list[concurrent.futures.Future[Any]] = [item, call]
        concurrent.futures.wait(
            waited, timeout=TICK_S, return_when=concurrent.futures.FIRST_COMPLETED
        )
        if item.done():
            return item
        if call.done():
            return None
