"""Webhooks of real jobs, received by a real endpoint."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from tests.service.conftest import Api, open_service
from tests.service.routes.test_search import magazine
from tests.service.webhooks.endpoint import Endpoint, endless_body, never_answer
from tests.site.server import Site
from webdata_nb.contract.events import verify_signature
from webdata_nb.service.settings import InvalidSetting, ServiceSettings

SECRET = "wh-canary-5c1f"
PROFILE_B: Final[dict[str, Any]] = {"webhook_profile": "B"}
WITH_PAGES: Final[dict[str, Any]] = {"webhook_profile": "B", "webhook_pages": True}


@dataclass
class Clock:
    ahead: float = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with Endpoint() as served:
        yield served


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def timed(tmp_path: Path, clock: Clock) -> AsyncIterator[Api]:
    async with open_service(tmp_path / "data", clock=clock) as api:
        yield api


def hook(endpoint: Endpoint) -> dict[str, str]:
    return {"webhook_url": endpoint.url, "webhook_secret": SECRET}


async def deliveries(api: Api, job_id: str, status: str, count: int = 1) -> list[dict[str, Any]]:
    """Wait until a job's deliveries are in a state."""
    async with asyncio.timeout(60):
        while True:
            reply = await api.get("/v1/webhooks/deliveries", params={"job_id": job_id})
            found: list[dict[str, Any]] = reply["deliveries"]
            if len(found) == count and {each["status"] for each in found} == {status}:
                return found
            await asyncio.sleep(0.02)


@pytest.mark.both_stores
async def test_completed_crawl_is_delivered_once_and_signed(
    api: Api, site: Site, endpoint: Endpoint
) -> None:
    magazine(site)
    status = await api.run_job("crawl", url=site.url, **hook(endpoint))
    [got] = await endpoint.received(1)
    assert got.path == "/hook?token=t0ken"
    assert got.payload == {
        "event": "job.completed",
        "job_id": status["job_id"],
        "job_type": "crawl",
        "status": "completed",
        "total_pages": 4,
        "completed_pages": 4,
    }
    assert got.headers["Content-Type"] == "application/json"
    assert got.headers["X-Service-Event"] == got.headers["X-Webhook-Event"] == "job.completed"
    assert abs(int(got.headers["X-Service-Delivery"]) - time.time()) < 60
    assert got.headers["X-Service-Signature"] == got.headers["X-Webhook-Signature"]
    assert verify_signature(got.body, got.headers, SECRET)
    assert not verify_signature(got.body + b" ", got.headers, SECRET)
    [delivery] = await deliveries(api, status["job_id"], "delivered")
    assert (delivery["attempts"], delivery["status_code"], delivery["error"]) == (1, 204, None)
    assert delivery["event_id"] == got.event_id
    assert delivery["payload"] == got.payload
    assert len(endpoint.webhooks) == 1


@pytest.mark.both_stores
async def test_failed_and_cancelled_jobs_are_delivered(
    api: Api, site: Site, endpoint: Endpoint
) -> None:
    site.page("/robots.txt", "User-agent: *\nDisallow: /")
    await api.run_job("crawl", url=site.url, **hook(endpoint))
    site.page("/robots.txt", "")
    site.page("/", "slow", delay=60.0)
    job_id = await api.start_job("crawl", {"url": site.url, **hook(endpoint)})
    await api.post(f"/v1/jobs/{job_id}/cancel")
    await api.post(f"/v1/jobs/{job_id}/cancel")
    failed, cancelled = await endpoint.received(2)
    assert (failed.payload["event"], failed.payload["status"]) == ("job.failed", "failed")
    assert cancelled.payload["event"] == "job.cancelled"
    assert cancelled.payload["status"] == "cancelled"
    await deliveries(api, job_id, "delivered")
    assert len(endpoint.webhooks) == 2


@pytest.mark.both_stores
async def test_cancelled_pending_job_is_delivered(api: Api, endpoint: Endpoint) -> None:
    job_id = await api.start_job("search", {"query": "nothing", **hook(endpoint)})
    answer = await api.http.post(f"/v1/jobs/{job_id}/cancel", json={})
    [got] = await endpoint.received(1)
    event = "job.cancelled" if answer.status_code == 200 else "job.completed"
    assert got.payload["event"] == event


