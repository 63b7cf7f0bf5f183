"""Estimates the rate of a job and its remaining time from samples of its progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# The speed of a crawl changes with the part of the site, so older samples are ignored.
WINDOW_S: Final = 30.0
_SAMPLE_INTERVAL_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class ProgressRate:
    """Samples of the last 30 s: times in seconds, and the number of completed units."""

    samples: tuple[tuple[float, int], ...] = ()

    def with_sample(self, at: float, completed: int) -> ProgressRate:
        """Return the rate with one more sample; at most one per second is kept."""
        recent = [sample for sample in self.samples if at - sample[0] <= WINDOW_S]
        # The newest sample before the window marks its beginning.
        older = self.samples[: len(self.samples) - len(recent)][-1:]
        samples = (*older, *recent)
        if len(samples) > 1 and at - samples[-2][0] < _SAMPLE_INTERVAL_S:
            samples = samples[:-1]
        return ProgressRate((*samples, (at, completed)))

    @property
    def rate(self) -> float | None:
        """Units per second, or None while there are too few samples."""
        if len(self.samples) < 2:  # noqa: PLR2004 - a difference takes two
            return None
        (began, before), (ended, now) = self.samples[0], self.samples[-1]
        if ended - began < _SAMPLE_INTERVAL_S or now <= before:
            return None
        return (now - before) / (ended - began)

    def remaining(self, completed: int, total: int | None) -> float | None:
        """Return the seconds until `total` at this rate."""
        rate = self.rate
        if rate is None or total is None or total <= completed:
            return None
        return (total - completed) / rate
