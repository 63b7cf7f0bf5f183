"""The short version of `python -m benchmarks.soak`: two minutes of mixed load in CI."""

from __future__ import annotations

import asyncio
import os

import pytest

from benchmarks.soak import soak

pytestmark = pytest.mark.slow

SECONDS = 120.0 if os.environ.get("CI") == "true" else 20.0


@pytest.mark.timeout(900)
def test_every_job_of_a_mixed_load_ends_and_nothing_accumulates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TMPDIR", os.environ["TMPDIR"])  # which the soak changes
    report = asyncio.run(soak(SECONDS, seed=7))
    assert report.problems() == []
    assert report.jobs
    assert report.killed["service"] == 1
