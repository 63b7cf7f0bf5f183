"""Retry decisions of the API client."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from webdata_nb.client.retry import GiveUp, Trouble, Wait, decide, is_quota

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FULL = {"x-concurrency-limit": "4", "x-concurrency-active": "4"}
FREE = {"x-concurrency-limit": "4", "x-concurrency-active": "1"}


@pytest.mark.parametrize(
    ("method", "outcome", "headers", "idempotent", "again"),
    [
        ("GET", Trouble.UNSENT, {}, False, True),
        ("POST", Trouble.UNSENT, {}, False, True),
        ("GET", Trouble.LOST, {}, False, True),
        ("POST", Trouble.LOST, {}, False, False),
        ("POST", Trouble.LOST, {}, True, True),
        ("GET", Trouble.GARBLED, {}, False, True),
        ("POST", Trouble.GARBLED, {}, False, False),
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
    method: str, outcome: int | Trouble, headers: dict[str, str], idempotent: bool, again: bool
) -> None:
    verdict = decide(1, method, outcome, headers, NOW, idempotent=idempotent)
    assert isinstance(verdict, Wait) is again


def test_number_of_attempts_is_limited() -> None:
    assert isinstance(decide(4, "GET", 500, {}, NOW), Wait)
    assert isinstance(decide(5, "GET", 500, {}, NOW), GiveUp)
    assert isinstance(decide(5, "GET", 429, {"retry-after": "1"}, NOW), GiveUp)
    assert isinstance(decide(3, "GET", Trouble.GARBLED, {}, NOW), GiveUp)


@pytest.mark.parametrize("attempt", [1, 2, 3, 4])
def test_backoff_doubles_and_jitter_shortens_it_by_up_to_half(attempt: int) -> None:
    longest = 0.25 * 2 ** (attempt - 1)
    assert decide(attempt, "GET", 500, {}, NOW, jitter=1.0) == Wait(longest)
    assert decide(attempt, "GET", 500, {}, NOW, jitter=0.0) == Wait(longest / 2)


@pytest.mark.parametrize("jitter", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("after_s", [1, 7, 299, 300])
def test_wait_is_at_least_retry_after_and_at_most_a_second_longer(
    after_s: int, jitter: float
) -> None:
    verdict = decide(1, "GET", 429, {"retry-after": str(after_s)}, NOW, jitter=jitter)
    assert isinstance(verdict, Wait)
    assert after_s <= verdict.seconds <= after_s + 1


def test_retry_after_zero_still_waits() -> None:
    verdict = decide(1, "POST", 429, {"retry-after": "0", **FULL}, NOW)
    assert isinstance(verdict, Wait)
    assert verdict.seconds >= 0.25


def test_retry_after_beyond_limit_gives_up() -> None:
    assert isinstance(decide(1, "GET", 503, {"retry-after": "301"}, NOW), GiveUp)


def test_concurrency_limit_queues_without_counting_attempts() -> None:
    for attempt in (1, 5, 500):
        verdict = decide(attempt, "POST", 429, {"retry-after": "3", **FULL}, NOW)
        assert verdict == Wait(3.0, queued=True)
    assert decide(1, "POST", 429, FULL, NOW) == Wait(2.0, queued=True)


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
    assert is_quota(headers, detail) is quota
    verdict = decide(1, "POST", 429, {"retry-after": "1", **headers}, NOW, detail=detail)
    assert isinstance(verdict, GiveUp) is quota


@pytest.mark.parametrize("headers", [{}, FULL, FREE])
@pytest.mark.parametrize("detail", ["", "credits used up", "concurrency limit reached"])
def test_error_code_decides_over_message(headers: dict[str, str], detail: str) -> None:
    all_headers = {"retry-after": "1", **headers}

    def verdict(code: str, attempt: int = 1) -> Wait | GiveUp:
        return decide(attempt, "POST", 429, all_headers, NOW, detail=detail, code=code)

    assert isinstance(verdict("quota"), GiveUp)
    assert verdict("concurrency", attempt=99) == Wait(1.0, queued=True)
    rate = verdict("rate")
    assert isinstance(rate, Wait)
    assert rate.queued is (headers == FULL)
    assert is_quota(headers, detail, "teapot") is is_quota(headers, detail)


def test_retry_after_date_counts_from_date_header() -> None:
    theirs = NOW + timedelta(hours=1)
    stamp = "%a, %d %b %Y %H:%M:%S GMT"
    headers = {
        "date": theirs.strftime(stamp),
        "retry-after": (theirs + timedelta(seconds=5)).strftime(stamp),
    }
    assert decide(1, "GET", 503, headers, NOW) == Wait(5.0)
