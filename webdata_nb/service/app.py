"""The composition root: settings in, a running service out."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import Any, Final

from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from webdata_nb import __version__
from webdata_nb.contract.events import Profile
from webdata_nb.contract.local import NO_CREATIVES, Creatives, SessionSettings
from webdata_nb.service.api_keys import key_hash
from webdata_nb.service.creatives.cursor import Seal
from webdata_nb.service.creatives.files import FileStore
from webdata_nb.service.creatives.listing import Listing
from webdata_nb.service.creatives.ocr import Readers
from webdata_nb.service.creatives.sources import Sources
from webdata_nb.service.errors import ServiceError, StoreUnavailable
from webdata_nb.service.http.compression import Compressed
from webdata_nb.service.http.connections import Connections, room
from webdata_nb.service.http.gate import CallerOf, Gate, local_callers
from webdata_nb.service.http.request_log import Traced
from webdata_nb.service.local_lifetime import Lifetime
from webdata_nb.service.observability import loop_lag
from webdata_nb.service.observability.logs import Caller, Shape, set_up
from webdata_nb.service.observability.metrics import Metrics, Stored
from webdata_nb.service.routes import creatives, health, local
from webdata_nb.service.routes.application import Application
from webdata_nb.service.routes.job_start import AppState
from webdata_nb.service.routes.response_cache import Shelf
from webdata_nb.service.runtime import gc_tuning
from webdata_nb.service.search.catalog import ProviderCatalog
from webdata_nb.service.search.providers.endpoint import ProviderQueues
from webdata_nb.service.search.providers.local import LocalProvider
from webdata_nb.service.server import (
    COLLECTOR,
    SWITCH_S,
    Server,
    bounded_end,
    give_memory_back,
    listen,
    measured,
    signals,
)
from webdata_nb.service.settings import LOCAL_ACCOUNT, BadSetting, Mode, ServiceSettings
from webdata_nb.service.store.accounts import Accounts
from webdata_nb.service.store.base import Store
from webdata_nb.service.store.deletion import Expiry
from webdata_nb.service.store.indexing import Indexer
from webdata_nb.service.store.outbox import Outbox
from webdata_nb.service.store.queries import schema_version
from webdata_nb.service.store.records import JobSnapshot
from webdata_nb.service.store.retry import StoreRetry
from webdata_nb.service.store.spool import Spool
from webdata_nb.service.store.sqlite import SqliteStore
from webdata_nb.service.store.text_index import TextIndex
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.throttle import HostThrottle
from webdata_nb.service.webhooks.callbacks import Webhooks
from webdata_nb.service.webhooks.deliver import Deliverer
from webdata_nb.service.webhooks.sender import Sender, policy
from webdata_nb.service.work.cleanup import Janitor
from webdata_nb.service.work.egress import Ways
from webdata_nb.service.work.engines import Engines
from webdata_nb.service.work.events import Hub
from webdata_nb.service.work.runner import LocalRunner
from webdata_nb.service.work.watchdog import Watchdog
from webdata_nb.service.workers.pool import PagePool, default_workers

log = logging.getLogger("webdata_nb.service")

PAGE_WORKERS: Final = default_workers()
# Pages are indexed once their job is over and nothing else waits for the processor.
INDEX_AFTER_S: Final = 1.0
# After a failure of that.
INDEX_AGAIN_S: Final = 10.0
# Between two looks for what is past its time outside the database: files, replies in memory.
SWEEP_EVERY_S: Final = 600.0
# How long a scrape of the metrics may wait for the store.
SCRAPE_S: Final = 5.0
# Sessions whose settings are kept as jobs take them.
LEASES_KNOWN: Final = 64


class Background:
    """Does what can wait when a job ends: tells of it, and indexes it when nothing else is due."""

    def __init__(
        self,
        store: Store,
        indexer: Indexer,
        wake_webhooks: Callable[[], None],
        metrics: Metrics,
    ) -> None:
        self._store, self._indexer, self._metrics = store, indexer, metrics
        self._wake_webhooks = wake_webhooks
        self._due = asyncio.Event()
        self._due.set()

    def finished(self, ended: JobSnapshot) -> None:
        """Note that a job ended."""
        job = ended.job
        self._due.set()
        if job.request.get("webhook_url") is not None:
            self._wake_webhooks()
        chain = job.outcome.get("fallback_chain", [])
        asked = [(each["provider"], each["status"]) for each in chain]
        self._metrics.ended(job.kind, job.state.value, ended.receipt.counts, asked)

    async def run(self) -> None:
        """Index, for ever."""
        while True:
            await self._due.wait()
            await asyncio.sleep(INDEX_AFTER_S)
            self._due.clear()
            if not await self._caught_up():
                self._due.set()

    async def _caught_up(self) -> bool:
        try:
            return await self._indexer.catch_up(busy=self._busy)
        except StoreUnavailable as trouble:
            log.warning("pages are not indexed for local search: %s; trying again", trouble)
        except Exception:
            log.exception("pages could not be indexed for local search; trying again")
        await asyncio.sleep(INDEX_AGAIN_S)
        return False

    async def _busy(self) -> bool:
        return await self._store.active_jobs() > 0


@dataclass(frozen=True, slots=True)
class LeasedSettings:
    """A job takes its settings from the session that starts it."""

    lifetime: Lifetime
    creatives: Creatives = NO_CREATIVES
    _told: dict[str | None, tuple[SessionSettings, Mapping[str, Any]]] = field(
        default_factory=dict, repr=False
    )

    def context_of(self, lease_id: str | None) -> Mapping[str, Any]:
        """See `Sessions.context_of`."""
        bound = self.lifetime.settings_of(lease_id)
        known = self._told.get(lease_id)
        if known is None or known[0] is not bound:
            # Creatives are no jobs: their token has no business in the database.
            told = bound.model_dump(mode="json", exclude_defaults=True, exclude={"creatives"})
            known = self._told[lease_id] = bound, told
            while len(self._told) > LEASES_KNOWN:
                del self._told[next(iter(self._told))]
        return known[1]

    def creatives_of(self, lease_id: str | None) -> Creatives:
        """See `Sessions.creatives_of`."""
        bound = self.lifetime.settings_of(lease_id).creatives
        return self.creatives if bound == NO_CREATIVES else bound


@dataclass(frozen=True, slots=True)
class Running:
    """An open service: what answers requests, and how busy it is."""

    app: ASGIApp
    routes: Sequence[BaseRoute]
    metrics: Metrics
    active_jobs: Callable[[], Awaitable[int]]


@asynccontextmanager
async def service(
    settings: ServiceSettings,
    port: int,
    lifetime: Lifetime,
    stop: Callable[[], None],
    *,
    clock: Callable[[], float] = time,
) -> AsyncIterator[Running]:
    """Open everything in its order, yield the application, close everything in reverse."""
    async with AsyncExitStack() as stack:
        path = settings.data_dir / "jobs.sqlite"
        store = await stack.enter_async_context(SqliteStore(path, settings.vault))
        index = await stack.enter_async_context(TextIndex(settings.data_dir / "index.sqlite"))
        await store.void_leases()
        accounts = Accounts(store)
        await accounts.void_calls()
        if settings.mode == "local":
            await store.add_account(LOCAL_ACCOUNT, "the user of this machine", now=time())
        policy = EgressPolicy(settings.mode, settings.allow_networks, own_port=port)
        pages = await stack.enter_async_context(PagePool(PAGE_WORKERS))
        throttle = HostThrottle()
        ways = await stack.enter_async_context(
            Ways(policy, settings.user_agent, throttle, pages, settings.upstream)
        )
        indexer = Indexer(store, index)
        retry = StoreRetry()
        webhooks = await _webhooks(stack, store, settings, port, clock=clock, retry=retry)
        metrics = Metrics()
        metrics.registry.register(Stored(_counts(store, asyncio.get_running_loop())))
        background = Background(store, indexer, webhooks.wake, metrics)
        catalog = ProviderCatalog(LocalProvider(index, indexer), ProviderQueues())
        spool = Spool(settings.data_dir / "spool")
        engines = Engines(ways, catalog, settings.providers, spool)
        hub = Hub()
        runner = LocalRunner(
            store,
            hub,
            Watchdog(engines.run, fired=metrics.stalled, stall_s=settings.stall_s).run,
            finished=background.finished,
            forget=spool.forget,
            retry=retry,
        )
        sessions = LeasedSettings(lifetime, settings.providers.creatives)
        listing = Listing(
            Sources(throttle),
            Seal.kept_in(settings.data_dir),
            FileStore(settings.data_dir / "creatives"),
            Readers(),
        )
        state = AppState(
            store,
            accounts,
            runner,
            hub,
            policy,
            sessions,
            ways.check_device,
            ways.check_browser,
            engines.listing,
            engines.check_extract,
            webhooks,
            retry,
            retention=settings.retention,
            clock=clock,
        )
        janitor = Janitor(
            Expiry(store), accounts, index, spool, retention=settings.retention, clock=clock
        )
        stack.push_async_callback(_end, asyncio.create_task(janitor.run()))
        stack.push_async_callback(_end, asyncio.create_task(background.run()))
        stack.push_async_callback(_end, asyncio.create_task(loop_lag.watch(metrics.lagged)))
        stack.push_async_callback(_end, asyncio.create_task(_sweep(listing.files, state.shelf)))
        await runner.start()
        stack.push_async_callback(runner.close)
        control = local.routes(lifetime, state.store.active_jobs, stop, schema_version())
        app = Application(control if settings.mode == "local" else ())
        app.state.app_state = state
        app.state.counter = creatives.Counter(listing, ways)
        app.state.readiness = health.Readiness(store, settings.data_dir, retry)
        gate = Compressed(_gate(app, settings.mode, state, lifetime, settings.clients.per_account))
        templates = {each.endpoint: each.path for each in app.routes if isinstance(each, Route)}
        yield Running(Traced(gate, templates, metrics), app.routes, metrics, _busy(store, webhooks))


def _counts(
    store: SqliteStore, loop: asyncio.AbstractEventLoop
) -> Callable[[], Mapping[str, Mapping[tuple[str, ...], int]]]:
    """Return what a scrape, on a thread of its own, asks of the store, whose loop is this one."""

    async def look() -> dict[str, dict[tuple[str, ...], int]]:
        jobs, deliveries = await store.read("job_counts"), await store.read("delivery_counts")
        return {
            "jobs": {(row["kind"], row["state"]): row["n"] for row in jobs},
            "deliveries": {(row["state"],): row["n"] for row in deliveries},
        }

    return lambda: asyncio.run_coroutine_threadsafe(look(), loop).result(SCRAPE_S)


def _busy(store: Store, webhooks: Webhooks) -> Callable[[], Awaitable[int]]:
    """Return what keeps a managed service up: jobs under way, and what is still to be told."""

    async def busy() -> int:
        return await store.active_jobs() + await webhooks.outbox.pending()

    return busy


async def _webhooks(
    stack: AsyncExitStack,
    store: SqliteStore,
    settings: ServiceSettings,
    port: int,
    *,
    clock: Callable[[], float],
    retry: StoreRetry,
) -> Webhooks:
    """Open the way to callers' endpoints, and begin to empty the outbox."""
    choice = settings.webhooks
    outbox = Outbox(store)
    await outbox.void_leases()
    allowed = policy(settings.allow_networks, own_port=port, loopback=choice.loopback)
    sender = await stack.enter_async_context(
        Sender(
            allowed,
            settings.user_agent,
            loopback=choice.loopback,
            upstream=settings.upstream,
        )
    )
    deliverer = Deliverer(outbox, store, sender, clock, retry)
    stack.push_async_callback(_end, asyncio.create_task(deliverer.run()))
    return Webhooks(outbox, sender, Profile(choice.profile), choice.pages, deliverer.wake)


