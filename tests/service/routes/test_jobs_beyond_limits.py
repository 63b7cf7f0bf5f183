"""Stored jobs that a release with wider limits has accepted."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import open_service
from tests.service.job_stores import store_of
from tests.site.server import Site
from webdata_nb.service.settings import LOCAL_ACCOUNT
from webdata_nb.service.store.records import NewJob

TOO_LARGE: tuple[tuple[str, dict[str, Any], str], ...] = (
    (
        "crawl",
        {"scrape_options": {"exclude_tags": [f".c{n}" for n in range(5000)]}},
        "scrape_options.exclude_tags must have at most 100 selectors",
    ),
    (
        "crawl",
        {"scrape_options": {"include_tags": ["a" + ",a" * 9000]}},
        "scrape_options.include_tags a CSS selector must be at most 1000 characters",
    ),
    ("crawl", {"include_paths": ["/" + "a*" * 100]}, "at most 16 wildcards"),
    ("search", {"extract": {"prompt": "x" * 30_000}}, "must have at most 20000 characters"),
)


async def store_job(data_dir: Path, kind: Any, request: dict[str, Any]) -> str:
    """Put a job into the store as a service that accepted it would have."""
    data_dir.mkdir()  # noqa: ASYNC240 - a test
    job = NewJob(str(uuid.uuid4()), LOCAL_ACCOUNT, kind, "subject", request)
    async with store_of(data_dir) as store:
        await store.accounts.ensure(LOCAL_ACCOUNT, "the user", now=1.0)
        await store.accept(job, now=1.0)
    return job.id


@pytest.mark.parametrize(("kind", "options", "message"), TOO_LARGE)
async def test_a_job_beyond_the_limits_fails_and_says_which(
    tmp_path: Path, kind: str, options: dict[str, Any], message: str
) -> None:
    subject = {"url": "http://a.test/"} if kind == "crawl" else {"query": "q"}
    job_id = await store_job(tmp_path / "data", kind, subject | options)
    async with open_service(tmp_path / "data") as api:
        ended = await api.wait_for_end(kind, job_id)
        assert ended["status"] == "failed"
        assert message in ended["error"]
        assert "start it anew within the limits" in ended["error"]
        refused = await api.post(f"/v1/jobs/{job_id}/retry", {}, 422)
        assert message in refused["detail"][0]["msg"]
        assert refused["detail"][0]["loc"] == ["path", "job_id"]


async def test_a_job_within_the_limits_goes_on(tmp_path: Path, site: Site) -> None:
    site.page("/", "text")
    job_id = await store_job(tmp_path / "data", "crawl", {"url": site.url, "max_pages": 1})
    async with open_service(tmp_path / "data") as api:
        assert (await api.wait_for_end("crawl", job_id))["status"] == "completed"
