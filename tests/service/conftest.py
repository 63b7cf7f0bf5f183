"""A whole service without sockets: requests go straight to its application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service import job_stores
from tests.service.forked_workers import forked_workers
from webdata_nb.contract.choices import ENGINES
from webdata_nb.contract.local import SessionSettings
from webdata_nb.contract.outcomes import TERMINAL
from webdata_nb.service.app import RunningService, service
from webdata_nb.service.local_lifetime import LocalLifetime
from webdata_nb.service.settings import Mode, ServiceSettings

BASE = "http://127.0.0.1"
# A loaded machine must not fail a test; a hanging job does.
TIMEOUT_S = 120.0
MAX_POLL_INTERVAL_S = 0.2
# No test asks a search provider that it did not start itself.
LOCAL_ONLY = SessionSettings(engines=dict.fromkeys(ENGINES, ("local",)))


@dataclass(frozen=True, slots=True)
class Api:
    """A client of the service, with the local account's token."""

    http: httpx.AsyncClient
    lifetime: LocalLifetime
    running: RunningService

    async def get(self, path: str, status: int = 200, **options: Any) -> Any:
        return self._checked(await self.http.get(path, **options), status)

    async def post(self, path: str, body: Any = None, status: int = 200, **options: Any) -> Any:
        return self._checked(await self.http.post(path, json=body or {}, **options), status)

    async def start_job(self, kind: str, body: dict[str, Any], **options: Any) -> str:
        reply = await self.post(f"/v1/{kind}", body, **options)
        assert reply["status"] == "started"
        return str(reply["job_id"])

    async def wait_for_end(self, kind: str, job_id: str, **options: Any) -> Any:
        interval_s = 0.02  # each poll costs the processor time of a whole request
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                reply = await self.get(f"/v1/{kind}/{job_id}", **options)
                if reply["status"] in TERMINAL:
                    return reply
                await asyncio.sleep(interval_s)
                interval_s = min(2 * interval_s, MAX_POLL_INTERVAL_S)

    async def run_job(self, kind: str, **body: Any) -> Any:
        return await self.wait_for_end(kind, await self.start_job(kind, body))

    @staticmethod
    def _checked(response: httpx.Response, status: int) -> Any:
        assert response.status_code == status, response.text
        return response.json()


@asynccontextmanager
async def open_service(
    data_dir: Path,
    mode: Mode = "local",
    *,
    clock: Callable[[], float] | None = None,
    **settings: Any,
) -> AsyncIterator[Api]:
    """Open a service over a data directory, with fields of `ServiceSettings`.

    It has one page worker, which is forked; several are started as those of any service.

    Its store is the one that the test runs on, unless `store` names another one.
    """
    chosen = {"providers": LOCAL_ONLY, "page_workers": 1, **settings}
    if chosen.get("store") is None:
        chosen["store"] = job_stores.store_url(data_dir)
        chosen["secret_keys"] = chosen.get("secret_keys") or job_stores.secret_keys()
    lifetime = LocalLifetime(data_dir, version="0", schema=1, managed=False)
    whole = ServiceSettings(data_dir=data_dir, mode=mode, **chosen)
    async with AsyncExitStack() as stack:
        if chosen["page_workers"] == 1:
            stack.enter_context(forked_workers())
        running = await stack.enter_async_context(
            service(whole, 1, lifetime, lambda: None, clock=clock)
        )
        transport = httpx.ASGITransport(running.app)
        bearer = {"Authorization": f"Bearer {lifetime.token}"}
        http = httpx.AsyncClient(transport=transport, base_url=BASE, headers=bearer)
        yield Api(await stack.enter_async_context(http), lifetime, running)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with the marker `both_stores` on both, unless `--store` chose PostgreSQL."""
    if metafunc.config.option.store == "sqlite" and metafunc.definition.get_closest_marker(
        "both_stores"
    ):
        kinds = ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)]
        metafunc.parametrize("service_store", kinds, indirect=True)


@pytest.fixture(scope="session", autouse=True)
def store_of_the_run(request: pytest.FixtureRequest) -> Iterator[None]:
    """Select the store of `--store`, also for services that several tests share."""
    is_postgres = request.config.option.store == "postgres"
    server = request.getfixturevalue("postgres_server") if is_postgres else None
    with job_stores.stores_on(server):
        yield


@pytest.fixture(autouse=True)
def service_store(request: pytest.FixtureRequest) -> Iterator[None]:
    """Select the store of the services that one test opens, if it runs on both."""
    marker = request.node.get_closest_marker("sqlite")
    if marker and request.config.option.store == "postgres":
        pytest.skip(f"SQLite only: {marker.args[0]}")
    if getattr(request, "param", "sqlite") == "sqlite":
        yield
        return
    with job_stores.stores_on(request.getfixturevalue("postgres_server")):
        yield


@pytest.fixture
def page_workers() -> int:
    """The page workers of `api`; a module whose tests need several overrides it."""
    return 1


@pytest.fixture
async def api(tmp_path: Path, page_workers: int) -> AsyncIterator[Api]:
    async with open_service(tmp_path / "data", page_workers=page_workers) as client:
        yield client
