"""Every operation against every kind of caller."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.openapi.operations import DOCUMENT
from tests.service.conftest import LOCAL_ONLY, Api, open_service
from tests.service.job_stores import store_of, wait_for_other_processes
from tests.service.routes.teams import member
from webdata_nb.contract import paths
from webdata_nb.contract.local import Access, SessionSettings
from webdata_nb.service.creatives.sample import advertiser_ids

UNKNOWN = "00000000-0000-4000-8000-000000000000"
# What an operation is: method, path, body, and the kind of thing that it is about, if any.
OPERATIONS = {
    "search": ("POST", paths.SEARCH, {"query": "q", "formats": []}, None),
    "search status": ("GET", paths.SEARCH_JOB, None, "search"),
    "search events": ("GET", paths.SEARCH_EVENTS, None, "search"),
    "search export": ("GET", paths.SEARCH_EXPORT + "?format=json", None, "search"),
    "crawl": ("POST", paths.CRAWL, {"url": "https://example.com/"}, None),
    "long crawl": (
        "POST",
        paths.EXTENDED_CRAWLS,
        {"url": "https://example.com/", "max_pages": 5000},
        None,
    ),
    "incremental crawl": (
        "POST",
        paths.EXTENDED_CRAWLS,
        {"urls": ["https://example.com/", "https://example.com/a"]},
        None,
    ),
    "dated crawl": (
        "POST",
        paths.EXTENDED_CRAWLS,
        {
            "url": "https://example.com/",
            "source": {"web_archive": {"as_of": "2024-06-01"}},
        },
        None,
    ),
    "captures": ("POST", paths.CAPTURES, {"url": "https://example.com/"}, None),
    "crawl status": ("GET", paths.CRAWL_JOB, None, "crawl"),
    "crawl events": ("GET", paths.CRAWL_EVENTS, None, "crawl"),
    "crawl export": ("GET", paths.CRAWL_EXPORT + "?format=csv", None, "crawl"),
    "crawl receipt": ("GET", paths.CRAWL_RECEIPT, None, "crawl"),
    "crawl page facts": ("GET", paths.CRAWL_PAGE_FACTS, None, "crawl"),
    "cancel": ("POST", paths.JOB_CANCEL, {}, "crawl"),
    "retry": ("POST", paths.JOB_RETRY, {}, "crawl"),
    "verify": (
        "POST",
        paths.VERIFY,
        {"pages": [{"job_id": UNKNOWN, "url": "https://example.com/", "extract": {"a": "b"}}]},
        None,
    ),
    "jobs": ("GET", paths.JOBS, None, None),
    "engines": ("GET", paths.ENGINES, None, None),
    "advertisers": ("GET", paths.ADVERTISERS + "?query=Fulmar", None, None),
    "file": ("GET", paths.CREATIVES_FILE, None, "file"),
    "replay": ("POST", paths.WEBHOOK_REPLAY, {}, "delivery"),
    "creatives": ("POST", paths.CREATIVES, {"advertiser_id": "AR1"}, None),
    "weights": ("GET", paths.WEIGHTS, None, None),
    "usage": ("GET", paths.USAGE, None, None),
    "deliveries": ("GET", paths.WEBHOOK_DELIVERIES, None, None),
    "webhook stats": ("GET", paths.WEBHOOK_STATS, None, None),
    "webhook test": ("POST", paths.WEBHOOK_TEST, {}, None),
    "delete": ("DELETE", paths.JOB, None, "crawl"),
}
INVALID_CREDENTIALS = {
    "none": None,
    "empty": "",
    "malformed": "Bearer",
    "another scheme": "Basic wdk_alice",
    "a hash": "Bearer 2bd806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90",
    "unknown": "Bearer wdk_nobody",
    "revoked": "Bearer wdk_mallory",
}
UNKNOWN_FILE = "0" * 64
ADVERTISER = advertiser_ids()[0]
HOOK = {"webhook_url": "http://127.0.0.1:65534/hook"}


@dataclass(frozen=True, slots=True)
class Team:
    """A service with things of Alice's (jobs, cancelled), and Bob, who must not see them."""

    api: Api
    resource_ids: dict[str, str]

    async def ask(self, name: str, resource_id: str | None, bearer: str | None) -> httpx.Response:
        method, path, body, kind = OPERATIONS[name]
        target = re.sub(r"\{\w+\}", resource_id or self.resource_ids.get(kind or "", ""), path)
        headers = {} if bearer is None else {"Authorization": bearer}
        return await self.api.http.request(method, target, json=body, headers=headers)


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    alice = await member(tmp_path, "alice")
    await member(tmp_path, "bob")
    await member(tmp_path, "mallory")
    async with store_of(tmp_path) as store:
        await store.accounts.end_key("key_mallory", at=time.time())
    # No test asks a web archive on the internet.
    no_archive = SessionSettings(engines=LOCAL_ONLY.engines, providers={"wayback": Access(url="-")})
    async with open_service(tmp_path, "team", providers=no_archive) as api:
        del api.http.headers["Authorization"]
        starts = (("search", {"query": "q"}), ("crawl", {"url": "https://x.invalid", **HOOK}))
        resource_ids = {
            kind: await api.start_job(kind, body, headers=alice) for kind, body in starts
        }
        for job_id in resource_ids.values():
            await api.http.post(f"/v1/jobs/{job_id}/cancel", headers=alice)
        deliveries = await api.get(paths.WEBHOOK_DELIVERIES, headers=alice)
        resource_ids["delivery"] = deliveries["deliveries"][0]["delivery_id"]
        wanted = {"advertiser_id": ADVERTISER, "limit": 1, "should_download_previews": True}
        ads = await api.post(paths.CREATIVES, wanted, headers=alice)
        resource_ids["file"] = ads["creatives"][0]["preview"]["sha256"]
        yield Team(api, resource_ids)


