"""Retry policies and the header Retry-After."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.requirements import require
from webdata_nb.pacing.retry_policies import (
    MAX_RETRY_AFTER_S,
    BackoffPolicy,
    parse_http_date,
    parse_retry_after,
)


def test_delay_grows_by_factor_up_to_maximum() -> None:
    policy = BackoffPolicy(0.25, 8.0)
    assert [policy.delay_s(n) for n in range(1, 9)] == [0.25, 0.5, 1, 2, 4, 8, 8, 8]
    assert [BackoffPolicy(10.0, 60.0, factor=6.0).delay_s(n) for n in (1, 2, 3)] == [10, 60, 60]


def test_delay_of_very_late_attempt_does_not_overflow() -> None:
    assert BackoffPolicy(0.25, 8.0).delay_s(100_000) == 8.0
    assert BackoffPolicy(0.25, inf).delay_s(100_000) < inf


def test_increased_delay_starts_at_first_delay() -> None:
    policy = BackoffPolicy(1.0, 5.0)
    assert [policy.increased(delay) for delay in (0.0, 1.0, 2.0, 4.0, 5.0)] == [1, 2, 4, 5, 5]


def test_last_attempt_has_no_next_delay() -> None:
    policy = BackoffPolicy(1.0, 5.0, max_attempts=3)
    assert [policy.next_delay_s(n) for n in (1, 2, 3, 4)] == [1, 2, None, None]
    assert policy.next_delay_s(3, retry_after_s=1.0) is None
    assert BackoffPolicy(1.0, 5.0).next_delay_s(1000) == 5.0


def test_retry_after_replaces_delay() -> None:
    policy = BackoffPolicy(1.0, 5.0)
    assert policy.next_delay_s(1, retry_after_s=33.0) == 33.0
    assert policy.next_delay_s(1, retry_after_s=0.0) == 0.0


@given(st.integers(1, 50), st.floats(0, 1))
def test_jitter_stays_in_range(attempt: int, random_fraction: float) -> None:
    policy = BackoffPolicy(0.5, 16.0, jitter=(0.5, 1.25))
    base = BackoffPolicy(0.5, 16.0).delay_s(attempt)
    assert 0.5 * base <= policy.delay_s(attempt, random_fraction) <= 1.25 * base


NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_corpus() -> None:
    cases = json.loads((require("corpora") / "own" / "retry_after_cases.json").read_text())
    assert len(cases) == 30
    for case in cases:
        expected = MAX_RETRY_AFTER_S if case["wait"] == "cap" else case["wait"]
        now = datetime.fromisoformat(case["now"])
        assert parse_retry_after(case["value"], now) == expected, case["value"][:80]
        unbounded = parse_retry_after(case["value"], now, max_s=math.inf)
        if case["wait"] == "cap":
            assert unbounded is not None
            assert unbounded > MAX_RETRY_AFTER_S
        else:
            assert unbounded == expected, case["value"][:80]


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        (None, None),
        ("", None),
        ("0", 0),
        (" 7 ", 7),
        ("1.2", 2),
        ("301", 300),
        ("9" * 18, 300),
        ("9" * 5000, None),
        ("-1", None),
        ("٣", None),
        ("nan", None),
        ("1e3", None),
        ("Thu, 01 Jan 2026 00:02:00 GMT", 120),
        ("Thursday, 01-Jan-26 00:02:00 GMT", 120),
        ("Thu Jan  1 00:02:00 2026", 120),
        ("Thu, 01 Jan 2026 01:02:00 +0100", 120),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 -2359", 300),
        ("Mon, 01 Jan 0001 00:00:00 +2359", 0),
        ("Fri, 31 Dec 99999 23:59:59 GMT", None),
        ("Thu, 99 Jan 2026 00:02:00 GMT", None),
    ],
)
def test_header_values(value: str | None, wait: float | None) -> None:
    assert parse_retry_after(value, NOW) == wait


@given(st.text() | st.from_regex(r"[A-Z][a-z]{2}, [0-9A-Za-z :+-]{10,40}"))
def test_any_text_gives_bounded_wait_or_none(value: str) -> None:
    wait = parse_retry_after(value, NOW)
    assert wait is None or 0 <= wait <= MAX_RETRY_AFTER_S


def test_http_date_has_a_time_zone() -> None:
    assert parse_http_date("Thu Jan  1 00:00:00 2026") == NOW
    assert parse_http_date("2026-01-01") is None
