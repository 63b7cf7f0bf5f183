"""A rolling restart of both replicas behind the proxy, under load."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks import rolling_restart
from tests.postgres import PostgresServer


@pytest.mark.slow
def test_no_start_and_no_stream_is_lost(postgres_server: PostgresServer, tmp_path: Path) -> None:
    # A busy machine stops a replica later than the benchmark allows.
    wrong = rolling_restart.run(
        postgres_server, tmp_path, minutes=0.1, starts_per_s=5, stop_s=math.inf
    )
    assert wrong == []
