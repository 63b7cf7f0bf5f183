"""Ends a wait that has no job which could be cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")


class StreamCancelled(Exception):
    """The reader has had enough."""


async def unless(halt: asyncio.Event, work: Awaitable[T]) -> T:
    """Wait for `work`; raises `StreamCancelled` once `halt` is set, and ends the work."""
    task: asyncio.Future[T] = asyncio.ensure_future(work)
    halted = asyncio.ensure_future(halt.wait())
    try:
        first: list[asyncio.Future[Any]] = [task, halted]
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise StreamCancelled
    finally:
        task.cancel()
        halted.cancel()
        await asyncio.gather(task, halted, return_exceptions=True)
