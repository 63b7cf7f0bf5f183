"""Limits requests: what a server allows, and an adaptive concurrency."""

from __future__ import annotations

from dataclasses import dataclass, replace


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
