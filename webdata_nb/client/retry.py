"""Whether to send a request again, and when: pure decisions; `now` and `jitter` are arguments."""

from __future__ import annotations

import email.utils
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from http import HTTPStatus
from typing import Final

ATTEMPTS: Final = 5
GARBLED_ATTEMPTS: Final = 3
LONGEST_WAIT_S: Final = 300.0
LIMIT_CODES: Final = frozenset({"concurrency", "quota", "rate"})
_FIRST_BACKOFF_S: Final = 0.25
_LONGEST_BACKOFF_S: Final = 8.0
_QUEUE_S: Final = 2.0

# Sending one of these twice changes nothing (RFC 9110, 9.2.2).
_IDEMPOTENT: Final = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS"})
_PASSING: Final = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
_SECONDS: Final = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?")
_CREDITS: Final = re.compile(r"\b(quota|credits?|billing|balance)\b", re.IGNORECASE)
_PLAN_CAP: Final = re.compile(r"concurren|active jobs?|simultaneous", re.IGNORECASE)


class Trouble(StrEnum):
    """Why there is no usable reply."""

    UNSENT = "unsent"  # no connection: the service never saw the request
    LOST = "lost"  # sent, and the answer did not arrive whole: the service may have acted
    GARBLED = "garbled"  # an answer that is no JSON, such as a body cut short


@dataclass(frozen=True, slots=True)
class Wait:
    """Send it again after `seconds`. `queued`: the plan is full, which uses up no attempt."""

    seconds: float
    queued: bool = False


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Do not send it again; `why` says it in a few words."""

    why: str


def decide(
    attempt: int,
    method: str,
    outcome: int | Trouble,
    headers: Mapping[str, str],
    now: datetime,
    *,
    idempotent: bool = False,
    detail: str = "",
    code: str | None = None,
    jitter: float = 0.0,
) -> Wait | GiveUp:
    """Decide what follows on a failed attempt.

    Parameters
    ----------
    attempt : int
        How many times the request was sent, from 1.
    method : str
        The HTTP method, in capitals.
    outcome : int or Trouble
        The error status, or why there is no reply.
    headers : Mapping[str, str]
        The reply's headers, names in lower case; empty where there is no reply.
    now : datetime
        The present time, aware.
    idempotent : bool
        Whether this request may be sent twice although its method may not, because it carries
        an Idempotency-Key that the service honours, or starts nothing.
    detail : str
        The service's own words, which may tell an empty account from a full plan.
    code : str, optional
        The service's word for the limit of a 429 (`concurrency`, `quota` or `rate`), where it
        has one; then neither headers nor words are looked at.
    jitter : float
        From 0 to below 1; spreads callers over time, never to before `Retry-After`.

    Returns
    -------
    Wait or GiveUp
        Waits are in seconds, at most 300.
    """
    asked = retry_after(headers.get("retry-after"), _service_clock(headers, now))
    if asked is not None and asked > LONGEST_WAIT_S:
        return GiveUp(f"it asks to wait {asked:.0f} s")
    if outcome == HTTPStatus.TOO_MANY_REQUESTS:
        return _on_full(attempt, headers, asked, detail, code=code, jitter=jitter)
    if not _worth_another_try(outcome, asked, safe=idempotent or method in _IDEMPOTENT):
        return GiveUp("another try would not help, or could act twice")
    if attempt >= (GARBLED_ATTEMPTS if outcome is Trouble.GARBLED else ATTEMPTS):
        return GiveUp(f"{attempt} attempts")
    return Wait(_pause(attempt, asked, jitter))


def _on_full(
    attempt: int,
    headers: Mapping[str, str],
    asked: float | None,
    detail: str,
    *,
    code: str | None,
    jitter: float,
) -> Wait | GiveUp:
    """Queue on a full plan, give up on an empty account, slow down on anything else."""
    if is_quota(headers, detail, code):
        return GiveUp("the credits are used up")
    if code == "concurrency" or is_full(headers):
        return Wait(_pause(attempt, _QUEUE_S if asked is None else asked, jitter), queued=True)
    if attempt >= ATTEMPTS:
        return GiveUp(f"{attempt} attempts")
    return Wait(_pause(attempt, asked, jitter))


def _worth_another_try(outcome: int | Trouble, asked: float | None, *, safe: bool) -> bool:
    if isinstance(outcome, Trouble):
        return outcome is Trouble.UNSENT or safe
    # A 503 that names a time was refused before any work began.
    refused = outcome == HTTPStatus.SERVICE_UNAVAILABLE and asked is not None
    return refused or (safe and outcome in _PASSING)


def _pause(attempt: int, asked: float | None, jitter: float) -> float:
    if asked is not None:
        # "Retry-After: 0" must not become a loop without a breath.
        return max(asked, _FIRST_BACKOFF_S) + min(1.0, 0.1 * asked) * jitter
    longest = min(_LONGEST_BACKOFF_S, _FIRST_BACKOFF_S * 2.0 ** min(attempt - 1, 10))
    return longest * (0.5 + 0.5 * jitter)


def concurrency(headers: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Return the plan's limit and the active count that a reply states."""
    return _count(headers, "x-concurrency-limit"), _count(headers, "x-concurrency-active")


def _count(headers: Mapping[str, str], name: str) -> int | None:
    text = headers.get(name, "").strip()
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def is_full(headers: Mapping[str, str]) -> bool:
    """Whether the plan's concurrency is used up: a slot will come free."""
    limit, active = concurrency(headers)
    return limit is not None and (active is None or active >= limit)


def is_quota(headers: Mapping[str, str], detail: str, code: str | None = None) -> bool:
    """Whether a 429 means an empty account, which no short wait refills.

    The service's `code` says so where it sends one that is known; older services send none.
    Every 429 may carry the concurrency headers, so words that name the concurrency decide
    first, then words that name credits; without either, free slots mean that it is not the plan.
    """
    if code in LIMIT_CODES:
        return code == "quota"
    if _PLAN_CAP.search(detail):
        return False
    limit, active = concurrency(headers)
    free = limit is not None and active is not None and active < limit
    return free or _CREDITS.search(detail) is not None


def retry_after(value: str | None, now: datetime) -> float | None:
    """Read a `Retry-After` header.

    Parameters
    ----------
    value : str or None
        Seconds, whole or with a fraction, or an HTTP-date in any of its three forms.
    now : datetime
        The present time, aware.

    Returns
    -------
    float or None
        Whole seconds from now, rounded up, 0 for a date in the past; None for anything that is
        not a valid value.
    """
    text = (value or "").strip()
    if not text.isascii():
        return None
    if _SECONDS.fullmatch(text):
        return float(math.ceil(float(text)))
    date = _http_date(text)
    return None if date is None else float(max(0, math.ceil((date - now).total_seconds())))


def _http_date(text: str) -> datetime | None:
    try:
        date = email.utils.parsedate_to_datetime(text)
        # A date without a zone is UTC, and one far in the future overflows only when compared.
        return date.replace(tzinfo=UTC) if date.tzinfo is None else date.astimezone(UTC)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _service_clock(headers: Mapping[str, str], now: datetime) -> datetime:
    """Return the service's own time: an HTTP-date counts from there, however wrong our clock."""
    return _http_date(headers.get("date", "")) or now
