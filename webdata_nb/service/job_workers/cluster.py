"""A connection to a Dask cluster that keeps a claim loop in each of its workers."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import orjson
from distributed import Client, LocalCluster, Worker, WorkerPlugin
from distributed.security import Security

from webdata_nb import __version__
from webdata_nb.contract.local import WIRE
from webdata_nb.service.errors import ClusterError, StoreUnavailable
from webdata_nb.service.job_workers.claim_loop import (
    ClaimLoopThread,
    configure_logs,
    worker_settings,
)
from webdata_nb.service.job_workers.cluster_status import (
    METRIC,
    NOT_CONNECTED,
    ClusterStatus,
    LoopReport,
    WorkerState,
    worker_state,
)
from webdata_nb.service.runtime.process import available_processors
from webdata_nb.service.server import tune_process
from webdata_nb.service.settings import DaskAddress
from webdata_nb.service.store.backends import SCHEMA_VERSION
from webdata_nb.service.workers.pool import default_workers

_NAME_PREFIX: Final = "webdata-claim-loop"
# The plugin whose loop a worker runs, by the id of the worker: the last registered one.
_ACTIVE: Final[dict[str, ClaimLoopPlugin]] = {}


class ClaimLoopPlugin(WorkerPlugin):
    """Starts a claim loop in a worker, and stops it when the worker is retired or closes.

    The store and all keys come from the environment of the worker. The plugin is stored by the
    scheduler, where others can read it.

    Parameters
    ----------
    wire, schema
        The versions of the service's protocol and of its store's schema.
    options
        What `worker_options` returns.
    """

    idempotent = True

    def __init__(self, wire: int, schema: int, options: Mapping[str, Any]) -> None:
        self._wire, self._schema, self._options = wire, schema, dict(options)
        content = orjson.dumps([wire, schema, self._options], option=orjson.OPT_SORT_KEYS)
        self.name: str = f"{_NAME_PREFIX}-{hashlib.sha256(content).hexdigest()[:16]}"
        self._thread: ClaimLoopThread | None = None
        self._refused: str | None = None

    def __reduce__(self) -> tuple[type[ClaimLoopPlugin], tuple[int, int, dict[str, Any]]]:
        return ClaimLoopPlugin, (self._wire, self._schema, self._options)

    @classmethod
    def create(cls, options: Mapping[str, Any]) -> ClaimLoopPlugin:
        """Return the plugin of this release."""
        return cls(WIRE, SCHEMA_VERSION, options)

    async def setup(self, worker: Worker) -> None:
        """Start the claim loop; another one in this worker stops before."""
        if (earlier := _ACTIVE.get(worker.id)) is not None:
            await earlier.teardown(worker)
        _ACTIVE[worker.id] = self
        worker.metrics[METRIC] = self._metric
        name = "dask-" + re.sub(r"[^A-Za-z0-9._-]+", "-", str(worker.name))[:59]
        configure_logs(self._options, name)
        # Why this release cannot work for the service.
        self._refused = next(
            (
                f"the service has {part} {service}, this worker {own} (webdata_nb "
                f"{__version__}): install the release of the service on the workers"
                for part, service, own in (
                    ("wire version", self._wire, WIRE),
                    ("database schema", self._schema, SCHEMA_VERSION),
                )
                if service != own
            ),
            None,
        )
        if self._refused is None:
            tune_process()
            folder = Path(worker.local_directory) / "webdata"
            page_workers = min(worker.state.nthreads, default_workers())
            self._thread = ClaimLoopThread(
                lambda: worker_settings(self._options, folder, name, page_workers=page_workers)
            )
            self._thread.start()

    async def teardown(self, worker: Worker) -> None:
        """Return the running jobs to the queue."""
        if _ACTIVE.get(worker.id) is self:
            del _ACTIVE[worker.id]
            worker.metrics.pop(METRIC, None)
        if self._thread is not None:
            await self._thread.stop()

    def _metric(self, _worker: Worker) -> dict[str, Any]:
        if self._thread is not None:
            return self._thread.report.to_metric()
        return LoopReport("refused", error=self._refused).to_metric()


log: Final = logging.getLogger(__name__)

CONNECT_S: Final = 10.0
CHECK_S: Final = 2.0
RPC_S: Final = 10.0
# A new worker starts its loop, and sends its first reports, within this number of checks.
_CHECKS_BEFORE_WARNING: Final = 5
_FLOOR: Final = (2026, 1)
_PROBLEMS: Final = {
    "failed": "does not run jobs",
    "other_store": "runs jobs of another database: WEBDATA_STORE in its environment differs",
    "no_loop": "has no claim loop: install webdata_nb[dask,postgres] there, of this release",
}

LiveReplicas = Callable[[], Awaitable[Collection[str]]]


class DaskCluster:
    """Keeps the plugin on a scheduler, also on one that was started again.

    Parameters
    ----------
    scheduler
        The address.
    security
        The certificates.
    options
        What the service tells its workers.
    live_replicas
        Returns the ids of the live replicas of the service's store.
    on_status
        Called with the status after each check.
    """

    def __init__(
        self,
        scheduler: str,
        security: Security,
        options: Mapping[str, Any],
        *,
        live_replicas: LiveReplicas,
        on_status: Callable[[ClusterStatus], None],
    ) -> None:
        self.address: str = scheduler
        self._security = security
        self._plugin = ClaimLoopPlugin.create(options)
        self._live_replicas, self._on_status = live_replicas, on_status
        self._client: Client | None = None
        self._scheduler_id = ""
        self._live: Collection[str] = ()
        self._checks: Counter[tuple[str, WorkerState]] = Counter()

    async def connect(self) -> None:
        """Connect, and register the plugin; raises `ClusterError`."""
        try:
            async with asyncio.timeout(CONNECT_S + RPC_S):
                self._client = await Client(
                    self.address,
                    asynchronous=True,
                    security=self._security,
                    timeout=CONNECT_S,
                    set_as_default=False,
                )
                _check_versions(self.address, await self._scheduler.versions())
                self._scheduler_id = (await self._identity())["id"]
                await self._register()
        except (OSError, TimeoutError) as error:
            await self._disconnect()
            log.debug("no connection to the Dask scheduler", exc_info=error)
            raise ClusterError(
                f"no Dask scheduler answers at {self.address} within {CONNECT_S:g} s: start one "
                "with `dask scheduler`, or correct --dask and the certificates of Dask's "
                "configuration"
            ) from None
        except ClusterError:
            await self._disconnect()
            raise

    async def run(self) -> None:
        """Check the cluster until it is cancelled; connect again after the scheduler was lost."""
        while True:
            if self._client is None:
                self._on_status(NOT_CONNECTED)
                try:
                    await self.connect()
                except ClusterError as error:
                    log.debug("%s", error)
                else:
                    log.info("connected to the Dask scheduler at %s again", self.address)
            else:
                await self._check()
            await asyncio.sleep(CHECK_S)

    async def close(self, *, unregister: bool) -> None:
        """Disconnect; with `unregister`, the workers stop their claim loops."""
        if unregister and self._client is not None:
            with suppress(OSError, TimeoutError, ValueError):
                async with asyncio.timeout(RPC_S):
                    await self._client.unregister_worker_plugin(self._plugin.name)
        await self._disconnect()

    async def _check(self) -> None:
        try:
            async with asyncio.timeout(RPC_S):
                identity = await self._identity()
                if identity["id"] != self._scheduler_id:  # another one at the same address
                    self._scheduler_id = identity["id"]
                    await self._register()
        except (OSError, TimeoutError) as error:
            log.warning(
                "the Dask scheduler at %s is lost (%s); connecting again",
                self.address,
                type(error).__name__,
            )
            self._on_status(NOT_CONNECTED)
            await self._disconnect()
            return
        with suppress(StoreUnavailable):  # logged by others; the last answer is good enough
            self._live = await self._live_replicas()
        reports = {
            address: LoopReport.from_metric(worker["metrics"].get(METRIC))
            for address, worker in identity["workers"].items()
        }
        states = {address: worker_state(report, self._live) for address, report in reports.items()}
        # Each lasting problem of a worker is logged once.
        self._checks = Counter({key: self._checks[key] + 1 for key in states.items()})
        for (address, state), checks in self._checks.items():
            if checks == _CHECKS_BEFORE_WARNING and state in _PROBLEMS:
                report = reports[address]
                reason = f": {report.error}" if report is not None and report.error else ""
                log.warning("the Dask worker %s %s%s", address, _PROBLEMS[state], reason)
        self._on_status(ClusterStatus(is_connected=True, workers=states))

    async def _register(self) -> None:
        if self._client is None:
            return
        try:
            await self._client.register_plugin(self._plugin)
        except (OSError, TimeoutError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever a worker raised
            # The other workers have it; the status names those without.
            log.warning("a Dask worker could not load the claim loop: %s", type(error).__name__)

    @property
    def _scheduler(self) -> Any:
        if self._client is None:
            raise OSError("not connected")
        return self._client.scheduler

    async def _identity(self) -> dict[str, Any]:
        identity: dict[str, Any] = await self._scheduler.identity(n_workers=-1)
        return identity

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(RPC_S):
                    await client.close(timeout=CHECK_S)


@asynccontextmanager
async def open_cluster(
    address: DaskAddress,
    options: Mapping[str, Any],
    *,
    live_replicas: LiveReplicas,
    on_status: Callable[[ClusterStatus], None],
    unregister: bool,
) -> AsyncIterator[DaskCluster]:
    """Connect to a scheduler, or start worker processes on this machine.

    With `unregister`, the workers stop their claim loops at the end.

    Raises
    ------
    ClusterError
        No scheduler answers, or its release of Dask does not fit.
    """
    own_version = version("distributed")
    if _release(own_version) < _FLOOR:
        raise ClusterError(
            f"--dask needs distributed 2026.1 or later, not {own_version}: "
            'pip install --upgrade "webdata_nb[dask]"'
        )
    async with AsyncExitStack() as stack:
        if address.scheduler is None:
            # With certificates of its own: other users of this machine cannot connect.
            processes = await stack.enter_async_context(
                LocalCluster(
                    n_workers=address.local_workers,
                    threads_per_worker=max(1, available_processors() // address.local_workers),
                    asynchronous=True,
                    dashboard_address="127.0.0.1:0",
                    security=True,
                )
            )
            scheduler, security = processes.scheduler_address, processes.security
        else:
            scheduler, security = address.scheduler, _security(address)
        cluster = DaskCluster(
            scheduler, security, options, live_replicas=live_replicas, on_status=on_status
        )
        await cluster.connect()
        try:
            yield cluster
        finally:
            await cluster.close(unregister=unregister)


def _security(address: DaskAddress) -> Security:
    """Return the certificates of Dask's configuration; raises `ClusterError`."""
    if not address.is_encrypted:
        return Security(require_encryption=False)
    try:
        security = Security(require_encryption=True)
        has_certificates = security.get_connection_args("client")["ssl_context"] is not None
    except (OSError, ValueError) as error:
        raise ClusterError(f"Dask's TLS certificates cannot be read: {error}") from None
    if not has_certificates:
        raise ClusterError(
            "tls:// needs certificates in Dask's configuration: set "
            "DASK_DISTRIBUTED__COMM__TLS__CA_FILE, DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT and "
            "DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY"
        )
    return security


def _release(text: str) -> tuple[int, ...]:
    """Return year and month of a release of Dask."""
    return tuple(int(part) for part in text.split(".")[:2] if part.isdecimal())


def _check_versions(address: str, versions: dict[str, Any]) -> None:
    """Raise `ClusterError` for a scheduler of another release of Dask."""
    scheduler_version, own_version = versions["packages"]["distributed"], version("distributed")
    if _release(str(scheduler_version)) != _release(own_version):
        raise ClusterError(
            f"the Dask scheduler at {address} runs distributed {scheduler_version}, "
            f"this process {own_version}: install one release on all machines"
        )
