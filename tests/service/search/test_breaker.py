"""How long a provider is left alone, and turns at one that counts requests."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webdata_nb.service.search.breaker import FRESH, RESTS, Breakers, Record, noted
from webdata_nb.service.search.providers.base import AttemptStatus
from webdata_nb.service.search.rate_limit import Pace

FAILURES: list[AttemptStatus] = ["rate_limited", "blocked", "auth", "timeout", "error"]


@pytest.mark.parametrize("status", ["rate_limited", "blocked", "auth"])
def test_a_refusal_rests_at_once(status: AttemptStatus) -> None:
    record = noted(FRESH, status, 100.0)
    assert record.resting_s(100.0) == RESTS[status].first_s
    assert record.resting_s(record.until) == 0


@pytest.mark.parametrize("status", ["timeout", "error"])
def test_a_fault_rests_after_the_third_in_a_row(status: AttemptStatus) -> None:
    record = noted(noted(FRESH, status, 1.0), status, 2.0)
    assert record.resting_s(2.0) == 0
    assert noted(record, status, 3.0).resting_s(3.0) == RESTS[status].first_s
    assert noted(noted(record, "ok", 3.0), status, 4.0).resting_s(4.0) == 0


def test_each_rest_is_twice_as_long_up_to_a_bound_and_a_good_answer_forgets() -> None:
    record, now, rests = FRESH, 0.0, []
    for _ in range(10):
        record = noted(record, "rate_limited", now)
        rests.append(record.resting_s(now))
        now = record.until
    assert rests[:3] == [60, 120, 240]
    assert rests[-1] == RESTS["rate_limited"].longest_s
    assert noted(record, "empty", now) == FRESH


def test_what_the_provider_asks_for_goes_first_within_the_bound() -> None:
    assert noted(FRESH, "rate_limited", 0.0, wait_s=2).resting_s(0.0) == 2
    assert noted(FRESH, "rate_limited", 0.0, wait_s=1e9).resting_s(0.0) == 3600


@given(
    st.lists(
        st.tuples(st.sampled_from([*FAILURES, "ok", "empty"]), st.floats(0, 5000)), max_size=40
    )
)
def test_nobody_rests_for_ever(steps: list[tuple[AttemptStatus, float]]) -> None:
    record, now = FRESH, 0.0
    for status, passed in steps:
        now += passed
        record = noted(record, status, now)
        assert 0 <= record.resting_s(now) <= 3600.001
        assert isinstance(record, Record)


def test_refusals_of_requests_on_their_way_count_once() -> None:
    once = noted(FRESH, "rate_limited", 0.0)
    assert noted(once, "rate_limited", 1.0) == once
    assert noted(once, "rate_limited", 1.0, wait_s=600).resting_s(1.0) == 600


def test_records_are_apart_by_identity_and_bounded() -> None:
    breakers = Breakers()
    breakers.note("brave#1", "auth", 0.0)
    assert breakers.of("brave#1").resting_s(0.0) > 0
    assert breakers.of("brave#2") == FRESH
    for number in range(2000):
        breakers.note(f"other#{number}", "auth", 0.0)
    assert breakers.of("brave#1") == FRESH
    assert breakers.of("other#1999").resting_s(0.0) > 0


@given(st.lists(st.floats(0, 10), min_size=1, max_size=30), st.floats(0.1, 5))
def test_turns_are_never_closer_than_the_interval(gaps: list[float], interval_s: float) -> None:
    pace, now, starts = Pace(interval_s), 0.0, []
    for gap in gaps:
        now += gap
        wait_s, pace = pace.turn(now, patience_s=1e9)
        assert wait_s is not None
        starts.append(now + wait_s)
    assert all(b - a >= interval_s - 1e-6 for a, b in itertools.pairwise(starts))


def test_a_turn_that_is_too_far_off_is_not_taken() -> None:
    _, pace = Pace(10.0).turn(0.0, patience_s=5)
    assert pace.turn(0.0, patience_s=5) == (None, pace)
    assert pace.told(0.0).turn(5.0, patience_s=5)[0] == 5
