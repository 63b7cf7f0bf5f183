"""One object for both kinds of loop, and what leaving a loop early ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from webdata_nb.toolkit.bridge import PORTAL
from webdata_nb.toolkit.stream import Stream


class Counter:
    """Counts to five; knows how far it was asked, and when it was closed."""

    def __init__(self) -> None:
        self.made = 0
        self.closed = threading.Event()

    async def count(self) -> AsyncGenerator[int, None]:
        self.made = 0
        try:
            for number in range(5):
                self.made = number + 1
                yield number
                await asyncio.sleep(0)
        finally:
            self.closed.set()


def test_plain_loop_yields_all_items_each_time() -> None:
    stream = Stream(Counter().count)
    assert list(stream) == list(stream) == [0, 1, 2, 3, 4]


async def test_async_and_plain_loop_inside_running_loop() -> None:
    stream = Stream(Counter().count)
    assert [number async for number in stream] == [0, 1, 2, 3, 4]
    assert list(stream) == [0, 1, 2, 3, 4]


def test_leaving_loop_waits_for_clean_up() -> None:
    counter = Counter()
    for number in Stream(counter.count):
        if number == 1:
            break
    assert counter.closed.is_set()


def test_source_runs_at_most_one_item_ahead() -> None:
    counter = Counter()
    for number in Stream(counter.count):
        PORTAL.run(asyncio.sleep(0))  # let the portal run as far as it wants to
        assert counter.made <= number + 2
        if number == 2:
            break


async def test_closed_async_loop_cleans_up() -> None:
    counter = Counter()
    async with aclosing(aiter(Stream(counter.count))) as numbers:
        async for _ in numbers:
            break
    assert counter.closed.is_set()


def test_error_is_raised_at_its_item() -> None:
    async def fails() -> AsyncGenerator[int, None]:
        yield 1
        raise KeyError("two")

    got: list[int] = []
    with pytest.raises(KeyError, match="two"):
        got.extend(Stream(fails))
    assert got == [1]


def test_portal_thread_cannot_iterate() -> None:
    async def inner() -> list[int]:
        return list(Stream(Counter().count))

    with pytest.raises(RuntimeError, match="wait for ever"):
        PORTAL.run(inner())
