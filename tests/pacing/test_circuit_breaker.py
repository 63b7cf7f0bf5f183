from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from webdata_nb.pacing.host_pacing import CLOSED, BreakerPolicy, Circuit

POLICY = BreakerPolicy(10.0, 40.0, threshold=3)
AT_ONCE = BreakerPolicy(10.0, 40.0)


def test_circuit_opens_at_threshold() -> None:
    circuit = CLOSED.after_failure(POLICY, 0.0).after_failure(POLICY, 1.0)
    assert (circuit.failures, circuit.remaining_s(1.0)) == (2, 0.0)
    assert circuit.after_failure(POLICY, 2.0) == Circuit(3, 1, 12.0)


def test_circuit_is_half_open_after_open_period() -> None:
    circuit = CLOSED.after_failure(AT_ONCE, 0.0)
    assert circuit.remaining_s(4.0) == 6.0
    assert [circuit.is_half_open(now) for now in (9.0, 10.0, 11.0)] == [False, True, True]
    assert not CLOSED.is_half_open(100.0)


def test_open_period_doubles_up_to_maximum() -> None:
    circuit, now, periods = CLOSED, 0.0, []
    for _ in range(4):
        circuit = circuit.after_failure(AT_ONCE, now)
        periods.append(circuit.remaining_s(now))
        now += periods[-1]
    assert periods == [10.0, 20.0, 40.0, 40.0]


def test_failure_under_way_when_circuit_opened_does_not_count() -> None:
    circuit = CLOSED.after_failure(AT_ONCE, 0.0)
    assert circuit.after_failure(AT_ONCE, 1.0) == circuit
    prolonged = circuit.after_failure(AT_ONCE, 1.0, retry_after_s=30.0)
    assert (prolonged.failures, prolonged.open_until) == (1, 31.0)


def test_retry_after_replaces_open_period_up_to_maximum() -> None:
    assert CLOSED.after_failure(AT_ONCE, 0.0, retry_after_s=2.0).open_until == 2.0
    assert CLOSED.after_failure(AT_ONCE, 0.0, retry_after_s=1e9).open_until == 40.0


@given(st.lists(st.tuples(st.floats(0, 100), st.none() | st.floats(0, 1e6)), max_size=40))
def test_circuit_never_stays_open_longer_than_maximum(
    failures: list[tuple[float, float | None]],
) -> None:
    circuit, now = CLOSED, 0.0
    for passed_s, retry_after_s in failures:
        now += passed_s
        circuit = circuit.after_failure(POLICY, now, retry_after_s=retry_after_s)
        assert 0 <= circuit.remaining_s(now) <= 40.001
