"""Kills of every process that takes part in a crawl: its table is exact, and a call goes on."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from benchmarks.kills import killed_call
from tests.site.graphs import link_tree
from tests.site.server import Site
from tests.wire.kills import kill
from tests.wire.waiting import processes_on, until
from webdata_nb import acrawl_df, connect, errors
from webdata_nb.settings import Settings
from webdata_nb.toolkit import local, session

pytestmark = pytest.mark.slow


def test_a_crawl_is_exact_under_kills_of_client_service_and_page_workers() -> None:
    # The short version of `python -m benchmarks.kills call`.
    outcome, expected = killed_call(pages=150, kills=6, seed=3)
    outcome.check(expected)
    assert sum(outcome.killed.values()) == 6


@pytest.fixture
def own_settings(local_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of a test's own home, also for calls that read the environment."""
    monkeypatch.setenv("WEBDATA_HOME", str(Path(local_settings.data_dir).parent))
    return local_settings


@pytest.mark.parametrize("kills", [1, 3])
async def test_a_call_goes_on_when_its_local_service_was_killed(
    own_settings: Settings, kills: int
) -> None:
    with Site(latency=0.02) as site:
        paths = link_tree(site, depth=2, fanout=8)
        calling = asyncio.ensure_future(acrawl_df(site.at("/tree"), concurrency=4))
        for number in range(1, kills + 1):
            await asyncio.to_thread(site.wait_for, paths[15 * number], timeout=60)
            kill(own_settings)
        frame = await calling
    assert frame["url"].tolist() == [site.at(path) for path in paths]
    assert frame["success"].all()
    assert frame.attrs["webdata"]["receipt"]["counts"] == {"fetched": len(paths)}


async def test_a_call_does_not_start_a_service_that_was_stopped(
    own_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webdata_nb.toolkit.client.job_wait.OUTAGE_S", 0.5)
    with Site() as site:
        paths = link_tree(site, depth=1, fanout=8)
        with site.hold(paths[3]):
            calling = asyncio.ensure_future(acrawl_df(site.at("/tree"), concurrency=1))
            await asyncio.to_thread(site.wait_for, paths[3], timeout=60)
            assert await local.stop(own_settings)
            await until(lambda: not processes_on(own_settings.data_dir))
            with pytest.raises(errors.ConnectionFailed):
                await calling
        assert not processes_on(own_settings.data_dir)


async def test_a_session_that_nobody_has_any_more_closes_its_connections(
    own_settings: Settings,
) -> None:
    made = connect()
    await asyncio.to_thread(made.weights_df)
    running = await local.find(own_settings)
    assert running is not None
    port = urlsplit(running.url).port

    def connections() -> int:
        gc.collect()
        remote = (each.raddr for each in psutil.Process().net_connections("inet"))
        return sum(bool(address) and address.port == port for address in remote)

    assert connections() > 0
    session.set_default_connection(session.Connection())
    del made
    await until(lambda: connections() == 0)
