"""Credits and concurrency over HTTP."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.conftest import Api, open_service
from tests.service.job_stores import store_of
from tests.service.routes.teams import member
from tests.site.server import Site
from webdata_nb.service.errors import ConcurrencyReached
from webdata_nb.service.ledger import CREATIVES, Charge, Terms
from webdata_nb.service.routes.credits import charged
from webdata_nb.service.store.sql.store import Store

LOOPBACK = ("127.0.0.0/8",)
DISCOVERY = {"query": "q", "formats": []}


def limits(response: httpx.Response) -> tuple[int, int, int]:
    """The three headers that every 429 has."""
    names = ("Retry-After", "X-Concurrency-Limit", "X-Concurrency-Active")
    after, limit, active = (int(response.headers[name]) for name in names)
    return after, limit, active


async def all_over(api: Api, mine: dict[str, str]) -> Any:
    """Wait until nothing of an account is under way; return its usage."""
    async with asyncio.timeout(60):
        while True:
            usage = await api.get("/v1/usage", headers=mine)
            if not usage["active"]:
                return usage
            await asyncio.sleep(0.02)


@pytest.mark.both_stores
async def test_the_users_own_account_has_no_limit_and_is_counted(api: Api, site: Site) -> None:
    for path in ("/", "/a"):
        site.page(path, '<a href="/a">a</a>' if path == "/" else "text")
    site.page("/broken", "no", status=500)
    status = await api.run_job("crawl", url=site.url, max_pages=10)
    assert (status["credits"], status["credits_reserved"]) == (2, None)
    assert status["credits_unlimited"] is True
    usage = await api.get("/v1/usage")
    assert usage["operations"] == [
        {"platform": "crawl", "operation": "page", "units": 2, "credits": 2.0}
    ]
    assert (usage["plan"], usage["monthly"], usage["limit"]) == ("unlimited", None, None)
    assert (usage["used"], usage["reserved"], usage["active"]) == (2.0, 0.0, 0)
    assert usage["period_start"] < usage["period_end"]


@pytest.mark.both_stores
async def test_failed_pages_cost_nothing(tmp_path: Path, site: Site) -> None:
    mine = await member(tmp_path, "alice", monthly=10)
    site.page("/", '<a href="/good">good</a><a href="/bad">bad</a>')
    site.page("/good", "text")
    site.page("/bad", "no", status=404)
    async with open_service(tmp_path, "team", allow_networks=LOOPBACK) as api:
        body = {"url": site.url, "max_pages": 10}
        job_id = await api.start_job("crawl", body, headers=mine)
        usage = await all_over(api, mine)
        status = await api.get(f"/v1/crawl/{job_id}", headers=mine)
        events = await api.http.get(f"/v1/crawl/{job_id}/events", headers=mine)
    assert (status["credits"], status["credits_reserved"]) == (2, 10)
    assert status["credits_unlimited"] is False
    assert '"credits":2,"credits_reserved":10' in events.text
    rows = status["data"]
    assert [row["success"] for row in rows] == [True, True, False]
    assert (usage["used"], usage["monthly_left"], usage["reserved"]) == (2.0, 8.0, 0.0)


@pytest.mark.slow
async def test_credit_for_ten_of_200_simultaneous_starts(tmp_path: Path) -> None:
    mine = await member(tmp_path, "alice", monthly=0, concurrency=1000)
    async with (
        open_service(tmp_path, "team") as api,
        store_of(tmp_path) as store,
    ):
        accounts = store.accounts
        for turn in range(1, 21):
            await accounts.top_up("alice", 10, now=time.time())
            answers = await asyncio.gather(
                *[api.http.post("/v1/search", json=DISCOVERY, headers=mine) for _ in range(200)]
            )
            by_status = [answer.status_code for answer in answers]
            assert (by_status.count(200), by_status.count(429)) == (10, 190)
            for answer in answers:
                if answer.status_code == 429:
                    assert "credits" in answer.json()["detail"]
                    assert answer.json()["code"] == "quota"
                    after, limit, active = limits(answer)
                    assert after > 0
                    assert active < limit == 1000
            usage = await all_over(api, mine)
            assert (usage["topup"], usage["used"]) == (0.0, 10.0 * turn)
        lines = await accounts.ledger("alice")
        assert sum(line.topup for line in lines) == 0
        assert sum(line.credits for line in lines) == 200


@pytest.mark.slow
async def test_fifty_clients_never_have_more_than_eight_active(tmp_path: Path) -> None:
    mine = await member(tmp_path, "alice", monthly=None, concurrency=8)
    watched: list[int] = []
    async with open_service(tmp_path, "team") as api:

        async def client() -> None:
            started_count = 0
            while started_count < 4:
                answer = await api.http.post("/v1/search", json=DISCOVERY, headers=mine)
                assert answer.status_code in {200, 429}, answer.text
                if answer.status_code == 200:
                    started_count += 1
                    continue
                after, limit, active = limits(answer)
                assert (after > 0, limit) == (True, 8)
                watched.append(active)
                detail = answer.json()["detail"]
                message = f"concurrency limit reached: {active} active of 8 that the plan allows"
                assert detail == message
                assert answer.json()["code"] == "concurrency"
                await asyncio.sleep(0.01)

        async with asyncio.timeout(280):
            await asyncio.gather(*[client() for _ in range(50)])
        usage = await all_over(api, mine)
    assert watched
    assert max(watched) == 8
    assert usage["used"] == 200.0


async def test_a_replayed_start_costs_nothing(tmp_path: Path) -> None:
    mine = await member(tmp_path, "alice", monthly=1, concurrency=1)
    async with open_service(tmp_path, "team") as api:
        again = {**mine, "Idempotency-Key": "once"}
        first = await api.start_job("search", DISCOVERY, headers=again)
        assert await api.start_job("search", DISCOVERY, headers=again) == first
        await api.post("/v1/search", DISCOVERY, 429, headers=mine)
        assert (await all_over(api, mine))["used"] == 1.0


async def test_a_failed_job_costs_nothing_and_its_retry_is_charged_like_a_start(
    tmp_path: Path, site: Site
) -> None:
    mine = await member(tmp_path, "alice", monthly=3)
    site.page("/robots.txt", "User-agent: *\nDisallow: /")
    async with open_service(tmp_path, "team", allow_networks=LOOPBACK) as api:
        body = {"url": site.url, "max_pages": 3}
        job_id = await api.start_job("crawl", body, headers=mine)
        usage = await all_over(api, mine)
        assert (usage["used"], usage["monthly_left"]) == (0.0, 3.0)
        async with store_of(tmp_path) as store:
            await store.accounts.set_terms("alice", Terms("team", 2, 9), now=time.time())
        reply = await api.post(f"/v1/jobs/{job_id}/retry", {}, 429, headers=mine)
        assert "may cost 3 credits and 2 are left" in reply["detail"]


async def break_off(store: Store, most: tuple[Charge, ...]) -> None:
    async with charged(store, "a", most, timeout_s=90) as call:
        usage = await store.accounts.usage("a", now=time.time())
        assert (usage.active, usage.reserved) == (1, 81)
        with pytest.raises(ConcurrencyReached):
            await charged(store, "a", most, timeout_s=90).__aenter__()
        call.add("creatives")
        call.add("ocr", 2)
        call.add("ocr")
        raise EOFError


async def test_call_is_charged_for_added_units(tmp_path: Path) -> None:
    async with store_of(tmp_path) as store:
        accounts = store.accounts
        await accounts.add("a", "Alice", Terms("team", 100, 1), now=time.time())
        most = (Charge(CREATIVES, "creatives", 1), Charge(CREATIVES, "ocr", 40))
        with pytest.raises(EOFError):
            await break_off(store, most)
        usage = await accounts.usage("a", now=time.time())
        assert (usage.active, usage.account.balance.monthly_left) == (0, 93)


@pytest.mark.sqlite("the calls of a dead replica expire: another one may be alive")
async def test_service_start_releases_reservations_of_dead_calls(tmp_path: Path) -> None:
    mine = await member(tmp_path, "alice", monthly=10)
    async with store_of(tmp_path) as store:
        most, now = (Charge(CREATIVES, "creatives", 3),), time.time()
        await store.accounts.open_call("alice", "call", most, until=now + 900, now=now)
    async with open_service(tmp_path, "team") as api:
        usage = await api.get("/v1/usage", headers=mine)
        assert (usage["monthly_left"], usage["reserved"], usage["active"]) == (10, 0, 0)


async def test_the_catalog_and_the_usage_need_a_key(api: Api) -> None:
    del api.http.headers["Authorization"]
    for path in ("/v1/usage", "/v1/data-api-weights/public"):
        await api.get(path, 401)