async def _sweep(files: FileStore, shelf: Shelf) -> None:
    """Remove downloaded files past their time, and replies kept in memory, for ever."""
    while True:
        shelf.clear()
        try:
            await asyncio.to_thread(files.sweep, time())
        except OSError:
            log.exception("old files could not be removed; trying again later")
        await asyncio.sleep(SWEEP_EVERY_S)


def _gate(
    app: ASGIApp, mode: Mode, state: AppState, lifetime: Lifetime, per_account: int
) -> ASGIApp:
    callers = (
        local_callers(lifetime.token, LOCAL_ACCOUNT) if mode == "local" else _keys(state.accounts)
    )
    return Gate(app, caller_of=callers, loopback_only=mode == "local", per_account=per_account)


def _keys(accounts: Accounts) -> CallerOf:
    async def caller_of(key: str) -> Caller | None:
        return await accounts.caller(key_hash(key), now=time()) if key else None

    return caller_of


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _run(
    settings: ServiceSettings, lifetime: Lifetime, stop_begins: Callable[[], None]
) -> None:
    """Serve until a signal, a control call or idleness ends it."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    most = room()
    with listen(settings.host, settings.port) as sock, signals(loop, stopping):
        port = sock.getsockname()[1]
        async with service(settings, port, lifetime, stopping.set) as running:
            with measured(settings.metrics, running.metrics.registry):
                refused = running.metrics.refused
                connections = Connections(settings.clients, most=most, refused=refused)
                server = Server(running.app, connections)
                serving = asyncio.create_task(server.serve(sockets=[sock]))
                beside = asyncio.create_task(lifetime.watch(running.active_jobs, stopping.set))
                _announce(settings, port, lifetime)
                await stopping.wait()
                stop_begins()
                lifetime.retire()
                server.should_exit = True
                await serving
                await _end(beside)


def _announce(settings: ServiceSettings, port: int, lifetime: Lifetime) -> None:
    """Let clients find the service; the socket listens already and holds early callers."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    if settings.mode == "local":
        lifetime.publish(f"http://{host}:{port}")
    print(f"webdata_nb {__version__} serves http://{host}:{port}", file=sys.stderr, flush=True)  # noqa: T201 - a command's own word


