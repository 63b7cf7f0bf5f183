"""Keeps what is opened for each key, such as the fetchers of each proxy, open until the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Opened = TypeVar("Opened")


class OpenContexts(Generic[Key, Opened]):
    """One open context for each key, opened on first use; all are closed together.

    Parameters
    ----------
    open_context : callable
        Returns the context manager of a key.
    """

    def __init__(self, open_context: Callable[[Key], AbstractAsyncContextManager[Opened]]) -> None:
        self._open_context = open_context
        self._opened: dict[Key, Opened] = {}
        self._stack = AsyncExitStack()
        self._lock = asyncio.Lock()

    async def get(self, key: Key) -> Opened:
        """Return what is open for a key; what fails to open is tried again with the next call."""
        async with self._lock:
            if key not in self._opened:
                context = self._open_context(key)
                self._opened[key] = await self._stack.enter_async_context(context)
            return self._opened[key]

    async def aclose(self) -> None:
        """Close everything."""
        await self._stack.aclose()
