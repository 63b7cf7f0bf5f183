"""Every operation against every kind of caller."""

from __future__ import annotations

import logging
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
from webdata_nb.contract.choices import KEY_SCOPES, KeyScope
from webdata_nb.contract.local import Access, SessionSettings
from webdata_nb.contract.operator_views import VIEWS
from webdata_nb.service.creatives.sample import advertiser_ids
from webdata_nb.service.encryption import key_hash
from webdata_nb.service.http.middleware import OPEN_PATHS
from webdata_nb.service.routes.application import Application
from webdata_nb.service.routes.routing import OpenRoute, StrictRoute

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
    **{
        f"operator's {view}": ("GET", paths.fill(paths.OPERATOR_VIEW, view=view), None, None)
        for view in VIEWS
    },
    "operator's job": ("GET", paths.OPERATOR_JOB, None, "crawl"),
    "operator's cancel": ("POST", paths.OPERATOR_JOB_CANCEL, {}, "crawl"),
}
# Those of the operator know no account, and are opened by their scope alone.
OF_OPERATORS = frozenset(name for name in OPERATIONS if name.startswith("operator's "))
# Which scopes open it; of a crawl, where it is about a job.
OPENED_BY = {
    "search": "search",
    "search status": "search read",
    "search events": "search read",
    "search export": "search read",
    "crawl": "crawl",
    "long crawl": "crawl",
    "incremental crawl": "crawl",
    "dated crawl": "crawl",
    "captures": "crawl",
    "crawl status": "crawl read",
    "crawl events": "crawl read",
    "crawl export": "crawl read",
    "crawl receipt": "crawl read",
    "crawl page facts": "crawl read",
    "cancel": "crawl",
    "retry": "crawl",
    "verify": "search crawl read",
    "jobs": "search crawl read",
    "engines": "search read",
    "advertisers": "creatives",
    "file": "creatives read",
    "replay": "crawl",
    "creatives": "creatives",
    "weights": "search crawl creatives read",
    "usage": "search crawl creatives read",
    "deliveries": "read",
    "webhook stats": "read",
    "webhook test": "search crawl",
    "delete": "crawl",
    **dict.fromkeys(OF_OPERATORS, "admin"),
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
        for scope in KEY_SCOPES:
            key = key_hash(f"wdk_{scope}")
            await store.accounts.add_key(
                f"key_{scope}", "alice", scope, key, now=time.time(), scopes=[scope]
            )
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
        (method.lower(), path.partition("?")[0])
        for name, (method, path, *_) in OPERATIONS.items()
        if name not in OF_OPERATORS
    } | {
        ("get", paths.OPERATOR_VIEW),
        ("get", paths.OPERATOR_JOB),
        ("post", paths.OPERATOR_JOB_CANCEL),
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
    for name in [name for name, each in OPERATIONS.items() if each[3] and name not in OF_OPERATORS]:
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
        assert (answer.status_code == 403) == (name in OF_OPERATORS), name
        if name in OF_OPERATORS:
            continue
        assert answer.status_code != 401, name
        if kind and "export" not in name:
            assert answer.status_code in {200, 400, 409, 501}, name


def test_every_route_declares_its_scopes_or_is_open() -> None:
    for route in Application().routes:
        if isinstance(route, StrictRoute):
            assert route.scopes, route.path
            if route.path.startswith(paths.OPERATOR_PAGE):  # no part of the document
                assert route.scopes == ("admin",)
                continue
            documented = DOCUMENT["paths"][route.path]
            for method in route.methods or ():
                security = documented[method.lower()]["security"]
                assert security == [{"bearer": [scope]} for scope in route.scopes]
        else:
            assert isinstance(route, OpenRoute)
            assert route.path in {*OPEN_PATHS, f"{paths.DOCS}/{{name}}"}


@pytest.mark.parametrize("scope", KEY_SCOPES)
async def test_key_with_a_scope_opens_what_the_table_says(team: Team, scope: KeyScope) -> None:
    assert OPENED_BY.keys() == OPERATIONS.keys()
    for name, scopes in OPENED_BY.items():
        answer = await team.ask(name, None, f"Bearer wdk_{scope}")
        if scope in scopes.split():
            assert answer.status_code not in {401, 403}, name
            continue
        assert (answer.status_code, answer.json()["code"]) == (403, "scope"), name
        assert answer.json()["detail"].endswith(f"; this key has only {scope}"), name


async def test_key_without_the_scope_learns_nothing_else(team: Team) -> None:
    """Nothing of the request is looked at first: neither its body, nor whether the job exists."""
    read, search = ({"Authorization": f"Bearer wdk_{scope}"} for scope in ("read", "search"))
    for body in (b"{", b"[]", b'{"nonsense": 1}'):
        headers = {**read, "Content-Type": "application/json"}
        answer = await team.api.http.post(paths.CRAWL, content=body, headers=headers)
        assert answer.status_code == 403
    replies = [
        await team.api.get(f"/v1/crawl/{job_id}", 403, headers=search)
        for job_id in (team.resource_ids["crawl"], UNKNOWN, "%00")
    ]
    assert replies[0] == replies[1] == replies[2]
    assert replies[0] == {
        "detail": "this needs a key with the scope crawl or read; this key has only search",
        "code": "scope",
    }


async def test_no_spelling_of_a_request_evades_the_scopes(team: Team) -> None:
    headers = {"Authorization": "Bearer wdk_search", "Content-Type": "application/json"}
    job = team.resource_ids["crawl"]
    requests = [
        ("HEAD", f"/v1/crawl/{job}"),
        ("HEAD", f"/v1/crawl/{job}/export?format=json"),
        ("GET", f"/v1/crawl/{job}/"),
        ("GET", f"/v1//crawl/{job}"),
        ("GET", f"/V1/CRAWL/{job}"),
        ("GET", f"/v1/search/../crawl/{job}"),
        ("GET", f"/v1/search/%2e%2e/crawl/{job}"),
        ("GET", f"/v1/search/..%2fcrawl%2f{job}"),
        ("GET", f"/v1/crawl%2f{job}"),
        ("GET", f"/v1/crawl/{job};x"),
        ("GET", f"/v1/search/{job}"),
        ("GET", f"/v1/search/{job}/events"),
        ("POST", "/v1/crawl/"),
        ("POST", "/v1/Crawl"),
        ("PUT", "/v1/crawl"),
        ("GET", "/v1/crawl"),
    ]
    for method, path in requests:
        url = httpx.URL(str(team.api.http.base_url)).copy_with(raw_path=path.encode())
        content = b'{"url": "https://example.com/"}' if method in {"POST", "PUT"} else None
        answer = await team.api.http.request(method, url, headers=headers, content=content)
        assert answer.status_code in {403, 404, 405, 422}, (method, path)
    override = {**headers, "X-HTTP-Method-Override": "POST", "X-Original-URL": paths.SEARCH}
    answer = await team.api.http.post(
        paths.CRAWL, json={"url": "https://x.invalid"}, headers=override
    )
    assert answer.status_code == 403


@pytest.mark.both_stores
async def test_key_of_one_kind_reaches_no_job_of_the_other(team: Team) -> None:
    """Also where the path does not say the kind, and with the Idempotency-Key of another key."""
    alice = {"Authorization": "Bearer wdk_alice", paths.IDEMPOTENCY_KEY: "the same"}
    retried = await team.api.post(f"/v1/jobs/{team.resource_ids['crawl']}/retry", headers=alice)
    ids = {**team.resource_ids, "crawl": retried["job_id"]}
    for kind, other in (("search", "crawl"), ("crawl", "search")):
        key = {"Authorization": f"Bearer wdk_{kind}", paths.IDEMPOTENCY_KEY: "the same"}
        for action in ("cancel", "retry"):
            for job in (team.resource_ids[other], ids[other]):
                await team.api.post(f"/v1/jobs/{job}/{action}", status=403, headers=key)
        page = {"job_id": ids[other], "url": "https://example.com/", "extract": {"a": "b"}}
        await team.api.post(paths.VERIFY, {"pages": [page]}, status=403, headers=key)
        listed = (await team.api.get(paths.JOBS, headers=key))["jobs"]
        assert {job["type"] for job in listed} == {kind}
    crawl = {"Authorization": "Bearer wdk_search", paths.IDEMPOTENCY_KEY: "the same"}
    await team.api.post(paths.CRAWL, {"url": "https://x.invalid"}, status=403, headers=crawl)
    delivery = f"/v1/webhooks/deliveries/{team.resource_ids['delivery']}/replay"
    await team.api.post(delivery, status=403, headers=crawl)
    both = {"Authorization": "Bearer wdk_read"}
    listed = (await team.api.get(paths.JOBS, headers=both))["jobs"]
    assert {job["type"] for job in listed} == {"search", "crawl"}


@pytest.mark.both_stores
async def test_key_with_the_scope_search_is_enough_for_a_search(team: Team) -> None:
    key = {"Authorization": "Bearer wdk_search"}
    job_id = await team.api.start_job("search", {"query": "q"}, headers=key)
    await team.api.wait_for_end("search", job_id, headers=key)
    stream = await team.api.http.get(f"/v1/search/{job_id}/events", headers=key)
    assert "event: done" in stream.text
    usage = await team.api.get(paths.USAGE, headers=key)
    assert (usage["scopes"], usage["key_ends_at"]) == (["search"], None)
    cancelled = await team.api.start_job("search", {"query": "q"}, headers=key)
    answer = await team.api.http.post(f"/v1/jobs/{cancelled}/cancel", headers=key)
    assert answer.status_code in {200, 400}  # it may have ended
    assert (await team.api.get(paths.JOBS, headers=key))["jobs"][0]["job_id"] == cancelled


async def test_refused_scope_is_logged(team: Team, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    await team.api.get(paths.WEBHOOK_STATS, 403, headers={"Authorization": "Bearer wdk_crawl"})
    [record] = [each for each in caplog.records if "request_refused" in each.message]
    fields = vars(record)["fields"]
    assert (fields["key"], fields["reason"]) == ("key_crawl", "ScopeMissing")
    assert fields["route"] == paths.WEBHOOK_STATS


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
