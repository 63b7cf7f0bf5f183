"""Keeps the rates and circuits of hosts and providers in rows that all processes share.

One task exchanges what has accumulated with the database: reservations, events, and what other
processes have changed. Its calls run on a thread of their own, over a connection of their own.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from math import inf
from typing import Final, Self

import psycopg
from psycopg.rows import DictRow, dict_row

from webdata_nb.pacing.host_pacing import (
    RESERVED_S,
    Circuit,
    OnState,
    PacingState,
    SharedPacing,
    StartReservation,
    Transition,
    reserved_count,
    reserved_interval,
)
from webdata_nb.service.runtime.event_loop import wait_at_most
from webdata_nb.service.store.postgres.pool import (
    CONNECTION,
    DeadlineConnection,
    ServerClock,
)
from webdata_nb.service.store.postgres.transactions import with_placeholders
from webdata_nb.service.store.sql.connection import parse_statements

log: Final = logging.getLogger(__name__)

Reservations = Mapping[str, float]
Events = Mapping[str, Sequence[Transition]]

POLL_S: Final = 0.4
"""Between two looks for what others have changed."""
RESERVE_TIMEOUT_S: Final = 1.0
# A server or a network that does not answer at all ends a call after this time.
_ANSWER_S: Final = 3.0
_CONNECTION: Final = CONNECTION | {"connect_timeout": 2, "tcp_user_timeout": 3000}
_STATEMENT_S: Final = 2
# Rows of transactions that were not committed yet at the last look.
_OVERLAP_S: Final = 5.0
# Events of a key that are not urgent are sent together, once per this time.
_EVENT_INTERVAL_S: Final = 1.0
_MAX_EVENTS: Final = 32
_MAX_KEYS: Final = 4096
IDLE_S: Final = 300.0
"""Rows that have not been used for so long are deleted."""
_DELETE_INTERVAL_S: Final = 60.0
# A reservation begins so much later than the database's present that its reply has arrived.
_LEAD_S: Final = (0.005, 0.2)
_STATEMENTS: Final = {
    name: with_placeholders(text)
    for name, text in parse_statements(
        files("webdata_nb.service.store.postgres").joinpath("pacing.sql").read_text("utf-8")
    )
}


class PacingConnection(DeadlineConnection[DictRow]):
    """A connection that must answer fast."""

    answer_s = _ANSWER_S


@dataclass(frozen=True, slots=True)
class _Batch:
    """What one exchange sends."""

    reservations: Reservations
    events: Events
    replicas: int
    polls: bool
    reloads: bool


@dataclass(slots=True)
class _ExchangeResult:
    """What one exchange receives; times are those of the database."""

    first_starts: dict[str, float] = field(default_factory=dict)
    states: dict[str, PacingState] = field(default_factory=dict)


class PostgresPacing(SharedPacing):
    """A `SharedPacing` in a PostgreSQL database that has the store's schema.

    Parameters
    ----------
    conninfo
        A connection string or URL of libpq.
    count_replicas
        Returns how many processes serve the store, by the last count.
    """

    is_shared = True

    def __init__(self, conninfo: str, count_replicas: Callable[[], int]) -> None:
        self._conninfo, self._count_replicas = conninfo, count_replicas
        self._clock = ServerClock()
        self._connection: PacingConnection | None = None
        self._is_available = True
        self._wake = asyncio.Event()
        self._reservations: dict[str, tuple[float, asyncio.Future[float | None]]] = {}
        self._events: defaultdict[str, list[Transition]] = defaultdict(list)
        self._event_due: dict[str, float] = {}
        self._poll_due = 0.0
        self._must_reload = True
        self._delete_due = 0.0
        self._polled_until = self._epoch = -inf
        # States that hold requests back, by the database's clock.
        self._held: dict[str, PacingState] = {}
        self._receivers: list[tuple[str, OnState]] = []
        self._duration_s = 0.0

    @property
    def replicas(self) -> int:
        return max(1, self._count_replicas())

    async def __aenter__(self) -> Self:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="webdata-pacing")
        await self._exchange()
        self._task = asyncio.create_task(self._exchange_forever())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.to_thread(self._thread.shutdown)
        self._disconnect()

    async def reserve(self, key: str, required_s: float) -> StartReservation | None:
        if not self._is_available:
            return None
        while (earlier := self._reservations.get(key)) is not None:
            await asyncio.wait({earlier[1]})
        future = asyncio.get_running_loop().create_future()
        self._reservations[key] = required_s, future
        self._wake.set()
        try:
            done, _ = await asyncio.wait({future}, timeout=RESERVE_TIMEOUT_S)
        finally:
            if self._reservations.get(key, (0.0, None))[1] is future:
                del self._reservations[key]
            if not future.done():
                future.cancel()
        if not done:
            self._set_available(available=False, why="it is slow")
            return None
        first = future.result()
        if first is None:
            return None
        return StartReservation(self._to_local(first), required_s, reserved_count(required_s))

    def update(self, key: str, transition: Transition, *, urgent: bool = False) -> None:
        if key not in self._events and len(self._events) >= _MAX_KEYS:
            return
        events = self._events[key]
        events.append(transition)
        del events[:-_MAX_EVENTS]
        if urgent:
            self._event_due[key] = 0.0
        if self._event_due.get(key, 0.0) <= time.monotonic():
            self._wake.set()

    def subscribe(self, prefix: str, on_state: OnState) -> None:
        self._receivers.append((prefix, on_state))
        # What has changed before must reach this receiver too.
        self._must_reload, self._poll_due = True, 0.0
        self._wake.set()

    async def _exchange_forever(self) -> None:
        while True:
            await wait_at_most(self._wake, POLL_S)
            self._wake.clear()
            await self._exchange()

    async def _exchange(self) -> None:
        """Send what has accumulated, and pass on what arrives."""
        now = time.monotonic()
        due = [key for key in self._events if self._event_due.get(key, 0.0) <= now]
        due_events = {key: self._events.pop(key) for key in due}
        self._event_due = {key: at for key, at in self._event_due.items() if at > now}
        self._event_due |= dict.fromkeys(due, now + _EVENT_INTERVAL_S)
        polls = now >= self._poll_due
        reloads = polls and self._must_reload
        if polls:
            self._poll_due, self._must_reload = now + POLL_S, False
        waiting, self._reservations = self._reservations, {}
        reservations = {key: required_s for key, (required_s, _) in waiting.items()}
        batch = _Batch(reservations, due_events, self.replicas, polls, reloads)
        reply: _ExchangeResult | None = None
        loop = asyncio.get_running_loop()
        start = time.monotonic()
        try:
            reply = await loop.run_in_executor(self._thread, self._send, batch)
        except (psycopg.Error, OSError) as error:
            self._set_available(available=False, why=type(error).__name__)
            await loop.run_in_executor(self._thread, self._disconnect)
        duration_s = time.monotonic() - start
        self._set_available(available=reply is not None and duration_s < RESERVE_TIMEOUT_S)
        if reply is None:
            self._must_reload |= batch.reloads
            for key, events in batch.events.items():
                self._events[key][:0] = events
                self._event_due[key] = time.monotonic() + _EVENT_INTERVAL_S
            reply = _ExchangeResult()
        else:
            self._duration_s = duration_s
        for key, (_, future) in waiting.items():
            if not future.done():
                future.set_result(reply.first_starts.get(key))
        for key, received in reply.states.items():
            now = time.monotonic()
            state = received.shifted(self._to_local(0.0))
            for transition in self._events.get(key, ()):  # which have not been sent yet
                state = transition(state, now)
            for prefix, on_state in self._receivers:
                if key.startswith(prefix):
                    on_state(key.removeprefix(prefix), state)

    def _set_available(self, *, available: bool, why: str = "it is slow") -> None:
        if available != self._is_available:
            if available:
                log.info("the pacing is shared with other processes again")
            else:
                log.warning(
                    "the database does not keep the pacing of hosts (%s): each of %d processes "
                    "keeps its share",
                    why,
                    self.replicas,
                )
        self._is_available = available

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _to_local(self, server_time: float) -> float:
        return server_time - self._clock.offset

    def _send(self, batch: _Batch) -> _ExchangeResult:
        """Exchange a batch; called on the thread."""
        connection = self._connection
        if connection is None:
            self._connection = connection = PacingConnection.connect(
                self._conninfo, row_factory=dict_row, **_CONNECTION
            )
            connection.limit_server()
            connection.execute(f"SET statement_timeout = '{_STATEMENT_S}s'")
            connection.execute(f"SET idle_in_transaction_session_timeout = '{_STATEMENT_S}s'")
            self._clock.synchronize(connection)
            self._polled_until = -inf
        if self._clock.is_due:
            self._clock.synchronize(connection)
        reply = _ExchangeResult()
        if batch.reservations:
            reply.first_starts = self._reserve(connection, batch)
        if batch.events:
            reply.states |= self._apply(connection, batch.events)
        if batch.polls:
            reply.states |= self._poll(connection, reloads=batch.reloads)
        return reply

    def _reserve(self, connection: PacingConnection, batch: _Batch) -> dict[str, float]:
        keys = list(batch.reservations)
        shortest_s, longest_s = _LEAD_S
        values = {
            "keys": keys,
            "intervals": [reserved_interval(batch.reservations[key]) for key in keys],
            "counts": [reserved_count(batch.reservations[key]) for key in keys],
            "replicas": batch.replicas,
            "reserved_s": RESERVED_S,
            "lead_s": min(longest_s, max(shortest_s, self._duration_s)),
        }
        rows = connection.execute(_STATEMENTS["reserve"], values).fetchall()
        return {row["key"]: row["first"] for row in rows}

    def _apply(self, connection: PacingConnection, events: Events) -> dict[str, PacingState]:
        states: dict[str, PacingState] = {}
        with connection.transaction():
            rows = connection.execute(_STATEMENTS["lock_states"], {"keys": list(events)})
            for row in rows.fetchall():
                state, now = _state(row), self._clock.now()
                for transition in events[row["key"]]:
                    state = transition(state, now)
                states[row["key"]] = state
            with connection.cursor() as cursor:
                values = [
                    {
                        "key": key,
                        "pause_s": state.pause_s,
                        "paused_until": state.paused_until,
                        "failures": state.circuit.failures,
                        "openings": state.circuit.openings,
                        "open_until": state.circuit.open_until,
                        "status": state.status,
                    }
                    for key, state in states.items()
                ]
                cursor.executemany(_STATEMENTS["write_state"], values)
        self._hold(states)
        return states

    def _poll(self, connection: PacingConnection, *, reloads: bool) -> dict[str, PacingState]:
        """Return the states that have changed, delete old rows, and detect a crash."""
        now = self._clock.now()
        epoch = _epoch(connection)
        if self._held and epoch > self._epoch:
            restored = {key: [partial(_latest, state)] for key, state in self._held.items()}
            self._apply(connection, restored)
        self._epoch = epoch
        values = {"since": -inf if reloads else self._polled_until - _OVERLAP_S}
        rows = connection.execute(_STATEMENTS["changed_states"], values).fetchall()
        self._polled_until = now
        if now >= self._delete_due:
            self._delete_due = now + _DELETE_INTERVAL_S * (1 + random.random())  # noqa: S311
            connection.execute(_STATEMENTS["delete_idle"], {"before": now - IDLE_S})
        states = {row["key"]: _state(row) for row in rows}
        self._hold(states)
        return states

    def _hold(self, states: Mapping[str, PacingState]) -> None:
        """Remember the states that hold requests back, in case the database loses them."""
        now = self._clock.now()
        held = {**self._held, **states}.items()
        self._held = {key: state for key, state in held if state.held_until > now}


def _epoch(connection: PacingConnection) -> float:
    """Return when the tables were emptied; write the present time if they have just been."""
    while True:
        for row in connection.execute(_STATEMENTS["epoch"]):
            return float(row["started_at"])
        connection.execute(_STATEMENTS["start_epoch"])


def _latest(held: PacingState, state: PacingState, _: float) -> PacingState:
    return held if held.held_until > state.held_until else state


def _state(row: DictRow) -> PacingState:
    circuit = Circuit(row["failures"], row["openings"], row["open_until"])
    return PacingState(row["pause_s"], row["paused_until"], circuit, row["status"])
