"""Each statement of the store fails in one of the ways of `python -m benchmarks.store_faults`."""

from __future__ import annotations

import itertools
import logging
import os
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.stores.faults.injection import CODES, IN_DOUBT, Fault
from tests.stores.faults.matrix import (
    SECONDS,
    faults,
    later,
    run_fleet,
    run_without_faults,
    sample_faults,
)
from webdata_nb.service.observability.logs import EVENTS

SEED = int(os.environ.get("FAULTS_SEED", "0"))


@pytest.fixture(autouse=True)
def _disable_logging() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow
def test_failing_statement_loses_no_row_credit_or_webhook() -> None:
    calls = run_without_faults()
    for fault, among_chores in sample_faults(list(faults(calls)), SEED):
        found = run_fleet(fault, among_chores=among_chores)
        assert not found.problems, fault
        assert found.raised, f"{fault} never struck"


@pytest.mark.parametrize(
    "statement", ["COMMIT", "check_lease", "publish", "finish", "claim", "renew"]
)
def test_late_failures_of_state_changes_are_repeated(statement: str) -> None:
    chance = random.Random(SEED)
    for code in CODES:
        fault = later(Fault(statement, code, seconds=SECONDS), chance)
        assert not run_fleet(fault).problems, fault


@pytest.mark.parametrize("code", CODES)
def test_commit_in_doubt_is_not_applied_twice(
    code: str,
) -> None:
    for fault in (
        Fault(IN_DOUBT, code, times=1, skip=3),
        Fault(IN_DOUBT, code, times=9, skip=12),
        Fault(IN_DOUBT, code, seconds=SECONDS),
    ):
        assert not run_fleet(fault).problems, fault


@pytest.mark.slow
def test_job_that_ended_in_a_commit_in_doubt_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logging.disable(logging.NOTSET)
    caplog.set_level(logging.INFO, logger=EVENTS)
    for skip in itertools.count():
        caplog.clear()
        result = run_fleet(Fault(IN_DOUBT, "io error", times=1, skip=skip))
        assert result.problems == ()
        if not result.raised:  # there are no more commits
            break
        fields = [vars(record)["fields"] for record in caplog.records if record.name == EVENTS]
        ends = Counter(each["job"] for each in fields if each["event"] == "job_ended")
        # Who repeats a cancellation in doubt finds a job that is cancelled already.
        assert ends.pop("job-003", 1) == 1
        assert ends == dict.fromkeys(("job-000", "job-001", "job-002"), 1), skip
