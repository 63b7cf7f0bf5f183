"""Hostile inputs leave the service answering; `benchmarks.hostile_inputs` runs them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.openapi.served import team
from tests.wire.hostile_inputs import INPUTS, Hostile, under

pytestmark = pytest.mark.slow

# Generous: the machine may be busy, and each of these once took 3.6 s to 30 s, or 117 MB for good.
DEADLINE_S = 2.5
MEMORY_MB = 500
SHORT = (
    "path patterns",
    "sitemap: 2 million attributes",
    "robots.txt: 270 x 900 wildcards",
    "CSS selectors of 450 KB",
    "the same, facets",
)


@pytest.mark.parametrize(
    "hostile", [each for each in INPUTS if each.name in SHORT], ids=lambda each: each.name
)
def test_the_service_answers_meanwhile(tmp_path: Path, hostile: Hostile) -> None:
    with team(tmp_path, "--allow-network", "127.0.0.0/8") as served:
        report = under(hostile, served.url, served.headers, served.process.pid)
    assert report.failed_probes == 0
    assert report.longest_s < DEADLINE_S
    assert report.losses == 0
    assert report.peak_mb < MEMORY_MB


def test_every_input_of_the_short_run_is_there() -> None:
    assert {each.name for each in INPUTS} >= set(SHORT)
