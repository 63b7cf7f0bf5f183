"""Shares the rate limit of a host or a provider between the processes of one service.

Keys name what has a rate: ``host:`` and ``provider:`` with a name behind. Times at the interface
are those of the process's monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import floor, inf
from typing import Final, Protocol, TypeAlias

from webdata_nb.pacing.circuit_breaker import CLOSED, Circuit

HOST: Final = "host:"
PROVIDER: Final = "provider:"
RESERVED_S: Final = 1.0
"""A process reserves the starts of one second, and at least one start."""
SHORTEST_INTERVAL_S: Final = 0.001
"""Starts that may be closer to each other are not reserved."""
# By this much a process may be late without coming too close to the next process's start.
_MAX_TOLERANCE_S: Final = 0.1
_TOLERANCE_SHARE: Final = 0.05


@dataclass(frozen=True, slots=True)
class StartReservation:
    """Start times that one process holds: `count` of them, at an interval from `first` on.

    The interval exceeds the required one by a tolerance, so that a start may be late by as much
    and keeps the required distance to the first start of another process.

    Attributes
    ----------
    first : float
        The first start time.
    required_s : float
        Seconds that two starts have to be apart.
    count : int
        How many starts are reserved.

    Examples
    --------
    >>> reservation = StartReservation(10.0, 1.0, count=2)
    >>> reservation.next_start(0.0, last_start=5.0)
    10.0
    >>> reservation.next_start(10.5, last_start=10.0)
    11.05
    >>> reservation.next_start(11.2, last_start=10.0) is None
    True
    """

    first: float
    required_s: float
    count: int = 1

    def next_start(self, now: float, last_start: float) -> float | None:
        """Return the earliest start that is left, or None.

        A late start moves the later ones, and the last one is lost if it would be too late.
        """
        tolerance_s, interval_s = tolerance(self.required_s), reserved_interval(self.required_s)
        slot = self.first
        if last_start > self.first - tolerance_s:
            used = floor((last_start - self.first + tolerance_s) / interval_s) + 1
            slot += used * interval_s
        start = max(now, slot, last_start + self.required_s)
        last_slot = self.first + (self.count - 1) * interval_s
        return start if start <= last_slot + tolerance_s else None


def tolerance(required_s: float) -> float:
    """Return the seconds by which a reserved start may be late."""
    return min(_MAX_TOLERANCE_S, _TOLERANCE_SHARE * required_s)


def reserved_interval(required_s: float) -> float:
    """Return the seconds between two reserved starts."""
    return required_s + tolerance(required_s)


def reserved_count(required_s: float) -> int:
    """Return how many starts a process reserves at a time.

    Examples
    --------
    >>> reserved_count(0.2), reserved_count(30.0)
    (4, 1)
    """
    return max(1, floor(RESERVED_S / reserved_interval(required_s)))


@dataclass(frozen=True, slots=True)
class PacingState:
    """What the processes know together of a host or a provider; times are on one clock.

    Attributes
    ----------
    pause_s : float
        Seconds between the starts of two requests, learnt from overload replies.
    paused_until : float
        End of a requested pause.
    circuit : Circuit
        The circuit breaker.
    status : str
        Why the circuit of a provider is open.
    """

    pause_s: float = 0.0
    paused_until: float = -inf
    circuit: Circuit = CLOSED
    status: str = ""

    @property
    def held_until(self) -> float:
        """The end of the pause and of the circuit's open period; minus infinity for neither."""
        open_until = self.circuit.open_until
        return max(self.paused_until, -inf if open_until is None else open_until)

    def shifted(self, offset_s: float) -> PacingState:
        """Return the state on a clock that is ahead by `offset_s`."""
        open_until = self.circuit.open_until
        if open_until is not None:
            open_until += offset_s
        circuit = replace(self.circuit, open_until=open_until)
        return replace(self, paused_until=self.paused_until + offset_s, circuit=circuit)

    def is_prolonged(self, before: PacingState) -> bool:
        """Return whether other processes must soon learn of the change from `before`."""
        return self.held_until > before.held_until + RESERVED_S / 2


UNKNOWN: Final = PacingState()

Transition: TypeAlias = Callable[[PacingState, float], PacingState]
"""From the state before an event and the present time, both on one clock, to the state after it."""
OnState: TypeAlias = Callable[[str, PacingState], None]
"""Receives the name behind a key's prefix, and the state of the key."""


class SharedPacing(Protocol):
    """Reserves start times, and exchanges states with the other processes of a service."""

    @property
    def is_shared(self) -> bool:
        """Whether other processes may send requests to the same hosts and providers."""

    @property
    def replicas(self) -> int:
        """How many processes there are, by the last count."""

    async def reserve(self, key: str, required_s: float) -> StartReservation | None:
        """Reserve the next free starts of a key, `required_s` apart.

        Returns
        -------
        StartReservation or None
            None if the others cannot be reached within a second: the caller then keeps
            `required_s` times `replicas` between its own starts.
        """

    def update(self, key: str, transition: Transition, *, urgent: bool = False) -> None:
        """Apply an event to the state that all processes share, without waiting for it.

        The caller has applied the event to its own copy. Others receive an urgent event within a
        second. A transition may be called several times.
        """

    def subscribe(self, prefix: str, on_state: OnState) -> None:
        """Call `on_state` on the event loop when the state of a key with this prefix changes."""


@dataclass(frozen=True, slots=True)
class InProcessPacing(SharedPacing):
    """A `SharedPacing` for a service of one process, which shares nothing."""

    is_shared: bool = field(default=False, init=False)
    replicas: int = field(default=1, init=False)

    async def reserve(self, key: str, required_s: float) -> StartReservation | None:  # noqa: ARG002
        """Return None: the process keeps its own starts apart."""
        return None

    def update(self, key: str, transition: Transition, *, urgent: bool = False) -> None:
        """Do nothing."""

    def subscribe(self, prefix: str, on_state: OnState) -> None:
        """Do nothing."""


IN_PROCESS: Final = InProcessPacing()
