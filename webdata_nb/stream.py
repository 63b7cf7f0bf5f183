"""What arrives piece by piece: one object for `async for`, and for a plain `for` as well."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Generic, TypeVar

from webdata_nb.bridge import PORTAL, TICK_S, Call, Caller, settle, tick

T = TypeVar("T")

_Wanted = concurrent.futures.Future[T]


class Stream(Generic[T]):
    """Items as they arrive, at most one of them ahead of its reader.

    Nothing begins before the first item is asked for, and each loop begins anew. Leaving a loop
    early ends what is behind it, as far as it can be ended: a job is cancelled. In async code
    the end follows shortly after a `break`; `contextlib.aclosing(aiter(stream))` waits for it.

    Parameters
    ----------
    source : Callable[[], AsyncGenerator]
        Makes the generator of the items, whose clean-up is what ends.

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
        pump = _Pump[T]()
        caller = Caller()
        call = PORTAL.submit(pump.run(self._source))
        try:
            while (item := _next(pump, call, caller)) is not None:
                yield item.result()
        finally:
            settle(call)
            call.ticks.run()
        call.result()


async def merged(
    sources: Sequence[Callable[[], AsyncGenerator[T, None]]], most: int
) -> AsyncGenerator[T, None]:
    """Give the items of several generators as they come, while at most `most` of them run.

    One item is held at a time, so whoever does not read holds them all up. Leaving early ends
    every generator, side by side; the first error ends the others, and is raised.
    """
    held: asyncio.Queue[Callable[[], T] | None] = asyncio.Queue(1)
    left = iter(sources)

    async def feed() -> None:
        try:
            for source in left:
                async with aclosing(source()) as items:
                    async for item in items:
                        await held.put(partial(_given, item))
        except Exception as error:  # noqa: BLE001 - raised where the items are read
            await held.put(partial(_raised, error))
        await held.put(None)

    feeders = [asyncio.create_task(feed()) for _ in range(min(most, len(sources)))]
    try:
        running = len(feeders)
        while running:
            item = await held.get()
            if item is None:
                running -= 1
            else:
                yield item()
    finally:
        for feeder in feeders:
            feeder.cancel()
        await asyncio.gather(*feeders, return_exceptions=True)


def _given(item: T) -> T:
    return item


def _raised(error: Exception) -> Any:
    raise error


class _Pump(Generic[T]):
    """Runs a generator in one task of the portal, which hands an item to each that asks."""

    def __init__(self) -> None:
        self._asked: asyncio.Queue[_Wanted[T]] = asyncio.Queue()

    def ask(self) -> _Wanted[T]:
        """Ask for the next item, from the thread that reads."""
        wanted: _Wanted[T] = concurrent.futures.Future()
        PORTAL.soon(self._asked.put_nowait, wanted)
        return wanted

    async def run(self, source: Callable[[], AsyncGenerator[T, None]]) -> None:
        async with aclosing(source()) as items:
            async for item in items:
                (await self._asked.get()).set_result(item)


def _next(pump: _Pump[T], call: Call[None], caller: Caller) -> _Wanted[T] | None:
    """Wait for the next item in ticks; None at the end, whatever the end is."""
    wanted = pump.ask()
    while True:
        tick(call)
        caller.check()
        waited: list[concurrent.futures.Future[Any]] = [wanted, call]
        concurrent.futures.wait(
            waited, timeout=TICK_S, return_when=concurrent.futures.FIRST_COMPLETED
        )
        if wanted.done():
            return wanted
        if call.done():
            return None
