"""A whole service without sockets: requests go straight to its application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest

from webdata_nb.contract.choices import ENGINES
from webdata_nb.contract.local import SessionSettings
from webdata_nb.contract.states import TERMINAL
from webdata_nb.service.app import RunningService, service
from webdata_nb.service.local_lifetime import LocalLifetime
from webdata_nb.service.settings import (
    DIRECT,
    SLOTS,
    STALL_S,
    USER_AGENT,
    Mode,
    ServiceSettings,
    Upstream,
    WebhookSettings,
)

BASE = "http://127.0.0.1"
# A loaded machine must not fail a test; a hanging job does.
TIMEOUT_S = 120.0
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

    async def wait_for_end(self, kind: str, job_id: str) -> Any:
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                reply = await self.get(f"/v1/{kind}/{job_id}")
                if reply["status"] in TERMINAL:
                    return reply
                await asyncio.sleep(0.02)

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
    user_agent: str = USER_AGENT,
    networks: tuple[str, ...] = (),
    providers: SessionSettings = LOCAL_ONLY,
    clock: Callable[[], float] | None = None,
    webhooks: WebhookSettings = WebhookSettings(loopback=True),  # noqa: B008 - frozen
    upstream: Upstream = DIRECT,
    stall_s: float = STALL_S,
    store_url: str | None = None,
    secret_keys: tuple[str, ...] = (),
    blobs_url: str | None = None,
    replica: str | None = None,
    slots: int = SLOTS,
) -> AsyncIterator[Api]:
    """Open a service over a data directory; a team's may fetch from `networks`."""
    lifetime = LocalLifetime(data_dir, version="0", schema=1, managed=False)
    settings = ServiceSettings(
        data_dir,
        mode,
        allow_networks=tuple(map(ip_network, networks)),
        user_agent=user_agent,
        providers=providers,
        webhooks=webhooks,
        upstream=upstream,
        stall_s=stall_s,
        store_url=store_url,
        secret_keys=secret_keys,
        blobs_url=blobs_url,
        replica=replica,
        slots=slots,
    )
    async with service(settings, 1, lifetime, lambda: None, clock=clock) as running:
        transport = httpx.ASGITransport(running.app)
        bearer = {"Authorization": f"Bearer {lifetime.token}"}
        async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=bearer) as http:
            yield Api(http, lifetime, running)


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with open_service(tmp_path / "data") as client:
        yield client
