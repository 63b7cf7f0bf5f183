"""How fast a job goes, and how long it will take: pure, over what was seen and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# A crawl's speed changes with the part of the site it is in: what was long ago says little.
WINDOW_S: Final = 30.0
_SOONEST_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Pace:
    """What was completed when, within the last 30 s; times are seconds of one clock."""

    seen: tuple[tuple[float, int], ...] = ()

    def after(self, at: float, completed: int) -> Pace:
        """Return the pace with one more look, at most one for each second."""
        kept = [look for look in self.seen if at - look[0] <= WINDOW_S]
        # The newest look from before the window still says where the window began.
        older = self.seen[: len(self.seen) - len(kept)][-1:]
        looks = (*older, *kept)
        if len(looks) > 1 and at - looks[-2][0] < _SOONEST_S:
            looks = looks[:-1]
        return Pace((*looks, (at, completed)))

    @property
    def rate(self) -> float | None:
        """Units per second; None as long as there is too little to go by."""
        if len(self.seen) < 2:  # noqa: PLR2004 - a difference takes two
            return None
        (began, before), (ended, now) = self.seen[0], self.seen[-1]
        if ended - began < _SOONEST_S or now <= before:
            return None
        return (now - before) / (ended - began)

    def remaining(self, completed: int, total: int | None) -> float | None:
        """Return the seconds until `total`, at this pace."""
        rate = self.rate
        if rate is None or total is None or total <= completed:
            return None
        return (total - completed) / rate
