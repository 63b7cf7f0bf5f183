"""How long a provider is left alone after it could not answer. Pure: `now` comes in.

A provider that limits or blocks us, or refuses the key, rests at once, for everybody; one that is
slow or broken rests after its third failure in a row. The queries of one account may cause those:
the rest is that account's alone until the searches of another fail too. Each further rest is twice
as long, up to a bound, and one good answer forgets it all. What a provider asks for itself
(Retry-After) goes before our own numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, TypeVar

from webdata_nb.service.search.providers.base import AttemptStatus

_REMEMBERED: Final = 1000
_FAULTS: Final[frozenset[AttemptStatus]] = frozenset({"timeout", "error"})
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


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
    """The records of a process, by `Provider.identity`, for all accounts and for each."""

    def __init__(self) -> None:
        self._shared: dict[str, Record] = {}
        self._own: dict[tuple[str, str], Record] = {}
        # The account all of whose searches made the failures in a row, while there is but one.
        self._culprits: dict[str, str | None] = {}

    def of(self, identity: str, account_id: str = "", now: float = 0.0) -> Record:
        """Return what keeps an account from a provider the longest."""
        shared = self._shared.get(identity, FRESH)
        own = self._own.get((identity, account_id), FRESH)
        return own if own.resting_s(now) > shared.resting_s(now) else shared

    def note(
        self,
        identity: str,
        status: AttemptStatus,
        now: float,
        wait_s: float | None = None,
        *,
        account_id: str = "",
    ) -> None:
        """Remember what an attempt of an account came to."""
        own = self._own.get((identity, account_id), FRESH)
        shared = self._shared.get(identity, FRESH)
        if status in _FAULTS:
            _put(self._own, (identity, account_id), noted(own, status, now, wait_s))
            alone = self._culprits.get(identity, account_id) == account_id
            _put(self._culprits, identity, account_id if alone else None)
            counted = replace(shared, failures=shared.failures + 1, status=status)
            _put(self._shared, identity, counted if alone else noted(shared, status, now, wait_s))
            return
        record = noted(shared, status, now, wait_s)
        if record == FRESH:
            self._own.pop((identity, account_id), None)
            self._shared.pop(identity, None)
        else:
            _put(self._shared, identity, record)
        self._culprits.pop(identity, None)


def _put(records: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    """Remember a value as the newest, and forget the oldest beyond the bound."""
    records.pop(key, None)
    records[key] = value
    while len(records) > _REMEMBERED:
        del records[next(iter(records))]
