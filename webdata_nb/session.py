"""Which service a call talks to, with which key, over which connections.

A `Connection` names a service or leaves the choice to the settings of each call; without any
base URL it is the local service, found or started on demand. Connections to a service live on the
portal's loop, one client per service and key, and are closed when the process ends.
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
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import orjson

from webdata_nb import local, settings
from webdata_nb.bridge import PORTAL, synced
from webdata_nb.client.client import Client
from webdata_nb.client.transport import Address, Locate
from webdata_nb.contract import paths
from webdata_nb.errors import InvalidArgument, NotRecorded, OfflineError
from webdata_nb.settings import Options, Secret, Settings

LOCAL: Final = "local"
_CLOSE_S: Final = 1.0

log = logging.getLogger("webdata_nb")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose results these are, for the cache: a service and a hash of the identity there."""

    service: str
    identity: str

    @property
    def local(self) -> bool:
        """Whether the local service answers."""
        return self.service == LOCAL


@dataclass(frozen=True, slots=True)
class Target:
    """One service as one key sees it; equal targets share a client."""

    base_url: str
    api_key: Secret
    lease_id: str | None = None
    proxy: str | None = field(default=None, repr=False)
    ca_bundle: str | None = None

    @property
    def address(self) -> Address:
        """Where its client sends requests."""
        headers = {} if self.lease_id is None else {paths.LEASE_HEADER: self.lease_id}
        return Address(self.base_url, self.api_key.reveal(), headers)

    def client(self, locate: Locate | None = None) -> Client:
        """Return a new client, for the running loop."""
        address = self.address
        return Client(
            address.base_url,
            address.api_key,
            # A proxy of the environment has no business between us and a local process.
            trust_env=self.lease_id is None,
            headers=address.headers,
            proxy=self.proxy,
            ca_bundle=self.ca_bundle,
            locate=None if self.lease_id is None else locate,
        )


class Pool:
    """What one connection has open: clients of the portal's loop, and leases by directory."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew, leaving what was open as it is."""
        self._clients: dict[Target, Client] = {}
        self._leases: dict[Path, local.LocalService] = {}
        self._turn = asyncio.Lock()
        self.loop: asyncio.AbstractEventLoop | None = None

    async def target(
        self, chosen: Settings, since: float
    ) -> tuple[Target, asyncio.AbstractEventLoop]:
        """Return the service that `chosen` names, and the loop on which clients are shared.

        A local one must have been seen alive after `since`, of the monotonic clock.
        """
        self.loop = loop = asyncio.get_running_loop()
        if chosen.base_url is not None:
            proxy, bundle = chosen.proxy, chosen.ca_bundle
            return Target(chosen.base_url, _key(chosen), proxy=proxy, ca_bundle=bundle), loop
        lease = await self._lease(chosen, since)
        return Target(lease.base_url, Secret(lease.token), lease.lease_id), loop

    async def _lease(self, chosen: Settings, since: float) -> local.LocalService:
        async with self._turn:
            _OPEN[self] = None
            held = self._leases.pop(chosen.data_dir, None)
            lease = await local.ensure(chosen, current=held, since=since)
            self._leases[chosen.data_dir] = lease
            return lease

    async def relocated(self, chosen: Settings) -> Target | None:
        """Return where the local service answers now, started again if it was killed.

        None where it was stopped: then whoever stopped it decides when it starts again.
        """
        if not local.recoverable(chosen):
            return None
        target, _ = await self.target(chosen, time.monotonic())
        return target

    def client(self, target: Target, locate: Locate) -> Client:
        """Return the shared client of `target`; only on the portal's loop."""
        if target not in self._clients:
            _OPEN[self] = None
            self._clients[target] = target.client(locate)
        return self._clients[target]

    async def close(self) -> None:
        """Close every connection and give back every lease; later calls open new ones."""
        clients, leases = list(self._clients.values()), list(self._leases.values())
        self._clients.clear()
        self._leases.clear()
        _OPEN.pop(self, None)
        await asyncio.gather(
            *(client.aclose() for client in clients),
            *(lease.close() for lease in leases),
            return_exceptions=True,
        )


_OPEN: Final[dict[Pool, None]] = {}
_INHERITED: Final[list[object]] = []
_CLOSING: Final[set[asyncio.Task[None]]] = set()


def _dropped(pool: Pool) -> None:
    """Close what nobody can close any more.

    The garbage collector calls this, on any thread and at any moment: it must take no lock.
    """
    if pool.loop is not None:
        with suppress(RuntimeError):  # that loop is closed
            pool.loop.call_soon_threadsafe(_close_soon, pool)


def _close_soon(pool: Pool) -> None:
    if pool in _OPEN:
        task = asyncio.get_running_loop().create_task(pool.close())
        _CLOSING.add(task)
        task.add_done_callback(_CLOSING.discard)


def _close_at_exit() -> None:
    async def close() -> None:
        await asyncio.gather(*(pool.close() for pool in list(_OPEN)))

    if _OPEN:
        with suppress(Exception):
            PORTAL.submit(close()).result(_CLOSE_S)


