"""Defines back-off policies: how often to retry an operation, and after which delays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# A larger exponent could overflow a float; every policy has reached its longest delay by then.
_MAX_EXPONENT: Final = 60


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    """Delays that grow by a constant factor from attempt to attempt.

    Attributes
    ----------
    first_delay_s, max_delay_s : float
        Seconds before the second attempt, and the upper bound of every delay.
    factor : float
        Growth of the delay from one attempt to the next.
    max_attempts : int, optional
        Attempts in all, the first included; None for no limit.
    jitter : tuple of float
        Smallest and largest factor by which a random number changes a delay.

    Examples
    --------
    >>> policy = BackoffPolicy(0.5, 4.0, max_attempts=5)
    >>> [policy.delay_s(attempt) for attempt in range(1, 6)]
    [0.5, 1.0, 2.0, 4.0, 4.0]
    >>> policy.next_delay_s(5) is None
    True
    """

    first_delay_s: float
    max_delay_s: float
    factor: float = 2.0
    max_attempts: int | None = None
    jitter: tuple[float, float] = (1.0, 1.0)

    def delay_s(self, attempt: int, random_fraction: float = 0.0) -> float:
        """Return the seconds to wait after an attempt, counted from 1.

        `random_fraction` is a random number from 0 to 1 that selects the jitter.
        """
        exponent = min(attempt - 1, _MAX_EXPONENT)
        delay_s = min(self.max_delay_s, self.first_delay_s * self.factor**exponent)
        return self.jittered(delay_s, random_fraction)

    def next_delay_s(
        self, attempt: int, *, retry_after_s: float | None = None, random_fraction: float = 0.0
    ) -> float | None:
        """Return the seconds to wait after an attempt, or None after the last attempt.

        The delay that a server asks for (`retry_after_s`) replaces the policy's own.
        """
        if self.max_attempts is not None and attempt >= self.max_attempts:
            return None
        return self.delay_s(attempt, random_fraction) if retry_after_s is None else retry_after_s

    def increased(self, delay_s: float) -> float:
        """Return the delay that follows `delay_s`, before jitter."""
        return max(self.first_delay_s, min(self.max_delay_s, delay_s * self.factor))

    def jittered(self, delay_s: float, random_fraction: float) -> float:
        """Return a delay changed by the policy's jitter."""
        smallest, largest = self.jitter
        return delay_s * (smallest + (largest - smallest) * random_fraction)
