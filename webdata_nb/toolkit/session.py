"""Connects calls to a service: a remote one by its URL, or the local one, started on demand.

A `Connection` names a service or leaves the choice to the settings of each call. HTTP clients live
on the portal's loop, one per service and key, and close when the process ends.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import logging
import os
import sys
import time
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Self

import orjson

from webdata_nb import settings
from webdata_nb.contract import paths
from webdata_nb.errors import InvalidArgument, NotRecorded, OfflineError
from webdata_nb.settings import Options, Secret, Settings
from webdata_nb.toolkit import local
from webdata_nb.toolkit.bridge import PORTAL, synced
from webdata_nb.toolkit.client.client import Client
from webdata_nb.toolkit.client.transport import Address, Locate

OnStart = local.OnStart

LOCAL: Final = "local"

log: Final = logging.getLogger("webdata_nb")


@dataclass(frozen=True, slots=True)
class ResultScope:
    """The owner of cached results: a service and a hash of the caller's identity there."""

    service: str
    identity: str

    @property
    def local(self) -> bool:
        """Whether the local service answers."""
        return self.service == LOCAL


@dataclass(frozen=True, slots=True)
class ServiceTarget:
    """One service and key; equal targets share a client."""

    base_url: str
    api_key: Secret
    lease_id: str | None = None
    proxy: str | None = field(default=None, repr=False)
    ca_bundle: str | None = None

    @property
    def address(self) -> Address:
        """The address that its client sends requests to."""
        headers = {} if self.lease_id is None else {paths.LEASE_HEADER: self.lease_id}
        return Address(self.base_url, self.api_key.reveal(), headers)

    def client(self, locate: Locate | None = None) -> Client:
        """Return a new client, for the running loop."""
        address = self.address
        return Client(
            address.base_url,
            address.api_key,
            # A proxy of the environment must not see requests to a local process.
            trust_env=self.lease_id is None,
            headers=address.headers,
            proxy=self.proxy,
            ca_bundle=self.ca_bundle,
            locate=None if self.lease_id is None else locate,
        )


class ClientPool:
    """The open clients of one connection, on the portal's loop, and its leases by directory."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drop all clients and leases without closing them."""
        self._clients: dict[ServiceTarget, Client] = {}
        self._leases: dict[Path, local.LocalService] = {}
        self._lease_lock = asyncio.Lock()
        self.loop: asyncio.AbstractEventLoop | None = None

    async def target(
        self, call_settings: Settings, since: float, on_start: OnStart | None = None
    ) -> ServiceTarget:
        """Return the target of the call; `loop` is the loop that shares clients from now on.

        A local service must have been seen alive after `since`, of the monotonic clock. Where one
        has to be started, `on_start` is called first.
        """
        self.loop = asyncio.get_running_loop()
        if call_settings.base_url is not None:
            proxy, bundle = call_settings.proxy, call_settings.ca_bundle
            return ServiceTarget(
                call_settings.base_url, _key(call_settings), proxy=proxy, ca_bundle=bundle
            )
        async with self._lease_lock:
            _OPEN[self] = None
            previous = self._leases.pop(call_settings.data_dir, None)
            lease = await local.ensure(
                call_settings, current=previous, since=since, on_start=on_start
            )
            self._leases[call_settings.data_dir] = lease
        return ServiceTarget(lease.base_url, Secret(lease.token), lease.lease_id)

    async def relocated(self, call_settings: Settings) -> ServiceTarget | None:
        """Return the new target of the local service, which is restarted if it was killed.

        None if it was stopped: then a call must not restart it.
        """
        if not local.is_recoverable(call_settings):
            return None
        return await self.target(call_settings, time.monotonic())

    def client(self, target: ServiceTarget, locate: Locate) -> Client:
        """Return the shared client of `target`; call it on the portal's loop only."""
        if target not in self._clients:
            _OPEN[self] = None
            self._clients[target] = target.client(locate)
        return self._clients[target]

    async def close(self) -> None:
        """Close every client and release every lease; later calls open new ones."""
        clients, leases = list(self._clients.values()), list(self._leases.values())
        self._clients.clear()
        self._leases.clear()
        _OPEN.pop(self, None)
        await asyncio.gather(
            *(client.aclose() for client in clients),
            *(lease.close() for lease in leases),
            return_exceptions=True,
        )


_OPEN: Final[dict[ClientPool, None]] = {}
_PARENT_STATES: Final[list[object]] = []
_CLOSING: Final[set[asyncio.Task[None]]] = set()


def _close_unreferenced(pool: ClientPool) -> None:
    """Close the pool of a connection without references.

    The garbage collector calls this on any thread at any time, so it must not take a lock.
    """
    if pool.loop is not None:
        with suppress(RuntimeError):  # that loop is closed
            pool.loop.call_soon_threadsafe(_close_soon, pool)


def _close_soon(pool: ClientPool) -> None:
    if pool in _OPEN:
        task = asyncio.get_running_loop().create_task(pool.close())
        _CLOSING.add(task)
        task.add_done_callback(_CLOSING.discard)


async def _close_open_pools() -> None:
    await asyncio.gather(*(pool.close() for pool in list(_OPEN)))


def _forget_after_fork() -> None:
    """Keep the parent's sockets and leases alive in a child process, which must not use them."""
    for pool in _OPEN:
        _PARENT_STATES.append(dict(vars(pool)))
        pool.forget()
    _OPEN.clear()


