"""Estimates the rate of a job and its remaining time from samples of its progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# The speed of a crawl changes with the part of the site, so older samples are ignored.
WINDOW_S: Final = 30.0
_SAMPLE_INTERVAL_S: Final = 1.0
# An estimate needs this many seconds and units, and a total that changed by at most this share: a
# crawl that still finds pages does not know how many there are.
_ESTIMATE_S: Final = 5.0
_ESTIMATE_UNITS: Final = 5
_TOTAL_CHANGE: Final = 0.1


@dataclass(frozen=True, slots=True)
class ProgressSample:
    """The progress at a time in seconds: completed units, and their total if known."""

    at: float
    completed: int
    total: int | None = None


@dataclass(frozen=True, slots=True)
class ProgressRate:
    """Samples of the last 30 s."""

    samples: tuple[ProgressSample, ...] = ()

    def with_sample(self, at: float, completed: int, total: int | None = None) -> ProgressRate:
        """Return the rate with one more sample; at most one per second is kept."""
        recent = [sample for sample in self.samples if at - sample.at <= WINDOW_S]
        # The newest sample before the window marks its beginning.
        older = self.samples[: len(self.samples) - len(recent)][-1:]
        samples = (*older, *recent)
        if len(samples) > 1 and at - samples[-2].at < _SAMPLE_INTERVAL_S:
            samples = samples[:-1]
        return ProgressRate((*samples, ProgressSample(at, completed, total)))

    @property
    def rate(self) -> float | None:
        """Units per second, or None while there are too few samples."""
        if len(self.samples) < 2:  # noqa: PLR2004 - a difference takes two
            return None
        first, last = self.samples[0], self.samples[-1]
        if last.at - first.at < _SAMPLE_INTERVAL_S or last.completed <= first.completed:
            return None
        return (last.completed - first.completed) / (last.at - first.at)

    def remaining(self) -> float | None:
        """Return the seconds until the total at this rate; None while an estimate means nothing."""
        rate, last = self.rate, self.samples[-1] if self.samples else None
        if rate is None or last is None or last.total is None or last.total <= last.completed:
            return None
        return (last.total - last.completed) / rate if self._is_steady(last) else None

    def _is_steady(self, last: ProgressSample) -> bool:
        """Return whether the total has been known and stable for long enough."""
        earlier = [each for each in self.samples if last.at - each.at >= _ESTIMATE_S]
        if not earlier or last.completed - self.samples[0].completed < _ESTIMATE_UNITS:
            return False
        before, total = earlier[-1].total, last.total
        return bool(before and total and abs(total - before) <= _TOTAL_CHANGE * total)
