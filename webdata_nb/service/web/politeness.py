"""When a host may be asked again: pure decisions over one host's record, given the time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Final, Literal

Reason = Literal["spacing", "slowed", "asked", "broken"]


@dataclass(frozen=True, slots=True)
class Manners:
    """How much strain a host is spared; times in seconds.

    Attributes
    ----------
    first_pause_s, most_pause_s : float
        The pause after a first complaint, and the longest it doubles to.
    jitter : float
        The share of a pause that chance may add, so that processes do not return together.
    broken_after : int
        Failures in a row after which the host is left alone: four pages, each tried three times.
    first_rest_s, most_rest_s : float
        How long it is left alone before one request tries again, and the longest that doubles to.
    """

    first_pause_s: float = 0.25
    most_pause_s: float = 8.0
    jitter: float = 0.25
    broken_after: int = 12
    first_rest_s: float = 5.0
    most_rest_s: float = 60.0


@dataclass(frozen=True, slots=True)
class HostRecord:
    """What is remembered of one host; every time is on the caller's clock, in seconds."""

    last_start: float = -inf
    pause_s: float = 0.0
    quiet_until: float = -inf
    failures: int = 0
    rests: int = 0
    rest_until: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a request may start now.

    Attributes
    ----------
    wait_s : float
        Seconds to wait before asking again; 0 to start.
    reason : {"spacing", "slowed", "asked", "broken"}
        What the wait is for: the distance between requests that robots.txt asks for, the one that
        complaints and failures led to, the host's own wish after it was overloaded, or its
        failures.
    is_trial : bool
        The one request that tries a broken host: no other may start before it has ended.
    """

    wait_s: float = 0.0
    reason: Reason = "spacing"
    is_trial: bool = False


_REMEMBERED_S: Final = 300.0

GO: Final = Verdict()
FRESH: Final = HostRecord()


def judge(record: HostRecord, now: float, delay_s: float) -> Verdict:
    """Decide whether a request may start, `delay_s` being the least distance between two."""
    if record.rest_until is not None and now < record.rest_until:
        return Verdict(record.rest_until - now, "broken")
    if now < record.quiet_until:
        return Verdict(record.quiet_until - now, "asked")
    if now < record.last_start + delay_s:
        return Verdict(record.last_start + delay_s - now, "spacing")
    if now < record.last_start + record.pause_s:
        return Verdict(record.last_start + record.pause_s - now, "slowed")
    return GO if record.rest_until is None else Verdict(is_trial=True)


def started(record: HostRecord, now: float) -> HostRecord:
    """Note that a request starts."""
    return replace(record, last_start=now)


def rewarded(record: HostRecord, manners: Manners) -> HostRecord:
    """Note a good answer: the pause halves, the failures are forgotten."""
    if not record.failures and not record.pause_s:
        return record
    pause_s = record.pause_s / 2
    if pause_s < manners.first_pause_s / 2:
        pause_s = 0.0
    return replace(record, pause_s=pause_s, failures=0, rests=0, rest_until=None)


def penalised(
    record: HostRecord,
    now: float,
    retry_after_s: float | None,
    manners: Manners,
    chance: float,
) -> HostRecord:
    """Note a complaint (429, 503) or a failure.

    A host that says when to come back is alive, so this is no failure of it, and its requests are
    then kept no further apart than it said. Complaints that arrive while the host is already left
    alone answer requests sent before: they count once.

    Parameters
    ----------
    retry_after_s : float, optional
        What the host asked for, in seconds.
    chance : float
        From 0 to 1, for the jitter.
    """
    if now >= record.quiet_until:
        most_s = manners.most_pause_s if retry_after_s is None else retry_after_s
        pause_s = max(manners.first_pause_s, min(manners.most_pause_s, most_s, record.pause_s * 2))
        quiet_s = max(retry_after_s or 0.0, pause_s) * (1 + manners.jitter * chance)
        record = replace(record, pause_s=pause_s, quiet_until=now + quiet_s)
    if retry_after_s is not None:
        quiet_until = max(record.quiet_until, now + retry_after_s)
        return replace(record, quiet_until=quiet_until, failures=0, rests=0, rest_until=None)
    return _failed(record, now, manners)


def erred(record: HostRecord, now: float, manners: Manners) -> HostRecord:
    """Note a failure of one page, such as a 500 or a timeout: counted, but nobody waits for it."""
    return _failed(record, now, manners)


def gives_up(record: HostRecord, verdict: Verdict) -> bool:
    """Tell whether to fail rather than wait: the host failed its trial too, or had one before.

    The first rest is waited for, so that a short outage costs time and no rows.
    """
    return verdict.reason == "broken" and record.rests > 1


def is_idle(record: HostRecord, now: float) -> bool:
    """Tell a record too old to matter: the host is as good as unknown."""
    rest_until = -inf if record.rest_until is None else record.rest_until
    return now >= max(record.last_start, record.quiet_until, rest_until) + _REMEMBERED_S


def _failed(record: HostRecord, now: float, manners: Manners) -> HostRecord:
    failures = record.failures + 1
    is_resting = record.rest_until is not None and now < record.rest_until
    if failures < manners.broken_after or is_resting:
        return replace(record, failures=failures)
    rest_s = min(manners.most_rest_s, manners.first_rest_s * 2**record.rests)
    return replace(record, failures=failures, rests=record.rests + 1, rest_until=now + rest_s)
