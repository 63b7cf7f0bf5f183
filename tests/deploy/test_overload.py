"""Many more clients than the replicas behind nginx have connections for."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import psycopg
import pytest

from tests.deploy.replicas import ProxiedService, proxied_service
from tests.postgres import PostgresServer
from webdata_nb.contract import paths
from webdata_nb.service.http.connections import MAX_CONNECTIONS, OTHER_FILES

pytestmark = pytest.mark.slow

# The smallest limit of a replica: it needs the other files for itself.
CONNECTIONS: Final = MAX_CONNECTIONS // 10
FILES: Final = OTHER_FILES + CONNECTIONS
CLIENTS: Final = 6 * CONNECTIONS
LOAD_S: Final = 5.0
MOST: Final = 100_000
SEARCH: Final = {"query": "colour", "formats": []}
_OPTIONS: Final = (
    *("--requests-per-account", str(MOST), "--connections-per-address", str(MOST)),
    *("--trusted-proxy", "127.0.0.1"),
)


@pytest.fixture
def service(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[ProxiedService]:
    limited = ("prlimit", f"--nofile={FILES}:{FILES}")
    with proxied_service(
        postgres_server, tmp_path, *_OPTIONS, concurrency=MOST, run_in=limited
    ) as running:
        yield running


async def one_client(
    http: aiohttp.ClientSession, number: int, until: float, statuses: Counter[tuple[str, int]]
) -> None:
    """Send requests without a pause; check each refusal."""
    method = "POST" if number % 3 else "GET"
    while time.monotonic() < until:
        options: dict[str, Any] = {}
        if method == "POST":
            options["json"] = SEARCH
        if number % 3 == 1:
            options["headers"] = {paths.IDEMPOTENCY_KEY: uuid.uuid4().hex}
        path = paths.SEARCH if method == "POST" else "/openapi.json"
        async with http.request(method, path, **options) as reply:
            body = await reply.json()
            statuses[method, reply.status] += 1
            if reply.status != 200:
                assert reply.status == 503, body
                assert int(reply.headers["Retry-After"]) > 0
                assert body["detail"]


async def overload(service: ProxiedService) -> Counter[tuple[str, int]]:
    """Send requests of all clients at once; return how often there was each status."""
    statuses: Counter[tuple[str, int]] = Counter()
    until = time.monotonic() + LOAD_S
    async with (
        aiohttp.ClientSession(
            service.url,
            headers=service.headers,
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
        ) as http,
        asyncio.TaskGroup() as group,
    ):
        for number in range(CLIENTS):
            group.create_task(one_client(http, number, until, statuses))
    return statuses


async def test_overload_is_refused_and_no_request_acts_twice(service: ProxiedService) -> None:
    statuses = await overload(service)
    assert min(statuses[method, status] for method in ("GET", "POST") for status in (200, 503)) > 0
    with psycopg.connect(service.store_url) as connection:
        row = connection.execute("SELECT COUNT(*) FROM job").fetchone()
    assert row == (statuses["POST", 200],)
    async with aiohttp.ClientSession(service.url) as http, http.get(paths.READY) as reply:
        assert reply.status == 200
