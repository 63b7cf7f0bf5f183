"""Processes on one PostgreSQL database keep the pacing of hosts and providers together."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import psycopg
import pytest

from tests.postgres import PostgresServer, running
from tests.site.server import Site
from webdata_nb.pacing.host_pacing import HOST, IN_PROCESS, StartReservation
from webdata_nb.page.errors import FetchError
from webdata_nb.service.search.breaker import ProviderBreakers
from webdata_nb.service.store.postgres.database import PostgresDatabase
from webdata_nb.service.store.postgres.pacing import IDLE_S, PostgresPacing
from webdata_nb.service.web.throttle import HostThrottle, PacedStarts

pytestmark = pytest.mark.slow

REPLICAS = 3
CHECKOUT = Path(__file__).resolve().parents[3]
# What the clocks and the event loop of a loaded machine may add; see StartReservation.
JITTER_S = 0.05
DEADLINE_S = 60.0


async def new_store(server: PostgresServer) -> str:
    """Return the URL of a new store."""
    url = server.new_schema()
    async with PostgresDatabase(url):
        return url


@pytest.fixture
async def url(postgres_server: PostgresServer) -> str:
    return await new_store(postgres_server)


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """Run a server that the test stops."""
    with running() as server:
        yield server


async def open_pacings(
    stack: AsyncExitStack, url: str, count: int = REPLICAS
) -> list[PostgresPacing]:
    return [
        await stack.enter_async_context(PostgresPacing(url, lambda: REPLICAS)) for _ in range(count)
    ]


@pytest.fixture
async def pacings(url: str) -> AsyncIterator[list[PostgresPacing]]:
    async with AsyncExitStack() as stack:
        yield await open_pacings(stack, url)


@pytest.fixture
def slow_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a database as slow as that of a loaded machine, which counts as available."""
    monkeypatch.setattr("webdata_nb.service.store.postgres.pacing.RESERVE_TIMEOUT_S", DEADLINE_S)


@pytest.fixture
def throttles(pacings: list[PostgresPacing]) -> list[HostThrottle]:
    return [HostThrottle(pacing=pacing) for pacing in pacings]


async def start_requests(
    throttle: HostThrottle, count: int, delay_s: float, host: str = "site"
) -> list[float]:
    """Send requests through a throttle; return when they started."""

    async def start() -> float:
        async with throttle.slot(host, delay_s=delay_s):
            return time.monotonic()

    return await asyncio.gather(*(start() for _ in range(count)))


