"""Batches on Dask clusters: worker processes on loopback, and a service that obeys the contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client, LocalCluster

from tests.wire_service import KEY, WireService
from webdata_nb.toolkit.api import Session, connect


@pytest.fixture(scope="module")
def running() -> Iterator[WireService]:
    with WireService() as running:
        yield running


@pytest.fixture
def service(running: WireService) -> WireService:
    running.reset()
    running.honours_idempotency_keys = True
    return running


@pytest.fixture(scope="module")
def cluster(running: WireService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Start two worker processes that have the API key in their environment."""
    _ = running
    folder = tmp_path_factory.mktemp("dask")
    with (
        pytest.MonkeyPatch.context() as patch,
        dask.config.set({"temporary-directory": str(folder)}),
    ):
        patch.setenv("WEBDATA_API_KEY", KEY)
        options: Any = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
        with LocalCluster(**options) as started, Client(started) as client:
            yield client


@pytest.fixture
def session(service: WireService) -> Iterator[Session]:
    with connect(base_url=service.url, api_key=KEY) as made:
        yield made


@pytest.fixture
def out(tmp_path: Path) -> str:
    return str(tmp_path / "parts")