def serve(
    *,
    host: str | None,
    port: int,
    data_dir: Path,
    store: str | None,
    mode: Mode,
    allow_networks: tuple[str, ...],
    managed: bool,
    user_agent: str | None = None,
    retention_hours: float | None = None,
    crawl_retention_hours: float | None = None,
    job_retention_hours: float | None = None,
    webhook_profile: str = "A",
    webhook_pages: bool = False,
    webhook_loopback: bool | None = None,
    metrics: str | None = None,
    trusted_proxies: tuple[str, ...] = (),
    connections_per_address: int | None = None,
    requests_per_account: int | None = None,
    log_format: Shape = "text",
    proxy: str | None = None,
    ca_bundle: str | None = None,
) -> int:
    """Run the service in the foreground until it is asked to stop.

    Parameters
    ----------
    host, port
        Where to listen; by default 127.0.0.1 and a free port.
    data_dir
        Where the jobs are kept.
    store
        Where the jobs are kept instead; None or ``"sqlite"`` keeps them in `data_dir`.
    mode
        ``"local"``: for the user of this machine, loopback only. ``"team"``: for holders of keys.
    allow_networks
        Private networks, as CIDR texts, that a team's jobs may fetch from.
    managed
        Whether to end by itself once no client needs the service.
    user_agent
        How the service names itself to web sites, where a job's session says nothing else.
    retention_hours, crawl_retention_hours, job_retention_hours
        How long the rows of searches and of crawls, and the records of jobs, are kept after the
        job's end; when None 48, 720 (168 for a team) and 2160.
    webhook_profile, webhook_pages
        Which of the contract's two descriptions webhooks follow, and whether each page of a crawl
        is told (profile B).
    webhook_loopback
        Whether webhooks may go to this machine itself, by http too; when None in local mode only.
    metrics
        Where Prometheus finds ``/metrics``, as ``HOST:PORT``; nowhere when None.
    trusted_proxies
        Addresses or networks of proxies whose ``X-Forwarded-For`` names the client; this
        machine's own when empty, and nobody's with the one word ``"none"``.
    connections_per_address, requests_per_account
        How many connections one address, and how many requests one account, may have open at a
        time; 256 when None.
    log_format
        ``"text"`` for people, ``"json"`` for one object a line.
    proxy, ca_bundle
        The way out through a network's own proxy, and a file of certificate authorities to trust,
        where a job's session names none; directly, and the system's alone, when None.

    Returns
    -------
    int
        The exit code: 0 after a stop that was asked for, 1 when the service could not start.
    """
    set_up(log_format)
    give_memory_back()
    gc_tuning.calm(*COLLECTOR)
    sys.setswitchinterval(SWITCH_S)
    try:
        settings = ServiceSettings.checked(
            host=host,
            port=port,
            data_dir=data_dir,
            store=store,
            mode=mode,
            allow_networks=allow_networks,
            user_agent=user_agent,
            retention_hours=retention_hours,
            crawl_retention_hours=crawl_retention_hours,
            job_retention_hours=job_retention_hours,
            webhook_profile=webhook_profile,
            webhook_pages=webhook_pages,
            webhook_loopback=webhook_loopback,
            metrics=metrics,
            trusted_proxies=trusted_proxies,
            connections_per_address=connections_per_address,
            requests_per_account=requests_per_account,
            proxy=proxy,
            ca_bundle=ca_bundle,
        )
        lifetime = Lifetime(data_dir, version=__version__, schema=schema_version(), managed=managed)
        lifetime.hold()
    except (BadSetting, ServiceError) as error:
        log.error("%s", error)  # noqa: TRY400 - the sentence says it all
        return 1
    try:
        with bounded_end() as stop_begins:
            asyncio.run(_run(settings, lifetime, stop_begins))
    except (ServiceError, OSError) as error:
        log.error("%s", error)  # noqa: TRY400 - the sentence says it all
        return 1
    finally:
        lifetime.close()
    return 0
