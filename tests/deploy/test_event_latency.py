"""Events of a job at the replica that does not run it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks import event_latency
from tests.postgres import PostgresServer


@pytest.mark.slow
def test_every_event_reaches_the_other_replica(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    # The benchmark has the limit: a loaded machine must not fail a test.
    failed = event_latency.run(postgres_server, tmp_path, streams=6, pages=6, limit_s=math.inf)
    assert failed == []
