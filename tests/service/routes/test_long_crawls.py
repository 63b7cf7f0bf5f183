"""Long crawls: jobs with checkpoints, and one id for rows, receipt, credits and cancellation."""

from __future__ import annotations

import asyncio
import csv
import io
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import Api, open_service
from tests.service.job_stores import store_of
from tests.service.routes.teams import member
from tests.service.webhooks.endpoint import Endpoint
from tests.site.graphs import link_tree
from tests.site.server import Site
from webdata_nb.contract import limits, paths
from webdata_nb.contract.outcomes import TERMINAL
from webdata_nb.service.crawl import journal

LOOPBACK = ("127.0.0.0/8",)
CHECKPOINT_PAGES = 12
PAGES = 75
LAST_PAGE = "/tree/0/5/1"  # of the first `PAGES` pages, breadth first


@pytest.fixture(autouse=True)
def close_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHECKPOINT_PAGES", CHECKPOINT_PAGES)


@pytest.fixture
def tree() -> Iterator[tuple[Site, dict[str, Any]]]:
    """A site with more pages than the crawl reads, and the body of the crawl."""
    with Site(seed=8) as site:
        link_tree(site, depth=3, fanout=6)
        yield site, {"url": site.at("/tree"), "max_pages": PAGES, "max_depth": 5}


async def start(api: Api, body: dict[str, Any], **options: Any) -> str:
    reply = await api.http.post(paths.EXTENDED_CRAWLS, json=body, **options)
    assert reply.status_code == 200, reply.text
    return str(reply.json()["job_id"])


async def read(api: Api, job_id: str, **options: Any) -> dict[str, Any]:
    """Wait for the end of a crawl; return its status with all rows."""
    async with asyncio.timeout(200):
        while True:
            status = await api.get(
                f"/v1/crawl/{job_id}", params={"per_page": 1000, "include_data": "false"}, **options
            )
            if status["status"] in TERMINAL:
                break
            await asyncio.sleep(0.05)
    status = await api.get(f"/v1/crawl/{job_id}", params={"per_page": 1000}, **options)
    return dict(status)


def urls(status: dict[str, Any]) -> list[str]:
    return [row["url"] for row in status["data"]]


