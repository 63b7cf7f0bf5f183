"""Retry policy of API requests: whether and when to send one again. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from http import HTTPStatus
from typing import Final

from webdata_nb.contract.error_messages import REFUSED
from webdata_nb.pacing.retry_policies import (
    CLIENT_REQUEST,
    MAX_RETRY_AFTER_S,
    UNREADABLE_REPLY,
    parse_http_date,
    parse_retry_after,
)

LIMIT_CODES: Final = frozenset({"concurrency", "quota", "rate"})
_CONCURRENCY_WAIT_S: Final = 2.0

# Sending one of these twice changes nothing (RFC 9110, 9.2.2).
_IDEMPOTENT: Final = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS"})
_TRANSIENT: Final = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
_CREDITS: Final = re.compile(r"\b(quota|credits?|billing|balance)\b", re.IGNORECASE)
_CONCURRENCY: Final = re.compile(r"concurren|active jobs?|simultaneous", re.IGNORECASE)


class FailureKind(StrEnum):
    """Why a request has no usable reply."""

    UNSENT = "unsent"  # no connection: the service never saw the request
    LOST = "lost"  # sent, and the reply did not arrive whole: the service may have acted
    INVALID = "garbled"  # a reply that is not JSON, such as a truncated body


@dataclass(frozen=True, slots=True)
class RetryDelay:
    """Send the request again after `seconds`. If `queued`, the attempt does not count."""

    seconds: float
    queued: bool = False


@dataclass(frozen=True, slots=True)
class NoRetry:
    """Do not send the request again; `reason` says why, unless a retry could never help."""

    reason: str = ""


def decide_retry(
    attempt: int,
    method: str,
    outcome: int | FailureKind,
    headers: Mapping[str, str],
    now: datetime,
    *,
    idempotent: bool = False,
    detail: str = "",
    code: str | None = None,
    jitter: float = 0.0,
) -> RetryDelay | NoRetry:
    """Decide whether and when to repeat a failed attempt.

    Parameters
    ----------
    attempt : int
        Number of attempts so far, from 1.
    method : str
        The HTTP method, in capitals.
    outcome : int or FailureKind
        The error status, or why there is no reply.
    headers : Mapping[str, str]
        The reply's headers, names in lower case; empty if there is no reply.
    now : datetime
        The current time, with a time zone.
    idempotent : bool
        Whether it is safe to repeat this request although its method is not idempotent: it has
        an Idempotency-Key that the service honours, or it starts nothing.
    detail : str
        The service's error message, which may name used-up credits or a concurrency limit.
    code : str, optional
        The service's code for the limit of a 429 (`concurrency`, `quota` or `rate`). If given,
        headers and message are ignored. `refused` of a 502: the source of ads would refuse again.
    jitter : float
        A random number in [0, 1) that spreads retries over time, never before `Retry-After`.

    Returns
    -------
    RetryDelay or NoRetry
        The delay is in seconds, at most 300.
    """
    after_s = retry_after_s(headers, now)
    if after_s is not None and after_s > MAX_RETRY_AFTER_S:
        return NoRetry(f"it asks to wait {after_s:.0f} s")
    policy = UNREADABLE_REPLY if outcome is FailureKind.INVALID else CLIENT_REQUEST
    if outcome == HTTPStatus.TOO_MANY_REQUESTS:
        if is_quota_exhausted(headers, detail, code):
            return NoRetry("the credits are used up")
        if code == "concurrency" or is_at_concurrency_limit(headers):
            wait_s = _CONCURRENCY_WAIT_S if after_s is None else after_s
            return RetryDelay(_add_jitter(wait_s, jitter), queued=True)
    else:
        is_safe = idempotent or method in _IDEMPOTENT
        # A 503 with Retry-After was refused before any work began.
        is_unstarted = outcome is FailureKind.UNSENT or (
            outcome == HTTPStatus.SERVICE_UNAVAILABLE and after_s is not None
        )
        is_transient = isinstance(outcome, FailureKind) or outcome in _TRANSIENT
        if code == REFUSED or not (is_unstarted or (is_safe and is_transient)):
            return NoRetry()
    delay_s = policy.next_delay_s(attempt, random_fraction=jitter)
    if delay_s is None:
        return NoRetry(f"{attempt} attempts")
    return RetryDelay(delay_s if after_s is None else _add_jitter(after_s, jitter))


def _add_jitter(after_s: float, jitter: float) -> float:
    """Return `after_s` seconds plus up to one second of jitter."""
    # "Retry-After: 0" must not become a loop without a pause.
    return max(after_s, CLIENT_REQUEST.first_delay_s) + min(1.0, 0.1 * after_s) * jitter


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds for which a reply asks to wait.

    A date counts from the service's own clock (`Date`), in case ours is wrong.
    """
    service_time = parse_http_date(headers.get("date", "")) or now
    return parse_retry_after(headers.get("retry-after"), service_time, max_s=math.inf)


def concurrency_limits(headers: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Return the plan's limit and the active count that a reply states."""
    return _parse_count(headers, "x-concurrency-limit"), _parse_count(
        headers, "x-concurrency-active"
    )


def _parse_count(headers: Mapping[str, str], name: str) -> int | None:
    text = headers.get(name, "").strip()
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def is_at_concurrency_limit(headers: Mapping[str, str]) -> bool:
    """Return whether all concurrent jobs of the plan are in use."""
    limit, active = concurrency_limits(headers)
    return limit is not None and (active is None or active >= limit)


def is_quota_exhausted(headers: Mapping[str, str], detail: str, code: str | None = None) -> bool:
    """Return whether a 429 means that the credits are used up, so that a retry is useless.

    The service's `code` decides if it is known; older services send none. Any 429 may carry the
    concurrency headers, so a message about concurrency decides first, then one about credits;
    without either, free slots mean that the plan's concurrency is not the reason.
    """
    if code in LIMIT_CODES:
        return code == "quota"
    if _CONCURRENCY.search(detail):
        return False
    limit, active = concurrency_limits(headers)
    has_free_slots = limit is not None and active is not None and active < limit
    return has_free_slots or _CREDITS.search(detail) is not None
