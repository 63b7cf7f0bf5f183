"""The retry decisions, as a table; no clock, no chance, no network."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.requirements import require
from webdata_nb.client import retry
from webdata_nb.client.retry import GiveUp, Trouble, Wait, decide, is_quota, retry_after

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
def test_what_is_sent_again(
    method: str, outcome: int | Trouble, headers: dict[str, str], idempotent: bool, again: bool
) -> None:
    verdict = decide(1, method, outcome, headers, NOW, idempotent=idempotent)
    assert isinstance(verdict, Wait) is again


def test_attempts_end() -> None:
    assert isinstance(decide(retry.ATTEMPTS - 1, "GET", 500, {}, NOW), Wait)
    assert isinstance(decide(retry.ATTEMPTS, "GET", 500, {}, NOW), GiveUp)
    assert isinstance(decide(retry.ATTEMPTS, "GET", 429, {"retry-after": "1"}, NOW), GiveUp)
    assert isinstance(decide(retry.GARBLED_ATTEMPTS, "GET", Trouble.GARBLED, {}, NOW), GiveUp)


def test_backoff_doubles_up_to_its_cap_and_jitter_only_shortens_it_by_half() -> None:
    longest = [retry._pause(n, None, 1.0) for n in range(1, 9)]
    assert longest == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    assert [retry._pause(n, None, 0.0) for n in range(1, 9)] == [each / 2 for each in longest]
    assert retry._pause(10_000, None, 1.0) == 8.0


@pytest.mark.parametrize("jitter", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("asked", [1, 7, 299, 300])
def test_never_earlier_than_asked_and_hardly_later(asked: int, jitter: float) -> None:
    verdict = decide(1, "GET", 429, {"retry-after": str(asked)}, NOW, jitter=jitter)
    assert isinstance(verdict, Wait)
    assert asked <= verdict.seconds <= asked + 1


def test_a_wait_of_nothing_still_takes_a_breath() -> None:
    verdict = decide(1, "POST", 429, {"retry-after": "0", **FULL}, NOW)
    assert isinstance(verdict, Wait)
    assert verdict.seconds >= 0.25


def test_too_long_a_wait_is_given_back_to_the_caller() -> None:
    assert isinstance(decide(1, "GET", 503, {"retry-after": "301"}, NOW), GiveUp)


def test_a_full_plan_queues_without_using_up_attempts() -> None:
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
def test_an_empty_account_is_told_from_a_full_plan(
    headers: dict[str, str], detail: str, quota: bool
) -> None:
    assert is_quota(headers, detail) is quota
    verdict = decide(1, "POST", 429, {"retry-after": "1", **headers}, NOW, detail=detail)
    assert isinstance(verdict, GiveUp) is quota


@pytest.mark.parametrize("headers", [{}, FULL, FREE])
@pytest.mark.parametrize("detail", ["", "credits used up", "concurrency limit reached"])
def test_the_services_own_code_decides(headers: dict[str, str], detail: str) -> None:
    told = {"retry-after": "1", **headers}

    def verdict(code: str, attempt: int = 1) -> Wait | GiveUp:
        return decide(attempt, "POST", 429, told, NOW, detail=detail, code=code)

    assert isinstance(verdict("quota"), GiveUp)
    assert verdict("concurrency", attempt=99) == Wait(1.0, queued=True)
    rate = verdict("rate")
    assert isinstance(rate, Wait)
    assert rate.queued is (headers == FULL)
    assert is_quota(headers, detail, "teapot") is is_quota(headers, detail)


def test_a_date_counts_from_the_services_own_clock() -> None:
    theirs = NOW + timedelta(hours=1)
    stamp = "%a, %d %b %Y %H:%M:%S GMT"
    headers = {
        "date": theirs.strftime(stamp),
        "retry-after": (theirs + timedelta(seconds=5)).strftime(stamp),
    }
    assert decide(1, "GET", 503, headers, NOW) == Wait(5.0)


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        ("120", 120),
        (" 7 ", 7),
        ("1.5", 2),
        ("Thu, 01 Jan 2026 00:02:00 GMT", 120),
        ("Thursday, 01-Jan-26 00:02:00 GMT", 120),
        ("Thu Jan  1 00:02:00 2026", 120),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        (None, None),
        ("", None),
        ("-1", None),
        ("+5", None),
        ("٣", None),
        ("nan", None),
        ("9" * 5000, None),
        ("Fri, 31 Dec 99999 23:59:59 GMT", None),
    ],
)
def test_retry_after(value: str | None, wait: float | None) -> None:
    assert retry_after(value, NOW) == wait


def test_retry_after_of_the_corpus() -> None:
    cases = json.loads((require("corpora") / "own/retry_after_cases.json").read_bytes())
    assert len(cases) == 30
    for case in cases:
        wait = retry_after(case["value"], datetime.fromisoformat(case["now"]))
        if case["wait"] == "cap":
            assert wait is not None
            assert wait > retry.LONGEST_WAIT_S
        else:
            assert wait == case["wait"], case["value"]
