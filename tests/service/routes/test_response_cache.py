"""Tests of the response cache: cached replies are identical, and dropped when outdated."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
from hypothesis import given
from hypothesis import strategies as st

from tests.service.conftest import Api, open_service
from tests.service.job_stores import store_of, store_url, wait_for_other_processes
from tests.service.routes.teams import member
from tests.service.routes.test_retention import HOUR, Clock
from tests.service.routes.test_search import magazine
from tests.site.server import Site
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.routes.app_state import MAX_BODY_BYTES, ResponseCache, ResponseKey
from webdata_nb.service.store.records import JobRecord

JOB = JobRecord(
    id="j",
    account_id="a",
    kind="crawl",
    state=JobStatus.COMPLETED,
    subject="http://x/",
    request={"cookies": {"session": "secret"}},
    context={"proxy": "http://user:password@proxy/"},
    created_at=0.0,
    started_at=0.0,
    finished_at=1.0,
    attempt=1,
    total=1,
    completed=1,
    published=1,
    error=None,
    outcome={},
)


def alter(data_dir: Path, statement: str) -> None:
    """Change the database from another connection."""
    if (url := store_url(data_dir)) is not None:
        with psycopg.connect(url) as session:
            assert session.execute(statement.encode()).rowcount > 0
        return
    with closing(sqlite3.connect(data_dir / "jobs.sqlite", isolation_level=None)) as other:
        assert other.execute(statement).rowcount > 0


async def read_repeatedly(api: Api, path: str, times: int = 3, **sent: dict[str, str]) -> bytes:
    """Request a path several times; return the body, which must not change."""
    replies = [await api.http.get(path, **sent) for _ in range(times)]  # type: ignore[arg-type]
    assert {reply.status_code for reply in replies} == {200}
    assert len({reply.content for reply in replies}) == 1
    assert {reply.headers["content-type"] for reply in replies} == {"application/json"}
    return replies[0].content


async def crawled(api: Api, site: Site) -> str:
    magazine(site)
    return f"/v1/crawl/{(await api.run_job('crawl', url=site.url))['job_id']}"


async def test_reply_is_cached_from_the_second_request(tmp_path: Path, site: Site) -> None:
    async with open_service(tmp_path) as api:
        path = await crawled(api, site)
        first = await read_repeatedly(api, f"{path}?per_page=50", times=1)
        cached_body = await read_repeatedly(api, path, times=2)
        alter(tmp_path, "DELETE FROM entry")  # the service never does this while rows are readable
        assert await read_repeatedly(api, path) == cached_body
        assert await read_repeatedly(api, f"{path}?per_page=50") != first
        assert (await api.get(f"{path}?include_data=false"))["data"] == []


async def test_search_reply_is_cached(tmp_path: Path, site: Site) -> None:
    async with open_service(tmp_path) as api:
        await crawled(api, site)
        path = f"/v1/search/{(await api.run_job('search', query='northern lights'))['job_id']}"
        cached = await read_repeatedly(api, path)
        alter(tmp_path, "DELETE FROM entry")
        assert await read_repeatedly(api, path) == cached


async def test_cached_reply_expires_by_the_clock(tmp_path: Path, site: Site) -> None:
    clock = Clock()
    async with open_service(tmp_path, clock=clock) as api:
        path = await crawled(api, site)
        assert b"result_expired" not in await read_repeatedly(api, path)
        clock.ahead = 31 * 24 * HOUR
        assert (await api.get(path))["result_expired"] is True


async def test_cached_reply_is_dropped_when_another_process_deletes_rows(
    tmp_path: Path, site: Site
) -> None:
    async with open_service(tmp_path) as api:
        path = await crawled(api, site)
        await read_repeatedly(api, path)
        async with store_of(tmp_path) as other:
            await other.retention.mark_expired(path.rpartition("/")[2], now=time.time())
        await wait_for_other_processes()
        gone = await api.get(path)
        assert (gone["data"], gone["result_expired"]) == ([], True)


async def test_cached_reply_is_dropped_with_its_job(tmp_path: Path, site: Site) -> None:
    async with open_service(tmp_path) as api:
        path = await crawled(api, site)
        await read_repeatedly(api, path)
        alter(tmp_path, "DELETE FROM job")
        await wait_for_other_processes()
        for _ in range(2):
            assert await api.get(path, 404) == {"detail": "no such job"}


async def test_cached_reply_is_only_for_its_owner(tmp_path: Path, site: Site) -> None:
    alice, bob = [await member(tmp_path, name) for name in ("alice", "bob")]
    async with open_service(tmp_path, "team", allow_networks=("127.0.0.0/8",)) as api:
        api.http.headers.update(alice)
        path = await crawled(api, site)
        await read_repeatedly(api, path)
        for _ in range(3):
            assert await api.get(path, 404, headers=bob) == {"detail": "no such job"}
            await api.get(path, 401, headers={"Authorization": "Bearer wdk_nobody"})
        async with store_of(tmp_path) as other:
            await other.accounts.end_key("key_alice", at=time.time())
        await wait_for_other_processes()
        await api.get(path, 401)


def key_for(path: str, account: str = "a") -> ResponseKey:
    return ResponseKey(account, "job", path, b"")


def test_cached_job_has_no_secrets() -> None:
    cache = ResponseCache()
    cache.put(key_for("/"), JOB, b"body", 1)
    cached = cache.get(key_for("/"))
    assert cached is not None
    assert (cached.body, cached.data_version) == (b"body", 1)
    assert cached.job == replace(JOB, request={}, context={})


def test_first_request_and_large_replies_are_not_cached() -> None:
    cache = ResponseCache()
    assert [cache.should_cache(key_for("/"), MAX_BODY_BYTES) for _ in range(3)] == [
        False,
        True,
        True,
    ]
    assert [cache.should_cache(key_for("/", "b"), MAX_BODY_BYTES + 1) for _ in range(3)] == [
        False
    ] * 3
    assert not cache.should_cache(key_for("/", "b"), 1)
    cache.put(key_for("/"), JOB, b"body", 1)
    cache.clear()
    assert cache.get(key_for("/")) is None


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 100)), max_size=60))
def test_cache_stays_within_its_byte_limit(requests: list[tuple[int, int]]) -> None:
    cache = ResponseCache(max_bytes=150)
    latest: dict[int, bytes] = {}
    for number, (name, size) in enumerate(requests):
        latest[name] = bytes([number]) * size
        cache.put(key_for(str(name)), JOB, latest[name], number)
        found = {each: cache.get(key_for(str(each))) for each in latest}
        cached = {each: got.body for each, got in found.items() if got is not None}
        assert cached.items() <= latest.items()
        assert name in cached
        assert sum(map(len, cached.values())) <= 150
    if sum(map(len, latest.values())) <= 150 and len(requests) == len(latest):
        assert len(latest) == sum(cache.get(key_for(str(n))) is not None for n in latest)
