"""The lifetime of a local service: directory lock, runtime file, clients' leases.

::

    lifetime = LocalLifetime(data_dir, version=__version__, schema=SCHEMA, managed=managed)
    lifetime.acquire()                         # before the store is opened; one per data directory
    lifetime.publish(f"http://127.0.0.1:{port}")   # once the socket listens
    await lifetime.watch(active_jobs, stop)    # while the server runs; calls stop() when idle
    lifetime.retire()                          # no new clients
    lifetime.close()                           # another service may start
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from webdata_nb.contract import local
from webdata_nb.contract.local import Runtime, SessionSettings
from webdata_nb.page.errors import ApplicationError
from webdata_nb.service.private_files import replace_private_file

log: Final = logging.getLogger("webdata_nb.service")

_NO_SETTINGS: Final = SessionSettings()
_LOCK_WAIT_S: Final = 5.0  # a client that tests the lock holds it briefly


class DataDirInUse(ApplicationError):
    """Another service has locked the data directory."""


class ServiceStopping(ApplicationError):
    """The service is shutting down and grants no more leases."""


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """Seconds: length of a lease, wait after the release of the last one, interval of checks."""

    lease_s: float = 15.0
    linger_s: float = 2.0
    tick_s: float = 0.5

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> LeaseTiming:
        """Return the defaults, or shorter times if the environment has a lease's length."""
        defaults = cls()
        lease_s = float(environ.get(local.LEASE_SECONDS, defaults.lease_s))
        return cls(lease_s, min(defaults.linger_s, lease_s), min(defaults.tick_s, lease_s / 10))


@dataclass(frozen=True, slots=True)
class SessionLeases:
    """The leases of sessions, on a monotonic clock; every method returns a new state.

    Without leases the service may stop from `stop_at` on: one lease after its start, so that the
    client which started it can take a lease; `linger_s` after the release of the last lease, so
    that the next script finds the service; at once when the last lease runs out.
    """

    timing: LeaseTiming
    stop_at: float
    checked_at: float
    ends: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def start(cls, timing: LeaseTiming, now: float) -> SessionLeases:
        """Return the state of a service that starts to listen."""
        return cls(timing, stop_at=now + timing.lease_s, checked_at=now)

    def renew(self, lease_id: str, now: float) -> SessionLeases:
        """Create a lease, or extend it from `now`."""
        return replace(self, ends={**self.ends, lease_id: now + self.timing.lease_s})

    def release(self, lease_id: str, now: float) -> SessionLeases:
        """End a lease; an unknown one changes nothing."""
        if lease_id not in self.ends:
            return self
        ends = {name: end for name, end in self.ends.items() if name != lease_id}
        return replace(self, ends=ends, stop_at=now + self.timing.linger_s)

    def expire(self, now: float) -> SessionLeases:
        """Drop the leases that ran out; time in which this process was suspended does not count."""
        # The laptop slept, or the process was stopped: no heartbeat could arrive.
        suspended_s = max(0.0, now - self.checked_at - 2 * self.timing.tick_s)
        ends = {
            name: end + suspended_s for name, end in self.ends.items() if end + suspended_s > now
        }
        stop_at = now if self.ends and not ends else self.stop_at + suspended_s
        return replace(self, ends=ends, stop_at=stop_at, checked_at=now)

    def is_unneeded(self, now: float) -> bool:
        """Whether no client uses the service, nor is about to."""
        return not self.ends and now >= self.stop_at


