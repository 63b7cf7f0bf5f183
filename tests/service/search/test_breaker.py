"""Circuit breakers of search providers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webdata_nb.service.search.breaker import HEALTHY, POLICIES, ProviderBreakers, ProviderState
from webdata_nb.service.search.providers.api import AttemptStatus

FAILURES: list[AttemptStatus] = ["rate_limited", "blocked", "auth", "timeout", "error"]


@pytest.mark.parametrize("status", ["rate_limited", "blocked", "auth"])
def test_refusal_opens_circuit_at_once(status: AttemptStatus) -> None:
    record = HEALTHY.after(status, 100.0)
    assert record.circuit.remaining_s(100.0) == POLICIES[status].first_open_s
    assert record.circuit.is_half_open(100.0 + POLICIES[status].first_open_s)


@pytest.mark.parametrize("status", ["timeout", "error"])
def test_third_fault_in_a_row_opens_circuit(status: AttemptStatus) -> None:
    record = HEALTHY.after(status, 1.0).after(status, 2.0)
    assert record.circuit.remaining_s(2.0) == 0
    assert record.after(status, 3.0).circuit.remaining_s(3.0) == POLICIES[status].first_open_s
    assert record.after("ok", 3.0).after(status, 4.0).circuit.remaining_s(4.0) == 0


def test_open_period_doubles_up_to_maximum_and_success_resets() -> None:
    record, now, opened_s = HEALTHY, 0.0, []
    for _ in range(10):
        record = record.after("rate_limited", now)
        opened_s.append(record.circuit.remaining_s(now))
        now += opened_s[-1]
    assert opened_s[:3] == [60, 120, 240]
    assert opened_s[-1] == POLICIES["rate_limited"].longest_open_s
    assert record.after("empty", now) == HEALTHY


def test_retry_after_replaces_open_period_up_to_maximum() -> None:
    assert HEALTHY.after("rate_limited", 0.0, retry_after_s=2).circuit.remaining_s(0.0) == 2
    assert HEALTHY.after("rate_limited", 0.0, retry_after_s=1e9).circuit.remaining_s(0.0) == 3600


@given(
    st.lists(
        st.tuples(st.sampled_from([*FAILURES, "ok", "empty"]), st.floats(0, 5000)), max_size=40
    )
)
def test_every_open_period_ends(steps: list[tuple[AttemptStatus, float]]) -> None:
    record, now = HEALTHY, 0.0
    for status, passed in steps:
        now += passed
        record = record.after(status, now)
        assert 0 <= record.circuit.remaining_s(now) <= 3600.001
        assert isinstance(record, ProviderState)


def test_refusals_of_concurrent_requests_count_once() -> None:
    once = HEALTHY.after("rate_limited", 0.0)
    assert once.after("rate_limited", 1.0) == once
    assert once.after("rate_limited", 1.0, retry_after_s=600).circuit.remaining_s(1.0) == 600


def test_states_are_separate_by_identity_and_bounded() -> None:
    breakers = ProviderBreakers()
    breakers.record("brave#1", "auth", 0.0)
    assert breakers.state("brave#1").circuit.remaining_s(0.0) > 0
    assert breakers.state("brave#2") == HEALTHY
    for number in range(2000):
        breakers.record(f"other#{number}", "auth", 0.0)
    assert breakers.state("brave#1") == HEALTHY
    assert breakers.state("other#1999").circuit.remaining_s(0.0) > 0
