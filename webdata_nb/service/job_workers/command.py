"""Runs the jobs of a service in this process, or in the workers of a Dask cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from webdata_nb import __version__
from webdata_nb.page.errors import ApplicationError
from webdata_nb.service.errors import ClusterError
from webdata_nb.service.job_workers.claim_loop import (
    export_to_children,
    require_shared_store,
    run_claim_loop,
    worker_options,
)
from webdata_nb.service.job_workers.cluster_status import ClusterMonitor, ClusterStatus
from webdata_nb.service.local_lifetime import LocalLifetime
from webdata_nb.service.observability.logs import (
    announce,
    configure_process_logs,
    name_process,
)
from webdata_nb.service.observability.metrics import Metrics
from webdata_nb.service.runtime.event_loop import cancel
from webdata_nb.service.server import (
    limited_shutdown,
    listen_for_metrics,
    serve_metrics,
    stop_on_signals,
    tune_process,
)
from webdata_nb.service.settings import InvalidSetting, ServiceSettings, takes_options
from webdata_nb.service.store.backends import SCHEMA_VERSION, open_store
from webdata_nb.service.store.sql.store import ReplicaStore
from webdata_nb.service.work.job_processor import JobProcessor
from webdata_nb.service.work.store_metrics import report_store

if TYPE_CHECKING:
    from webdata_nb.service.job_workers.cluster import DaskCluster

log: Final = logging.getLogger(__name__)


@takes_options("worker", ServiceSettings)
def run_worker(**options: Any) -> int:
    """Run jobs in the foreground until the process is stopped.

    {options}

    Returns
    -------
    int
        The exit code: 0 after a regular stop, 1 if the process could not start.
    """
    configure_process_logs(options.get("log_format", "text"))
    tune_process()
    try:
        settings = ServiceSettings.checked({"mode": "team", **options})
        require_shared_store(settings.store)
        with limited_shutdown() as shutdown_begins:
            if settings.dask is None:
                name_process(settings.replica)
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
    with (
        listen_for_metrics(settings.metrics_address) as sock,
        stop_on_signals(asyncio.get_running_loop(), stopping),
        ExitStack() as stack,
    ):

        def on_join(jobs: JobProcessor) -> None:
            stack.enter_context(serve_metrics(sock, jobs.metrics.registry, jobs.problem))
            announce(f"webdata_nb {__version__} runs jobs as {settings.replica}")

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
    metrics = Metrics()
    monitor = ClusterMonitor(None, metrics)
    with (
        listen_for_metrics(settings.metrics_address) as sock,
        stop_on_signals(asyncio.get_running_loop(), stopping),
    ):
        async with open_store(settings.data_dir, settings.cipher, settings.store) as store:
            await store.secrets.check_key()
            report_store(metrics, store)
            async with dask_cluster(
                settings, store.replicas, monitor.update, unregister=True
            ) as cluster:
                watching = asyncio.create_task(cluster.run())
                with serve_metrics(sock, metrics.registry, monitor.problem):
                    announce(
                        f"webdata_nb {__version__} runs jobs in the workers of {cluster.address}"
                    )
                    await stopping.wait()
                    shutdown_begins()
                    await cancel(watching)


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
