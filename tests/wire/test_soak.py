"""The short version of `python -m benchmarks.soak`: 40 seconds of mixed load in a full run."""

from __future__ import annotations

import asyncio
import os

import pytest

from benchmarks.soak import soak
from tests.requirements import in_ci

pytestmark = pytest.mark.slow


@pytest.mark.timeout(900)
def test_every_job_of_a_mixed_load_ends_and_nothing_accumulates(
    monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    seconds = 40.0 if in_ci() or pytestconfig.getoption("--all") else 20.0
    monkeypatch.setenv("TMPDIR", os.environ["TMPDIR"])  # which the soak changes
    report = asyncio.run(soak(seconds, seed=7))
    assert report.problems() == []
    assert report.jobs
    assert report.killed["service"] == 1
