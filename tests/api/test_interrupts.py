"""Ctrl-C and cancelled tasks: the job ends at the service, and the rows so far can be had."""

from __future__ import annotations

import _thread
import asyncio
import threading
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import webdata_nb
from tests.api.receipts import SITE, receipt_of
from tests.wire_service import JobScript, WireService, crawl_rows, search_rows
from webdata_nb.toolkit.api import Session, crawl_df
from webdata_nb.toolkit.jobs import sources


def interrupt_when_running(service: WireService) -> threading.Thread:
    """Press Ctrl-C, so to say, once the job runs."""

    def press() -> None:
        if service.polled.wait(30):
            _thread.interrupt_main()

    thread = threading.Thread(target=press)
    thread.start()
    return thread


@pytest.mark.usefixtures("connected")
def test_interrupt_cancels_job_at_service(service: WireService) -> None:
    service.crawl = JobScript(crawl_rows(2), running=True)
    thread = interrupt_when_running(service)
    with pytest.raises(KeyboardInterrupt):
        crawl_df(SITE)
    thread.join()
    assert service.final_statuses() == ["cancelled"]
    service.crawl = JobScript(crawl_rows(3))
    assert len(crawl_df(SITE)) == 3


@pytest.mark.usefixtures("connected")
def test_interrupt_can_return_partial_rows(service: WireService, tmp_path: Path) -> None:
    service.crawl = JobScript(crawl_rows(2), running=True)
    thread = interrupt_when_running(service)
    df = crawl_df(SITE, on_cancel="partial", out=tmp_path / "part.parquet")
    thread.join()
    assert (len(df), receipt_of(df)["status"]) == (2, "cancelled")
    assert len(pd.read_parquet(tmp_path / "part.parquet")) == 2
    assert service.final_statuses() == ["cancelled"]
    assert len(webdata_nb.cache.ls()) == 0


async def test_cancellation_right_after_start_cancels_job(
    service: WireService, connected: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.crawl = JobScript(crawl_rows(2), running=True)
    start = sources.start

    async def start_and_cancel(*arguments: Any, **options: Any) -> Any:
        reply = await start(*arguments, **options)
        asyncio.get_running_loop().call_soon(task.cancel)
        return reply

    monkeypatch.setattr(sources, "start", start_and_cancel)
    task = asyncio.create_task(connected.acrawl_df(SITE))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(service.final_statuses) == ["cancelled"]


@pytest.mark.parametrize("on_cancel", ["raise", "partial"])
async def test_cancelled_task_cancels_job(
    service: WireService, connected: Session, on_cancel: Any
) -> None:
    service.search = JobScript(search_rows(2), running=True)
    task = asyncio.create_task(connected.asearch_df("q", on_cancel=on_cancel))
    assert await asyncio.to_thread(service.polled.wait, 30)
    task.cancel()
    if on_cancel == "partial":
        assert len(await task) == 2
    else:
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await asyncio.to_thread(service.final_statuses) == ["cancelled"]
