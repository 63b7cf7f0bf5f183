"""Cancels a wait that has no job which could be cancelled at the service."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")


class StreamCancelled(Exception):
    """The user has cancelled the stream."""


async def wait_unless_cancelled(cancelled: asyncio.Event, work: Awaitable[T]) -> T:
    """Return the result of `work`; once `cancelled` is set, end it and raise `StreamCancelled`."""
    task: asyncio.Future[T] = asyncio.ensure_future(work)
    cancellation = asyncio.ensure_future(cancelled.wait())
    try:
        either: list[asyncio.Future[Any]] = [task, cancellation]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise StreamCancelled
    finally:
        task.cancel()
        cancellation.cancel()
        await asyncio.gather(task, cancellation, return_exceptions=True)
