"""The Dask plugin that starts a claim loop in each worker, also in those that join later."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson
from distributed import Worker, WorkerPlugin

from webdata_nb import __version__
from webdata_nb.contract.local import WIRE
from webdata_nb.service.job_workers.claim_loop import ClaimLoopThread
from webdata_nb.service.job_workers.reports import METRIC, LoopReport
from webdata_nb.service.job_workers.worker_settings import worker_settings
from webdata_nb.service.server import tune_process
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
        self.name = f"{_NAME_PREFIX}-{hashlib.sha256(content).hexdigest()[:16]}"
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
        self._refused = self._version_error()
        if self._refused is None:
            tune_process()
            folder = Path(worker.local_directory) / "webdata"
            name = "dask-" + re.sub(r"[^A-Za-z0-9._-]+", "-", str(worker.name))[:59]
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

    def _version_error(self) -> str | None:
        """Return why this release cannot work for the service, or None."""
        for name, service, own in (
            ("wire version", self._wire, WIRE),
            ("database schema", self._schema, SCHEMA_VERSION),
        ):
            if service != own:
                return (
                    f"the service has {name} {service}, this worker {own} (webdata_nb "
                    f"{__version__}): install the release of the service on the workers"
                )
        return None

    def _metric(self, _worker: Worker) -> dict[str, Any]:
        if self._thread is not None:
            return self._thread.report.to_metric()
        return LoopReport("refused", error=self._refused).to_metric()
