"""How long the local service lives: its lock, its runtime file, its clients' leases.

::

    lifetime = Lifetime(data_dir, version=__version__, schema=SCHEMA, managed=managed)
    lifetime.hold()                            # before the store is opened; one per data directory
    lifetime.publish(f"http://127.0.0.1:{port}")   # once the socket listens
    await lifetime.watch(active_jobs, stop)    # beside the server; calls stop() when idle
    lifetime.retire()                          # shutting down: found no more, no new leases
    lifetime.close()                           # last of all: another service may start
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import re
import secrets
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from webdata_nb.contract import local
from webdata_nb.contract.local import Runtime, SessionSettings
from webdata_nb.service.errors import ServiceError

log = logging.getLogger("webdata_nb.service")

_UNBOUND: Final = SessionSettings()
_LOCK_WAIT_S: Final = 5.0  # a client's look at the lock holds it for a moment


class AlreadyServed(ServiceError):
    """Another service holds the data directory."""


class Retiring(ServiceError):
    """The service is shutting down and grants no more leases."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: a lease's length, the wait after the last was given back, between two looks."""

    lease_s: float = 15.0
    linger_s: float = 2.0
    tick_s: float = 0.5

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Timing:
        """Return the defaults, or for tests the shorter times that the environment asks for."""
        usual = cls()
        lease_s = float(environ.get(local.LEASE_SECONDS, usual.lease_s))
        return cls(lease_s, min(usual.linger_s, lease_s), min(usual.tick_s, lease_s / 10))


@dataclass(frozen=True, slots=True)
class Leases:
    """Who needs the service, on its monotonic clock: each method returns the state after it.

    Without leases it may leave from `leave_at` on: at first a whole lease's time, so that the
    client which started it can take one; `linger_s` after the last one was given back, so that
    the next script finds it; at once when the last one ran out.
    """

    timing: Timing
    leave_at: float
    seen: float
    ends: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def opened(cls, timing: Timing, now: float) -> Leases:
        """Return the state of a service that begins to listen."""
        return cls(timing, leave_at=now + timing.lease_s, seen=now)

    def renewed(self, lease_id: str, now: float) -> Leases:
        """Create the lease, or let it run from `now` anew."""
        return replace(self, ends={**self.ends, lease_id: now + self.timing.lease_s})

    def released(self, lease_id: str, now: float) -> Leases:
        """End the lease; giving back an unknown one changes nothing."""
        if lease_id not in self.ends:
            return self
        kept = {name: end for name, end in self.ends.items() if name != lease_id}
        return replace(self, ends=kept, leave_at=now + self.timing.linger_s)

    def ticked(self, now: float) -> Leases:
        """Drop the leases that ran out, not counting time in which this process did not run."""
        # A laptop slept, or the process was stopped: no heartbeat could arrive meanwhile.
        asleep = max(0.0, now - self.seen - 2 * self.timing.tick_s)
        kept = {name: end + asleep for name, end in self.ends.items() if end + asleep > now}
        leave_at = now if self.ends and not kept else self.leave_at + asleep
        return replace(self, ends=kept, leave_at=leave_at, seen=now)

    def unneeded(self, now: float) -> bool:
        """Whether no client holds on to the service."""
        return not self.ends and now >= self.leave_at


