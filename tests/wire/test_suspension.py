"""A service that is suspended and resumed, as when a laptop sleeps, loses no page."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.site.graphs import link_tree
from tests.site.server import Site
from tests.wire.kills import connected, rows_after
from tests.wire.waiting import TIMEOUT_S, services_on
from webdata_nb.service.web.polite_fetcher import SUSPENDED_AFTER_S
from webdata_nb.settings import Settings
from webdata_nb.toolkit.client.client import CANCEL_S

pytestmark = pytest.mark.slow

PAGE_TIMEOUT_S = 10.0


def send(settings: Settings, number: signal.Signals, *, workers: bool) -> None:
    """Send a signal to the service, and to its page workers if asked."""
    for process in services_on(settings.data_dir):
        children = process.children(recursive=True) if workers else []
        for each in (process, *children):
            each.send_signal(number)


async def test_pages_in_flight_while_the_service_stands_still_are_fetched_again(
    local_settings: Settings,
) -> None:
    with Site(seed=3) as site:
        paths = link_tree(site, depth=3, fanout=4)
        held = [site.hold(path) for path in paths[5:11]]
        start = {
            "url": site.at("/tree"),
            "concurrency": 6,
            "max_pages": 40,
            "scrape_options": {"timeout": int(PAGE_TIMEOUT_S * 1000)},
        }
        async with connected(local_settings) as (client, _):
            job_id = (await client.start_crawl(start)).job_id
            for path in paths[5:11]:
                await asyncio.to_thread(site.wait_for, path, timeout=TIMEOUT_S)
            for workers in (False, True):
                send(local_settings, signal.SIGSTOP, workers=workers)
                await asyncio.sleep(PAGE_TIMEOUT_S + SUSPENDED_AFTER_S)
                send(local_settings, signal.SIGCONT, workers=workers)
                for path in paths[5:11]:
                    await asyncio.to_thread(site.wait_for, path, 2 + workers, timeout=TIMEOUT_S)
            for gate in held:
                gate.release()
            ended = await rows_after(client, job_id, 1000)
    assert ended.status == "completed"
    assert [row["url"] for row in ended.data] == [site.at(path) for path in paths[:40]]
    assert [row["success"] for row in ended.data] == [True] * 40


# Of the first, the connection's idle time ends while the service stands still.
@pytest.mark.parametrize("idle_s", [5 - CANCEL_S / 2, 0])
async def test_a_cancellation_that_is_not_confirmed_in_time_still_ends_the_job(
    local_settings: Settings, caplog: pytest.LogCaptureFixture, idle_s: float
) -> None:
    with Site() as site:
        paths = link_tree(site, depth=1, fanout=8)
        async with asyncio.timeout(TIMEOUT_S), connected(local_settings) as (client, _):
            with site.hold(paths[3]):
                start = {"url": site.at("/tree"), "concurrency": 1}
                job_id = (await client.start_crawl(start)).job_id
                await asyncio.to_thread(site.wait_for, paths[3], timeout=TIMEOUT_S)
                await asyncio.sleep(idle_s)
                send(local_settings, signal.SIGSTOP, workers=False)
                assert not await client.cancel_quietly(job_id)
                send(local_settings, signal.SIGCONT, workers=False)
                ended = await rows_after(client, job_id, 1000)
    assert ended.status == "cancelled"
    assert job_id in caplog.text