async def reserve(pacing: PostgresPacing, key: str, interval_s: float) -> StartReservation:
    """Reserve starts, also where the database takes longer than a reservation waits for it."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if (reserved := await pacing.reserve(key, interval_s)) is not None:
                return reserved
            await asyncio.sleep(0.05)


def check_pace(began: float, starts: Iterable[float], delay_s: float) -> None:
    """Check that no start since `began` came before its turn; a loaded machine makes them late."""
    for turn, start in enumerate(sorted(starts)):
        assert start - began >= turn * delay_s - JITTER_S


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if condition():
                return
            await asyncio.sleep(0.05)


def is_paused(throttle: HostThrottle, host: str) -> bool:
    """Return whether the host asked for a pause, or its circuit is open."""
    return throttle._queue(host).history.decide_unspaced(time.monotonic()).wait_s > 0


def is_slowed(throttle: HostThrottle, host: str) -> bool:
    """Return whether overload replies of the host have slowed down requests."""
    return throttle._queue(host).history.pause_s > 0


def is_resting(breakers: ProviderBreakers, identity: str) -> bool:
    """Return whether a provider is avoided for long."""
    now = time.monotonic()
    return breakers.state(identity, "bob", now).circuit.remaining_s(now) > 500


def is_available(pacing: PostgresPacing) -> bool:
    """Return whether the last exchange with the database succeeded."""
    return pacing._is_available


async def check_refusal(throttle: HostThrottle, host: str) -> None:
    """Check that a request for which the pause is too long fails at once."""
    with pytest.raises(FetchError):
        async with throttle.slot(host, max_wait_s=1.0):
            pass


async def all_paused(throttles: list[HostThrottle], host: str) -> None:
    for throttle in throttles:
        await wait_until(partial(is_paused, throttle, host))
        await check_refusal(throttle, host)


@pytest.mark.usefixtures("slow_database")
@pytest.mark.parametrize("delay_s", [0.25, 1.2])
async def test_starts_of_three_throttles_keep_one_delay(
    throttles: list[HostThrottle], delay_s: float
) -> None:
    count = round(3 / delay_s)
    began = time.monotonic()
    async with asyncio.timeout(DEADLINE_S):
        starts = await asyncio.gather(
            *(start_requests(throttle, count, delay_s) for throttle in throttles)
        )
    check_pace(began, itertools.chain.from_iterable(starts), delay_s)


async def test_the_delay_of_one_host_holds_up_no_other(throttles: list[HostThrottle]) -> None:
    waiting = [asyncio.create_task(start_requests(one, 2, 1000.0)) for one in throttles]
    async with asyncio.timeout(DEADLINE_S):
        for number in range(20):
            await asyncio.gather(
                *(start_requests(one, 1, 1.0, f"other{number}-{id(one)}") for one in throttles)
            )
    assert not any(task.done() for task in waiting)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_all_processes_keep_a_requested_pause(throttles: list[HostThrottle]) -> None:
    await throttles[0].report_overload("site", 600.0)
    await all_paused(throttles, "site")
    assert not is_paused(throttles[1], "other")


async def test_a_process_that_starts_later_keeps_the_pause(
    throttles: list[HostThrottle], url: str
) -> None:
    await throttles[0].report_overload("site", 600.0)
    await all_paused(throttles, "site")
    async with PostgresPacing(url, lambda: REPLICAS) as pacing:
        await all_paused([HostThrottle(pacing=pacing)], "site")


async def test_failures_of_all_processes_open_one_circuit(throttles: list[HostThrottle]) -> None:
    for _ in range(4):
        for throttle in throttles:
            await throttle.report_failure("site")
    await all_paused(throttles, "site")


async def test_a_success_ends_the_slowdown_everywhere(throttles: list[HostThrottle]) -> None:
    first, second, third = throttles
    await first.report_overload("site", 0.01)
    for throttle in (second, third):
        await wait_until(partial(is_slowed, throttle, "site"))
    for _ in range(3):
        await second.report_success("site")
    await wait_until(lambda: not is_slowed(third, "site"))


@pytest.mark.usefixtures("slow_database")
async def test_processes_share_the_circuit_and_the_rate_of_a_provider(
    pacings: list[PostgresPacing],
) -> None:
    breakers = [ProviderBreakers(pacing) for pacing in pacings]
    now = time.monotonic()
    breakers[0].record("paid#1", "rate_limited", now, 600.0, account_id="alice")
    for one in breakers:
        await wait_until(partial(is_resting, one, "paid#1"))
        assert one.state("paid#1", "bob", now).status == "rate_limited"
    breakers[1].record("paid#1", "ok", now)
    await wait_until(lambda: not breakers[2].state("paid#1", "bob", now).circuit.failures)

    async def starts(pacing: PostgresPacing) -> list[float]:
        paced, moments = PacedStarts("provider:paid#1", pacing), []
        for _ in range(4):
            await paced.wait(0.3, DEADLINE_S)
            moments.append(time.monotonic())
        return moments

    began = time.monotonic()
    moments = await asyncio.gather(*map(starts, pacings))
    check_pace(began, itertools.chain.from_iterable(moments), 0.3)


async def test_one_process_keeps_the_interval_of_a_provider() -> None:
    paced, moments = PacedStarts("provider:paid#1", IN_PROCESS), []
    began = time.monotonic()
    for _ in range(3):
        await paced.wait(0.3, DEADLINE_S)
        moments.append(time.monotonic())
    check_pace(began, moments, 0.3)
    with pytest.raises(TimeoutError):
        await paced.wait(1000.0, DEADLINE_S)


def count_exchanges(pacing: PostgresPacing, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by the number of reserved keys for each statement."""
    sizes: list[int] = []
    reserve = pacing._reserve

    def counted(connection: psycopg.Connection[dict[str, object]], batch: object) -> object:
        reserved = reserve(connection, batch)  # type: ignore[arg-type]
        sizes.append(len(reserved))
        return reserved

    monkeypatch.setattr(pacing, "_reserve", counted)
    return sizes


