"""A service whose stored pages move to files: from outside nothing changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import PostgresServer
from tests.service.conftest import Api, open_service
from tests.service.job_stores import store_of
from tests.service.routes.test_retention import HOUR, Clock
from tests.service.routes.test_search import article, magazine
from tests.shell import Shell
from tests.site.server import Site
from webdata_nb.service.blobs import LocalFolder
from webdata_nb.service.encryption import new_key
from webdata_nb.service.errors import MissingBlobs
from webdata_nb.service.segments import mover

DEADLINE_S = 60.0


@pytest.fixture
def blobs_url(tmp_path: Path) -> str:
    return (tmp_path / "files").as_uri()


@pytest.fixture(autouse=True)
def move_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mover, "MOVE_DELAY_S", 0.0)


def files(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "files").rglob("*") if path.is_file()]


async def wait_until_moved(data_dir: Path) -> None:
    async with store_of(data_dir) as store, asyncio.timeout(DEADLINE_S):
        while True:
            if not await store.segments.jobs_to_move(limit=1):
                return
            await asyncio.sleep(0.05)


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if condition():
                return
            await asyncio.sleep(0.05)


async def run_jobs(api: Api, site: Site) -> list[str]:
    """Run a crawl with all formats and a search of its pages; return their paths."""
    magazine(site)
    for number in range(3):
        text = f"The northern lights of night {number} were green. " * 60
        site.page(
            f"/night/{number}", article(f"Night {number}", text, f"/night/{(number + 1) % 3}")
        )
    site.page("/", article("Home", "A magazine.", "/aurora", "/night/0"))
    formats = ["markdown", "html", "raw_html", "links", "images", "headings"]
    crawl = await api.run_job("crawl", url=site.url, scrape_options={"formats": formats})
    search = await api.run_job("search", query="northern lights", formats=["markdown", "links"])
    assert crawl["total_results"] > 1
    assert search["total_results"] > 0
    return [f"/v1/crawl/{crawl['job_id']}", f"/v1/search/{search['job_id']}"]


async def everything(api: Api, paths: list[str]) -> dict[str, bytes]:
    """Return every reply about some jobs."""
    replies = {}
    for path in paths:
        addresses = [path, f"{path}/events"]
        if "crawl" in path:
            addresses += [f"{path}/receipt"]
            addresses += [f"{path}?per_page=1&page={number}" for number in (1, 2, 5)]
        addresses += [f"{path}/export?format={name}" for name in ("json", "csv", "zip")]
        for address in addresses:
            reply = await api.http.get(address)
            assert reply.status_code == 200, (address, reply.text)
            replies[address] = reply.content
    return replies


@pytest.mark.both_stores
async def test_replies_are_the_same_before_and_after(
    tmp_path: Path, site: Site, blobs_url: str
) -> None:
    data_dir = tmp_path / "data"
    async with open_service(data_dir) as api:
        paths = await run_jobs(api, site)
        before = await everything(api, paths)
    async with open_service(data_dir, blobs=blobs_url) as api:
        await wait_until_moved(data_dir)
        assert files(tmp_path)
        assert await everything(api, paths) == before
        metrics = api.running.metrics.registry
        assert (metrics.get_sample_value("webdata_moved_contents_total") or 0) > 1
        assert metrics.get_sample_value("webdata_segments_total", {"action": "written"}) == 1
        again = await api.run_job("search", query="northern lights")
        assert [row["url"] for row in again["data"]]
    with pytest.raises(MissingBlobs, match="--blobs"):
        async with open_service(data_dir):
            pass


async def test_jobs_move_soon_after_their_end(tmp_path: Path, site: Site, blobs_url: str) -> None:
    async with open_service(tmp_path / "data", blobs=blobs_url) as api:
        paths = await run_jobs(api, site)
        await wait_until_moved(tmp_path / "data")
        assert await everything(api, paths)
        found: dict[str, Any] = await api.get(paths[0])
        assert all(row["success"] for row in found["data"])


async def test_place_that_is_down_is_a_503(
    tmp_path: Path, site: Site, blobs_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = tmp_path / "data"
    async with open_service(data_dir, blobs=blobs_url) as api:
        paths = await run_jobs(api, site)
        await wait_until_moved(data_dir)
    async with open_service(data_dir, blobs=blobs_url) as api:

        def fail(*_: object) -> None:
            raise OSError(5, "s3://user:password@host")

        with monkeypatch.context() as patch:
            patch.setattr(LocalFolder, "read", fail)
            for address in (paths[0], f"{paths[0]}?per_page=1"):
                reply = await api.http.get(address)
                assert reply.status_code == 503
                assert reply.headers["retry-after"]
                assert "Input/output error" in reply.text
                assert "password" not in reply.text
            assert (await api.http.get(f"{paths[0]}/receipt")).status_code == 200
        assert all(row["success"] for row in (await api.get(paths[0]))["data"])


@pytest.mark.both_stores
async def test_expired_pages_do_not_stay_in_files(
    tmp_path: Path, site: Site, blobs_url: str
) -> None:
    data_dir = tmp_path / "data"
    async with open_service(data_dir) as api:
        paths = await run_jobs(api, site)
    async with open_service(data_dir, blobs=blobs_url) as api:
        await wait_until_moved(data_dir)
        crawl = await api.get(paths[0])
    [before] = files(tmp_path)
    # The rows of searches expire before those of crawls; they shared a file.
    clock = Clock(ahead=49 * HOUR)
    async with open_service(data_dir, blobs=blobs_url, clock=clock) as api:
        await wait_until(lambda: not before.exists())
        assert (await api.get(paths[0]))["data"] == crawl["data"]
        assert (await api.get(paths[1]))["data"] == []
    assert len(files(tmp_path)) == 1
    clock = Clock(ahead=1000 * HOUR)
    async with open_service(data_dir, blobs=blobs_url, clock=clock) as api:
        await wait_until(lambda: not files(tmp_path))
        assert (await api.get(paths[0]))["data"] == []


@pytest.mark.slow
async def test_check_of_a_store_reads_its_files(
    tmp_path: Path, site: Site, blobs_url: str, postgres_server: PostgresServer
) -> None:
    url, key = postgres_server.new_schema(), new_key()
    opened = partial(open_service, tmp_path / "data", store=url, secret_keys=(key,))
    async with opened(blobs=blobs_url) as api:
        paths = await run_jobs(api, site)
        async with asyncio.timeout(60):
            while not files(tmp_path):  # noqa: ASYNC110 - moved by a task of the service
                await asyncio.sleep(0.05)
        before = await everything(api, paths)
    async with opened(blobs=blobs_url) as api:
        assert await everything(api, paths) == before
    with pytest.raises(MissingBlobs):
        async with opened():
            pass
    shell, count = Shell(tmp_path / "home"), len(files(tmp_path))
    check = f"files of stored pages: ok, {count} files"
    for options, line in (
        (("--blobs", blobs_url), check),
        ((), f"{check} were not read: --blobs (WEBDATA_BLOBS) is missing"),
    ):
        checked = await asyncio.to_thread(shell.run, "store", "check", url, *options)
        assert checked.returncode == 0, checked.stdout
        assert line in checked.stdout.splitlines()
    files(tmp_path)[0].unlink()
    checked = await asyncio.to_thread(shell.run, "store", "check", url, "--blobs", blobs_url)
    assert checked.returncode == 1
    assert f"files of stored pages: 1 wrong, {count} files" in checked.stdout.splitlines()
