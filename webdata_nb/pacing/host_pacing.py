"""Decides when the next request to a host may start, from the history of that host."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Final, Literal

from webdata_nb.pacing.circuit_breaker import CLOSED, BreakerPolicy, Circuit
from webdata_nb.pacing.retry_policies import HOST_SLOWDOWN, BackoffPolicy
from webdata_nb.pacing.shared_pacing import PacingState

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
