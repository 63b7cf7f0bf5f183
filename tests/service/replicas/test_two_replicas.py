"""Two processes of one service on PostgreSQL: either answers for what the other does."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import PostgresServer
from tests.service.conftest import Api, open_service
from tests.site.server import Site
from webdata_nb.service.encryption import FixedKeys, SecretCipher, key_hash, new_key
from webdata_nb.service.errors import OtherKey
from webdata_nb.service.ledger import Terms
from webdata_nb.service.store.postgres.database import PostgresDatabase
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.work import runner

pytestmark = pytest.mark.slow

LOOPBACK = ("127.0.0.0/8",)
HEADERS = {"Authorization": "Bearer wdk_alice"}


@dataclass(frozen=True, slots=True)
class Team:
    """The URL and the key of a team's store, which has the account of Alice."""

    url: str
    key: str

    def store(self) -> Store:
        return Store(PostgresDatabase(self.url), SecretCipher(FixedKeys((self.key,))))


@pytest.fixture
async def team(postgres_server: PostgresServer) -> Team:
    team = Team(postgres_server.new_schema(), new_key())
    async with team.store() as store:
        now = store.now()
        await store.accounts.add("alice", "alice", Terms("team", 5000, 50), now=now)
        await store.accounts.add_key("key_alice", "alice", "pc", key_hash("wdk_alice"), now=now)
    return team


@pytest.fixture
async def replicas(team: Team, tmp_path: Path) -> AsyncIterator[list[Api]]:
    """Open two services on one store, each with a data directory of its own."""
    async with AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(
                open_service(
                    tmp_path / name,
                    "team",
                    allow_networks=LOOPBACK,
                    store=team.url,
                    secret_keys=(team.key,),
                    replica=name,
                )
            )
            for name in ("first", "second")
        ]
        for api in opened:
            api.http.headers.update(HEADERS)
        yield opened


@pytest.fixture
def tree(site: Site) -> Site:
    """Serve a front page with thirty slow pages below it."""
    links = "".join(f'<a href="/{n}">{n}</a>' for n in range(30))
    site.page("/", f"<title>Front</title><p>{links}</p>")
    for n in range(30):
        site.page(f"/{n}", f"<title>Page {n}</title><p>This is page number {n} of the site.</p>")
    return site


@pytest.mark.smoke
async def test_either_replica_answers_for_every_job(replicas: list[Api], tree: Site) -> None:
    body = {"url": tree.url, "max_pages": 31}
    job_ids = [await replicas[n % 2].start_job("crawl", body) for n in range(6)]
    for number, job_id in enumerate(job_ids):
        replies = [await api.wait_for_end("crawl", job_id) for api in replicas]
        assert replies[0]["status"] == "completed"
        assert [row["url"] for row in replies[0]["data"]] == [
            row["url"] for row in replies[1]["data"]
        ]
        assert replies[number % 2]["total_results"] == 31
    usage = [await api.get("/v1/usage") for api in replicas]
    assert usage[0]["used"] == usage[1]["used"] == 6 * 31
    assert usage[0]["active"] == usage[0]["reserved"] == 0


async def test_events_of_a_job_reach_the_other_replica(replicas: list[Api], tree: Site) -> None:
    for reader in replicas:  # one of them runs the job
        job_id = await replicas[0].start_job("crawl", {"url": tree.url, "max_pages": 31})
        async with (
            asyncio.timeout(60),
            reader.http.stream("GET", f"/v1/crawl/{job_id}/events") as response,
        ):
            lines = [line async for line in response.aiter_lines()]
        names = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
        assert names.count("page") == 31
        assert names[-1] == "done"


async def test_a_job_is_cancelled_by_the_other_replica(
    replicas: list[Api], site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "RENEW_S", 1000.0)  # only the signal ends the job in time
    site.page("/", '<a href="/slow">slow</a>')
    site.page("/slow", "late", delay=100)
    for canceller in replicas:
        job_id = await replicas[0].start_job("crawl", {"url": site.url, "max_pages": 5})
        await wait_for_a_row(replicas[1], job_id)
        await canceller.post(f"/v1/jobs/{job_id}/cancel")
        for api in replicas:
            assert (await api.get(f"/v1/crawl/{job_id}"))["status"] == "cancelled"
        running = [task for task in asyncio.all_tasks() if task.get_name() == f"job {job_id}"]
        if running:
            _, pending = await asyncio.wait(running, timeout=120)
            assert not pending


async def wait_for_a_row(api: Api, job_id: str) -> None:
    async with asyncio.timeout(120):
        while True:
            if (await api.get(f"/v1/crawl/{job_id}"))["total_results"]:
                return
            await asyncio.sleep(0.05)


async def test_one_idempotency_key_starts_one_job_at_two_replicas(
    replicas: list[Api], tree: Site
) -> None:
    for attempt in range(10):
        headers = {"Idempotency-Key": f"key-{attempt}"}
        body = {"url": tree.url, "max_pages": 1}
        replies = await asyncio.gather(
            *(api.post("/v1/crawl", body, headers=headers) for api in replicas for _ in range(3))
        )
        assert len({reply["job_id"] for reply in replies}) == 1


async def test_a_revoked_key_is_refused_by_both_within_a_second(
    replicas: list[Api], team: Team
) -> None:
    for api in replicas:
        await api.get("/v1/usage")
    async with team.store() as store:
        await store.accounts.end_key("key_alice", at=store.now())
    await asyncio.sleep(1.1)
    for api in replicas:
        await api.get("/v1/usage", status=401)


async def test_another_key_is_refused_at_the_start(team: Team, tmp_path: Path) -> None:
    async with open_service(tmp_path / "a", "team", store=team.url, secret_keys=(team.key,)):
        pass
    with pytest.raises(OtherKey, match="WEBDATA_SECRET_KEY"):
        async with open_service(tmp_path / "b", "team", store=team.url, secret_keys=(new_key(),)):
            pass
    rotated = (new_key(), team.key)
    async with open_service(tmp_path / "c", "team", store=team.url, secret_keys=rotated):
        pass


async def test_the_time_of_a_machine_does_not_matter(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with team.store() as store:
        true_time = time.time()
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda: true_time + 300)
            assert abs(store.now() - true_time) < 60


def read_files(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


async def test_secrets_of_the_store_appear_nowhere(
    team: Team, replicas: list[Api], tmp_path: Path
) -> None:
    password = team.url.split(":")[2].partition("@")[0]
    texts: list[Any] = [repr(replicas[0].running), repr(team.store())]
    texts += [read_files(tmp_path), json.dumps(await replicas[0].get("/readyz"))]
    assert all(password not in str(text) for text in texts)


async def test_a_deleted_job_is_unknown_to_the_other_replica_from_the_reply_on(
    replicas: list[Api], tree: Site
) -> None:
    for number in range(4):
        one, two = replicas[number % 2], replicas[1 - number % 2]
        job_id = await one.start_job("crawl", {"url": tree.at("/1"), "max_pages": 1})
        await two.wait_for_end("crawl", job_id)
        for _ in range(3):  # the last reply comes from the cache
            await two.get(f"/v1/crawl/{job_id}")
        assert (await one.http.delete(f"/v1/jobs/{job_id}")).status_code == 200
        await two.get(f"/v1/crawl/{job_id}", status=404)
