"""Readiness: the store answers and its disk takes what is written; no word on why not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.service.conftest import open_service
from webdata_nb.contract import paths
from webdata_nb.service.routes import open_endpoints


async def test_full_disk_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(open_endpoints, "FRESH_S", 0.0)
    async with open_service(tmp_path / "data") as api:
        assert await api.get(paths.READY) == {"status": "ok"}
        (tmp_path / "data").rename(tmp_path / "away")
        no_credentials = {"Authorization": ""}
        for _ in range(3):
            unready = await api.get(paths.READY, 503, headers=no_credentials)
            assert unready == {"status": "unavailable", "reason": "database or disk unavailable"}
        [line] = [record for record in caplog.records if record.message.startswith("not ready")]
        assert line.exc_info is None
        assert await api.get(paths.HEALTH, headers=no_credentials) == {"status": "ok"}
        shutil.move(tmp_path / "away", tmp_path / "data")
        assert await api.get(paths.READY) == {"status": "ok"}
