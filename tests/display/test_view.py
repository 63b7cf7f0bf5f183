"""The words of a progress bar, and the pace they tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webdata_nb.toolkit.display.bars import (
    WINDOW_S,
    Inputs,
    ProgressRate,
    View,
    counts,
    duration,
    pace,
    status_line,
)

LOOKS: Final = st.lists(
    st.tuples(st.floats(0.01, 20.0), st.integers(0, 50)), min_size=1, max_size=60
)


@pytest.mark.parametrize(
    ("failures", "words"),
    [
        ({}, "5/10 rows, 2 failed"),
        ({"timeout": 2}, "5/10 rows, 2 failed (timeout)"),
        ({"dns": 1, "timeout": 1}, "5/10 rows, 2 failed (dns 1, timeout 1)"),
        ({"a": 1, "b": 4, "c": 3, "d": 2, "e": 1}, "5/10 rows, 2 failed (b 4, c 3, d 2, a 1, …)"),
    ],
)
def test_failures_are_told_by_kind_the_most_frequent_first(
    failures: dict[str, int], words: str
) -> None:
    assert counts(View("x", 10, completed=5, failed=2, failures=failures)) == words


def test_a_sentence_says_what_is_known_and_no_more() -> None:
    view = View("x", 25, completed=12, elapsed=5, rate=3.14, remaining=4.2, credits=12.0)
    assert status_line(view) == "12/25 rows, 3.1 rows/s, 4 s left, 12 credits, 5 s"
    assert status_line(View("x", None, completed=1, credits=1)) == "1 rows, 1 credit, 0 s"
    done = View("x", 25, completed=25, elapsed=9, rate=2.8, remaining=1.0, ending="done")
    assert status_line(done) == "25/25 rows, 2.8 rows/s, 9 s"
    assert status_line(View("x", 2, cancel_requested=True)).endswith(", cancelling")
    assert status_line(View("x", 2, cancel_requested=True, ending="left")).endswith(
        ", the job goes on"
    )


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (80, "1 min 20 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
    ],
)
def test_times_are_told_as_people_say_them(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def sampled(
    seconds: int, *, step: int = 3, total: int | None = None, found: int = 0
) -> ProgressRate:
    """Return the rate of a job whose total grows by `found` each second."""
    rate = ProgressRate()
    for second in range(seconds):
        known = None if total is None else total + found * second
        rate = rate.with_sample(float(second), step * second, known)
    return rate


def test_a_steady_pace_is_told_as_it_is() -> None:
    assert sampled(10).rate == pytest.approx(3.0)
    assert sampled(10, total=57).remaining() == pytest.approx(10.0)
    assert sampled(10).remaining() is None
    assert sampled(10, total=27).remaining() is None


def test_there_is_no_estimate_until_it_means_something() -> None:
    assert ProgressRate().remaining() is None
    assert sampled(4, total=57).remaining() is None  # too short
    assert sampled(20, step=0, total=57).remaining() is None
    assert sampled(3, step=1, total=57).with_sample(9.0, 3, 57).remaining() is None  # too few
    assert sampled(20, total=80, found=10).remaining() is None  # still finding pages
    assert sampled(20, total=1000, found=10).remaining() is not None


def test_the_last_line_is_that_of_the_receipt() -> None:
    view = View("x", 300, completed=300, rate=2.0, elapsed=9, summary="300 rows; 9.0 s")
    assert status_line(view) == "300/300 rows, 2.0 rows/s, 9 s"
    assert status_line(replace(view, ending="done")) == "300 rows; 9.0 s"


def test_nothing_is_told_before_there_is_something_to_go_by() -> None:
    assert ProgressRate().rate is None
    assert ProgressRate().with_sample(0.0, 5).rate is None
    assert ProgressRate().with_sample(0.0, 0).with_sample(0.5, 5).rate is None
    assert ProgressRate().with_sample(0.0, 5).with_sample(20.0, 5).rate is None


def test_what_was_long_ago_does_not_count() -> None:
    pace = ProgressRate()
    for second in range(100):
        pace = pace.with_sample(float(second), min(second, 10) * 100)
    assert pace.rate is None
    for second in range(100, 150):
        pace = pace.with_sample(float(second), 1000 + 2 * (second - 99))
    assert pace.rate == pytest.approx(2.0)


@given(LOOKS)
def test_the_pace_is_never_negative_and_its_memory_is_bounded(
    steps: list[tuple[float, int]],
) -> None:
    pace, at, completed = ProgressRate(), 0.0, 0
    for later, more in steps:
        at, completed = at + later, completed + more
        pace = pace.with_sample(at, completed)
        assert pace.rate is None or pace.rate > 0
        assert len(pace.samples) <= WINDOW_S + 3
        assert (pace.samples[-1].at, pace.samples[-1].completed) == (at, completed)


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (View("x", 2, credits=1.0), "1 credit"),
        (View("x", 2, reserved=10.0), "10 credits held"),
        (View("x", 2, credits=4.0, reserved=10.0), "4 of 10 credits"),
        (View("x", 2, credits=4.0, reserved=10.0, ending="done"), "4 credits"),
        (View("x", 2, reserved=10.0, ending="left"), ""),
        (View("x", 2, credits=4.0, unlimited=True), ""),
        (View("x", 2, credits=4.0, unlimited=True, ending="done"), ""),
        (View("x", 2), ""),
    ],
)
def test_credits_are_told_as_far_as_they_are_known(view: View, words: str) -> None:
    assert pace(view) == words


def test_several_inputs_and_a_guess_are_told_as_such() -> None:
    view = View("x", None, completed=50, estimated_total=200, unit="pages", inputs=Inputs(12, 3, 1))
    assert counts(view) == "3/12 inputs (1 failed), 50 of about 200 pages"
    assert view.share == 0.25
    assert counts(replace(view, ending="cancelled")) == "3/12 inputs (1 failed), 50 pages"
    known = View("x", 10, status="pending", name="j1")
    assert status_line(known) == "pending, 0/10 rows, 0 s"
    assert status_line(replace(known, ending="lost")) == (
        "0/10 rows, 0 s, the service could not be asked"
    )
