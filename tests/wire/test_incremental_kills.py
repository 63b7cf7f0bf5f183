"""Incremental crawls whose service is killed: rows, receipt and checked pages are exact."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from tests.site.server import Site
from tests.site.versions import VersionedSite, text_page, varied_site
from tests.wire.kills import connected, kill, rows_after
from tests.wire.waiting import processes_on, until
from webdata_nb.contract.outcomes import CONTRADICTED, UNCHANGED, VERIFIED
from webdata_nb.settings import Settings
from webdata_nb.toolkit.client import paging
from webdata_nb.toolkit.client.client import Client

PAGES = 150
KILLS = 4
RECHECK = 0.3
WRONG = [f"/p{number}" for number in range(100, 150) if number % 5 != 4]


def without_times(row: dict[str, Any]) -> dict[str, Any]:
    metadata = {**row["metadata"], "fetched_at": None}
    return {**row, "time_taken": None, "fetched_at": None, "metadata": metadata}


async def outcomes(client: Client, job_id: str) -> dict[str, str]:
    entries = await paging.receipt_entries(client, job_id)
    return {entry.url: entry.outcome for entry in entries}


async def start(client: Client, body: dict[str, Any]) -> str:
    return (await client.start_extended_crawl(body)).job_id


def change(versions: VersionedSite) -> None:
    """Change pages, some of them without their validators."""
    versions.change("/p9", text_page(9, "/p19", "/p20", "/new", words="changed"))
    versions.add("/new", text_page(3000, "/"))
    versions.site.page("/p41", status=404)
    for path in WRONG:
        versions.change(path, text_page(5000 + int(path[2:])), honest=False)


@pytest.mark.slow
async def test_rows_and_outcomes_are_exact_after_kills(
    local_settings: Settings, site: Site
) -> None:
    versions, chance = varied_site(site, PAGES), random.Random(9)
    body: dict[str, Any] = {"url": site.url, "max_pages": 1000, "concurrency": 4}
    async with connected(local_settings) as (client, _):
        first = await start(client, body)
        before = {row["url"]: row for row in (await rows_after(client, first, 10**6)).data}
        change(versions)
        site.latency = 0.05
        job_id = await start(client, {**body, "base": {"job_id": first, "recheck": RECHECK}})
    site.forget()
    for _ in range(KILLS):
        async with connected(local_settings) as (client, _):
            await asyncio.sleep(chance.uniform(0.1, 0.6))
            kill(local_settings, workers=True)
        await until(lambda: not processes_on(local_settings.data_dir))
    async with connected(local_settings) as (client, _):
        ended = await rows_after(client, job_id, 10**6)
        found = await outcomes(client, job_id)
        repeats = len(site.paths)
        full = await rows_after(client, await start(client, body), 10**6)
        wanted = await outcomes(client, full.job_id)
    assert ended.status == full.status == "completed"
    assert list(found) == list(wanted)
    assert [row["url"] for row in ended.data] == [row["url"] for row in full.data]
    for row, new in zip(ended.data, full.data, strict=True):
        is_trusted = found[row["url"]] == UNCHANGED
        expected = before[row["url"]] if is_trusted else new
        assert without_times(row) == without_times(expected)
    wrong = {site.at(path) for path in WRONG}
    assert {url for url in wrong if found[url] == CONTRADICTED} == {
        url for url, outcome in found.items() if outcome == CONTRADICTED
    }
    assert not {url for url in wrong if found[url] == VERIFIED}
    assert {found[url] for url in wrong} == {CONTRADICTED, UNCHANGED}
    # Each kill repeats the pages in flight at most, two requests for those that are checked.
    checked = sum(outcome in {VERIFIED, CONTRADICTED} for outcome in found.values())
    assert repeats <= len(found) + checked + 2 * KILLS * body["concurrency"]
