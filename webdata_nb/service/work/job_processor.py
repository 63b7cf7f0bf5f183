"""Opens the parts of a process that run jobs, with and without the HTTP application."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from webdata_nb import __version__
from webdata_nb.contract.local import service_lock_name
from webdata_nb.service.blobs import BlobStore, open_blob_store
from webdata_nb.service.browser.chromium import remove_stale_folders
from webdata_nb.service.errors import StoreUnavailable
from webdata_nb.service.observability.metrics import Metrics
from webdata_nb.service.runtime.event_loop import measure_loop_lag, run_in_background
from webdata_nb.service.search.breaker import ProviderBreakers
from webdata_nb.service.search.catalog import ProviderCatalog
from webdata_nb.service.search.engine import LocalProvider
from webdata_nb.service.search.providers.http_provider import ProviderQueues
from webdata_nb.service.segments.reader import SegmentReader, check_place
from webdata_nb.service.settings import LOCAL_ACCOUNT, ServiceSettings
from webdata_nb.service.signing.request_signer import (
    CurrentSigningKeys,
    RequestSigner,
    SigningKeyFile,
)
from webdata_nb.service.store.backends import open_pacing, open_store, open_text_index
from webdata_nb.service.store.indexing import BackgroundIndexer, Indexer
from webdata_nb.service.store.job_context import JobEvents, StoreRetry
from webdata_nb.service.store.records import (
    LIVE_S,
    JobSnapshot,
    Replica,
    ReplicaKind,
    StoreSignal,
)
from webdata_nb.service.store.spool import SpoolDirectory
from webdata_nb.service.store.sql.contents import NO_SEGMENTS
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.store.sql.text_index import TextIndex
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.throttle import HostThrottle
from webdata_nb.service.work.engines import EgressRoutes, JobEngines
from webdata_nb.service.work.runner import HEARTBEAT_S, Membership, Runner, Watchdog
from webdata_nb.service.work.store_metrics import report_store
from webdata_nb.service.workers.pool import PagePool, default_workers

PAGE_WORKERS: Final = default_workers()


@dataclass(frozen=True, slots=True)
class JobProcessor:
    """What runs the jobs of a store in this process: its parts are open, its runner not started.

    `membership` is None in a process that is alone on its store.
    """

    store: Store
    blobs: BlobStore
    index: TextIndex
    indexer: Indexer
    spool: SpoolDirectory
    throttle: HostThrottle
    events: JobEvents
    retry: StoreRetry
    metrics: Metrics
    membership: Membership | None
    pages: PagePool
    egress: EgressRoutes
    engines: JobEngines
    runner: Runner

    async def prepare(self) -> None:
        """Do what the first job would wait for; runs until it is cancelled."""
        await self.egress.route_for({})
        await self.pages.keep_ready()

    def problem(self) -> str | None:
        """Return why this process takes no jobs, or None if it does."""
        if (seconds := self.runner.seconds_since_check) <= LIVE_S:
            return None
        return f"the queue was not read for {seconds:.0f} s, and no heartbeat written"

    def notify(self, signal: StoreSignal) -> None:
        """Look for what another process changed."""
        if signal.job_id is not None:
            self.events.changed(signal.job_id)
            self.runner.check_lease(signal.job_id)
            return
        self.runner.wake()
        if not signal.is_queue:
            self.events.all_changed()


@asynccontextmanager
async def open_job_processor(
    settings: ServiceSettings,
    port: int | None,
    *,
    kind: ReplicaKind,
    on_end: Callable[[JobSnapshot], None],
) -> AsyncIterator[JobProcessor]:
    """Open all parts in order, close them in reverse order.

    Parameters
    ----------
    settings
        Of this process.
    port
        The port of this process's HTTP server, which no job may fetch from; None without one.
    kind
        Of this process, as the operator sees it.
    on_end
        Called with every job that ended here.
    """
    async with AsyncExitStack() as stack:
        blobs = await stack.enter_async_context(open_blob_store(settings.blobs, settings.data_dir))
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        segments = SegmentReader(blobs) if settings.blobs is not None else NO_SEGMENTS
        store = await stack.enter_async_context(
            open_store(settings.data_dir, settings.cipher, settings.store, segments)
        )
        await check_place(store.segments, None if settings.blobs is None else blobs)
        if settings.store is None:  # no other process works on it: the one before has ended
            await store.expire_leases()
            await store.accounts.expire_calls()
            await store.outbox.expire_leases()
        else:
            await store.secrets.check_key()
        if settings.mode == "local":
            await store.accounts.ensure(LOCAL_ACCOUNT, "the user of this machine", now=store.now())
        index = await stack.enter_async_context(open_text_index(settings.data_dir, store))
        spool = SpoolDirectory(settings.data_dir / "spool")
        pacing = await stack.enter_async_context(open_pacing(settings.store, store.replicas.count))
        throttle = HostThrottle(pacing=pacing)
        events, retry, metrics = JobEvents(), StoreRetry(), Metrics()
        membership: Membership | None = None
        if settings.replica is not None:  # else this process is alone on its store
            # Beside the lock of the data directory.
            lock_file = settings.data_dir / service_lock_name(platform.node())
            membership = Membership(
                store.replicas,
                settings.replica,
                settings.slots,
                kind=kind,
                id_file=lock_file.with_suffix(".replica"),
                now=store.now(),
            )
        indexer = Indexer(store, index)
        background_indexer = BackgroundIndexer(store, indexer)
        pages = await stack.enter_async_context(PagePool(settings.page_workers or PAGE_WORKERS))
        policy = EgressPolicy(settings.mode, settings.networks, own_port=port)
        await asyncio.to_thread(remove_stale_folders)
        signer = await asyncio.to_thread(_signer, settings.signing_keys)
        egress = await stack.enter_async_context(
            EgressRoutes(
                policy, settings.user_agent, throttle, pages, settings.upstream, signer=signer
            )
        )
        engines = JobEngines(
            egress,
            ProviderCatalog(LocalProvider(index, indexer), ProviderQueues(pacing)),
            settings.providers,
            spool,
            ProviderBreakers(pacing),
        )
        stack.callback(engines.close)
        watchdog = Watchdog(
            engines.run, fired=metrics.count_stalled_attempt, stall_s=settings.stall_s
        )

        def on_job_end(ended: JobSnapshot) -> None:
            background_indexer.notify()
            on_end(ended)

        runner = Runner(
            store,
            events,
            watchdog.run,
            on_end=on_job_end,
            delete_spooled=spool.delete,
            retry=retry,
            slots=settings.slots,
            membership=membership,
            clock=store.now,
        )
        metrics.report_running_jobs(lambda: runner.running_jobs)
        report_store(metrics, store)
        if membership is not None:
            metrics.describe_replica(membership.replica.name)
        processor = JobProcessor(
            store=store,
            blobs=blobs,
            index=index,
            indexer=indexer,
            spool=spool,
            throttle=throttle,
            events=events,
            retry=retry,
            metrics=metrics,
            membership=membership,
            pages=pages,
            egress=egress,
            engines=engines,
            runner=runner,
        )
        store.subscribe(processor.notify)
        if membership is None and settings.mode == "team":
            run_in_background(stack, _stay_listed(store, runner.worker, settings.slots, kind))
        run_in_background(stack, background_indexer.run())
        run_in_background(stack, measure_loop_lag(metrics.observe_loop_lag))
        yield processor


async def _stay_listed(store: Store, worker: str, slots: int, kind: ReplicaKind) -> None:
    """List this process, which is alone on its store, as an operator sees processes."""
    name = f"{platform.node()}-{os.getpid()}"
    replica = Replica(worker, name, slots, store.now(), kind, __version__)
    try:
        while True:
            with suppress(StoreUnavailable):
                await store.replicas.join(replica, is_alone=True)
            await asyncio.sleep(HEARTBEAT_S)
    finally:
        with suppress(StoreUnavailable):
            await store.replicas.leave(replica)


def _signer(key_file: Path | None) -> RequestSigner | None:
    """Return what signs requests to web sites; None without keys."""
    if key_file is None:
        return None
    return RequestSigner(CurrentSigningKeys(SigningKeyFile(key_file)))
