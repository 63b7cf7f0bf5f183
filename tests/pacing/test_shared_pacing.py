from __future__ import annotations

import itertools
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from webdata_nb.pacing.host_pacing import (
    Circuit,
    PacingState,
    StartReservation,
    reserved_count,
    reserved_interval,
)


@given(
    st.floats(0.01, 5.0),
    st.lists(st.sampled_from([0.0, 0.001, 0.004, 0.02, 0.3, 2.0]), min_size=40, max_size=40),
)
def test_late_starts_keep_the_interval_also_to_the_next_reservation(
    required_s: float, lags: list[float]
) -> None:
    starts, last_start, now, lag = [], -inf, 0.0, iter(lags)
    for number in range(3):
        count = reserved_count(required_s)
        first = number * count * reserved_interval(required_s)
        reservation, taken, last_start = StartReservation(first, required_s, count), 0, -inf
        while (start := reservation.next_start(now, last_start)) is not None:
            now = start + next(lag, 0.0)
            if reservation.next_start(now, last_start) != now:
                continue
            starts.append(now)
            last_start, taken = now, taken + 1
        assert taken <= count
    assert all(b - a >= required_s - 1e-6 for a, b in itertools.pairwise(starts))


def test_every_reserved_start_is_used_without_lags() -> None:
    reservation, now, starts = StartReservation(100.0, 0.2, 4), 0.0, []
    last_start = -inf
    while (start := reservation.next_start(now, last_start)) is not None:
        now = last_start = start
        starts.append(round(start, 6))
    assert starts == [100.0, 100.21, 100.42, 100.63]


def test_a_state_moves_to_another_clock() -> None:
    state = PacingState(1.0, 20.0, Circuit(3, 1, 30.0))
    assert state.held_until == 30.0
    assert state.shifted(5.0) == PacingState(1.0, 25.0, Circuit(3, 1, 35.0))
    assert PacingState().shifted(5.0) == PacingState()
    assert state.is_prolonged(PacingState())
    assert not state.is_prolonged(state)
