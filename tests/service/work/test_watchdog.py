"""The watchdog: a job that stands still is taken up again, and fails when that did not help."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from tests.service.conftest import Api, open_service
from tests.site.document import document
from tests.site.server import Site
from webdata_nb.contract.outcomes import TERMINAL
from webdata_nb.service.observability import operations
from webdata_nb.service.work import runner
from webdata_nb.service.workers.pool import PagePool


async def wait_for_stalled_end(api: Api, job_id: str) -> Any:
    """Wait for a job whose attempts are each stalled, and whose leases run out in between."""
    async with asyncio.timeout(120):
        while True:
            reply = await api.get(f"/v1/crawl/{job_id}")
            if reply["status"] in TERMINAL:
                return reply
            await asyncio.sleep(0.1)


@contextmanager
def reading_that_hangs(monkeypatch: pytest.MonkeyPatch, times: int) -> Iterator[list[str]]:
    """Let the page pool never answer for a page called /stuck, so many times."""
    stalled: list[str] = []
    whole = PagePool.scrape

    async def scrape(self: PagePool, source: Any, *rest: Any, **options: Any) -> Any:
        if source.url.endswith("/stuck") and len(stalled) < times:
            stalled.append(source.url)
            with operations.waiting_for("a page worker", 0.1):
                await asyncio.Event().wait()
        return await whole(self, source, *rest, **options)

    monkeypatch.setattr(PagePool, "scrape", scrape)
    monkeypatch.setattr(runner, "DEADLINE_MARGIN_S", 0.1)
    yield stalled


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 5])
async def test_stalled_job_is_requeued_and_then_fails(
    tmp_path: Path,
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    times: int,
) -> None:
    caplog.set_level(logging.INFO)
    start = site.page("/stuck", document("Stuck", links=["/other"]))
    site.page("/other", document("Other"))
    with reading_that_hangs(monkeypatch, times) as stalled:
        async with open_service(tmp_path / "data", stall_s=2.0) as api:
            job_id = await api.start_job("crawl", {"url": start})
            reply = await wait_for_stalled_end(api, job_id)
            measured = await asyncio.to_thread(generate_latest, api.running.metrics.registry)
    output = measured.decode()
    lines = [each.getMessage() for each in caplog.records]
    lines = [each for each in lines if each.startswith(f"job_stalled job={job_id}")]
    assert lines[0].endswith('operation="a page worker" waited_s=2.0 action=requeued')
    assert 'webdata_watchdog_fired_total{action="requeued",kind="crawl"} 1.0' in output
    if times == 1:
        assert reply["status"] == "completed"
        assert [row["success"] for row in reply["data"]] == [True, True]
        assert len(lines) == 1
    else:
        assert reply["status"] == "failed"
        assert "no progress for 2 s, while it was waiting for a page worker" in reply["error"]
        assert [each.rpartition(" ")[2] for each in lines[1:]] == ["action=failed"]
        assert 'webdata_watchdog_fired_total{action="failed",kind="crawl"} 1.0' in output
    assert len(stalled) == min(times, 2)


@pytest.mark.slow
async def test_slow_site_does_not_stall_a_job(tmp_path: Path, site: Site) -> None:
    start = site.page("/", document("Slow"), delay=4.0)
    async with open_service(tmp_path / "data", stall_s=1.0) as api:
        reply = await api.run_job("crawl", url=start)
    assert [row["success"] for row in reply["data"]] == [True]


def test_operations_are_recorded_per_job() -> None:
    with (
        operations.waiting_for("nothing that counts", 1.0),
        operations.record_operations() as current,
    ):
        assert (current.oldest, current.longest_limit_s) == (
            "nothing that is known",
            0.0,
        )
        with operations.waiting_for("a turn", 10.0):
            with operations.waiting_for("an answer", 30.0):
                assert (current.oldest, current.longest_limit_s) == (
                    "a turn",
                    30.0,
                )
            assert current.longest_limit_s == 10.0
        assert current.changes == 4
