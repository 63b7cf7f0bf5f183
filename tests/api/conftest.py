"""The table functions against a small real service that obeys the contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wire_service import KEY, WireService
from webdata_nb.api import Session, connect


@pytest.fixture(scope="module")
def running() -> Iterator[WireService]:
    with WireService() as running:
        yield running


@pytest.fixture
def service(running: WireService) -> WireService:
    running.reset()
    return running


@pytest.fixture(autouse=True)
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a cache of its own."""
    monkeypatch.setenv("WEBDATA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def connected(service: WireService) -> Iterator[Session]:
    with connect(base_url=service.url, api_key=KEY) as made:
        yield made