async def test_profile_b_delivers_searches_and_crawls(
    tmp_path: Path, site: Site, endpoint: Endpoint
) -> None:
    magazine(site)
    async with open_service(tmp_path / "data", **PROFILE_B) as api:
        await api.run_job("crawl", url=site.url, **hook(endpoint))
        await endpoint.received(1)
        await api.run_job("search", query="northern lights", **hook(endpoint))
        crawl, search = (got.payload for got in await endpoint.received(2))
    assert datetime.fromisoformat(crawl.pop("timestamp")).utcoffset() is not None
    job_id = crawl.pop("job_id")
    assert crawl == {
        "event": "crawl.completed",
        "status": "completed",
        "data": {"total_pages": 4, "completed_pages": 4, "url": site.url},
    }
    assert job_id != search["job_id"]
    assert search["event"] == "search.completed"
    assert search["data"] == {"total_results": 2, "completed_results": 2}


@pytest.mark.both_stores
async def test_each_page_is_delivered_once_if_enabled(
    tmp_path: Path, site: Site, endpoint: Endpoint
) -> None:
    magazine(site)
    async with open_service(tmp_path / "data", **WITH_PAGES) as api:
        job = await api.run_job("crawl", url=site.url, **hook(endpoint))
        await deliveries(api, job["job_id"], "delivered", 5)
    pages = [got.payload for got in endpoint.webhooks if got.payload["event"] == "crawl.page"]
    assert sorted(page["data"]["url"] for page in pages) == sorted(
        row["url"] for row in job["data"]
    )
    assert all(page["data"]["success"] for page in pages)
    assert len({got.event_id for got in endpoint.webhooks}) == 5


async def test_delivery_without_a_secret_is_not_signed(api: Api, endpoint: Endpoint) -> None:
    await api.run_job("search", query="q", webhook_url=endpoint.url)
    [got] = await endpoint.received(1)
    assert not [name for name in got.headers if "signature" in name.lower()]


@pytest.mark.both_stores
@pytest.mark.slow
async def test_retry_has_the_same_event_id(timed: Api, clock: Clock, endpoint: Endpoint) -> None:
    endpoint.answers = [500, 503]
    job_id = await timed.start_job("search", {"query": "q", **hook(endpoint)})
    await endpoint.received(1)
    clock.ahead += 1
    await endpoint.received(2)
    clock.ahead += 4
    got = await endpoint.received(3)
    [delivery] = await deliveries(timed, job_id, "delivered")
    assert delivery["attempts"] == 3
    assert len({each.event_id for each in got}) == 1
    assert len({each.body for each in got}) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("answers", "attempts"), [([500] * 9, 3), ([404], 1), ([410], 1)])
async def test_refused_delivery_is_not_retried(
    timed: Api, clock: Clock, endpoint: Endpoint, answers: list[int], attempts: int
) -> None:
    endpoint.answers = [*answers]
    job_id = await timed.start_job("search", {"query": "q", **hook(endpoint)})
    for count in range(attempts):
        await endpoint.received(count + 1)
        clock.ahead += 5
    [delivery] = await deliveries(timed, job_id, "failed")
    assert (delivery["attempts"], delivery["status_code"]) == (attempts, answers[0])
    assert delivery["error"] == f"HTTP {answers[0]}"
    assert len(endpoint.webhooks) == attempts


@pytest.mark.parametrize(("settings", "state"), [({}, "delivered"), (PROFILE_B, "failed")])
async def test_redirects_are_not_followed(
    tmp_path: Path, endpoint: Endpoint, settings: dict[str, Any], state: str
) -> None:
    endpoint.answers = [302]
    async with open_service(tmp_path / "data", **settings) as api:
        job_id = await api.start_job("search", {"query": "q", **hook(endpoint)})
        [delivery] = await deliveries(api, job_id, state)
    assert delivery["status_code"] == 302
    assert [got.path for got in endpoint.webhooks] == ["/hook?token=t0ken"]


@pytest.mark.slow
async def test_unreachable_endpoint_is_tried_three_times(timed: Api, clock: Clock) -> None:
    async with Endpoint() as gone:
        url = gone.url
    job_id = await timed.start_job("search", {"query": "q", "webhook_url": url})
    async with asyncio.timeout(60):
        while True:
            [delivery] = await timed_deliveries(timed, job_id)
            if delivery["status"] == "failed":
                break
            clock.ahead += 1
            await asyncio.sleep(0.1)
    assert delivery["attempts"] == 3
    assert delivery["status_code"] is None
    assert delivery["error"]


