"""Finds, starts and stops the local service: one process a data directory, shared by sessions.

A service is found by its runtime file, its lock and a handshake with its token, never by a
process id. Whoever uses it holds a lease by heartbeat; when the last lease has ended and no job
is active, it exits by itself.
"""

from __future__ import annotations

import asyncio
import math

from webdata_nb.contract.local import SessionSettings
from webdata_nb.errors import LocalServiceError
from webdata_nb.local.data_dir import Place, place
from webdata_nb.local.handshake import (
    POLL_S,
    Running,
    Verdict,
    ask_to_stop,
    greet,
    refusal,
    verdict,
)
from webdata_nb.local.heartbeat import LocalService, handed_over
from webdata_nb.local.process import ELSEWHERE, start, tail
from webdata_nb.settings import Settings

__all__ = [
    "LocalService",
    "Place",
    "Running",
    "ensure",
    "find",
    "place",
    "recoverable",
    "stop",
]

START_S = 60.0
STOP_S = 30.0


async def ensure(
    settings: Settings,
    *,
    current: LocalService | None = None,
    since: float = math.inf,
    deadline_s: float = START_S,
) -> LocalService:
    """Return a lease on the local service, which is started if none runs.

    Parameters
    ----------
    settings
        Where its data goes, and the provider settings to hand over to it.
    current
        The lease of an earlier call. Where it still holds, it is renewed, the settings are handed
        over again if they changed, and it is returned; else it is given up.
    since
        On the monotonic clock: a renewal that was asked for after this moment will do.
    deadline_s
        Seconds to wait for a service to answer.

    Returns
    -------
    LocalService
        Its address, token and lease, renewed by a task on the running loop until `close()`.

    Raises
    ------
    LocalServiceError
        It cannot be started or does not answer, or its version and ours do not go together.
    """
    if current is not None and current.fresh(settings, since):
        return current
    where = place(settings)
    handed = handed_over(settings)
    if current is not None:
        if await current.renew(where, handed):
            current.serves(settings)
            return current
        await current.close()
    try:
        async with asyncio.timeout(deadline_s):
            service = await _reach(where, handed)
    except TimeoutError:
        raise LocalServiceError(_silence(where, deadline_s)) from None
    except OSError as error:
        raise LocalServiceError(
            f"The local service cannot use {where.data_dir}: {error}. {ELSEWHERE}"
        ) from error
    service.serves(settings)
    return service


async def _reach(where: Place, handed: SessionSettings) -> LocalService:
    while True:
        running = await greet(where)
        if running is not None:
            service = await _use(where, running, handed)
            if service is not None:
                return service
        elif not where.served():
            await start(where)
        await asyncio.sleep(POLL_S)


async def _use(where: Place, running: Running, handed: SessionSettings) -> LocalService | None:
    """Take a lease, or make way for a newer service; None means look again."""
    match verdict(running.hello):
        case Verdict.REFUSE:
            raise LocalServiceError(refusal(running.hello, where.data_dir))
        case Verdict.REPLACE:
            await ask_to_stop(running, force=False)
            return None
        case Verdict.USE:
            return await LocalService.attach(where, running, handed)


def _silence(where: Place, waited_s: float) -> str:
    runtime = where.runtime()
    holder = f"process {runtime.pid}" if runtime else "a process without a runtime file"
    what = (
        f"{holder} holds {where.data_dir} but does not answer as a local service"
        if where.served()
        else "it did not come up"
    )
    return f"No local service within {waited_s:g} s: {what}. {ELSEWHERE}{tail(where.log)}"


def recoverable(settings: Settings) -> bool:
    """Whether a local service runs or was killed; one that was stopped leaves no runtime file."""
    return place(settings).runtime() is not None


async def find(settings: Settings) -> Running | None:
    """Return the running local service, or None; starts nothing."""
    return await greet(place(settings))


async def stop(settings: Settings, *, deadline_s: float = STOP_S) -> bool:
    """Stop the local service and wait until its process is gone.

    Jobs that are active then go on when a service starts again.

    Returns
    -------
    bool
        Whether one ran.

    Raises
    ------
    LocalServiceError
        It is still there after `deadline_s` seconds.
    """
    where = place(settings)
    try:
        async with asyncio.timeout(deadline_s):
            return await _stopped(where)
    except TimeoutError:
        raise LocalServiceError(
            f"The local service on {where.data_dir} did not stop within {deadline_s:g} s."
        ) from None


async def _stopped(where: Place) -> bool:
    ran = False
    # The lock is held for life, so a free one says that the process is gone.
    while where.served():
        running = await greet(where)
        if running is not None:
            ran = True
            await ask_to_stop(running, force=True)
        await asyncio.sleep(POLL_S)
    return ran
