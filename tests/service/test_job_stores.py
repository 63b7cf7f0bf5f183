"""A service of a test is on the store that the test selects."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.conftest import open_service
from tests.service.job_stores import store_of
from tests.service.routes.teams import member
from webdata_nb.service.store.postgres.database import PostgresDatabase


@pytest.mark.both_stores
async def test_service_is_on_the_selected_store(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if request.config.option.store == "sqlite":
        selected = request.node.callspec.params["service_store"]
    else:
        selected = "postgres"
    alice = await member(tmp_path, "alice")
    async with open_service(tmp_path, "team") as api, store_of(tmp_path) as store:
        await api.get("/v1/usage", headers=alice)
        assert isinstance(store.database, PostgresDatabase) is (selected == "postgres")
    assert (tmp_path / "jobs.sqlite").exists() is (selected == "sqlite")