async def timed_deliveries(api: Api, job_id: str) -> list[dict[str, Any]]:
    await api.wait_for_end("search", job_id)
    reply = await api.get("/v1/webhooks/deliveries", params={"job_id": job_id})
    found: list[dict[str, Any]] = reply["deliveries"]
    return found


async def test_dead_endpoint_does_not_delay_others(api: Api, endpoint: Endpoint) -> None:
    async with Endpoint(answers=[never_answer] * 20) as dead:
        for _ in range(10):
            await api.start_job("search", {"query": "q", **hook(dead)})
        await dead.received(4)
        for _ in range(3):
            await api.start_job("search", {"query": "q", **hook(endpoint)})
        await endpoint.received(3)
        assert len(dead.webhooks) <= 4


async def test_endless_reply_is_not_read(api: Api, endpoint: Endpoint) -> None:
    endpoint.answers = [endless_body]
    job_id = await api.start_job("search", {"query": "q", **hook(endpoint)})
    [delivery] = await deliveries(api, job_id, "delivered")
    assert delivery["status_code"] == 200


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://example.com/hook", "a webhook goes to a public https:// address"),
        ("https://10.0.0.1/hook", "network policy"),
        ("https://169.254.169.254/hook", "network policy"),
        ("https://[::ffff:10.0.0.1]/hook", "network policy"),
        ("https://user:pass@example.com/", "user name or password"),
        ("https://example.com:22/", "Port 22"),
        ("http://192.168.1.1/hook", "a webhook goes to a public https:// address"),
        ("ftp://example.com/", "absolute http"),
    ],
)
async def test_refused_endpoint_is_422_before_the_job_is_stored(
    api: Api, url: str, words: str
) -> None:
    for kind, body in (("search", {"query": "q"}), ("crawl", {"url": "http://127.0.0.1:8009/"})):
        [problem] = (await api.post(f"/v1/{kind}", {**body, "webhook_url": url}, 422))["detail"]
        assert problem["loc"] == ["body", "webhook_url"]
        assert words in problem["msg"]
    [problem] = (await api.post("/v1/webhooks/test", {"webhook_url": url}, 422))["detail"]
    assert problem["loc"] == ["body", "webhook_url"]
    assert (await api.get("/v1/jobs"))["jobs"] == []


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8009/", "http://localhost:8009/", "https://[::1]/x"]
)
async def test_loopback_endpoint_needs_the_setting(tmp_path: Path, url: str) -> None:
    async with open_service(tmp_path / "data", webhook_loopback=False) as api:
        await api.post("/v1/search", {"query": "q", "webhook_url": url}, 422)
    async with open_service(tmp_path / "data") as api:
        await api.post("/v1/search", {"query": "q", "webhook_url": url})


async def test_secret_without_endpoint_is_refused(api: Api) -> None:
    body = {"query": "q", "webhook_secret": SECRET}
    [problem] = (await api.post("/v1/search", body, 422))["detail"]
    assert (problem["loc"], problem["msg"]) == (["body", "webhook_secret"], "needs a webhook_url")


async def test_retried_job_delivers_its_end_with_the_same_secret(
    api: Api, site: Site, endpoint: Endpoint
) -> None:
    site.page("/robots.txt", "User-agent: *\nDisallow: /")
    old = await api.run_job("crawl", url=site.url, **hook(endpoint))
    new = (await api.post(f"/v1/jobs/{old['job_id']}/retry"))["job_id"]
    first, second = await endpoint.received(2)
    assert {first.payload["job_id"], second.payload["job_id"]} == {old["job_id"], new}
    assert first.event_id != second.event_id
    assert all(verify_signature(got.body, got.headers, SECRET) for got in endpoint.webhooks)


async def test_deliveries_are_listed_newest_first_in_pages(api: Api, endpoint: Endpoint) -> None:
    jobs = [await api.start_job("search", {"query": "q", **hook(endpoint)}) for _ in range(5)]
    await endpoint.received(5)
    listed: list[dict[str, Any]] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        reply = await api.get("/v1/webhooks/deliveries", params=query)
        listed += reply["deliveries"]
        if "cursor" not in reply:
            break
        query["cursor"] = reply["cursor"]
    assert sorted(each["job_id"] for each in listed) == sorted(jobs)
    times = [each["created_at"] for each in listed]
    assert times == sorted(times, reverse=True)
    one = await api.get("/v1/webhooks/deliveries", params={"job_id": jobs[2]})
    assert [each["job_id"] for each in one["deliveries"]] == [jobs[2]]
    await api.get("/v1/webhooks/deliveries", 422, params={"cursor": "x"})
    await api.get("/v1/webhooks/deliveries", 422, params={"limit": "0"})