@pytest.mark.slow
@pytest.mark.both_stores
@pytest.mark.parametrize("strategy", ["bfs", "dfs", "bff"])
async def test_rows_and_receipt_are_those_of_one_crawl(
    tmp_path: Path,
    tree: tuple[Site, dict[str, Any]],
    strategy: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, body = tree
    body |= {"crawl_strategy": strategy, "concurrency": 8}
    async with open_service(tmp_path) as api:
        with monkeypatch.context() as patch:
            patch.setattr(limits, "CHECKPOINT_PAGES", 1000)
            whole = await read(api, await start(api, body))
        parts = await read(api, await start(api, body))
        store = store_of(tmp_path)
        async with store:
            job = (await store.jobs("local", limit=1))[0]
    assert (whole["status"], parts["status"]) == ("completed", "completed")
    assert len(parts["data"]) == PAGES
    assert urls(parts) == urls(whole)
    assert parts["receipt"] == whole["receipt"]
    assert PAGES - CHECKPOINT_PAGES - 8 <= job.settled_rows < PAGES


async def wait_for_rows(api: Api, job_id: str, count: int, **options: Any) -> None:
    async with asyncio.timeout(100):
        while True:
            status = await api.get(f"/v1/crawl/{job_id}", **options)
            if status["completed_pages"] >= count:
                return
            await asyncio.sleep(0.02)


@pytest.mark.slow
@pytest.mark.both_stores
@pytest.mark.parametrize("rows", [CHECKPOINT_PAGES + 2, 4 * CHECKPOINT_PAGES])
async def test_a_restarted_service_continues_between_checkpoints(
    tmp_path: Path, tree: tuple[Site, dict[str, Any]], rows: int
) -> None:
    site, body = tree
    async with open_service(tmp_path) as api:
        job_id = await start(api, body)
        await wait_for_rows(api, job_id, rows)
    async with open_service(tmp_path) as api:
        again = await read(api, job_id)
        whole = await read(api, await start(api, body))
    assert again["status"] == "completed"
    assert urls(again) == urls(whole)
    assert again["receipt"] == whole["receipt"]
    # At most the pages in flight were fetched again.
    assert len(site.requests) <= 2 * PAGES + 5 + 2


@pytest.mark.slow
@pytest.mark.both_stores
async def test_an_unusable_state_is_replaced_by_a_replay_of_the_journal(
    tmp_path: Path, tree: tuple[Site, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, body = tree
    async with open_service(tmp_path) as api:
        job_id = await start(api, body)
        await wait_for_rows(api, job_id, 3 * CHECKPOINT_PAGES + 1)
    monkeypatch.setattr(journal, "VERSION", journal.VERSION + 1)
    async with open_service(tmp_path) as api:
        again = await read(api, job_id)
        whole = await read(api, await start(api, body))
    assert (urls(again), again["receipt"]) == (urls(whole), whole["receipt"])
    assert again["credits"] == whole["credits"]


@pytest.mark.slow
@pytest.mark.both_stores
async def test_other_jobs_run_at_checkpoints(
    tmp_path: Path, tree: tuple[Site, dict[str, Any]]
) -> None:
    _, body = tree
    async with open_service(tmp_path, slots=1) as api:
        first = await start(api, body)
        await wait_for_rows(api, first, 1)
        second = await start(api, body)
        await read(api, second)
        together = await read(api, first)
        assert urls(together) == urls(await read(api, second))
        jobs = {job["job_id"]: job for job in (await api.get("/v1/jobs"))["jobs"]}
    assert jobs[second]["started_at"] < jobs[first]["finished_at"]


@pytest.mark.smoke
@pytest.mark.slow
@pytest.mark.both_stores
async def test_credits_are_reserved_and_charged_at_checkpoints(
    tmp_path: Path, tree: tuple[Site, dict[str, Any]]
) -> None:
    _, body = tree
    mine = await member(tmp_path, "alice", monthly=1000, concurrency=1)
    async with open_service(tmp_path, "team", allow_networks=LOOPBACK) as api:
        job_id = await start(api, body, headers=mine)
        first = await api.get(f"/v1/crawl/{job_id}", headers=mine)
        status = await read(api, job_id, headers=mine)
        usage = await api.get("/v1/usage", headers=mine)
    assert first["credits_reserved"] == CHECKPOINT_PAGES
    assert (status["status"], status["credits"]) == ("completed", PAGES)
    assert (usage["used"], usage["monthly_left"]) == (PAGES, 1000 - PAGES)
    assert (usage["reserved"], usage["active"]) == (0, 0)


@pytest.mark.slow
@pytest.mark.both_stores
async def test_a_crawl_ends_when_the_credits_do_not_suffice_to_the_next_checkpoint(
    tmp_path: Path, tree: tuple[Site, dict[str, Any]]
) -> None:
    _, body = tree
    mine = await member(tmp_path, "alice", monthly=30)
    async with open_service(tmp_path, "team", allow_networks=LOOPBACK) as api:
        job_id = await start(api, body, headers=mine)
        status = await read(api, job_id, headers=mine)
        usage = await api.get("/v1/usage", headers=mine)
    assert status["status"] == "failed"
    assert "ended after 24 of 75 pages" in status["error"]
    assert (len(status["data"]), status["credits"]) == (24, 24)
    assert (usage["used"], usage["reserved"], usage["active"]) == (24, 0, 0)


@pytest.mark.slow
@pytest.mark.both_stores
async def test_a_cancelled_crawl_keeps_its_rows_and_is_charged_once(
    tmp_path: Path, tree: tuple[Site, dict[str, Any]]
) -> None:
    site, body = tree
    mine = await member(tmp_path, "alice", monthly=1000)
    other = await member(tmp_path, "bob")
    async with open_service(tmp_path, "team", allow_networks=LOOPBACK) as api:
        gate = site.hold(LAST_PAGE)
        job_id = await start(api, body, headers=mine)
        await wait_for_rows(api, job_id, 30, headers=mine)
        for path in (f"/v1/crawl/{job_id}", f"/v1/crawl/{job_id}/receipt"):
            assert (await api.http.get(path, headers=other)).status_code == 404
        cancel = f"/v1/jobs/{job_id}/cancel"
        assert (await api.http.post(cancel, headers=other)).status_code == 404
        assert (await api.http.post(cancel, headers=mine)).status_code == 200
        gate.release()
        status = await read(api, job_id, headers=mine)
        usage = await api.get("/v1/usage", headers=mine)
        export = await api.http.get(f"/v1/crawl/{job_id}/export?format=json", headers=mine)
        store = store_of(tmp_path)
        async with store:
            assert await store.crawl_state(job_id) is None
    assert status["status"] == "cancelled"
    rows = len(status["data"])
    assert 30 <= rows < PAGES
    assert status["credits"] == usage["used"] == rows
    assert export.status_code == 200


@pytest.mark.slow
@pytest.mark.both_stores
async def test_the_webhook_is_sent_once_at_the_end(
    tmp_path: Path, tree: tuple[Site, dict[str, Any]]
) -> None:
    site, body = tree
    async with Endpoint() as endpoint:
        body |= {"webhook_url": endpoint.url}
        gate = site.hold(LAST_PAGE)
        async with open_service(tmp_path) as api:
            job_id = await start(api, body)
            await wait_for_rows(api, job_id, 3 * CHECKPOINT_PAGES)
            assert endpoint.webhooks == []
        gate.release()
        async with open_service(tmp_path) as api:
            status = await read(api, job_id)
            await endpoint.received(1)
            await asyncio.sleep(0.5)
    [got] = endpoint.webhooks
    assert status["status"] == "completed"
    assert got.payload["event"] == "job.completed"
    assert (got.payload["job_id"], got.payload["total_pages"]) == (job_id, PAGES)


@pytest.mark.slow
@pytest.mark.both_stores
async def test_exports_and_retention_are_those_of_one_job(
    tmp_path: Path, tree: tuple[Site, dict[str, Any]]
) -> None:
    _, body = tree
    ahead = 0.0
    async with open_service(tmp_path, clock=lambda: time.time() + ahead) as api:
        job_id = await start(api, body)
        status = await read(api, job_id)
        export = f"/v1/crawl/{job_id}/export"
        assert await api.get(export, params={"format": "json"}) == status["data"]
        table = await api.http.get(export, params={"format": "csv"})
        rows = list(csv.DictReader(io.StringIO(table.text)))
        assert [row["url"] for row in rows] == urls(status)
        archive = await api.http.get(export, params={"format": "zip"})
        names = zipfile.ZipFile(io.BytesIO(archive.content)).namelist()
        assert len(names) >= PAGES
        ahead = 400 * 24 * 3600.0
        expired = await api.http.get(export, params={"format": "json"})
        assert expired.status_code in {404, 410}


async def test_bounds(api: Api, site: Site) -> None:
    site.page("/", "text")
    key = {paths.IDEMPOTENCY_KEY: "one"}
    for max_pages in (0, -1, 100_001, 2**63, "many", None, 1.5):
        body = {"url": site.url, "max_pages": max_pages}
        reply = await api.http.post(paths.EXTENDED_CRAWLS, json=body)
        assert reply.status_code == 422, reply.text
        assert "max_pages" in reply.text
    assert (await api.http.post(paths.EXTENDED_CRAWLS, json={})).status_code == 422
    beyond = {"url": site.url, "max_pages": 1001}
    assert (await api.http.post(paths.CRAWL, json=beyond)).status_code == 422
    job_id = await start(api, beyond, headers=key)
    assert await start(api, beyond, headers=key) == job_id
    changed = {**beyond, "max_pages": 1002}
    reply = await api.http.post(paths.EXTENDED_CRAWLS, json=changed, headers=key)
    assert reply.status_code == 409
    status = await read(api, job_id)
    assert (status["status"], status["completed_pages"]) == ("completed", 1)
