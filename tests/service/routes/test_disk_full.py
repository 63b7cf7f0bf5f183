"""A full disk: starts are refused with a reason, running jobs wait, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.service.conftest import Api, open_service
from tests.site.document import document
from tests.site.server import Site
from tests.small_disk import small_disk
from webdata_nb.contract import paths
from webdata_nb.pacing.retry_policies import BackoffPolicy
from webdata_nb.service.routes import open_endpoints
from webdata_nb.service.store import job_context
from webdata_nb.service.store.sqlite.database import SqliteDatabase, check_database

PAGES = 30
TIMEOUT_S = 240


def big_site(site: Site) -> list[str]:
    """Give a start page and those it links to, whose rows are some 40 kB each."""
    for number in range(PAGES):
        text = " ".join(os.urandom(4).hex() for _ in range(4500))
        links = [f"/p{other}" for other in range(1, PAGES)] if number == 0 else []
        site.page(f"/p{number}", document(f"Page {number}", text=text, links=links))
    return [site.at(f"/p{number}") for number in range(PAGES)]


async def check_starts_are_refused(api: Api, body: dict[str, Any]) -> list[tuple[str, str]]:
    """Check the replies to starts of jobs while the disk is full.

    Returns
    -------
    list[tuple[str, str]]
        Kinds and ids of accepted jobs: now and then the database finds room for their small rows.
    """
    accepted: list[tuple[str, str]] = []
    async with asyncio.timeout(TIMEOUT_S):
        for kind, each in (("crawl", body), ("search", {"query": "x"})):
            path = f"/v1/{kind}"
            while (reply := await api.http.post(path, json=each)).status_code == 200:
                accepted.append((kind, reply.json()["job_id"]))
            assert reply.status_code == 503
            assert "full" in reply.json()["detail"]
            assert int(reply.headers["Retry-After"]) > 0
    return accepted


async def check_completed(api: Api, jobs: list[tuple[str, str]]) -> None:
    """Wait for the ends of jobs; check that none failed."""
    for kind, job_id in jobs:
        ended = await api.wait_for_end(kind, job_id)
        assert (ended["status"], ended["error"]) == ("completed", None)


class SizeLimitedConnection(sqlite3.Connection):
    """A connection to a database that may not grow beyond `pages`, where that is set."""

    pages: ClassVar[int] = 1 << 30

    def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
        if sql == "BEGIN IMMEDIATE":
            super().execute(f"PRAGMA max_page_count={self.pages}")
        return super().execute(sql, *rest)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_endpoints, "FRESH_S", 0.0)
    monkeypatch.setattr(job_context, "STORE", BackoffPolicy(0.1, 0.2))


@contextmanager
def bounded_database(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    monkeypatch.setattr(SqliteDatabase, "connection_type", SizeLimitedConnection)
    size = (data_dir / "jobs.sqlite").stat().st_size // 16_384

    def fill() -> None:
        monkeypatch.setattr(SizeLimitedConnection, "pages", size + 40)

    def free() -> None:
        monkeypatch.setattr(SizeLimitedConnection, "pages", 1 << 30)

    yield fill, free


@contextmanager
def mounted_disk(data_dir: Path, _monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    shutil.rmtree(data_dir)
    data_dir.mkdir()
    with small_disk(data_dir, megabytes=24) as disk:
        yield lambda: disk.fill(but=600_000), disk.free


Disk = tuple[Callable[[], None], Callable[[], None]]


@pytest.mark.slow
@pytest.mark.sqlite("fills the disk of the database file")
@pytest.mark.parametrize("disk", [bounded_database, mounted_disk])
async def test_jobs_wait_for_space_and_lose_nothing(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: Any
) -> None:
    data_dir, expected = tmp_path / "data", big_site(site)
    async with open_service(data_dir):
        pass  # the schema is there before the disk is full
    body = {"url": expected[0], "max_pages": PAGES, "concurrency": 5}
    with disk(data_dir, monkeypatch) as (fill, free):
        async with open_service(data_dir) as api, asyncio.timeout(TIMEOUT_S):
            fill()
            job_id = await api.start_job("crawl", body)
            status = await full(api, job_id)
            accepted = await check_starts_are_refused(api, body)
            await asyncio.sleep(1)
            still = await api.get(f"/v1/crawl/{job_id}")
            assert (still["status"], still["error"]) == ("running", None)
            assert still["data"][: len(status)] == status
            free()
            ended = await api.wait_for_end("crawl", job_id)
            assert (ended["status"], ended["error"]) == ("completed", None)
            assert [row["url"] for row in ended["data"]] == expected
            assert ended["data"][: len(status)] == status
            await check_completed(api, accepted)
            assert await api.get(paths.READY) == {"status": "ok"}
            again = await api.run_job("crawl", **body)
            assert len(again["data"]) == PAGES
        assert not [each for each in check_database(data_dir / "jobs.sqlite") if each.problems]


async def full(api: Api, job_id: str) -> list[Any]:
    """Wait until the disk is full; return the rows shown by then."""
    no_credentials = {"Authorization": ""}
    while (unready := await api.http.get(paths.READY, headers=no_credentials)).status_code == 200:
        reply = await api.get(f"/v1/crawl/{job_id}")
        assert reply["status"] in {"pending", "running"}
        await asyncio.sleep(0.02)
    assert unready.status_code == 503
    assert unready.json() == {"status": "unavailable", "reason": "disk full"}
    assert await api.get(paths.HEALTH, headers=no_credentials) == {"status": "ok"}
    return list((await api.get(f"/v1/crawl/{job_id}"))["data"])
