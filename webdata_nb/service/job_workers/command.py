"""Runs the jobs of a service in this process, or in the workers of a Dask cluster."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webdata_nb import __version__
from webdata_nb.page.errors import ApplicationError
from webdata_nb.service.errors import ClusterError
from webdata_nb.service.job_workers.claim_loop import (
    export_to_children,
    require_shared_store,
    run_claim_loop,
    worker_options,
)
from webdata_nb.service.job_workers.cluster_status import ClusterStatus
from webdata_nb.service.local_lifetime import LocalLifetime
from webdata_nb.service.observability.logs import configure_logging
from webdata_nb.service.runtime.event_loop import cancel
from webdata_nb.service.server import limited_shutdown, stop_on_signals, tune_process
from webdata_nb.service.settings import InvalidSetting, ServiceSettings, takes_options
from webdata_nb.service.store.backends import SCHEMA_VERSION, open_store
from webdata_nb.service.store.sql.store import ReplicaStore

if TYPE_CHECKING:
    from webdata_nb.service.job_workers.cluster import DaskCluster

log = logging.getLogger(__name__)


@takes_options("worker", ServiceSettings)
def run_worker(**options: Any) -> int:
    """Run jobs in the foreground until the process is stopped.

    {options}

    Returns
    -------
    int
        The exit code: 0 after a regular stop, 1 if the process could not start.
    """
    configure_logging(options.get("log_format", "text"))
    tune_process()
    try:
        settings = ServiceSettings.checked({"mode": "team", **options})
        require_shared_store(settings.store)
        with limited_shutdown() as shutdown_begins:
            if settings.dask is None:
                # Run jobs here, in a data directory that no other process uses.
                lifetime = LocalLifetime(
                    settings.data_dir, version=__version__, schema=SCHEMA_VERSION, managed=False
                )
                lifetime.acquire()
                try:
                    asyncio.run(_run_jobs(settings, shutdown_begins))
                finally:
                    lifetime.close()
            else:
                asyncio.run(_run_cluster(settings, shutdown_begins))
    except (InvalidSetting, ApplicationError, OSError) as error:
        log.error("%s", error)  # noqa: TRY400 - the sentence says it all
        return 1
    return 0


async def _run_jobs(settings: ServiceSettings, shutdown_begins: Callable[[], None]) -> None:
    stopping = asyncio.Event()

    def on_join(_replica: str) -> None:
        _announce(f"runs jobs as {settings.replica}")

    with stop_on_signals(asyncio.get_running_loop(), stopping):
        running = asyncio.create_task(run_claim_loop(settings, stopping, on_join))
        stopped = asyncio.create_task(stopping.wait())
        await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if stopped.done():
            shutdown_begins()
        stopped.cancel()
        await running


async def _run_cluster(settings: ServiceSettings, shutdown_begins: Callable[[], None]) -> None:
    """Keep claim loops in the workers of a cluster, and stop them at the end."""
    stopping = asyncio.Event()
    log_changes = WorkerCountLog()
    with stop_on_signals(asyncio.get_running_loop(), stopping):
        async with open_store(settings.data_dir, settings.cipher, settings.store) as store:
            await store.secrets.check_key()
            async with dask_cluster(
                settings, store.replicas, log_changes, unregister=True
            ) as cluster:
                _announce(f"runs jobs in the workers of {cluster.address}")
                watching = asyncio.create_task(cluster.run())
                await stopping.wait()
                shutdown_begins()
                await cancel(watching)


@dataclass(slots=True)
class WorkerCountLog:
    """Logs the number of running workers when it changes."""

    _running: int | None = None

    def __call__(self, status: ClusterStatus) -> None:
        """Note a status."""
        if status.is_connected and status.running != self._running:
            self._running = status.running
            log.info("%d Dask workers run jobs", status.running)


@asynccontextmanager
async def dask_cluster(
    settings: ServiceSettings,
    replicas: ReplicaStore,
    on_status: Callable[[ClusterStatus], None],
    *,
    unregister: bool,
) -> AsyncIterator[DaskCluster]:
    """Connect to the cluster of the settings; see `open_cluster`.

    Raises
    ------
    ClusterError
        Dask is not installed, no scheduler answers, or its release does not fit.
    """
    address = settings.cluster
    if address is None:
        raise TypeError("the settings have no address of a cluster")
    try:
        from webdata_nb.service.job_workers.cluster import (  # noqa: PLC0415 - an extra
            open_cluster,
        )
    except ImportError:
        raise ClusterError('--dask needs Dask: pip install "webdata_nb[dask]"') from None
    logging.getLogger("distributed").setLevel(logging.WARNING)
    if address.scheduler is None:
        export_to_children(settings)
    elif not (address.is_encrypted or address.is_loopback):
        log.warning(
            "the connection to %s is not encrypted: whoever reaches that scheduler can run code on "
            "its workers, and read their keys and database",
            address.scheduler,
        )

    async def live_replicas() -> Collection[str]:
        return {replica.id for replica in await replicas.live()}

    async with open_cluster(
        address,
        worker_options(settings),
        live_replicas=live_replicas,
        on_status=on_status,
        unregister=unregister,
    ) as cluster:
        yield cluster


def _announce(text: str) -> None:
    print(f"webdata_nb {__version__} {text}", file=sys.stderr, flush=True)  # noqa: T201 - a command prints
