"""The table functions against a small real service that obeys the contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local_service import stop
from tests.wire_service import KEY, WireService
from webdata_nb import settings
from webdata_nb.settings import Options
from webdata_nb.toolkit import bridge
from webdata_nb.toolkit.api import Session, connect
from webdata_nb.toolkit.calls import lists


@pytest.fixture(scope="module")
def running() -> Iterator[WireService]:
    with WireService() as running:
        yield running


@pytest.fixture
def service(running: WireService) -> WireService:
    running.reset()
    return running


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a home whose service the tests of this module share."""
    home = tmp_path_factory.mktemp("home")
    yield home
    stop(settings.current(Options(home=home)))


@pytest.fixture
def local_session(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """Give a session on the local service of that home."""
    monkeypatch.setenv("WEBDATA_HOME", str(home))
    with connect() as made:
        yield made


@pytest.fixture(autouse=True)
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a cache of its own."""
    monkeypatch.setenv("WEBDATA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def _long_clean_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait longer after Ctrl-C than a user would: a loaded machine cancels jobs more slowly."""
    monkeypatch.setattr(bridge, "CLEANUP_S", 60.0)
    monkeypatch.setattr(lists, "PARTIAL_RESULT_S", 50.0)


@pytest.fixture
def connected(service: WireService) -> Iterator[Session]:
    with connect(base_url=service.url, api_key=KEY) as made:
        yield made
