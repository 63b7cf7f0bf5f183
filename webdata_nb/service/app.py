"""The composition root: opens the parts of a service, and serves until it is stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from time import time
from typing import Any, Final

from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from webdata_nb import __version__
from webdata_nb.contract.events import Profile
from webdata_nb.page.errors import ApplicationError
from webdata_nb.page.urls import canonical_url
from webdata_nb.service.creatives.enrich import RETENTION_S, FileStore, OcrPool
from webdata_nb.service.creatives.listing import CreativesListing, CursorSealer, SourceFactory
from webdata_nb.service.encryption import key_hash
from webdata_nb.service.errors import StoreUnavailable
from webdata_nb.service.http.compression import CompressionMiddleware
from webdata_nb.service.http.connections import ConnectionLimiter, max_connections
from webdata_nb.service.http.middleware import (
    Gate,
    RefusedRequests,
    RequestLogMiddleware,
    local_callers,
)
from webdata_nb.service.job_workers.cluster_status import ClusterMonitor
from webdata_nb.service.job_workers.command import dask_cluster
from webdata_nb.service.local_lifetime import LocalLifetime
from webdata_nb.service.observability.logs import (
    Caller,
    announce,
    configure_process_logs,
    name_process,
)
from webdata_nb.service.observability.metrics import Metrics
from webdata_nb.service.routes import local, open_endpoints
from webdata_nb.service.routes.app_state import AppState, LeasedSessions
from webdata_nb.service.routes.application import Application
from webdata_nb.service.runtime.event_loop import cancel, run_in_background
from webdata_nb.service.segments.mover import BodyMover, SegmentSweep
from webdata_nb.service.server import (
    Server,
    limited_shutdown,
    listen,
    listen_for_metrics,
    netloc,
    serve_metrics,
    stop_on_signals,
    tune_process,
)
from webdata_nb.service.settings import (
    LOCAL_ACCOUNT,
    InvalidSetting,
    ServiceSettings,
    takes_options,
)
from webdata_nb.service.store.backends import (
    SCHEMA_VERSION,
)
from webdata_nb.service.store.indexing import Indexer
from webdata_nb.service.store.records import JobSnapshot
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.store.sql.text_index import TextIndex, origin_of
from webdata_nb.service.webhooks.delivery import Deliverer, Sender, Webhooks, webhook_policy
from webdata_nb.service.work.job_processor import JobProcessor, open_job_processor
from webdata_nb.service.work.retention import HOUR_S, Janitor

log: Final = logging.getLogger("webdata_nb.service")

# Between two deletions of old files of creatives and of cached replies.
SWEEP_INTERVAL_S: Final = 600.0
# What a kill may lose of the counts of refused requests.
REFUSALS_INTERVAL_S: Final = 5.0
# How long the first use of a key waits to be stored.
USES_INTERVAL_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class RunningService:
    """An open service: its application, and what says whether it is in use.

    `problem` returns why no jobs are taken, or None. `prepare` does what the first job would wait
    for, and runs until it is cancelled. `drain` ends the event streams and returns the running jobs
    to the queue.
    """

    app: ASGIApp
    routes: Sequence[BaseRoute]
    metrics: Metrics
    problem: Callable[[], str | None]
    pending_work: Callable[[], Awaitable[int]]
    prepare: Callable[[], Coroutine[None, None, None]]
    drain: Callable[[], Coroutine[None, None, None]]


@asynccontextmanager
async def service(
    settings: ServiceSettings,
    port: int,
    lifetime: LocalLifetime,
    stop: Callable[[], None],
    *,
    clock: Callable[[], float] | None = None,
) -> AsyncIterator[RunningService]:
    """Open all parts in order, yield the service, close them in reverse order.

    `clock` replaces the store's clock in tests of retention and webhooks.
    """
    async with AsyncExitStack() as stack:

        def on_job_end(ended: JobSnapshot) -> None:
            if mover is not None:
                mover.notify()
            if ended.job.request.get("webhook_url") is not None:
                webhooks.wake()

        jobs = await stack.enter_async_context(
            open_job_processor(settings, port, kind="serve", on_end=on_job_end)
        )
        store = jobs.store
        clock = clock or store.now
        # Open the egress to callers' endpoints, and start to send what is due.
        loopback = settings.webhook_loopback
        sender = await stack.enter_async_context(
            Sender(
                webhook_policy(settings.networks, own_port=port, loopback=loopback),
                settings.user_agent,
                loopback=loopback,
                upstream=settings.upstream,
            )
        )
        deliverer = Deliverer(store.outbox, store, sender, clock, jobs.retry)
        run_in_background(stack, deliverer.run())
        webhooks = Webhooks(
            store.outbox,
            sender,
            Profile(settings.webhook_profile),
            settings.webhook_pages,
            deliverer.wake,
        )
        if settings.store is None:
            sealer = CursorSealer.load_or_create(settings.data_dir)
        else:  # another process may continue a listing
            sealer = CursorSealer.derive(settings.secret_keys[0])
        mover: BodyMover | None = None
        segments: SegmentSweep | None = None
        if settings.blobs is not None:
            mover = BodyMover(store, jobs.blobs, jobs.metrics, clock=clock)
            segments = SegmentSweep(store, jobs.blobs, jobs.metrics, clock=clock)
        janitor = Janitor(
            store,
            jobs.index,
            jobs.spool,
            retention=settings.retention,
            clock=clock,
            segments=segments,
        )
        state = AppState(
            store=store,
            engines=jobs.engines,
            runner=jobs.runner,
            events=jobs.events,
            webhooks=webhooks,
            creatives=CreativesListing(
                SourceFactory(jobs.throttle), sealer, FileStore(jobs.blobs), OcrPool()
            ),
            sessions=LeasedSessions(lifetime, settings.providers.creatives),
            retry=jobs.retry,
            retention=settings.retention,
            notify_deleted=janitor.notify,
            clock=clock,
        )
        refused = RefusedRequests()
        run_in_background(stack, _store_refusals(refused, store))
        run_in_background(stack, janitor.run())
        if mover is not None:
            run_in_background(stack, mover.run())
        run_in_background(stack, _sweep(state))
        run_in_background(stack, _write_key_uses(store))
        monitor: ClusterMonitor | None = None
        if settings.dask is not None:
            monitor = ClusterMonitor(jobs.runner, jobs.metrics)
            # The claim loops in the workers of the cluster stay when the service stops.
            cluster = await stack.enter_async_context(
                dask_cluster(settings, store.replicas, monitor.update, unregister=False)
            )
            run_in_background(stack, cluster.run())
        await jobs.runner.start()
        stack.push_async_callback(jobs.runner.close)

        yield _running_service(settings, lifetime, stop, state, jobs, refused, monitor=monitor)


async def _remove_site(index: TextIndex, indexer: Indexer, url: str) -> int:
    """Remove the user's pages of a URL's site from the local search."""
    await indexer.catch_up(LOCAL_ACCOUNT)  # what is indexed later would be found again
    return await index.remove_site(LOCAL_ACCOUNT, origin_of(canonical_url(url)))


def _running_service(
    settings: ServiceSettings,
    lifetime: LocalLifetime,
    stop: Callable[[], None],
    state: AppState,
    jobs: JobProcessor,
    refused: RefusedRequests,
    *,
    monitor: ClusterMonitor | None,
) -> RunningService:
    """Return the application behind gate, compression and request log."""
    is_local = settings.mode == "local"
    remove_site = partial(_remove_site, jobs.index, jobs.indexer)
    control = local.routes(lifetime, state.store.active_jobs, stop, SCHEMA_VERSION, remove_site)
    app = Application(control if is_local else ())
    app.state.app_state = state
    app.state.readiness = open_endpoints.Readiness(
        state.store,
        settings.data_dir,
        state.retry,
        replica=settings.replica,
        dask=None if monitor is None else monitor.health,
    )

    async def caller_by_key(key: str) -> Caller | None:
        accounts = state.store.accounts
        return await accounts.caller(key_hash(key), now=state.store.now()) if key else None

    gate = Gate(
        app,
        caller_of=local_callers(lifetime.token, LOCAL_ACCOUNT) if is_local else caller_by_key,
        loopback_only=is_local,
        per_account=settings.clients.per_account,
    )
    templates = {route.endpoint: route.path for route in app.routes if isinstance(route, Route)}

    async def pending_work() -> int:
        return await state.store.active_jobs() + await state.store.outbox.pending()

    return RunningService(
        RequestLogMiddleware(CompressionMiddleware(gate), templates, jobs.metrics, refused),
        app.routes,
        jobs.metrics,
        jobs.problem,
        pending_work,
        jobs.prepare,
        partial(_drain, state, refused),
    )


async def _drain(state: AppState, refused: RefusedRequests) -> None:
    state.events.close()
    await state.runner.drain()
    await _store_counts(refused, state.store)


async def _store_refusals(refused: RefusedRequests, store: Store) -> None:
    """Store the counts of refused requests every few seconds, forever."""
    while True:
        await asyncio.sleep(REFUSALS_INTERVAL_S)
        await _store_counts(refused, store)


async def _store_counts(refused: RefusedRequests, store: Store) -> None:
    if counts := refused.take():
        try:
            await store.accounts.count_usage(counts, now=store.now())
        except StoreUnavailable:
            refused.put_back(counts)


async def _write_key_uses(store: Store) -> None:
    """Store when keys were used, forever; no request waits for it."""
    while True:
        await asyncio.sleep(USES_INTERVAL_S)
        try:
            await store.accounts.write_uses(now=store.now())
        except StoreUnavailable:
            log.debug("the uses of keys are not stored; trying again later")


async def _sweep(state: AppState) -> None:
    """Delete old files of creatives and all cached replies, forever."""
    while True:
        state.response_cache.clear()
        try:
            files, now = state.creatives.files, time()
            await files.delete_expired(now)
            # A process without a place for files has them in its own directory.
            for account_id in await state.store.accounts.deleted(since=now - RETENTION_S - HOUR_S):
                await files.delete_account(account_id)
        except StoreUnavailable as error:
            log.warning("old files are not deleted: %s; trying again later", error)
        await asyncio.sleep(SWEEP_INTERVAL_S)


async def _run(
    settings: ServiceSettings, lifetime: LocalLifetime, shutdown_begins: Callable[[], None]
) -> None:
    """Serve until a signal, a control call or idleness stops the service."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    connection_limit = max_connections()
    with (
        listen(settings.host, settings.port) as sock,
        listen_for_metrics(settings.metrics_address) as metrics_sock,
        stop_on_signals(loop, stopping),
    ):
        port = sock.getsockname()[1]
        async with service(settings, port, lifetime, stopping.set) as running:
            with serve_metrics(metrics_sock, running.metrics.registry, running.problem):
                on_refusal = running.metrics.count_refused_connection
                connections = ConnectionLimiter(
                    settings.clients, most=connection_limit, on_refusal=on_refusal
                )
                server = Server(running.app, connections)
                serving = asyncio.create_task(server.serve(sockets=[sock]))
                watching = asyncio.create_task(lifetime.watch(running.pending_work, stopping.set))
                url = f"http://{netloc(settings.host, port)}"
                if settings.mode == "local":
                    lifetime.publish(url)  # the socket already queues early connections
                announce(f"webdata_nb {__version__} serves {url}")
                preparing = asyncio.create_task(running.prepare())
                await stopping.wait()
                shutdown_begins()
                lifetime.retire()
                server.should_exit = True
                draining = asyncio.create_task(running.drain())
                await cancel(preparing)
                await serving
                await draining
                await cancel(watching)


@takes_options("serve", ServiceSettings)
def serve(**options: Any) -> int:
    """Run the service in the foreground until it is stopped.

    {options}

    Returns
    -------
    int
        The exit code: 0 after a regular stop, 1 if the service could not start.
    """
    configure_process_logs(options.get("log_format", "text"))
    tune_process()
    try:
        settings = ServiceSettings.checked(options)
        name_process(settings.replica)
        lifetime = LocalLifetime(
            settings.data_dir,
            version=__version__,
            schema=SCHEMA_VERSION,
            managed=settings.managed,
        )
        lifetime.acquire()
    except (InvalidSetting, ApplicationError) as error:
        log.error("%s", error)  # noqa: TRY400 - the sentence says it all
        return 1
    try:
        with limited_shutdown() as shutdown_begins:
            asyncio.run(_run(settings, lifetime, shutdown_begins))
    except (ApplicationError, OSError) as error:
        log.error("%s", error)  # noqa: TRY400 - the sentence says it all
        return 1
    finally:
        lifetime.close()
    return 0
