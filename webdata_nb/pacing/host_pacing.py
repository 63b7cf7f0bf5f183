"""Decides when the next request to a host may start, from the history of that host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import floor, inf
from typing import Final, Literal, Protocol, TypeAlias

from webdata_nb.pacing.retry_policies import HOST_SLOWDOWN, BackoffPolicy, growing_delay_s

# Limits: what a server allows, and an adaptive concurrency


@dataclass(frozen=True, slots=True)
class RateLimitPolicy:
    """What a server allows: concurrent requests, and seconds between the starts of two."""

    max_concurrent: int = 16
    interval_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ConcurrencyWindow:
    """Number of concurrent requests that a server takes, learnt from its replies.

    A refusal closes the window for a while and narrows it to one request; each success widens it
    by one, up to `max_size`. So a hundred queued requests do not all retry when one slot is free.
    """

    max_size: int
    size: int
    opens_at: float = 0.0

    def remaining_s(self, now: float) -> float:
        """Return the seconds until the window opens; 0 when it is open."""
        return max(0.0, self.opens_at - now)

    def closed_for(self, seconds: float, now: float) -> ConcurrencyWindow:
        """Return the window after a refusal that asks to wait."""
        return replace(self, size=1, opens_at=max(self.opens_at, now + seconds))

    def widened(self) -> ConcurrencyWindow:
        """Return the window after a successful request."""
        return replace(self, size=min(self.max_size, self.size + 1))


# Circuit breaker of a server that fails


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """When a circuit opens, and for how long.

    Attributes
    ----------
    first_open_s, longest_open_s : float
        Seconds for which the circuit stays open the first time, and at most; they double each time.
    threshold : int
        Consecutive failures that open the circuit.
    """

    first_open_s: float
    longest_open_s: float
    threshold: int = 1


@dataclass(frozen=True, slots=True)
class Circuit:
    """State of one circuit breaker; times are in seconds on the caller's clock.

    Attributes
    ----------
    failures : int
        Consecutive failures; those of requests that were under way when it opened do not count.
    openings : int
        How often it has opened since the last success.
    open_until : float, optional
        When the current or last open period ends; None while the circuit is closed.
    """

    failures: int = 0
    openings: int = 0
    open_until: float | None = None

    def remaining_s(self, now: float) -> float:
        """Return the seconds until requests are allowed again; 0 when they are."""
        return 0.0 if self.open_until is None else max(0.0, self.open_until - now)

    def is_half_open(self, now: float) -> bool:
        """Return whether an open period has ended and no request has succeeded since."""
        return self.open_until is not None and now >= self.open_until

    def after_failure(
        self, policy: BreakerPolicy, now: float, *, retry_after_s: float | None = None
    ) -> Circuit:
        """Return the state after a failed request.

        Parameters
        ----------
        policy : BreakerPolicy
            The policy for this kind of failure.
        now : float
            The present time.
        retry_after_s : float, optional
            Seconds for which the server asks its clients to wait. They replace the policy's
            open period, up to its upper bound.
        """
        longest_s = policy.longest_open_s
        if self.remaining_s(now) > 0:
            # The request was under way when the circuit opened. It can only prolong the period.
            until = now + min(retry_after_s or 0.0, longest_s)
            return replace(self, open_until=max(self.open_until or until, until))
        failures = self.failures + 1
        if failures < policy.threshold:
            return replace(self, failures=failures)
        if retry_after_s is None:
            retry_after_s = growing_delay_s(self.openings + 1, policy.first_open_s, longest_s)
        return Circuit(failures, self.openings + 1, now + min(retry_after_s, longest_s))


CLOSED: Final = Circuit()


# Rate limits that the processes of one service share
#
# Keys name what has a rate: ``host:`` and ``provider:`` with a name behind. Times at the interface
# are those of the process's monotonic clock.


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


WaitReason = Literal["spacing", "slowed", "retry_after", "circuit_open", "unreserved"]

MAX_WAIT_S: Final = 30.0
"""Default of the longest wait for a host that asked for a pause or has failed."""
QUEUE_LIMIT_S: Final = 60.0
"""Seconds in a host's queue beyond its spacing, for pauses and outages of the requests ahead."""
MAX_QUEUE_S: Final = 3600.0
"""Longest queue that a request joins: a dozen jobs at one host with the longest crawl delay."""
_HISTORY_S: Final = 300.0
BREAKER: Final = BreakerPolicy(5.0, 60.0, threshold=12)


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """How requests to one host react to overload and failures.

    Attributes
    ----------
    slowdown : BackoffPolicy
        The pause after an overload reply.
    breaker : BreakerPolicy
        The default of 12 failures are four pages with three attempts each.
    """

    slowdown: BackoffPolicy = HOST_SLOWDOWN
    breaker: BreakerPolicy = BREAKER


@dataclass(frozen=True, slots=True)
class StartDecision:
    """Whether a request may start now.

    Attributes
    ----------
    wait_s : float
        Seconds to wait before the next attempt; 0 to start.
    reason : {"spacing", "slowed", "retry_after", "circuit_open", "unreserved"}
        Why to wait: the crawl-delay of robots.txt, the interval after overload replies
        and failures, a pause after an overload reply, the host's failures, or that start times
        have to be reserved first.
    is_trial : bool
        Whether this is the one request that tests a failed host: no other may start before it
        has ended.
    """

    wait_s: float = 0.0
    reason: WaitReason = "spacing"
    is_trial: bool = False


