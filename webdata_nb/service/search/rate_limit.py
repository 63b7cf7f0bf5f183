"""Turns at a provider that allows so many requests a second. Pure: `now` comes in."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between two requests, and from when on the next one may start."""

    interval_s: float
    next_at: float = 0.0

    def turn(self, now: float, patience_s: float) -> tuple[float | None, Pace]:
        """Return the seconds to wait for one's turn, and the pace with that turn taken.

        None where the turn would come later than `patience_s`; nothing is taken then.
        """
        at = max(now, self.next_at)
        if at - now > patience_s:
            return None, self
        return at - now, replace(self, next_at=at + self.interval_s)

    def told(self, interval_s: float) -> Pace:
        """Return the pace with the interval that the provider itself named."""
        return replace(self, interval_s=interval_s)
