"""Waits for a change that is applied even if its caller is cancelled."""

from __future__ import annotations

import asyncio
from typing import TypeVar

T = TypeVar("T")


async def wait_applied(change: asyncio.Future[T]) -> T:
    """Return the value of a change; a cancellation ends the wait, not the change."""
    try:
        return await asyncio.shield(change)
    except asyncio.CancelledError:
        change.add_done_callback(_mark_retrieved)
        raise


def _mark_retrieved(change: asyncio.Future[T]) -> None:
    """Keep asyncio from logging the error of a change whose caller was cancelled."""
    if not change.cancelled():
        change.exception()