async def test_replay_sends_the_same_event_again(api: Api, endpoint: Endpoint) -> None:
    endpoint.answers = [404]
    job_id = await api.start_job("search", {"query": "q", **hook(endpoint)})
    [failed] = await deliveries(api, job_id, "failed")
    reply = await api.post(f"/v1/webhooks/deliveries/{failed['delivery_id']}/replay")
    again = reply["delivery"]
    assert (again["replay"], again["status"], again["attempts"]) == (True, "pending", 0)
    assert again["delivery_id"] != failed["delivery_id"]
    first, second = await endpoint.received(2)
    assert (first.event_id, first.body) == (second.event_id, second.body)
    assert verify_signature(second.body, second.headers, SECRET)
    await api.post("/v1/webhooks/deliveries/nowhere/replay", status=404)


async def test_pending_delivery_is_not_replayed(timed: Api, endpoint: Endpoint) -> None:
    endpoint.answers = [never_answer]
    job_id = await timed.start_job("search", {"query": "q", **hook(endpoint)})
    await endpoint.received(1)
    [delivery] = await deliveries(timed, job_id, "pending")
    reply = await timed.post(
        f"/v1/webhooks/deliveries/{delivery['delivery_id']}/replay", status=400
    )
    assert "pending" in reply["detail"]


async def test_stats_count_by_state_and_event(api: Api, endpoint: Endpoint) -> None:
    assert (await api.get("/v1/webhooks/stats"))["total"] == 0
    endpoint.answers = [404]
    first = await api.start_job("search", {"query": "q", **hook(endpoint)})
    await deliveries(api, first, "failed")
    second = await api.start_job("search", {"query": "q", **hook(endpoint)})
    await deliveries(api, second, "delivered")
    assert await api.get("/v1/webhooks/stats") == {
        "success": True,
        "total": 2,
        "pending": 0,
        "delivered": 1,
        "failed": 1,
        "attempts": 2,
        "by_event": {"job.completed": 2},
    }


async def test_trial_delivery_returns_the_reply_of_the_endpoint(
    api: Api, endpoint: Endpoint
) -> None:
    endpoint.answers = [204, 500]
    good = await api.post("/v1/webhooks/test", hook(endpoint))
    assert (good["success"], good["status_code"], good["error"]) == (True, 204, None)
    [got] = endpoint.webhooks
    assert got.payload["event"] == got.headers["X-Webhook-Event"] == "webhook.test"
    assert verify_signature(got.body, got.headers, SECRET)
    bad = await api.post("/v1/webhooks/test", hook(endpoint))
    assert (bad["success"], bad["status_code"], bad["error"]) == (False, 500, "HTTP 500")
    await api.post("/v1/webhooks/test", {}, 422)


async def test_pending_deliveries_are_sent_after_a_restart(
    tmp_path: Path, endpoint: Endpoint
) -> None:
    endpoint.answers = [500]
    async with open_service(tmp_path / "data") as api:
        await api.run_job("search", query="q", **hook(endpoint))
        await endpoint.received(1)
    async with open_service(tmp_path / "data"):
        first, second = await endpoint.received(2)
    assert first.event_id == second.event_id


async def test_replies_contain_no_secret_or_token(api: Api, endpoint: Endpoint) -> None:
    job = await api.run_job("search", query="q", **hook(endpoint))
    await deliveries(api, job["job_id"], "delivered")
    for path in (
        "/v1/webhooks/deliveries",
        "/v1/webhooks/stats",
        "/v1/jobs",
        f"/v1/search/{job['job_id']}",
        f"/v1/search/{job['job_id']}/events",
    ):
        text = (await api.http.get(path)).text
        assert SECRET not in text
        assert "t0ken" not in text


@pytest.mark.parametrize(
    ("given", "words"),
    [({"webhook_profile": "C"}, "takes A or B"), ({"webhook_pages": True}, "needs")],
)
def test_contradictory_settings_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSetting, match=words):
        ServiceSettings.checked({"data_dir": Path(), **given})
