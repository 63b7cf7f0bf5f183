"""Decides when to stop sending requests to a server that fails, and when to try it again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from webdata_nb.pacing.retry_policies import growing_delay_s


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
