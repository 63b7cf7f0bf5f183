"""Cancel and retry, by the contract's table of states and with its four reply shapes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.service.conftest import Api
from tests.site.server import Site

KINDS = ("search", "crawl")


def body_of(kind: str, site: Site) -> dict[str, Any]:
    return {"query": "q"} if kind == "search" else {"url": site.url, "max_pages": 3}


async def cancelled(api: Api, kind: str, site: Site) -> str:
    """Start a job that cannot end by itself, and cancel it."""
    with site.hold("/robots.txt"), site.hold("/"):
        job_id = await api.start_job("crawl", body_of("crawl", site))
        await api.post(f"/v1/jobs/{job_id}/cancel")
    assert kind == "crawl"
    return job_id


async def run_failing_job(api: Api, site: Site) -> str:
    site.robots("User-agent: *\nDisallow: /")
    job_id = await api.start_job("crawl", body_of("crawl", site))
    assert (await api.wait_for_end("crawl", job_id))["status"] == "failed"
    return job_id


@pytest.mark.both_stores
async def test_cancel_and_retry_replies_of_crawls(api: Api, site: Site) -> None:
    site.page("/", "text")
    job_id = await cancelled(api, "crawl", site)
    for _ in range(2):
        reply = await api.post(f"/v1/jobs/{job_id}/cancel", {})
        assert reply == {"success": True, "job_id": job_id, "status": "cancelled"}
    again = await api.post(f"/v1/jobs/{job_id}/retry")
    assert again == {
        "success": True,
        "job_id": again["job_id"],
        "status": "pending",
        "original_job_id": job_id,
    }
    assert again["job_id"] != job_id
    assert (await api.wait_for_end("crawl", again["job_id"]))["status"] == "completed"
    assert (await api.get(f"/v1/crawl/{job_id}"))["status"] == "cancelled"


async def test_cancel_and_retry_replies_of_searches(api: Api, site: Site) -> None:
    site.page("/", "text about walruses")
    await api.run_job("crawl", url=site.url, max_pages=1)
    with site.hold("/"):
        job_id = await api.start_job("search", {"query": "walruses"})
        await asyncio.to_thread(site.wait_for, "/", 2)
        for _ in range(2):
            reply = await api.post(f"/v1/jobs/{job_id}/cancel", {})
            assert reply == {"success": True, "message": "Job cancelled", "job_id": job_id}
    again = await api.post(f"/v1/jobs/{job_id}/retry", {})
    assert again == {
        "success": True,
        "message": "Job restarted",
        "original_job_id": job_id,
        "new_job_id": again["new_job_id"],
        "type": "search",
    }
    after = await api.wait_for_end("search", again["new_job_id"])
    assert (after["status"], len(after["data"])) == ("completed", 1)


@pytest.mark.parametrize("action", ["cancel", "retry"])
async def test_a_completed_job_refuses_both_and_names_its_state(
    api: Api, site: Site, action: str
) -> None:
    site.page("/", "text")
    for kind in KINDS:
        job = await api.run_job(kind, **body_of(kind, site))
        assert job["status"] == "completed"
        refused = await api.post(f"/v1/jobs/{job['job_id']}/{action}", {}, 400)
        assert refused.keys() == {"detail"}
        assert "completed" in refused["detail"]
        assert (await api.get(f"/v1/{kind}/{job['job_id']}"))["status"] == "completed"


async def test_a_failed_job_refuses_to_be_cancelled_and_can_be_retried(
    api: Api, site: Site
) -> None:
    job_id = await run_failing_job(api, site)
    refused = await api.post(f"/v1/jobs/{job_id}/cancel", {}, 400)
    assert "failed" in refused["detail"]
    assert (await api.post(f"/v1/jobs/{job_id}/retry"))["status"] == "pending"


@pytest.mark.both_stores
async def test_a_running_job_refuses_to_be_retried(api: Api, site: Site) -> None:
    with site.hold("/robots.txt"), site.hold("/"):
        job_id = await api.start_job("crawl", body_of("crawl", site))
        refused = await api.post(f"/v1/jobs/{job_id}/retry", {}, 400)
        assert "running" in refused["detail"] or "pending" in refused["detail"]
        await api.post(f"/v1/jobs/{job_id}/cancel")


async def test_cancel_and_retry_take_no_parameters(api: Api) -> None:
    for action in ("cancel", "retry"):
        reply = await api.post(f"/v1/jobs/x/{action}", {"force": True}, 422)
        assert reply["detail"][0]["loc"] == ["body", "force"]
        await api.post(f"/v1/jobs/x/{action}", {}, 404)


@pytest.mark.both_stores
async def test_a_deleted_job_is_unknown_to_every_request(api: Api, site: Site) -> None:
    site.page("/", "text about walruses")
    start = await api.http.post(
        "/v1/crawl", json={"url": site.url, "max_pages": 1}, headers={"Idempotency-Key": "once"}
    )
    job_id = start.json()["job_id"]
    await api.wait_for_end("crawl", job_id)
    found = (await api.run_job("search", query="walruses", formats=[]))["data"]
    assert [row["url"] for row in found] == [site.url]
    paths = (
        f"/v1/crawl/{job_id}",
        f"/v1/crawl/{job_id}/export?format=json",
        f"/v1/crawl/{job_id}/receipt",
        f"/v1/crawl/{job_id}/page-facts",
    )
    for path in (*paths, *paths):  # the second replies come from the cache
        assert (await api.http.get(path)).status_code == 200
    reply = await api.http.delete(f"/v1/jobs/{job_id}")
    assert (reply.status_code, reply.json()) == (
        200,
        {"success": True, "job_id": job_id, "status": "deleted"},
    )
    for path in paths:
        assert (await api.http.get(path)).status_code == 404
    await api.post(f"/v1/jobs/{job_id}/cancel", status=404)
    await api.post(f"/v1/jobs/{job_id}/retry", status=404)
    assert (await api.http.delete(f"/v1/jobs/{job_id}")).status_code == 404
    assert job_id not in [each["job_id"] for each in (await api.get("/v1/jobs"))["jobs"]]
    assert (await api.run_job("search", query="walruses", formats=[]))["data"] == []
    since = {"url": site.url, "max_pages": 1, "since": job_id}
    assert (await api.http.post("/v1/crawl", json=since)).status_code == 422
    again = await api.http.post(
        "/v1/crawl", json={"url": site.url, "max_pages": 1}, headers={"Idempotency-Key": "once"}
    )
    assert again.json()["job_id"] != job_id


async def test_an_active_job_is_not_deleted(api: Api, site: Site) -> None:
    site.page("/", "text")
    with site.hold("/"):
        job_id = await api.start_job("crawl", body_of("crawl", site))
        refusal = await api.http.delete(f"/v1/jobs/{job_id}")
        assert refusal.status_code == 400
        assert "cancel it before you delete it" in refusal.json()["detail"]
    assert (await api.wait_for_end("crawl", job_id))["status"] == "completed"