def test_the_matrix_has_every_operation_that_needs_a_key() -> None:
    operations = {
        (method.lower(), path.partition("?")[0]) for method, path, *_ in OPERATIONS.values()
    }
    described = {
        (method, path)
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
        if operation.get("security") != []
    }
    assert operations == described


@pytest.mark.parametrize("case", INVALID_CREDENTIALS)
async def test_without_a_valid_key_every_operation_is_the_same_401(team: Team, case: str) -> None:
    for name in OPERATIONS:
        answer = await team.ask(name, None, INVALID_CREDENTIALS[case])
        assert answer.status_code == 401, name
        assert answer.json() == {"detail": "missing or invalid bearer credential"}
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.both_stores
async def test_job_of_other_account_is_byte_for_byte_unknown(team: Team) -> None:
    for name in [name for name, each in OPERATIONS.items() if each[3]]:
        anothers = await team.ask(name, None, "Bearer wdk_bob")
        nobodys = UNKNOWN_FILE if name == "file" else UNKNOWN
        unknown = await team.ask(name, nobodys, "Bearer wdk_bob")
        assert anothers.status_code == unknown.status_code == 404, name
        # An id of its own is all that tells one answer from the other.
        assert anothers.headers.pop("x-request-id") != unknown.headers.pop("x-request-id")
        assert anothers.headers == unknown.headers
        assert anothers.content == unknown.content, name


@pytest.mark.both_stores
async def test_earlier_crawl_of_other_account_is_unknown(team: Team) -> None:
    bob = {"Authorization": "Bearer wdk_bob"}
    replies = [
        await team.api.post(
            paths.EXTENDED_CRAWLS,
            {"url": "https://example.com/", "base": {"job_id": job_id}},
            status=422,
            headers=bob,
        )
        for job_id in (team.resource_ids["crawl"], team.resource_ids["search"], UNKNOWN)
    ]
    assert replies[0] == replies[1] == replies[2]
    assert "the account has no such crawl" in str(replies[0])


async def test_owner_has_access(team: Team) -> None:
    for name, (*_, kind) in OPERATIONS.items():
        answer = await team.ask(name, None, "Bearer wdk_alice")
        assert answer.status_code not in {401, 403}, name
        if kind and "export" not in name:
            assert answer.status_code in {200, 400, 409, 501}, name


@pytest.mark.both_stores
async def test_suspended_account_is_refused_everything(team: Team, tmp_path: Path) -> None:
    async with store_of(tmp_path) as store:
        await store.accounts.suspend("alice", now=store.now())
        await wait_for_other_processes()
        for name in OPERATIONS:
            answer = await team.ask(name, None, "Bearer wdk_alice")
            assert answer.status_code == 403, name
            assert "is suspended" in answer.json()["detail"]
        assert (await team.ask("jobs", None, "Bearer wdk_bob")).status_code == 200
        await store.accounts.resume("alice", now=store.now())
        await wait_for_other_processes()
        assert (await team.ask("jobs", None, "Bearer wdk_alice")).status_code == 200


@pytest.mark.both_stores
async def test_listings_show_only_own_jobs(team: Team) -> None:
    bob = {"Authorization": "Bearer wdk_bob"}
    assert (await team.api.get(paths.JOBS, headers=bob))["jobs"] == []
    usage = await team.api.get(paths.USAGE, headers=bob)
    assert (usage["used"], usage["active"], usage["operations"]) == (0.0, 0, [])
