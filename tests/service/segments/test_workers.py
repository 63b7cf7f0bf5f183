"""Processes that continue a job read its pages from the same place."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.service.conftest import TIMEOUT_S, open_service
from tests.service.segments.test_service import files
from tests.site.graphs import link_tree
from tests.site.server import Site
from webdata_nb.service.encryption import new_key
from webdata_nb.service.job_workers.claim_loop import (
    export_to_children,
    worker_options,
    worker_settings,
)
from webdata_nb.service.segments import mover
from webdata_nb.service.settings import BLOBS, SECRET_KEY, STORE, InvalidSetting, ServiceSettings

PAGES = 40


@pytest.mark.both_stores
async def test_crawl_goes_on_with_pages_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mover, "SEGMENT_BYTES", 3_000)
    monkeypatch.setattr(mover, "MOVE_DELAY_S", 0.0)
    monkeypatch.setattr(mover, "INTERVAL_S", 0.05)
    blobs_url = (tmp_path / "files").as_uri()
    with Site(latency=0.05) as site:
        paths = link_tree(site, depth=3, fanout=4)[:PAGES]
        with site.hold(paths[-1]):
            async with (
                open_service(tmp_path / "data", blobs=blobs_url) as api,
                asyncio.timeout(TIMEOUT_S),
            ):
                body = {"url": site.at("/tree"), "max_pages": PAGES, "concurrency": 2}
                job_id = await api.start_job("crawl", body)
                while True:
                    before = await api.get(f"/v1/crawl/{job_id}?per_page=1000")
                    if files(tmp_path):
                        break
                    await asyncio.sleep(0.05)
        assert before["status"] == "running"
        async with open_service(tmp_path / "data", blobs=blobs_url) as api:
            ended = await api.wait_for_end("crawl", job_id)
            ended = await api.get(f"/v1/crawl/{job_id}?per_page=1000")
        assert [row["url"] for row in ended["data"]] == [site.at(path) for path in paths]
        assert ended["data"][: len(before["data"])] == before["data"]
        fetched = [hit.path for hit in site.requests if hit.path != "/robots.txt"]
        assert len(fetched) - len(set(fetched)) <= 2


def test_workers_of_a_service_need_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STORE, "postgresql://u:p@127.0.0.1/x")
    monkeypatch.setenv(SECRET_KEY, new_key())
    monkeypatch.setenv(BLOBS, "")
    service = ServiceSettings(
        data_dir=tmp_path, mode="team", blobs="s3://user:password@bucket/files"
    )
    options = worker_options(service)
    assert "bucket" not in str(options)
    with pytest.raises(InvalidSetting, match=f"set {BLOBS}"):
        worker_settings(options, tmp_path, "worker", page_workers=1)
    export_to_children(service)
    assert os.environ[BLOBS] == service.blobs
    settings = worker_settings(options, tmp_path, "worker", page_workers=1)
    assert settings.blobs == service.blobs
    bare = worker_options(ServiceSettings(data_dir=tmp_path, mode="team"))
    monkeypatch.setenv(BLOBS, "")
    assert worker_settings(bare, tmp_path, "worker", page_workers=1).blobs is None
