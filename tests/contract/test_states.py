"""Part 3 of the contract, as a table of its own."""

from __future__ import annotations

from webdata_nb.contract.outcomes import RETRYABLE, TERMINAL, JobStatus


def test_the_six_values() -> None:
    assert [str(each) for each in JobStatus] == [
        "started",
        "pending",
        "running",
        "completed",
        "failed",
        "cancelled",
    ]


def test_the_terminal_states() -> None:
    assert {"completed", "failed", "cancelled"} == TERMINAL
    assert {each for each in JobStatus if each.terminal} == TERMINAL


def test_a_retry_is_for_failed_and_cancelled_jobs() -> None:
    assert {"failed", "cancelled"} == RETRYABLE