class LocalLifetime:
    """A local service on a data directory, and the leases of its clients.

    Parameters
    ----------
    data_dir
        The directory to serve; created if it is missing.
    version, schema
        The versions of the package and of the store's schema, for clients.
    managed
        Whether to stop when no client needs the service; a service that a person started runs
        until it is stopped.
    timing
        Times of leases; by default those of the environment.
    clock
        A monotonic clock, in seconds.

    Attributes
    ----------
    token : str
        The bearer token of this run, 256 bits.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        version: str,
        schema: int,
        managed: bool,
        timing: LeaseTiming | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.data_dir = data_dir
        self.version = version
        self.schema = schema
        self.managed = managed
        self.token: str = secrets.token_urlsafe(32)
        self.started_at: datetime = datetime.now(UTC)
        self.retiring: bool = False
        self._clock = clock
        self._timing = timing or LeaseTiming.read(os.environ)
        self._leases = SessionLeases.start(self._timing, clock())
        self._settings: dict[str, SessionSettings] = {}
        boot_id = ""
        with contextlib.suppress(OSError):
            boot_id = Path(local.BOOT_ID).read_text(encoding="ascii")
        host = platform.node()
        self._lock = FileLock(data_dir / local.service_lock_name(host), mode=0o600)
        self._runtime = data_dir / local.runtime_name(host, boot_id)

    @property
    def lease_count(self) -> int:
        """The number of leases."""
        return len(self._leases.ends)

    def acquire(self, wait_s: float = _LOCK_WAIT_S) -> None:
        """Lock the data directory until `close`.

        Raises
        ------
        DataDirInUse
            Another service has it after `wait_s` seconds.
        """
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._lock.acquire(timeout=wait_s)
        except Timeout:
            raise DataDirInUse(
                f"Another service already runs on {self.data_dir}; `webdata stop` ends it, or "
                "choose another directory with --data-dir."
            ) from None

    def publish(self, url: str) -> None:
        """Write the runtime file atomically, for its owner only; `url` must accept connections."""
        self._leases = SessionLeases.start(self._timing, self._clock())
        directory = self._runtime.parent
        directory.mkdir(mode=0o700, exist_ok=True)
        # Services that died with an earlier boot have left their files.
        pattern = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
        host = re.sub(f"{pattern}$", "", self._runtime.stem)
        for old in directory.glob("*.json"):
            if old != self._runtime and re.fullmatch(re.escape(host) + pattern, old.stem):
                old.unlink(missing_ok=True)
        runtime = Runtime(
            version=self.version,
            wire=local.WIRE,
            schema_=self.schema,
            pid=os.getpid(),
            started_at=self.started_at,
            url=url,
            token=self.token,
        )
        replace_private_file(self._runtime, runtime.model_dump_json(by_alias=True).encode())

    def retire(self) -> None:
        """Delete the runtime file and grant no more leases: the service is stopping."""
        if not self.retiring and self._lock.is_locked:
            self._runtime.unlink(missing_ok=True)
        self.retiring = True

    def close(self) -> None:
        """Unlock the data directory, after everything in it was closed."""
        self.retire()
        self._lock.release()

    def renew(self, lease_id: str) -> bool:
        """Create or renew a lease; return whether it is new. Raises `ServiceStopping`."""
        if self.retiring:
            raise ServiceStopping("The local service is shutting down.")
        created = lease_id not in self._leases.ends
        self._leases = self._leases.renew(lease_id, self._clock())
        return created

    @property
    def lease_s(self) -> float:
        """Seconds that a lease lasts after each heartbeat."""
        return self._timing.lease_s

    def release(self, lease_id: str) -> None:
        """End a lease, and forget its settings."""
        self._leases = self._leases.release(lease_id, self._clock())
        self._settings.pop(lease_id, None)

    def bind_settings(self, lease_id: str, settings: SessionSettings) -> bool:
        """Bind a session's settings to its lease; return False if there is no such lease."""
        if lease_id not in self._leases.ends:
            return False
        self._settings[lease_id] = settings
        return True

    def settings_of(self, lease_id: str | None) -> SessionSettings:
        """Return the settings bound to a lease, or empty ones."""
        return self._settings.get(lease_id or "", _NO_SETTINGS)

    async def watch(
        self, active_jobs: Callable[[], Awaitable[int]], stop: Callable[[], None]
    ) -> None:
        """Expire leases; call `stop` and return once no client needs a managed service.

        A managed service also stops if its jobs cannot be counted any more.
        """
        try:
            while not (
                self.managed
                and self._leases.is_unneeded(self._clock())
                and not await active_jobs()
                # A client may have connected while the jobs were counted.
                and self._leases.is_unneeded(self._clock())
            ):
                await asyncio.sleep(self._timing.tick_s)
                self._leases = self._leases.expire(self._clock())
                self._settings = {k: v for k, v in self._settings.items() if k in self._leases.ends}
        except Exception:
            log.exception("the local service cannot tell whether it is needed, and stops")
        self.retire()
        stop()
