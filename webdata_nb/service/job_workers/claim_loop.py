"""Claims jobs of a store and runs them until it is stopped, in a process or in a thread of it."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from webdata_nb.page.errors import ApplicationError
from webdata_nb.service.errors import StoreUnavailable
from webdata_nb.service.job_workers.cluster_status import LoopReport
from webdata_nb.service.observability import logs
from webdata_nb.service.runtime.event_loop import run_in_background, wait_at_most
from webdata_nb.service.settings import (
    OPTIONS,
    STORE,
    InvalidSetting,
    ServiceSettings,
    team_store_url,
)
from webdata_nb.service.store.records import JobSnapshot, ReplicaKind
from webdata_nb.service.work.job_processor import JobProcessor, open_job_processor
from webdata_nb.service.work.retention import Janitor

log: Final = logging.getLogger(__name__)

# The variable with the mark of the JSON lines of worker processes on this machine.
_LOG_MARK: Final = "WEBDATA_LOG_MARK"
RETRY_S: Final = 5.0
# Leases are released in the first second; what remains after that are processes to end. A Dask
# nanny kills its worker 4 s after it told it to stop.
STOP_S: Final = 3.0


def worker_options(settings: ServiceSettings) -> dict[str, Any]:
    """Return the options that a service sends to its workers, as JSON.

    Anyone who reaches the scheduler can read them. `needs` has the names of the options that a
    worker must have in its environment, because the service has them.
    """
    sent = [name for name, option in OPTIONS.items() if option.dask == "sent"]
    needs = [
        name
        for name, option in OPTIONS.items()
        if option.dask_need is not None and getattr(settings, name) is not None
    ]
    return {"sent": {name: getattr(settings, name) for name in sent}, "needs": needs}


def worker_settings(
    options: Mapping[str, Any], data_dir: Path, name: str, *, page_workers: int
) -> ServiceSettings:
    """Return the settings of a worker: database, keys and proxy are those of its environment.

    Raises
    ------
    InvalidSetting
        The environment has an invalid value, or none that is needed.
    """
    for need in options["needs"]:
        option = OPTIONS[need]
        if option.dask_need is not None and not os.environ.get(option.variable or ""):
            reason, content = option.dask_need
            raise InvalidSetting(
                f"the service {reason}: set {option.variable} in the worker's environment{content}"
            )
    require_shared_store(team_store_url(None))
    given = {**options["sent"], "mode": "team", "data_dir": data_dir, "replica": name}
    return replace(ServiceSettings.checked(given), page_workers=page_workers)


def require_shared_store(store_url: str | None) -> None:
    """Raise `InvalidSetting` without a store that several processes can use."""
    if store_url is None:
        raise InvalidSetting(
            f"a worker needs the PostgreSQL database of its service, in {STORE} or --store: SQLite "
            "is for one process"
        )


def export_to_children(settings: ServiceSettings) -> None:
    """Put what worker processes on this machine need into the environment that they inherit."""
    for name, option in OPTIONS.items():
        value = getattr(settings, name)
        if option.dask == "environment" and option.variable is not None and value is not None:
            os.environ[option.variable] = str(value)
    os.environ[_LOG_MARK] = logs.child_mark()


def configure_logs(options: Mapping[str, Any], name: str) -> None:
    """Configure the logs of a worker with this name, which got these options of its service."""
    logs.configure_worker_logs(
        options["sent"].get("log_format", "text"), name, mark=os.environ.get(_LOG_MARK, "")
    )


async def run_claim_loop(
    settings: ServiceSettings,
    stopping: asyncio.Event,
    on_join: Callable[[JobProcessor], None],
    kind: ReplicaKind = "worker",
) -> None:
    """Run jobs until `stopping` is set, then return those that run to the queue.

    Parameters
    ----------
    settings
        With a store on PostgreSQL.
    stopping
        Set to stop.
    on_join
        Called once this replica claims jobs.
    kind
        Of this process, as the operator sees it.
    """
    async with AsyncExitStack() as stack:
        jobs = await stack.enter_async_context(
            open_job_processor(settings, None, kind=kind, on_end=_leave_webhooks_to_the_service)
        )
        janitor = Janitor(jobs.store, jobs.index, jobs.spool, retention=None, clock=jobs.store.now)
        run_in_background(stack, janitor.run())
        if jobs.membership is None:
            raise TypeError("a claim loop is one of several processes on a store")
        await jobs.membership.refresh()
        await jobs.runner.start()
        stack.push_async_callback(jobs.runner.close)
        run_in_background(stack, jobs.prepare())
        on_join(jobs)
        await stopping.wait()
        await jobs.runner.drain()


def _leave_webhooks_to_the_service(_ended: JobSnapshot) -> None:
    """Do nothing: the processes with HTTP look for due webhooks every two seconds."""


class ClaimLoopThread:
    """A claim loop in a thread with an event loop of its own.

    It is opened again while its store is unavailable. Wrong settings are final.

    Parameters
    ----------
    read_settings
        Returns the settings; raises `InvalidSetting`.
    """

    def __init__(self, read_settings: Callable[[], ServiceSettings]) -> None:
        self._read_settings = read_settings
        self.report: LoopReport = LoopReport("starting")
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._must_stop = False
        # A daemon: a thread that hangs must not keep the process from its end.
        self._thread = threading.Thread(target=self._run, name="webdata claim loop", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    async def stop(self) -> None:
        """Release the leases and end the thread, within `STOP_S`."""
        with self._lock:
            self._must_stop = True
            if self._loop is not None and self._stopping is not None:
                self._loop.call_soon_threadsafe(self._stopping.set)
        await asyncio.to_thread(self._thread.join, STOP_S)
        if self._thread.is_alive():
            log.warning("the claim loop did not end within %g s", STOP_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._run_until_stopped())
        except Exception:
            log.exception("the claim loop ended")
            self.report = LoopReport("refused", error="its claim loop ended; its log says why")
        finally:
            with self._lock:
                self._loop = None

    async def _run_until_stopped(self) -> None:
        stopping = asyncio.Event()
        with self._lock:
            self._loop, self._stopping = asyncio.get_running_loop(), stopping
            if self._must_stop:
                return
        while not stopping.is_set():
            try:
                await run_claim_loop(self._read_settings(), stopping, self._note_joined, "dask")
            except (StoreUnavailable, OSError) as error:
                reason = str(error)
            except (InvalidSetting, ApplicationError) as error:
                reason = str(error)
                self.report = LoopReport("refused", error=reason)
            except Exception:
                log.exception("the claim loop failed; it starts again in %g s", RETRY_S)
                reason = "its claim loop failed; its log says why"
            else:
                break
            is_new = reason != self.report.error
            is_final = self.report.state == "refused"
            if is_new or is_final:
                log.error("this worker runs no jobs: %s", reason)
            if is_final:
                return
            self.report = LoopReport("waiting", error=reason)
            await wait_at_most(stopping, RETRY_S)
        self.report = LoopReport("stopped")

    def _note_joined(self, jobs: JobProcessor) -> None:
        replica = None if jobs.membership is None else jobs.membership.replica.id
        self.report = LoopReport("running", replica)
