"""A home of its own for each test that starts a local service, and nothing left of it after."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.wire.waiting import processes_on, until
from webdata_nb.contract.local import LEASE_SECONDS
from webdata_nb.settings import Settings
from webdata_nb.toolkit import local


@pytest.fixture
async def local_settings(tmp_path: Path) -> AsyncIterator[Settings]:
    """Settings of a home of its own; whatever was started there must be gone in the end."""
    settings = Settings(
        data_dir=tmp_path / "data", cache_dir=tmp_path / "cache", log_dir=tmp_path / "logs"
    )
    yield settings
    await local.stop(settings)
    await until(lambda: not processes_on(settings.data_dir))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases of three seconds, and a linger that is no longer."""
    monkeypatch.setenv(LEASE_SECONDS, "3")
