"""How long a provider is left alone after it could not answer. Pure: `now` comes in.

A provider that limits or blocks us, or refuses the key, rests at once; one that is slow or broken
rests after its third failure in a row. Each further rest is twice as long, up to a bound, and one
good answer forgets it all. What a provider asks for itself (Retry-After) goes before our own
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from webdata_nb.service.search.providers.base import AttemptStatus

_REMEMBERED: Final = 1000


@dataclass(frozen=True, slots=True)
class Rest:
    """Seconds: of the first rest and of the longest; `after` failures in a row."""

    first_s: float
    longest_s: float
    after: int = 1


# Rate limits pass in minutes, a block for automation lasts longer; a refused key will be refused
# again, but the same key may have been topped up.
RESTS: Final[Mapping[AttemptStatus, Rest]] = MappingProxyType(
    {
        "rate_limited": Rest(60, 3600),
        "blocked": Rest(180, 3600),
        "auth": Rest(600, 3600),
        "timeout": Rest(30, 600, after=3),
        "error": Rest(30, 600, after=3),
    }
)


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of one provider with one key; times are of one monotonic clock, in seconds."""

    failures: int = 0
    rests: int = 0
    until: float = 0.0
    status: AttemptStatus = "ok"

    def resting_s(self, now: float) -> float:
        """Seconds for which it is still left alone; 0 when it may be asked."""
        return max(0.0, self.until - now)


FRESH: Final = Record()


def noted(record: Record, status: AttemptStatus, now: float, wait_s: float | None = None) -> Record:
    """Return the record after one attempt."""
    if status in {"ok", "empty"}:
        return FRESH
    rest = RESTS[status]
    if record.resting_s(now) > 0:
        # The answer to a request that was on its way when the rest began: it counts once.
        until = now + min(wait_s or 0.0, rest.longest_s)
        return replace(record, until=max(record.until, until))
    failures = record.failures + 1
    if failures < rest.after:
        return replace(record, failures=failures, status=status)
    if wait_s is None:
        wait_s = min(rest.longest_s, rest.first_s * 2**record.rests)
    until = now + min(wait_s, rest.longest_s)
    return Record(failures, min(record.rests + 1, 16), until, status)


class Breakers:
    """The records of a process, by `Provider.identity`."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}

    def of(self, identity: str) -> Record:
        """Return what is known of a provider."""
        return self._records.get(identity, FRESH)

    def note(
        self, identity: str, status: AttemptStatus, now: float, wait_s: float | None = None
    ) -> None:
        """Remember what an attempt came to."""
        record = noted(self.of(identity), status, now, wait_s)
        self._records.pop(identity, None)
        if record != FRESH:
            self._records[identity] = record
        while len(self._records) > _REMEMBERED:
            del self._records[next(iter(self._records))]