def _forget_after_fork() -> None:
    """Sockets and leases are the parent's: kept from being finalised, and never used."""
    for pool in _OPEN:
        _INHERITED.append(dict(vars(pool)))
        pool.forget()
    _OPEN.clear()


atexit.register(_close_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def _key(chosen: Settings) -> Secret:
    """Return the key, empty where none is set: a service that wants one will say so."""
    return chosen.api_key or Secret("")


class Connection:
    """The service of some calls; what is not given here is read from the settings at each call.

    Parameters
    ----------
    base_url
        Address of the service, such as `https://data.example.com`.
    api_key
        The bearer key. No repr, message or file shows it.
    """

    def __init__(self, *, base_url: str | None = None, api_key: str | None = None) -> None:
        self._base_url = base_url
        self._api_key = None if api_key is None else Secret(_text("api_key", api_key))
        self._pool = Pool()
        # Whoever unpickles a job has nothing to close: its connection ends with it.
        weakref.finalize(self, _dropped, self._pool).atexit = False
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
            chosen = settings.current(own, arguments or Options())
        except (ValueError, TypeError) as error:
            raise InvalidArgument(str(error)) from None
        _apply_log_level(chosen.log)
        return chosen

    def scope(self, chosen: Settings) -> Scope:
        """Return whose results the calls of `chosen` give; starts nothing and sends nothing."""
        if chosen.base_url is None:
            return Scope(LOCAL, _hashed(_local_identity(chosen)))
        return Scope(chosen.base_url, _hashed(_key(chosen).reveal()))

    @asynccontextmanager
    async def client(self, chosen: Settings, *, seen_s: float = 0.0) -> AsyncIterator[Client]:
        """Give a client for the running loop: the shared one, or one of the block's own.

        A local service that was seen alive within the last `seen_s` seconds is not asked again.

        Raises
        ------
        OfflineError
            Offline mode is on, or a recording is replayed.
        LocalServiceError
            The local service cannot start.
        """
        if chosen.replay is not None:
            raise NotRecorded(
                f"the recording {chosen.replay} is replayed (replay(), WEBDATA_REPLAY), "
                "and this is not in it: nothing was sent"
            )
        if chosen.offline:
            raise OfflineError("offline mode is on (offline=, WEBDATA_OFFLINE): nothing was sent")
        since = time.monotonic() - seen_s
        target, home = await _on_portal(self._pool.target(chosen, since))
        # Without a reference to this connection: its pool is closed once nobody has it any more.
        locate = partial(_located, self._pool, chosen)
        if asyncio.get_running_loop() is home:
            yield self._pool.client(target, locate)
            return
        client = target.client(locate)
        try:
            yield client
        finally:
            await client.aclose()

    async def aclose(self) -> None:
        """Close what this connection has open and give back its lease on a local service.

        A later call opens what it needs again.
        """
        await asyncio.wrap_future(PORTAL.submit(self._pool.close()))

    close = synced(aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle what names the service, key included, and nothing that is open."""
        api_key = None if self._api_key is None else self._api_key.reveal()
        return _restored, (type(self), self._base_url, api_key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self._base_url!r})"


async def _located(pool: Pool, chosen: Settings) -> Address | None:
    """Return where the service answers now; None where it was stopped."""
    target = await _on_portal(pool.relocated(chosen))
    return None if target is None else target.address


async def _on_portal(finding: Coroutine[Any, Any, _T]) -> _T:
    """Await a coroutine on the portal's loop, from whichever loop runs."""
    if PORTAL.is_current():
        return await finding
    return await asyncio.wrap_future(PORTAL.submit(finding))


def _restored(kind: type[Connection], base_url: str | None, api_key: str | None) -> Connection:
    return kind(base_url=base_url, api_key=api_key)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidArgument(f"{name} must be a string that is not empty")
    return value


def _local_identity(chosen: Settings) -> str:
    """Return what the local service's answers depend on, keys included; it is only ever hashed."""
    told = [chosen.engines, chosen.providers, chosen.llm, chosen.proxy, chosen.user_agent]
    parts = [str(chosen.data_dir), *told, chosen.creatives_source]
    return orjson.dumps(parts, default=Secret.reveal, option=orjson.OPT_SORT_KEYS).decode()


def _hashed(text: str) -> str:
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
    if not logging.getLogger().handlers and not _streams():
        log.addHandler(logging.StreamHandler(sys.stderr))


def _streams() -> list[logging.Handler]:
    return [each for each in log.handlers if isinstance(each, logging.StreamHandler)]


_DEFAULT: Final[list[Connection]] = []


def use(connection: Connection) -> None:
    """Make `connection` the one of calls that name none."""
    _DEFAULT[:] = [connection]


def current() -> Connection:
    """Return the connection of calls that name none: of the last `connect`, or the settings'."""
    if not _DEFAULT:
        _DEFAULT.append(Connection())
    return _DEFAULT[-1]


def _nesting_wanted() -> bool:
    return settings.current().nest


# The portal asks at each call whether a caller's own loop is to be kept alive meanwhile.
PORTAL.nest = _nesting_wanted
