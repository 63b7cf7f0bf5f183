"""Part 3 of the contract, as a table of its own."""

from __future__ import annotations

import itertools

import pytest

from webdata_nb.contract.outcomes import (
    ACTIVE,
    RETRYABLE,
    TERMINAL,
    JobStatus,
    Trigger,
    after,
    may_retry,
)

ALLOWED = {
    ("pending", "claim"): "running",
    ("running", "claim"): "running",
    ("running", "finish"): "completed",
    ("running", "fail"): "failed",
    ("pending", "cancel"): "cancelled",
    ("running", "cancel"): "cancelled",
    ("cancelled", "cancel"): "cancelled",
}


def test_the_six_values() -> None:
    assert [str(each) for each in JobStatus] == [
        "started",
        "pending",
        "running",
        "completed",
        "failed",
        "cancelled",
    ]


@pytest.mark.parametrize(("state", "trigger"), [*itertools.product(JobStatus, Trigger)])
def test_every_pair_of_state_and_trigger(state: JobStatus, trigger: Trigger) -> None:
    assert after(state, trigger) == ALLOWED.get((state, trigger))


def test_terminal_states_have_no_transitions() -> None:
    assert {"completed", "failed", "cancelled"} == TERMINAL
    assert {each for each in JobStatus if each.terminal} == TERMINAL
    for state, trigger in itertools.product(TERMINAL, Trigger):
        assert after(state, trigger) in (None, state)


def test_a_retry_is_for_failed_and_cancelled_jobs() -> None:
    assert {each for each in JobStatus if may_retry(each)} == RETRYABLE == {"failed", "cancelled"}


def test_a_cancel_is_for_active_and_cancelled_jobs() -> None:
    cancellable = {each for each in JobStatus if after(each, Trigger.CANCEL) is not None}
    assert cancellable == ACTIVE | {"cancelled"} == {"pending", "running", "cancelled"}
