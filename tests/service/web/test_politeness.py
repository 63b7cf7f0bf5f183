from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from webdata_nb.service.web.politeness import (
    FRESH,
    GO,
    HostRecord,
    Manners,
    Verdict,
    is_idle,
    judge,
    penalised,
    rewarded,
    started,
)

MANNERS = Manners(
    first_pause_s=1.0,
    most_pause_s=8.0,
    jitter=0.5,
    broken_after=3,
    first_rest_s=10.0,
    most_rest_s=40.0,
)


def penalise(
    record: HostRecord, now: float, retry_after_s: float | None = None, chance: float = 0.0
) -> HostRecord:
    return penalised(record, now, retry_after_s, MANNERS, chance)


def broken(now: float) -> HostRecord:
    record = FRESH
    for _ in range(MANNERS.broken_after):
        record = penalise(record, now)
    return record


def test_an_unknown_host_may_be_asked_at_once() -> None:
    assert judge(FRESH, 0.0, 0.0) == judge(FRESH, 0.0, 5.0) == GO


def test_requests_keep_their_distance() -> None:
    record = started(FRESH, 100.0)
    assert judge(record, 101.0, 5.0) == Verdict(4.0, "spacing")
    assert judge(record, 105.0, 5.0) == GO
    assert judge(record, 100.0, 0.0) == GO


def test_a_complaint_makes_a_pause_that_doubles_and_halves() -> None:
    record, now, pauses = FRESH, 0.0, []
    for _ in range(5):
        record = penalise(record, now)
        pauses.append(record.pause_s)
        now = record.quiet_until
    assert pauses == [1.0, 2.0, 4.0, 8.0, 8.0]
    assert judge(penalise(FRESH, 0.0), 0.25, 0.0) == Verdict(0.75, "asked")
    halves = []
    for _ in range(5):
        record = rewarded(record, MANNERS)
        halves.append(record.pause_s)
    assert halves == [4.0, 2.0, 1.0, 0.5, 0.0]


def test_complaints_of_one_burst_count_once() -> None:
    record = FRESH
    for _ in range(2):
        record = penalise(record, 0.0)
    assert (record.pause_s, record.quiet_until) == (1.0, 1.0)


def test_chance_lengthens_a_pause() -> None:
    assert penalise(FRESH, 0.0, chance=1.0).quiet_until == 1.5
    assert penalise(FRESH, 0.0, 20.0, chance=1.0).quiet_until == 30.0


def test_a_host_that_names_a_time_is_left_alone_until_then() -> None:
    record = penalise(FRESH, 0.0, 20.0)
    assert judge(record, 19.0, 0.0) == Verdict(1.0, "asked")
    assert judge(record, 20.0, 0.0) == GO
    longer = penalise(record, 5.0, 60.0)
    assert longer.quiet_until == 65.0
    assert penalise(longer, 6.0, 1.0).quiet_until == 65.0


def test_naming_a_time_is_no_failure() -> None:
    record = broken(0.0)
    assert record.rest_until == 10.0
    alive = penalise(record, 10.0, 2.0)
    assert (alive.failures, alive.rest_until) == (0, None)


def test_failures_in_a_row_break_a_host() -> None:
    record = penalise(penalise(FRESH, 0.0), 0.0)
    assert record.rest_until is None
    record = penalise(rewarded(record, MANNERS), 5.0)
    assert (record.failures, record.rest_until) == (1, None)
    assert judge(broken(0.0), 4.0, 0.0) == Verdict(6.0, "broken")


def test_one_trial_decides_on_a_broken_host() -> None:
    record = broken(0.0)
    assert judge(record, 10.0, 0.0) == Verdict(is_trial=True)
    again = penalise(record, 11.0)
    assert again.rest_until == 31.0
    assert penalise(again, 31.0).rest_until == 71.0
    assert penalise(penalise(again, 31.0), 71.0).rest_until == 111.0
    well = rewarded(again, MANNERS)
    assert (well.failures, well.rests, well.rest_until) == (0, 0, None)


def test_failures_of_requests_sent_before_the_break_do_not_lengthen_it() -> None:
    record = broken(0.0)
    assert penalise(record, 1.0).rest_until == record.rest_until


def test_a_record_is_idle_when_it_is_old() -> None:
    assert is_idle(FRESH, 0.0)
    for record in (started(FRESH, 0.0), HostRecord(quiet_until=0.0), HostRecord(rest_until=0.0)):
        assert not is_idle(record, 299.0)
        assert is_idle(record, 300.0)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "penalise", "retry", "reward"]),
        st.floats(0, 100),
        st.floats(0, 300),
    ),
    max_size=60,
)


@given(EVENTS)
def test_whatever_happens_every_wait_ends(events: list[tuple[str, float, float]]) -> None:
    record, now = FRESH, 0.0
    for kind, later, figure in events:
        now += later
        if kind == "ask":
            verdict = judge(record, now, figure)
            assert 0 <= verdict.wait_s <= max(300 * 1.5, figure)
            if verdict.wait_s == 0:
                record = started(record, now)
        elif kind == "reward":
            record = rewarded(record, MANNERS)
        else:
            record = penalise(record, now, figure if kind == "retry" else None, 1.0)
        assert 0 <= record.pause_s <= MANNERS.most_pause_s
    assert judge(record, now + 1000, 300.0).wait_s == 0


@given(st.floats(0, 300), st.floats(0, 300), st.floats(0, 1))
def test_nobody_comes_back_earlier_than_was_asked(
    asked: float, elapsed: float, chance: float
) -> None:
    record = penalise(FRESH, 0.0, asked, chance)
    if elapsed < asked:
        assert judge(record, elapsed, 0.0).wait_s >= asked - elapsed