PORTAL.on_close(_close_open_pools)
# The handler registered last runs first: calls end before the leases that they need.
atexit.unregister(PORTAL.close)
atexit.register(PORTAL.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def _key(call_settings: Settings) -> Secret:
    """Return the key; an empty one if none is set, which a service may refuse."""
    return call_settings.api_key or Secret("")


class Connection:
    """A service for calls; settings that are omitted here are read at each call.

    Parameters
    ----------
    base_url
        Address of the service, such as `https://data.example.com`.
    api_key
        The bearer key. No repr, message or file shows it.
    """

    def __init__(self, *, base_url: str | None = None, api_key: str | None = None) -> None:
        self._base_url = base_url
        if api_key is not None and (not isinstance(api_key, str) or not api_key.strip()):
            raise InvalidArgument("api_key must be a string that is not empty")
        self._api_key = None if api_key is None else Secret(api_key)
        self._pool = ClientPool()
        # The connection of an unpickled job closes with the job.
        weakref.finalize(self, _close_unreferenced, self._pool).atexit = False
        self.settings()

    def settings(self, arguments: Options | None = None) -> Settings:
        """Return the settings of a call made now; `arguments` are those of the call.

        Raises
        ------
        InvalidArgument
            An argument, option or variable has a value that is not allowed.
        """
        own = Options(base_url=self._base_url, api_key=self._api_key)
        try:
            call_settings = settings.current(own, arguments or Options())
        except (ValueError, TypeError) as error:
            raise InvalidArgument(str(error)) from None
        _apply_log_level(call_settings.log)
        return call_settings

    def scope(self, call_settings: Settings) -> ResultScope:
        """Return the owner of results; starts nothing and sends nothing."""
        if call_settings.base_url is None:
            # What the answers of the local service depend on.
            parts = [
                str(call_settings.data_dir),
                call_settings.engines,
                call_settings.providers,
                call_settings.llm,
                call_settings.proxy,
                call_settings.user_agent,
                call_settings.creatives_source,
            ]
            text = orjson.dumps(parts, default=Secret.reveal, option=orjson.OPT_SORT_KEYS)
            return ResultScope(LOCAL, _hash(text.decode()))
        return ResultScope(call_settings.base_url, _hash(_key(call_settings).reveal()))

    @asynccontextmanager
    async def client(
        self, call_settings: Settings, *, seen_s: float = 0.0, on_start: OnStart | None = None
    ) -> AsyncIterator[Client]:
        """Provide a client for the running loop: the shared one, or a new one for the block.

        A local service that was seen alive within the last `seen_s` seconds is not checked again.
        `on_start` is called, on any thread, before the wait for one that has to be started.

        Raises
        ------
        OfflineError
            Offline mode is on, or a recording is replayed.
        LocalServiceError
            The local service cannot start.
        """
        if call_settings.replay is not None:
            raise NotRecorded(
                f"the recording {call_settings.replay} is replayed (replay(), WEBDATA_REPLAY), "
                "and does not contain this call: nothing was sent"
            )
        if call_settings.offline:
            raise OfflineError(
                "offline mode is on (options.offline, WEBDATA_OFFLINE): nothing was sent"
            )
        since = time.monotonic() - seen_s
        target = await PORTAL.call(self._pool.target(call_settings, since, on_start))
        # A reference to this connection would keep its pool from being closed.
        locate = partial(_current_address, self._pool, call_settings)
        if asyncio.get_running_loop() is self._pool.loop:
            yield self._pool.client(target, locate)
            return
        client = target.client(locate)
        try:
            yield client
        finally:
            await client.aclose()

    async def aclose(self) -> None:
        """Close the connection's clients and release its lease on a local service.

        A later call opens new ones.
        """
        await PORTAL.call(self._pool.close())

    close: Final = synced(aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the URL and the key of the service, but no open client."""
        api_key = None if self._api_key is None else self._api_key.reveal()
        return _restored, (type(self), self._base_url, api_key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._service_text()})"

    def _service_text(self) -> str:
        """Return the service that a call made now would use; sends nothing."""
        try:
            chosen = self.settings()
        except InvalidArgument:  # the next call reports the invalid setting
            return f"base_url={self._base_url!r}"
        if chosen.base_url is None:
            return f"local service, data in {chosen.data_dir}"
        return f"base_url={chosen.base_url!r}"


async def _current_address(pool: ClientPool, call_settings: Settings) -> Address | None:
    """Return the present address of the local service; None if it was stopped."""
    target = await PORTAL.call(pool.relocated(call_settings))
    return None if target is None else target.address


def _restored(kind: type[Connection], base_url: str | None, api_key: str | None) -> Connection:
    return kind(base_url=base_url, api_key=api_key)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _apply_log_level(level: str | None) -> None:
    """Show our log on stderr from `level` on, unless the program has handlers of its own."""
    if level is None:
        return
    try:
        log.setLevel(level.upper())
    except ValueError:
        raise InvalidArgument(
            "log (WEBDATA_LOG) must be debug, info, warning, error or critical"
        ) from None
    if not logging.getLogger().handlers and not any(
        isinstance(handler, logging.StreamHandler) for handler in log.handlers
    ):
        log.addHandler(logging.StreamHandler(sys.stderr))


@dataclass(slots=True)
class _DefaultConnection:
    """The connection of calls that name none: that of the last `connect`, or of the settings."""

    connection: Connection | None = None


_DEFAULT: Final = _DefaultConnection()


def set_default_connection(connection: Connection) -> None:
    """Use `connection` for later calls that name none."""
    _DEFAULT.connection = connection


def default_connection() -> Connection:
    """Return the connection of calls that name none."""
    if _DEFAULT.connection is None:
        _DEFAULT.connection = Connection()
    return _DEFAULT.connection


# The portal reads this setting at each call.
PORTAL.nest = lambda: settings.current().nest
