from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from webdata_nb.pacing.host_pacing import (
    CLOSED,
    START_NOW,
    BreakerPolicy,
    Circuit,
    HostHistory,
    HostPolicy,
    StartDecision,
    is_queue_too_long,
)
from webdata_nb.pacing.retry_policies import BackoffPolicy

POLICY = HostPolicy(
    slowdown=BackoffPolicy(1.0, 8.0, jitter=(1.0, 1.5)),
    breaker=BreakerPolicy(10.0, 40.0, threshold=3),
)
NEW = HostHistory()


def overload(
    history: HostHistory,
    now: float,
    retry_after_s: float | None = None,
    random_fraction: float = 0.0,
) -> HostHistory:
    return history.after_overload(now, retry_after_s, POLICY, random_fraction)


def failed_host(now: float) -> HostHistory:
    history = NEW
    for _ in range(POLICY.breaker.threshold):
        history = overload(history, now)
    return history


def test_request_to_new_host_starts_at_once() -> None:
    assert NEW.decide(0.0, 0.0) == NEW.decide(0.0, 5.0) == START_NOW


def test_requests_keep_delay() -> None:
    history = NEW.after_start(100.0)
    assert history.decide(101.0, 5.0) == StartDecision(4.0, "spacing")
    assert history.decide(105.0, 5.0) == START_NOW
    assert history.decide(100.0, 0.0) == START_NOW


def test_pause_doubles_with_overload_and_halves_with_success() -> None:
    history, now, pauses = NEW, 0.0, []
    for _ in range(5):
        history = overload(history, now)
        pauses.append(history.pause_s)
        now = history.paused_until
    assert pauses == [1.0, 2.0, 4.0, 8.0, 8.0]
    assert overload(NEW, 0.0).decide(0.25, 0.0) == StartDecision(0.75, "retry_after")
    pauses = []
    for _ in range(5):
        history = history.after_success(POLICY)
        pauses.append(history.pause_s)
    assert pauses == [4.0, 2.0, 1.0, 0.5, 0.0]


def test_overload_replies_of_one_burst_count_once() -> None:
    history = overload(overload(NEW, 0.0), 0.0)
    assert (history.pause_s, history.paused_until) == (1.0, 1.0)


def test_jitter_lengthens_pause() -> None:
    assert overload(NEW, 0.0, random_fraction=1.0).paused_until == 1.5
    assert overload(NEW, 0.0, 20.0, random_fraction=1.0).paused_until == 30.0


def test_host_with_retry_after_is_paused_until_then() -> None:
    history = overload(NEW, 0.0, 20.0)
    assert history.decide(19.0, 0.0) == StartDecision(1.0, "retry_after")
    assert history.decide(20.0, 0.0) == START_NOW
    longer = overload(history, 5.0, 60.0)
    assert longer.paused_until == 65.0
    assert overload(longer, 6.0, 1.0).paused_until == 65.0


def test_retry_after_is_not_a_failure() -> None:
    history = failed_host(0.0)
    assert history.circuit.open_until == 10.0
    assert overload(history, 10.0, 2.0).circuit == CLOSED


def test_consecutive_failures_open_circuit() -> None:
    history = overload(overload(NEW, 0.0), 0.0)
    assert history.circuit.open_until is None
    history = overload(history.after_success(POLICY), 5.0)
    assert history.circuit == Circuit(failures=1)
    assert failed_host(0.0).decide(4.0, 0.0) == StartDecision(6.0, "circuit_open")


def test_page_failures_do_not_slow_down_host() -> None:
    history = NEW.after_failure(0.0, POLICY)
    assert (history.pause_s, history.decide(0.0, 0.0)) == (0.0, START_NOW)
    assert history.circuit.failures == 1


def test_one_trial_decides_on_failed_host() -> None:
    history = failed_host(0.0)
    assert history.decide(10.0, 0.0) == StartDecision(is_trial=True)
    again = overload(history, 11.0)
    assert again.circuit.open_until == 31.0
    assert overload(again, 31.0).circuit.open_until == 71.0
    assert overload(overload(again, 31.0), 71.0).circuit.open_until == 111.0
    assert again.after_success(POLICY).circuit == CLOSED


def test_requests_wait_for_first_open_period_only() -> None:
    history = failed_host(0.0)
    assert not history.must_give_up(history.decide(1.0, 0.0))
    again = overload(history, 11.0)
    assert again.must_give_up(again.decide(12.0, 0.0))


def test_failures_of_requests_sent_before_circuit_opened_do_not_prolong_it() -> None:
    history = failed_host(0.0)
    assert overload(history, 1.0).circuit.open_until == history.circuit.open_until


def test_old_history_is_idle() -> None:
    assert NEW.is_idle(0.0)
    for history in (
        NEW.after_start(0.0),
        HostHistory(paused_until=0.0),
        HostHistory(circuit=Circuit(open_until=0.0)),
    ):
        assert not history.is_idle(299.0)
        assert history.is_idle(300.0)


def test_queue_of_more_than_an_hour_is_too_long() -> None:
    assert not is_queue_too_long(120, 30.0)
    assert is_queue_too_long(121, 30.0)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["start", "overload", "retry_after", "success"]),
        st.floats(0, 100),
        st.floats(0, 300),
    ),
    max_size=60,
)


@given(EVENTS)
def test_every_wait_ends(events: list[tuple[str, float, float]]) -> None:
    history, now = NEW, 0.0
    for kind, passed_s, seconds in events:
        now += passed_s
        if kind == "start":
            decision = history.decide(now, seconds)
            assert 0 <= decision.wait_s <= max(300 * 1.5, seconds)
            if decision.wait_s == 0:
                history = history.after_start(now)
        elif kind == "success":
            history = history.after_success(POLICY)
        else:
            history = overload(history, now, seconds if kind == "retry_after" else None, 1.0)
        assert 0 <= history.pause_s <= POLICY.slowdown.max_delay_s
    assert history.decide(now + 1000, 300.0).wait_s == 0


@given(st.floats(0, 300), st.floats(0, 300), st.floats(0, 1))
def test_no_request_starts_before_retry_after(
    retry_after_s: float, elapsed_s: float, random_fraction: float
) -> None:
    history = overload(NEW, 0.0, retry_after_s, random_fraction)
    if elapsed_s < retry_after_s:
        assert history.decide(elapsed_s, 0.0).wait_s >= retry_after_s - elapsed_s
