"""Results past their retention: what status, stream and export say, to the minute."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import Api, open_service
from tests.service.job_stores import store_of
from tests.service.routes.test_search import magazine
from tests.site.server import Site
from webdata_nb.contract.replies import SearchStatus
from webdata_nb.service.settings import InvalidSetting, Retention, ServiceSettings

MINUTE = 60.0
HOUR = 60 * MINUTE


@dataclass
class Clock:
    ahead: float = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def timed(tmp_path: Path, clock: Clock) -> AsyncIterator[Api]:
    async with open_service(tmp_path / "data", clock=clock) as api:
        yield api


async def run_both(api: Api, site: Site) -> tuple[dict[str, Any], dict[str, Any]]:
    magazine(site)
    crawl = await api.run_job("crawl", url=site.url)
    return crawl, await api.run_job("search", query="northern lights")


@pytest.mark.both_stores
async def test_a_search_is_there_at_47_59_and_gone_at_48_01(
    timed: Api, site: Site, clock: Clock
) -> None:
    _, search = await run_both(timed, site)
    path = f"/v1/search/{search['job_id']}"
    clock.ahead = 48 * HOUR - MINUTE
    assert await timed.get(path) == search
    assert "result_expired" not in search
    await timed.get(f"{path}/export", params={"format": "json"})
    clock.ahead = 48 * HOUR + MINUTE
    expired = await timed.get(path)
    assert expired["data"] == []
    assert (expired["result_expired"], expired["retention_hours"]) == (True, 48)
    assert (expired["status"], expired["total_results"]) == ("completed", 2)
    parsed = SearchStatus.model_validate(expired)
    assert parsed.expired_at is not None
    assert abs(parsed.expired_at.timestamp() - (time.time() + 48 * HOUR)) < MINUTE
    assert datetime.fromisoformat(expired["expired_at"]).utcoffset() is not None
    for name in ("json", "csv", "zip"):
        answer = await timed.get(f"{path}/export", 410, params={"format": name})
        assert answer["detail"].startswith("the results were kept for 48 hours, until ")


async def test_a_crawl_outlives_a_search_and_goes_by_its_own_setting(
    timed: Api, site: Site, clock: Clock
) -> None:
    crawl, _ = await run_both(timed, site)
    path = f"/v1/crawl/{crawl['job_id']}"
    clock.ahead = 30 * 24 * HOUR - MINUTE
    assert (await timed.get(path))["data"] == crawl["data"]
    clock.ahead = 30 * 24 * HOUR + MINUTE
    expired = await timed.get(path)
    assert (expired["data"], expired["result_expired"], expired["retention_hours"]) == (
        [],
        True,
        720,
    )
    await timed.get(f"{path}/export", 410, params={"format": "zip"})


async def test_the_stream_of_an_expired_job_is_its_end(
    timed: Api, site: Site, clock: Clock
) -> None:
    _, search = await run_both(timed, site)
    clock.ahead = 49 * HOUR
    answer = await timed.http.get(f"/v1/search/{search['job_id']}/events")
    events = [line for line in answer.text.splitlines() if line.startswith("event:")]
    assert events == ["event: progress", "event: done"]


@pytest.mark.both_stores
async def test_job_marked_as_expired_stays_expired(tmp_path: Path, site: Site) -> None:
    async with open_service(tmp_path / "data") as api:
        _, search = await run_both(api, site)
    async with store_of(tmp_path / "data") as store:
        await store.retention.mark_expired(search["job_id"], now=time.time())
    async with open_service(tmp_path / "data") as api:
        expired = await api.get(f"/v1/search/{search['job_id']}")
        assert (expired["data"], expired["result_expired"]) == ([], True)
        await api.get(f"/v1/search/{search['job_id']}/export", 410, params={"format": "json"})


@pytest.mark.both_stores
async def test_service_deletes_expired_rows(tmp_path: Path, site: Site) -> None:
    async with open_service(tmp_path / "data") as api:
        crawl, search = await run_both(api, site)
    async with (
        open_service(tmp_path / "data", clock=Clock(ahead=49 * HOUR)) as api,
        asyncio.timeout(60),
    ):
        async with store_of(tmp_path / "data") as store:
            while await store.journal(search["job_id"]):  # noqa: ASYNC110 - the janitor tells nobody
                await asyncio.sleep(0.02)
            assert len(await store.journal(crawl["job_id"])) == 4
        await api.get(f"/v1/crawl/{crawl['job_id']}")


@pytest.mark.parametrize("mode", ["local", "team"])
@pytest.mark.parametrize("hours", [0, -1, float("nan")])
def test_invalid_retention_hours_are_rejected(mode: Any, hours: float) -> None:
    with pytest.raises(InvalidSetting, match="--crawl-retention-hours takes a number of hours"):
        ServiceSettings.checked({"data_dir": Path(), "mode": mode, "crawl_retention_hours": hours})


def test_retention_defaults_depend_on_the_mode(tmp_path: Path) -> None:
    def checked(mode: Any, **options: Any) -> Retention:
        given = {"data_dir": tmp_path, "mode": mode, **options}
        return ServiceSettings.checked(given).retention

    assert checked("local") == Retention(48, 720, 2160)
    assert checked("team") == Retention(48, 168, 2160)
    assert checked("team", retention_hours=1, job_retention_hours=5) == Retention(1, 168, 5)
