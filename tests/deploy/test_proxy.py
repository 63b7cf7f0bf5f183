"""nginx with the configuration of `deploy/`, in front of two replicas on one PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest

from tests.deploy.replicas import ProxiedService, proxied_service, stop
from tests.postgres import PostgresServer
from tests.site.server import Site
from webdata_nb.service.encryption import FixedKeys, SecretCipher, key_hash, new_key
from webdata_nb.service.store.postgres.database import PostgresDatabase
from webdata_nb.service.store.sql.store import Store

pytestmark = pytest.mark.slow

SEARCH = {"query": "colour", "formats": []}


@pytest.fixture(scope="module")
def service(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ProxiedService]:
    with proxied_service(postgres_server, tmp_path_factory.mktemp("proxied")) as running:
        yield running


@pytest.fixture
def http(service: ProxiedService) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=service.url, headers=service.headers, timeout=150, trust_env=False
    ) as client:
        yield client


def start(http: httpx.Client, kind: str, body: dict[str, Any], **headers: str) -> str:
    reply = http.post(f"/v1/{kind}", json=body, headers=headers)
    assert reply.status_code == 200, reply.text
    return str(reply.json()["job_id"])


def jobs(service: ProxiedService) -> int:
    with psycopg.connect(service.store_url) as connection:
        row = connection.execute("SELECT COUNT(*) FROM job").fetchone()
    return int(row[0]) if row else 0


def test_events_arrive_before_the_stream_ends(http: httpx.Client, site: Site) -> None:
    site.page("/", '<title>Front</title><p><a href="/held">held</a></p>')
    site.page("/held", "<title>Held</title><p>The last page.</p>")
    gate = site.hold("/held")
    job_id = start(http, "crawl", {"url": site.url, "max_pages": 2})
    names = []
    # Without it, an event that the proxy keeps would never arrive: its successor waits for it.
    release = threading.Timer(120, gate.release)
    release.start()
    try:
        with http.stream("GET", f"/v1/crawl/{job_id}/events") as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            for line in response.iter_lines():
                if not line.startswith("event: "):
                    continue
                names.append(line.removeprefix("event: "))
                if names[-1] == "page" and names.count("page") == 1:
                    assert release.is_alive(), "the first page arrived with the last one"
                    gate.release()
    finally:
        release.cancel()
        release.join()
    assert names.count("page") == 2
    assert names[-1] == "done"


def test_the_service_sees_the_address_of_the_client(http: httpx.Client) -> None:
    """It compresses for clients on other machines only."""
    assert "content-encoding" not in http.get("/openapi.json").headers
    remote = http.get("/openapi.json", headers={"X-Forwarded-For": "192.0.2.7"})
    assert remote.headers["content-encoding"] == "gzip"


@pytest.mark.parametrize(
    "path",
    [
        *("/operator", "/operator/", "/operator/jobs", "/operator/events", "/operator?a=1"),
        *("/v1/operator/jobs", "/v1/operator/jobs/1/cancel", "//operator", "/%6fperator"),
        *("/v1/%2e%2e/operator", "/v1/x/../operator/usage", "/v1/./operator/usage"),
    ],
)
def test_views_of_the_operator_are_closed_to_other_machines(
    service: ProxiedService, path: str
) -> None:
    url = httpx.URL(service.url).copy_with(raw_path=path.encode())
    for address, is_open in (("127.0.0.2", False), ("127.0.0.1", True)):
        transport = httpx.HTTPTransport(local_address=address)
        with httpx.Client(transport=transport, headers=service.headers, timeout=60) as client:
            reply = client.post(url) if path.endswith("/cancel") else client.get(url)
            assert client.get(f"{service.url}/v1/jobs").status_code == 200
        by_service = reply.headers["content-type"].startswith(("application/json", "text/html; "))
        assert by_service == is_open, reply.text
        assert reply.status_code == 403 or (is_open and reply.status_code == 404)


def test_changes_are_passed_on_at_once(service: ProxiedService) -> None:
    async def add_key() -> None:
        database = PostgresDatabase(service.store_url)
        async with Store(database, SecretCipher(FixedKeys((new_key(),)))) as store:
            await store.accounts.add_key(
                *("key_op", "alice", "op", key_hash("wdk_op")), now=store.now(), scopes=("admin",)
            )

    asyncio.run(add_key())
    headers = {"Authorization": "Bearer wdk_op"}
    with httpx.stream("GET", f"{service.url}/operator/events", headers=headers) as stream:
        lines = stream.iter_lines()
        assert next(lines) == ": still here"
        assert "event: change" in lines  # it never ends by itself


def test_a_stopped_replica_is_not_noticed(service: ProxiedService, http: httpx.Client) -> None:
    for replica in service.replicas:
        before = jobs(service)
        code, _ = stop(replica)
        assert code == 0
        ids = {start(http, "search", SEARCH) for _ in range(10)}
        ids |= {start(http, "search", SEARCH, **{"Idempotency-Key": f"{before}"})}
        assert len(ids) == 11
        assert jobs(service) == before + 11
        statuses = {http.get("/readyz").status_code for _ in range(4)}
        assert statuses == {200}
        for job_id in ids:
            reply = http.get(f"/v1/search/{job_id}", params={"wait": 30}).json()
            assert reply["status"] == "completed", json.dumps(reply)
        replica.start()
