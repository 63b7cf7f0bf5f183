"""Runs coroutines in the background of a context."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack


def run_in_background(stack: AsyncExitStack, work: Coroutine[None, None, None]) -> None:
    """Run `work` until the stack is closed."""
    stack.push_async_callback(cancel, asyncio.create_task(work))


async def cancel(task: asyncio.Task[None]) -> None:
    """Cancel a task, and wait for its end."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
