"""Discovers a running local service and decides by its version whether to use it."""

from __future__ import annotations

import enum
import importlib
import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
from pydantic import ValidationError

import webdata_nb
from webdata_nb.contract import local, paths
from webdata_nb.contract.local import Hello, StopRequest
from webdata_nb.toolkit.local.data_dir import DataDirectory

POLL_S: Final = 0.05
_REPLY_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True, repr=False)
class DiscoveredService:
    """The address, the token and the handshake reply of a running local service."""

    url: str
    token: str
    hello: Hello

    def __repr__(self) -> str:
        return f"DiscoveredService({self.url}, version {self.hello.version})"


class ServiceAction(enum.Enum):
    """What to do with a running service."""

    USE = "use"
    REPLACE = "replace"
    REFUSE = "refuse"


def choose_action(hello: Hello, version: str | None = None) -> ServiceAction:
    """Compare a running service with the toolkit's `version`.

    A newer toolkit replaces an older service that is idle and was not started by `webdata serve`.
    Any other service is used if it has the same wire version, and refused if not.
    """
    is_older = _release(hello.version) < _release(version or webdata_nb.__version__)
    is_idle = not hello.active_jobs and not hello.leases
    if is_older and is_idle and hello.managed:
        return ServiceAction.REPLACE
    return ServiceAction.USE if hello.wire == local.WIRE else ServiceAction.REFUSE


def _release(version: str) -> tuple[int, ...]:
    """Return the release numbers of a version, without a pre-release suffix."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def refusal_message(hello: Hello, data_dir: Path) -> str:
    """Return why the service cannot be used, and what to do."""
    own_version = webdata_nb.__version__
    prefix = f"The local service on {data_dir} is version {hello.version}, "
    if hello.wire > local.WIRE:
        return (
            f"{prefix}too new for this webdata_nb {own_version}: upgrade this one, or set "
            "WEBDATA_HOME to another directory (an older version never opens a newer one's data)."
        )
    users = f"{hello.active_jobs} active jobs, {hello.leases} other sessions"
    reason = f"in use ({users})" if hello.managed else "started by `webdata serve`"
    return (
        f"{prefix}too old for this webdata_nb {own_version}, and {reason}: wait until it is idle, "
        "or end it with `webdata stop`; its jobs continue in the new version."
    )


async def discover(directory: DataDirectory) -> DiscoveredService | None:
    """Return the service of a data directory; None if none passes the handshake."""
    runtime = directory.read_runtime()
    # Without the lock, the process that wrote the file is dead, and another may have its port.
    if runtime is None or not directory.is_served():
        return None
    try:
        async with control_client(runtime.url, runtime.token) as client:
            reply = await client.get(paths.LOCAL_HELLO)
        hello = Hello.model_validate_json(reply.content)
    except (httpx.HTTPError, ValidationError):
        return None
    if hello.service != local.SERVICE:
        return None
    return DiscoveredService(runtime.url, runtime.token, hello)


async def request_stop(service: DiscoveredService, *, force: bool) -> None:
    """Request a graceful stop; without `force`, a service in use refuses it."""
    body = StopRequest(force=force).model_dump()
    try:
        async with control_client(service.url, service.token) as client:
            await client.post(paths.LOCAL_STOP, json=body)
    except httpx.HTTPError:
        return  # the caller checks whether the service has ended


def load_http_client() -> None:
    """Import what the first request needs, which takes a while."""
    control_client("http://127.0.0.1", "")
    importlib.import_module("anyio._backends._asyncio")  # by name: anyio loads it at a first use


def control_client(url: str, token: str) -> httpx.AsyncClient:
    """Return an HTTP client for control calls over loopback, without proxy and keep-alive."""
    return httpx.AsyncClient(
        base_url=url,
        headers={"Authorization": f"Bearer {token}"},
        timeout=_REPLY_TIMEOUT_S,
        trust_env=False,
        # The calls are plain HTTP, and loading the system's certificates is slow.
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        # The service closes connections that are idle between two heartbeats.
        limits=httpx.Limits(max_keepalive_connections=0),
    )
