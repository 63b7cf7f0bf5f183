"""Finds a running local service, decides by its version whether to use it, and holds a lease on it.

A session renews its lease by heartbeat.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import enum
import importlib
import os
import re
import ssl
import time
import uuid
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
from pydantic import ValidationError

import webdata_nb
from webdata_nb.contract import local, paths
from webdata_nb.contract.error_messages import plain_message
from webdata_nb.contract.local import (
    Access,
    Creatives,
    Hello,
    LeaseReply,
    ModelAccess,
    SessionSettings,
    StopRequest,
)
from webdata_nb.errors import InvalidArgument, LocalServiceError
from webdata_nb.settings import Provider, Settings, model_access, provider_access
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


_RELEASE_TIMEOUT_S: Final = 1.0


class LocalService:
    """The local service, held by a lease until `close()`.

    Attributes
    ----------
    base_url : str
        The address of its API.
    token : str
        The bearer token of every request to it.
    lease_id : str
        Sent with every request as `contract.paths.LEASE_HEADER`, so that jobs use the settings of
        the session that started them.
    """

    def __init__(
        self,
        directory: DataDirectory,
        discovered: DiscoveredService,
        session_settings: SessionSettings,
    ) -> None:
        self.base_url = discovered.url
        self.token = discovered.token
        self.lease_id = uuid.uuid4().hex
        self._directory = directory
        self._session_settings = session_settings
        self._client = control_client(discovered.url, discovered.token)
        self._lease_path = paths.fill(paths.LOCAL_LEASE, lease_id=self.lease_id)
        self._heartbeat_interval_s = 0.0
        self._renewed_at = 0.0
        self._settings_directories: tuple[Path, Path] | None = None
        self._settings: Settings | None = None
        self._pid = os.getpid()
        self._is_lost = False
        self._heartbeat: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"LocalService({self.base_url}, lease {self.lease_id})"

    @classmethod
    async def attach(
        cls,
        directory: DataDirectory,
        discovered: DiscoveredService,
        session_settings: SessionSettings,
    ) -> LocalService | None:
        """Take a lease on a running service; None if the service is stopping or has ended."""
        service = cls(directory, discovered, session_settings)
        try:
            is_leased = await service._renew_lease()
        except (httpx.HTTPError, ValidationError):
            is_leased = False
        except BaseException:
            await service.close()
            raise
        if not is_leased:
            await service.close()
            return None
        service._heartbeat = asyncio.create_task(service._run_heartbeat(), name="webdata lease")
        _OPEN_LEASES.add(service)
        return service

    def remember_settings(self, settings: Settings) -> None:
        """Store the settings for which the lease is valid, for `is_fresh`."""
        self._settings = settings
        self._settings_directories = (settings.data_dir, settings.log_dir)

    def is_fresh(self, settings: Settings, since: float) -> bool:
        """Whether a request after `since` renewed the lease for these settings.

        Then calls that waited for the same lock need not renew it again.
        """
        return (
            not self._is_lost
            and self._pid == os.getpid()
            and self._renewed_at >= since
            # The inputs of one call share their settings.
            and (settings is self._settings or self._matches(settings))
        )

    def _matches(self, settings: Settings) -> bool:
        directories = (settings.data_dir, settings.log_dir)
        return (
            self._settings_directories == directories
            and self._session_settings == session_settings_of(settings)
        )

    async def renew(self, directory: DataDirectory, session_settings: SessionSettings) -> bool:
        """Renew the lease and hand over changed settings; False if the lease is lost.

        A lease is lost if its service has ended, it is for another directory, it was released, or
        it belongs to the parent of a forked process.
        """
        if self._is_lost or directory != self._directory or self._pid != os.getpid():
            return False
        is_changed = session_settings != self._session_settings
        self._session_settings = session_settings
        try:
            return await self._renew_lease(hand_over=is_changed)
        except (httpx.HTTPError, ValidationError):
            return False

    async def _renew_lease(self, *, hand_over: bool = False) -> bool:
        """Renew the lease; a lease that had expired needs the settings again."""
        # If the lock is free, the service is dead, and another process may have its port.
        if self._is_lost or not self._directory.is_served():
            return False
        sent_at = time.monotonic()
        reply = await self._client.put(self._lease_path)
        if reply.status_code != httpx.codes.OK:
            return False
        lease = LeaseReply.model_validate_json(reply.content)
        self._heartbeat_interval_s = lease.expires_in / 3
        self._renewed_at = sent_at
        return await self._hand_over_settings() if lease.created or hand_over else True

    async def _hand_over_settings(self) -> bool:
        path = paths.fill(paths.LOCAL_SETTINGS, lease_id=self.lease_id)
        body = self._session_settings.model_dump(mode="json")
        reply = await self._client.put(path, json=body)
        if reply.status_code == httpx.codes.UNPROCESSABLE_ENTITY:
            raise LocalServiceError(
                f"The local service does not understand these provider settings: {reply.text}"
            )
        return reply.is_success

    async def _run_heartbeat(self) -> None:
        while not self._is_lost:
            await asyncio.sleep(self._heartbeat_interval_s)
            # A failed request may only mean that the machine is busy or has just resumed.
            with contextlib.suppress(httpx.HTTPError, ValidationError):
                self._is_lost = not await self._renew_lease()

    async def close(self) -> None:
        """Stop the heartbeat and release the lease."""
        _OPEN_LEASES.discard(self)
        if self._pid != os.getpid():  # a forked child: task, sockets and lease are the parent's
            return
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        if not self._is_lost:
            self._is_lost = True
            with contextlib.suppress(httpx.HTTPError):
                await self._client.delete(self._lease_path, timeout=_RELEASE_TIMEOUT_S)
        await self._client.aclose()

    def release_at_exit(self) -> None:
        """Release the lease when the interpreter exits and no event loop runs."""
        if self._is_lost or self._pid != os.getpid():
            return
        self._is_lost = True
        with contextlib.suppress(httpx.HTTPError):
            httpx.delete(
                self.base_url + self._lease_path,
                headers={"Authorization": f"Bearer {self.token}"},
                timeout=_RELEASE_TIMEOUT_S,
                trust_env=False,
            )


def session_settings_of(settings: Settings) -> SessionSettings:
    """Return the settings that the service needs for this session's jobs."""
    return SessionSettings.model_validate(
        {
            "engines": settings.engines,
            "providers": _provider_access(settings.providers),
            "llm": _model_access(settings.llm),
            "creatives": _creatives(settings),
            "proxy": settings.proxy,
            "ca_bundle": settings.ca_bundle,
            "user_agent": settings.user_agent,
        }
    )


def _creatives(settings: Settings) -> Creatives:
    """Return the source of creatives, with the address and key of its provider entry."""
    access = _provider_access(settings.providers).get(settings.creatives_source or "", Access())
    return Creatives.model_validate(
        {
            "source": settings.creatives_source,
            "terms": settings.creatives_terms,
            "url": access.url,
            "key": access.key,
        }
    )


def _provider_access(providers: Mapping[str, Provider]) -> dict[str, Access]:
    return {name: provider_access(provider) for name, provider in providers.items()}


def _model_access(providers: Mapping[str, Provider]) -> dict[str, ModelAccess]:
    try:
        return {name: model_access(provider) for name, provider in providers.items()}
    except ValidationError as error:
        [first, *_] = error.errors(include_input=False)
        field = "_".join(map(str, first["loc"]))
        raise InvalidArgument(f"llm: {field}: {plain_message(first)}") from None


# Released at exit, so that the service does not wait until they expire.
_OPEN_LEASES: Final[weakref.WeakSet[LocalService]] = weakref.WeakSet()


@atexit.register
def _release_all() -> None:
    for service in list(_OPEN_LEASES):
        service.release_at_exit()