class Lifetime:
    """One local service on one data directory, and the clients that hold on to it.

    Parameters
    ----------
    data_dir
        The directory to serve; made if it is missing.
    version, schema
        The package's version and the store's schema version, told to clients.
    managed
        Whether to leave when nobody needs the service any more; a service that a person started
        stays until it is stopped.
    timing
        Lease and linger times; by default the usual ones.
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
        timing: Timing | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.data_dir = data_dir
        self.version = version
        self.schema = schema
        self.managed = managed
        self.token = secrets.token_urlsafe(32)
        self.started_at = datetime.now(UTC)
        self.retiring = False
        self._clock = clock
        self._timing = timing or Timing.read(os.environ)
        self._leases = Leases.opened(self._timing, clock())
        self._settings: dict[str, SessionSettings] = {}
        host = platform.node()
        self._lock = FileLock(data_dir / local.service_lock_name(host), mode=0o600)
        self._runtime = data_dir / local.runtime_name(host, _boot())

    @property
    def leases(self) -> int:
        """How many clients hold on to the service."""
        return len(self._leases.ends)

    def hold(self, wait_s: float = _LOCK_WAIT_S) -> None:
        """Take the data directory's lock, for life.

        Raises
        ------
        AlreadyServed
            Another service has it, still after `wait_s` seconds.
        """
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._lock.acquire(timeout=wait_s)
        except Timeout:
            raise AlreadyServed(
                f"Another service already runs on {self.data_dir}; `webdata stop` ends it, or "
                "choose another directory with --data-dir."
            ) from None

    def publish(self, url: str) -> None:
        """Write the runtime file, whole and for its owner alone; `url` must answer already."""
        self._leases = Leases.opened(self._timing, self._clock())
        directory = self._runtime.parent
        directory.mkdir(mode=0o700, exist_ok=True)
        _forget_earlier_boots(self._runtime)
        handle, draft = tempfile.mkstemp(dir=directory, prefix=".", suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(self._told(url).model_dump_json(by_alias=True))
        Path(draft).replace(self._runtime)

    def _told(self, url: str) -> Runtime:
        return Runtime(
            version=self.version,
            wire=local.WIRE,
            schema_=self.schema,
            pid=os.getpid(),
            started_at=self.started_at,
            url=url,
            token=self.token,
        )

    def retire(self) -> None:
        """Be found no more and grant no more leases: the server is shutting down."""
        if not self.retiring and self._lock.is_locked:
            self._runtime.unlink(missing_ok=True)
        self.retiring = True

    def close(self) -> None:
        """Let go of the data directory, after everything in it was closed."""
        self.retire()
        self._lock.release()

    def renew(self, lease_id: str) -> bool:
        """Create or renew a lease; return whether it is new, or raise `Retiring`."""
        if self.retiring:
            raise Retiring("The local service is shutting down.")
        created = lease_id not in self._leases.ends
        self._leases = self._leases.renewed(lease_id, self._clock())
        return created

    @property
    def lease_s(self) -> float:
        """How long a lease lasts after each heartbeat, in seconds."""
        return self._timing.lease_s

    def release(self, lease_id: str) -> None:
        """End a lease now, with the settings bound to it."""
        self._leases = self._leases.released(lease_id, self._clock())
        self._settings.pop(lease_id, None)

    def bind(self, lease_id: str, settings: SessionSettings) -> bool:
        """Bind a session's settings to its lease; return False where there is no such lease."""
        if lease_id not in self._leases.ends:
            return False
        self._settings[lease_id] = settings
        return True

    def settings_of(self, lease_id: str | None) -> SessionSettings:
        """Return the settings bound to a lease, or empty ones."""
        return self._settings.get(lease_id or "", _UNBOUND)

    async def watch(
        self, active_jobs: Callable[[], Awaitable[int]], stop: Callable[[], None]
    ) -> None:
        """Let leases run out; if managed, call `stop` once nobody needs the service, and return.

        It also stops a managed service whose jobs cannot be counted any more.
        """
        try:
            while not (self.managed and await self._done(active_jobs)):
                await asyncio.sleep(self._timing.tick_s)
                self._leases = self._leases.ticked(self._clock())
                self._settings = {k: v for k, v in self._settings.items() if k in self._leases.ends}
        except Exception:
            log.exception("the local service cannot tell whether it is needed, and stops")
        self.retire()
        stop()

    async def _done(self, active_jobs: Callable[[], Awaitable[int]]) -> bool:
        if not self._leases.unneeded(self._clock()) or await active_jobs():
            return False
        # A client may have come while the jobs were counted.
        return self._leases.unneeded(self._clock())


def _boot() -> str:
    with contextlib.suppress(OSError):
        return Path(local.BOOT_ID).read_text(encoding="ascii")
    return ""


def _forget_earlier_boots(runtime: Path) -> None:
    """Remove what services that died with an earlier boot left behind."""
    boot_id = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    host = re.sub(f"{boot_id}$", "", runtime.stem)
    for other in runtime.parent.glob("*.json"):
        if other != runtime and re.fullmatch(re.escape(host) + boot_id, other.stem):
            other.unlink(missing_ok=True)
