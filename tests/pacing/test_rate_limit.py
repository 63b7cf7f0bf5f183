from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from webdata_nb.pacing.rate_limit import ConcurrencyWindow, StartSchedule


@given(st.lists(st.floats(0, 10), min_size=1, max_size=30), st.floats(0.1, 5))
def test_reserved_starts_keep_interval(gaps: list[float], interval_s: float) -> None:
    schedule, now, starts = StartSchedule(interval_s), 0.0, []
    for gap in gaps:
        now += gap
        wait_s, schedule = schedule.reserve(now, max_wait_s=1e9)
        assert wait_s is not None
        starts.append(now + wait_s)
    assert all(b - a >= interval_s - 1e-6 for a, b in itertools.pairwise(starts))


def test_start_beyond_longest_wait_is_not_reserved() -> None:
    _, schedule = StartSchedule(10.0).reserve(0.0, max_wait_s=5)
    assert schedule.reserve(0.0, max_wait_s=5) == (None, schedule)
    assert schedule.with_interval(0.0).reserve(5.0, max_wait_s=5)[0] == 5


def test_refusal_closes_window_and_successes_widen_it() -> None:
    window = ConcurrencyWindow(3, 3).closed_for(2.0, now=10.0)
    assert (window.size, window.remaining_s(11.0), window.remaining_s(12.0)) == (1, 1.0, 0.0)
    assert window.closed_for(0.5, now=10.0).opens_at == 12.0
    sizes = []
    for _ in range(4):
        window = window.widened()
        sizes.append(window.size)
    assert sizes == [2, 3, 3, 3]
