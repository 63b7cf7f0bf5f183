"""Tells the other processes of a store which jobs changed, over LISTEN and NOTIFY.

Signals are hints: they are sent after the commit, and may be lost. Receivers poll as well.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg_pool import ConnectionPool

from webdata_nb.pacing.retry_policies import STORE_SIGNALS

log = logging.getLogger(__name__)

OnSignal = Callable[[str | None], None]
"""Receives the name of a lane that another process changed; None if any may have changed."""

SEND_INTERVAL_S: Final = 0.1
# PostgreSQL allows 8,000 bytes in a payload; an id has 36.
_MAX_NAMES: Final = 150
_CHECK_S: Final = 1.0


class Signals:
    """Sends and receives the names of changed lanes, at most ten times per second.

    Parameters
    ----------
    connect
        Opens a connection in autocommit mode, which only listens.
    pool
        Has the connections that send.
    channel
        The name of the store's channel.
    """

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection[Any]],
        pool: ConnectionPool[Any],
        channel: str,
    ) -> None:
        self._connect, self._pool, self._channel = connect, pool, channel
        self._sender = secrets.token_hex(4)
        self._names: dict[str, None] = {}
        self._changed = asyncio.Event()
        self._closing = threading.Event()
        self._receivers: list[OnSignal] = []

    async def __aenter__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._listen, name="webdata-signals", daemon=True)
        self._thread.start()
        self._sending = asyncio.create_task(self._send_forever())

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()
        self._sending.cancel()
        await asyncio.gather(self._sending, return_exceptions=True)
        with suppress(psycopg.Error):
            await self._send_names()
        with suppress(psycopg.Error):  # wakes the listening thread
            await asyncio.to_thread(self._notify, self._sender, timeout_s=_CHECK_S)
        await asyncio.to_thread(self._thread.join)

    def add(self, name: str) -> None:
        """Send the name of a changed lane soon; called on the event loop."""
        self._names[name] = None
        self._changed.set()

    def subscribe(self, on_signal: OnSignal) -> None:
        """Call `on_signal` on the event loop for each signal of another process."""
        self._receivers.append(on_signal)

    async def _send_forever(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._send_names()
            except psycopg.Error:  # sent with the next ones
                self._changed.set()
            await asyncio.sleep(SEND_INTERVAL_S)

    async def _send_names(self) -> None:
        names, self._names = list(self._names), {}
        try:
            while names:
                payload = " ".join([self._sender, *names[:_MAX_NAMES]])
                await asyncio.to_thread(self._notify, payload)
                names = names[_MAX_NAMES:]
        finally:
            self._names |= dict.fromkeys(names)

    def _notify(self, payload: str, *, timeout_s: float | None = None) -> None:
        with self._pool.connection(timeout=timeout_s) as connection:
            connection.execute("SELECT pg_notify(%s, %s)", [self._channel, payload])

    def _listen(self) -> None:
        failures = 0
        while not self._closing.is_set():
            try:
                with self._connect() as connection:
                    connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
                    failures = 0
                    self._receive(None)  # earlier signals are lost
                    self._receive_until_closed(connection)
            except psycopg.Error as error:
                if failures == 0:
                    log.warning("no signals of other processes: %s", type(error).__name__)
                failures += 1
                self._receive(None)
                self._closing.wait(STORE_SIGNALS.delay_s(failures))

    def _receive_until_closed(self, connection: psycopg.Connection[Any]) -> None:
        while not self._closing.is_set():
            for message in connection.notifies(timeout=_CHECK_S, stop_after=1):
                sender, *names = message.payload.split(" ")
                if sender != self._sender:
                    for name in names:
                        self._receive(name)

    def _receive(self, name: str | None) -> None:
        for on_signal in tuple(self._receivers):
            self._loop.call_soon_threadsafe(on_signal, name)
