"""Retry decisions of the API client."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from webdata_nb.toolkit.client.retry import (
    FailureKind,
    NoRetry,
    RetryDelay,
    decide_retry,
    is_quota_exhausted,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FULL = {"x-concurrency-limit": "4", "x-concurrency-active": "4"}
FREE = {"x-concurrency-limit": "4", "x-concurrency-active": "1"}


@pytest.mark.parametrize(
    ("method", "outcome", "headers", "idempotent", "again"),
    [
        ("GET", FailureKind.UNSENT, {}, False, True),
        ("POST", FailureKind.UNSENT, {}, False, True),
        ("GET", FailureKind.LOST, {}, False, True),
        ("POST", FailureKind.LOST, {}, False, False),
        ("POST", FailureKind.LOST, {}, True, True),
        ("GET", FailureKind.INVALID, {}, False, True),
        ("POST", FailureKind.INVALID, {}, False, False),
        ("GET", 500, {}, False, True),
        ("GET", 502, {}, False, True),
        ("GET", 503, {}, False, True),
        ("GET", 504, {}, False, True),
        ("GET", 408, {}, False, True),
        ("POST", 500, {}, False, False),
        ("POST", 500, {}, True, True),
        ("POST", 503, {}, False, False),
        ("POST", 503, {"retry-after": "1"}, False, True),
        ("POST", 429, {"retry-after": "1"}, False, True),
        ("POST", 429, {}, False, True),
        ("GET", 400, {}, False, False),
        ("GET", 401, {}, False, False),
        ("GET", 404, {}, False, False),
        ("GET", 410, {}, False, False),
        ("GET", 422, {}, False, False),
        ("GET", 501, {}, False, False),
        ("GET", 302, {}, False, False),
    ],
)
def test_which_failures_are_retried(
    method: str, outcome: int | FailureKind, headers: dict[str, str], idempotent: bool, again: bool
) -> None:
    decision = decide_retry(1, method, outcome, headers, NOW, idempotent=idempotent)
    assert isinstance(decision, RetryDelay) is again


def test_number_of_attempts_is_limited() -> None:
    assert isinstance(decide_retry(4, "GET", 500, {}, NOW), RetryDelay)
    assert isinstance(decide_retry(5, "GET", 500, {}, NOW), NoRetry)
    assert isinstance(decide_retry(5, "GET", 429, {"retry-after": "1"}, NOW), NoRetry)
    assert isinstance(decide_retry(3, "GET", FailureKind.INVALID, {}, NOW), NoRetry)


@pytest.mark.parametrize("attempt", [1, 2, 3, 4])
def test_backoff_doubles_and_jitter_shortens_it_by_up_to_half(attempt: int) -> None:
    longest = 0.25 * 2 ** (attempt - 1)
    assert decide_retry(attempt, "GET", 500, {}, NOW, jitter=1.0) == RetryDelay(longest)
    assert decide_retry(attempt, "GET", 500, {}, NOW, jitter=0.0) == RetryDelay(longest / 2)


@pytest.mark.parametrize("jitter", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("after_s", [1, 7, 299, 300])
def test_wait_is_at_least_retry_after_and_at_most_a_second_longer(
    after_s: int, jitter: float
) -> None:
    decision = decide_retry(1, "GET", 429, {"retry-after": str(after_s)}, NOW, jitter=jitter)
    assert isinstance(decision, RetryDelay)
    assert after_s <= decision.seconds <= after_s + 1


def test_retry_after_zero_still_waits() -> None:
    decision = decide_retry(1, "POST", 429, {"retry-after": "0", **FULL}, NOW)
    assert isinstance(decision, RetryDelay)
    assert decision.seconds >= 0.25


def test_retry_after_beyond_limit_gives_up() -> None:
    assert isinstance(decide_retry(1, "GET", 503, {"retry-after": "301"}, NOW), NoRetry)


def test_concurrency_limit_queues_without_counting_attempts() -> None:
    for attempt in (1, 5, 500):
        decision = decide_retry(attempt, "POST", 429, {"retry-after": "3", **FULL}, NOW)
        assert decision == RetryDelay(3.0, queued=True)
    assert decide_retry(1, "POST", 429, FULL, NOW) == RetryDelay(2.0, queued=True)


@pytest.mark.parametrize(
    ("headers", "detail", "quota"),
    [
        (FULL, "concurrency limit reached: 4 of 4 active", False),
        (FULL, "", False),
        (FULL, "credits used up", True),
        (FREE, "", True),
        (FREE, "credits used up", True),
        (FREE, "concurrency limit reached", False),
        ({}, "monthly quota reached", True),
        ({}, "too many requests", False),
        ({"x-concurrency-limit": "many"}, "", False),
    ],
)
def test_used_up_credits_differ_from_concurrency_limit(
    headers: dict[str, str], detail: str, quota: bool
) -> None:
    assert is_quota_exhausted(headers, detail) is quota
    decision = decide_retry(1, "POST", 429, {"retry-after": "1", **headers}, NOW, detail=detail)
    assert isinstance(decision, NoRetry) is quota


@pytest.mark.parametrize("headers", [{}, FULL, FREE])
@pytest.mark.parametrize("detail", ["", "credits used up", "concurrency limit reached"])
def test_error_code_decides_over_message(headers: dict[str, str], detail: str) -> None:
    all_headers = {"retry-after": "1", **headers}

    def decision(code: str, attempt: int = 1) -> RetryDelay | NoRetry:
        return decide_retry(attempt, "POST", 429, all_headers, NOW, detail=detail, code=code)

    assert isinstance(decision("quota"), NoRetry)
    assert decision("concurrency", attempt=99) == RetryDelay(1.0, queued=True)
    rate = decision("rate")
    assert isinstance(rate, RetryDelay)
    assert rate.queued is (headers == FULL)
    assert is_quota_exhausted(headers, detail, "teapot") is is_quota_exhausted(headers, detail)


def test_retry_after_date_counts_from_date_header() -> None:
    theirs = NOW + timedelta(hours=1)
    stamp = "%a, %d %b %Y %H:%M:%S GMT"
    headers = {
        "date": theirs.strftime(stamp),
        "retry-after": (theirs + timedelta(seconds=5)).strftime(stamp),
    }
    assert decide_retry(1, "GET", 503, headers, NOW) == RetryDelay(5.0)