async def test_a_host_needs_one_statement_per_second(
    pacings: list[PostgresPacing], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = count_exchanges(pacings[0], monkeypatch)
    starts = await start_requests(HostThrottle(pacing=pacings[0]), 60, 0.02)
    # A second's worth of starts are 47; a loaded machine loses some.
    assert len(sizes) <= 2 + (max(starts) - min(starts)) / 0.9


@pytest.mark.usefixtures("slow_database")
async def test_many_hosts_share_statements_and_idle_rows_are_deleted(
    pacings: list[PostgresPacing], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pacing = pacings[0]
    sizes = count_exchanges(pacing, monkeypatch)
    reserved = await asyncio.gather(*(pacing.reserve(f"{HOST}{n}", 1.0) for n in range(500)))
    assert all(isinstance(one, StartReservation) for one in reserved)
    assert len(sizes) <= 3
    pacing.update(f"{HOST}paused", lambda state, now: type(state)(paused_until=now + 10_000))
    with psycopg.connect(url, autocommit=True) as connection:

        def rows() -> int:
            [(count,)] = connection.execute("SELECT COUNT(*) FROM pacing").fetchall()
            return int(count)

        await wait_until(lambda: rows() == 501)
        connection.execute(
            "UPDATE pacing SET last_start = last_start - %s, changed_at = changed_at - %s",
            [IDLE_S + 10, IDLE_S + 10],
        )
        for one in pacings:
            one._delete_due = 0.0
        await wait_until(lambda: rows() == 1)  # the pause is still needed


@pytest.mark.timeout(180)
async def test_after_a_crash_starts_wait_and_pauses_are_kept(own_server: PostgresServer) -> None:
    url = await new_store(own_server)
    async with AsyncExitStack() as stack:
        pacings = await open_pacings(stack, url)
        throttles = [HostThrottle(pacing=pacing) for pacing in pacings]
        await reserve(pacings[0], HOST + "used", 2.0)
        await throttles[0].report_overload("paused", 600.0)
        await all_paused(throttles, "paused")
        await asyncio.to_thread(own_server.stop, "immediate")
        assert await pacings[0].reserve(HOST + "used", 2.0) is None
        stopped_at = time.monotonic()
        await asyncio.to_thread(own_server.start)
        for pacing, host in zip(pacings, ("used", "new", "third"), strict=True):
            await wait_until(partial(is_available, pacing))
            reserved = await reserve(pacing, HOST + host, 2.0)
            assert reserved.first >= stopped_at + REPLICAS * 2.0
        await stack.aclose()
        async with PostgresPacing(url, lambda: REPLICAS) as later:
            await all_paused([HostThrottle(pacing=later)], "paused")


async def test_the_first_start_of_a_new_store_does_not_wait(
    pacings: list[PostgresPacing],
) -> None:
    now = time.monotonic()
    reserved = await reserve(pacings[0], HOST + "site", 100.0)
    assert reserved.first < now + 50


@pytest.mark.timeout(180)
async def test_without_the_database_each_process_keeps_its_share(
    own_server: PostgresServer,
) -> None:
    url = await new_store(own_server)
    async with AsyncExitStack() as stack:
        [pacing] = await open_pacings(stack, url, 1)
        throttle = HostThrottle(pacing=pacing)
        await start_requests(throttle, 1, 0.2)
        await asyncio.to_thread(own_server.stop)
        began = time.monotonic()
        starts = sorted(await start_requests(throttle, 7, 0.2))
        # Four starts were reserved together; three of them may still be used.
        check_pace(began, starts[:4], 0.2)
        check_pace(began + 3 * 0.2, starts[3:], REPLICAS * 0.2)
        await asyncio.to_thread(own_server.start)
        await wait_until(partial(is_available, pacing))
        await reserve(pacing, HOST + "site", 0.2)


@pytest.mark.timeout(180)
async def test_a_database_that_does_not_answer_stops_nothing(
    pacings: list[PostgresPacing], url: str
) -> None:
    throttle, ticks = HostThrottle(pacing=pacings[0]), 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    ticking = asyncio.create_task(tick())
    with psycopg.connect(url) as connection:
        connection.execute("LOCK TABLE pacing IN ACCESS EXCLUSIVE MODE")
        began = time.monotonic()
        async with asyncio.timeout(DEADLINE_S):
            starts = await start_requests(throttle, 3, 0.5)
        check_pace(began, starts, REPLICAS * 0.5)
        assert ticks > 20  # the event loop went on
    ticking.cancel()
    await wait_until(partial(is_available, pacings[0]))
    await reserve(pacings[0], HOST + "site", 0.2)


@pytest.mark.timeout(180)
async def test_processes_with_wrong_clocks_keep_one_delay(url: str, site: Site) -> None:
    delay_s, count = 0.4, 6
    site.page("/page", "text")
    module = [sys.executable, "-m", "tests.service.replicas.pacing_process"]
    start = partial(
        subprocess.Popen, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    children = [
        start([*module, str(ahead_s), url, site.url, str(delay_s), str(count)])
        for ahead_s in (0, 300, -300)
    ]
    try:
        for child in children:
            assert child.stdout is not None
            assert await asyncio.to_thread(child.stdout.readline) == "ready\n"
        began = time.monotonic()
        for child in children:
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()
        for child in children:
            assert await asyncio.to_thread(child.wait, DEADLINE_S) == 0
    finally:
        for child in children:
            child.kill()
            child.communicate()
    arrivals = [hit.time for hit in site.hits("/page")]
    assert len(arrivals) == REPLICAS * count
    check_pace(began, arrivals, delay_s)