START_NOW: Final = StartDecision()
UNRESERVED: Final = StartDecision(inf, "unreserved")


@dataclass(frozen=True, slots=True)
class HostHistory:
    """What is known of one host; times are in seconds on the caller's clock.

    Attributes
    ----------
    last_start : float
        When the last request started.
    pause_s : float
        Seconds between the starts of two requests, learnt from overload replies.
    paused_until : float
        End of the pause after an overload reply.
    circuit : Circuit
        The host's circuit breaker.
    """

    last_start: float = -inf
    pause_s: float = 0.0
    paused_until: float = -inf
    circuit: Circuit = CLOSED

    def decide(self, now: float, delay_s: float) -> StartDecision:
        """Decide whether a request may start, with at least `delay_s` between two starts."""
        decision = self.decide_unspaced(now)
        if decision.wait_s > 0:
            return decision
        if now < self.last_start + delay_s:
            return StartDecision(self.last_start + delay_s - now, "spacing")
        if now < self.last_start + self.pause_s:
            return StartDecision(self.last_start + self.pause_s - now, "slowed")
        return decision

    def decide_unspaced(self, now: float) -> StartDecision:
        """Decide by the requested pause and the circuit alone."""
        if (open_s := self.circuit.remaining_s(now)) > 0:
            return StartDecision(open_s, "circuit_open")
        if now < self.paused_until:
            return StartDecision(self.paused_until - now, "retry_after")
        return StartDecision(is_trial=True) if self.circuit.is_half_open(now) else START_NOW

    @property
    def state(self) -> PacingState:
        """What other processes need to know."""
        return PacingState(self.pause_s, self.paused_until, self.circuit)

    def with_state(self, state: PacingState) -> HostHistory:
        """Return the history with what all processes know together."""
        return replace(
            self, pause_s=state.pause_s, paused_until=state.paused_until, circuit=state.circuit
        )

    def must_give_up(self, decision: StartDecision) -> bool:
        """Return whether to fail rather than wait: the host has failed after an open period.

        Requests wait for the end of the first open period, so that a short outage costs time and
        no rows.
        """
        return decision.reason == "circuit_open" and self.circuit.openings > 1

    def after_start(self, now: float) -> HostHistory:
        """Return the history after the start of a request."""
        return replace(self, last_start=now)

    def after_success(self, policy: HostPolicy) -> HostHistory:
        """Return the history after a success: the pause halves, failures are forgotten."""
        if not self.circuit.failures and not self.pause_s:
            return self
        pause_s = self.pause_s / 2
        if pause_s < policy.slowdown.first_delay_s / 2:
            pause_s = 0.0
        return replace(self, pause_s=pause_s, circuit=CLOSED)

    def after_failure(self, now: float, policy: HostPolicy) -> HostHistory:
        """Return the history after a failure of one page, which slows down no other page."""
        return replace(self, circuit=self.circuit.after_failure(policy.breaker, now))

    def after_overload(
        self, now: float, retry_after_s: float | None, policy: HostPolicy, random_fraction: float
    ) -> HostHistory:
        """Return the history after an overload reply (429, 503) or a broken connection.

        A host that sends Retry-After is alive, so this is not a failure, and the interval between
        requests is at most the requested one. Overload replies that arrive during a pause answer
        requests sent before it: they count once.

        Parameters
        ----------
        now : float
            The present time.
        retry_after_s : float, optional
            Seconds for which the host asks its clients to wait.
        policy : HostPolicy
            The pauses and the circuit breaker.
        random_fraction : float
            A random number from 0 to 1, for the jitter.
        """
        history = self
        if now >= self.paused_until:
            slowdown = policy.slowdown
            longest_s = inf if retry_after_s is None else retry_after_s
            pause_s = max(slowdown.first_delay_s, min(longest_s, slowdown.increased(self.pause_s)))
            length_s = slowdown.jittered(max(retry_after_s or 0.0, pause_s), random_fraction)
            history = replace(self, pause_s=pause_s, paused_until=now + length_s)
        if retry_after_s is None:
            return history.after_failure(now, policy)
        paused_until = max(history.paused_until, now + retry_after_s)
        return replace(history, paused_until=paused_until, circuit=CLOSED)

    def is_idle(self, now: float) -> bool:
        """Return whether the history is too old to matter."""
        open_until = -inf if self.circuit.open_until is None else self.circuit.open_until
        return now >= max(self.last_start, self.paused_until, open_until) + _HISTORY_S


def queue_limit_s(requests_ahead: int, spacing_s: float, max_wait_s: float = MAX_WAIT_S) -> float:
    """Return the longest time that a request waits in a host's queue.

    Parameters
    ----------
    requests_ahead : int
        Requests in the queue when it arrived.
    spacing_s : float
        Seconds between the starts of two requests.
    max_wait_s : float
        Seconds for which each of them waits for a host that asks for a pause.

    Examples
    --------
    >>> queue_limit_s(0, 0.0), queue_limit_s(9, 10.0)
    (60.0, 260.0)
    """
    return max(QUEUE_LIMIT_S, max_wait_s) + 2 * (requests_ahead + 1) * spacing_s


def is_queue_too_long(requests_ahead: int, delay_s: float) -> bool:
    """Return whether a request should fail instead of joining a host's queue."""
    return requests_ahead * delay_s > MAX_QUEUE_S
