from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from webdata_nb.pacing.retry_policies import BackoffPolicy


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
