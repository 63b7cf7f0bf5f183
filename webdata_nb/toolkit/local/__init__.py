"""Finds, starts and stops the local service: one process per data directory, shared by sessions.

A service is found by its runtime file, its lock and a handshake with its token, never by a
process id. Each session holds a lease, which it renews by heartbeat. The service exits when the
last lease has ended and no job is active.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from webdata_nb.contract.local import SessionSettings
from webdata_nb.errors import LocalServiceError
from webdata_nb.settings import Settings
from webdata_nb.toolkit.local.data_dir import DataDirectory, resolve_data_directory
from webdata_nb.toolkit.local.process import REMOTE_HINT, log_tail, start_service
from webdata_nb.toolkit.local.service_lease import (
    POLL_S,
    DiscoveredService,
    LocalService,
    ServiceAction,
    choose_action,
    discover,
    refusal_message,
    request_stop,
    session_settings_of,
)

__all__ = [
    "DataDirectory",
    "DiscoveredService",
    "LocalService",
    "OnStart",
    "ensure",
    "find",
    "is_recoverable",
    "resolve_data_directory",
    "stop",
]

OnStart = Callable[[], object]

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0


async def ensure(
    settings: Settings,
    *,
    current: LocalService | None = None,
    since: float = math.inf,
    deadline_s: float = START_TIMEOUT_S,
    on_start: OnStart | None = None,
) -> LocalService:
    """Return a lease on the local service, which is started if none runs.

    Parameters
    ----------
    settings
        The data directory, and the provider settings to hand over to the service.
    current
        The lease of an earlier call. A valid lease is renewed and returned, after changed
        settings are handed over again; a lost lease is closed and replaced.
    since
        A time on the monotonic clock; a lease that was renewed after it is not renewed again.
    deadline_s
        Seconds to wait for a service to answer.
    on_start
        Called once, before the wait for a service that does not run yet.

    Returns
    -------
    LocalService
        The address, token and lease. A task on the running loop renews the lease until `close()`.

    Raises
    ------
    LocalServiceError
        The service cannot be started or does not answer, or its version is incompatible.
    """
    if current is not None and current.is_fresh(settings, since):
        return current
    directory = resolve_data_directory(settings)
    session_settings = session_settings_of(settings)
    if current is not None:
        if await current.renew(directory, session_settings):
            current.remember_settings(settings)
            return current
        await current.close()
    try:
        async with asyncio.timeout(deadline_s):
            service = await _attach_or_start(directory, session_settings, on_start)
    except TimeoutError:
        raise LocalServiceError(_timeout_message(directory, deadline_s)) from None
    except OSError as error:
        raise LocalServiceError(
            f"The local service cannot use {directory.data_dir}: {error}. {REMOTE_HINT}"
        ) from error
    service.remember_settings(settings)
    return service


async def _attach_or_start(
    directory: DataDirectory, session_settings: SessionSettings, on_start: OnStart | None
) -> LocalService:
    announced = False
    while True:
        discovered = await discover(directory)
        if discovered is not None:
            service = await _attach_or_replace(directory, discovered, session_settings)
            if service is not None:
                return service
        else:
            if on_start is not None and not announced:
                announced = True
                on_start()
            if not directory.is_served() and await start_service(directory):
                continue
        await asyncio.sleep(POLL_S)


async def _attach_or_replace(
    directory: DataDirectory, discovered: DiscoveredService, session_settings: SessionSettings
) -> LocalService | None:
    """Take a lease, or stop an older service; None if discovery must be repeated."""
    match choose_action(discovered.hello):
        case ServiceAction.REFUSE:
            raise LocalServiceError(refusal_message(discovered.hello, directory.data_dir))
        case ServiceAction.REPLACE:
            await request_stop(discovered, force=False)
            return None
        case ServiceAction.USE:
            return await LocalService.attach(directory, discovered, session_settings)


def _timeout_message(directory: DataDirectory, waited_s: float) -> str:
    runtime = directory.read_runtime()
    holder = f"process {runtime.pid}" if runtime else "a process without a runtime file"
    reason = (
        f"{holder} holds {directory.data_dir} but does not answer as a local service"
        if directory.is_served()
        else "it did not come up"
    )
    return (
        f"No local service within {waited_s:g} s: {reason}. {REMOTE_HINT}{log_tail(directory.log)}"
    )


def is_recoverable(settings: Settings) -> bool:
    """Whether a local service runs or was killed; a stopped one leaves no runtime file."""
    return resolve_data_directory(settings).read_runtime() is not None


async def find(settings: Settings) -> DiscoveredService | None:
    """Return the running local service, or None; this never starts one."""
    return await discover(resolve_data_directory(settings))


async def stop(settings: Settings, *, deadline_s: float = STOP_TIMEOUT_S) -> bool:
    """Stop the local service and wait until its process has ended.

    Active jobs continue when a service starts again.

    Returns
    -------
    bool
        Whether a service was running.

    Raises
    ------
    LocalServiceError
        The process has not ended after `deadline_s` seconds.
    """
    directory = resolve_data_directory(settings)
    try:
        async with asyncio.timeout(deadline_s):
            return await _stop_and_wait(directory)
    except TimeoutError:
        raise LocalServiceError(
            f"The local service on {directory.data_dir} did not stop within {deadline_s:g} s."
        ) from None


async def _stop_and_wait(directory: DataDirectory) -> bool:
    was_running = False
    # A service holds the lock until its process ends.
    while directory.is_served():
        discovered = await discover(directory)
        if discovered is not None:
            was_running = True
            await request_stop(discovered, force=True)
        await asyncio.sleep(POLL_S)
    return was_running
