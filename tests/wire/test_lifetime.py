"""The service's side of being found, held and let go: leases, lock, runtime file, control calls."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.wire.stub_local_service import SCHEMA, StubLocalService, listening_socket
from webdata_nb.contract import local, paths
from webdata_nb.contract.local import Hello, Runtime, SessionSettings
from webdata_nb.service.local_lifetime import (
    DataDirInUse,
    LeaseTiming,
    LocalLifetime,
    ServiceStopping,
    SessionLeases,
)

USUAL = LeaseTiming()
QUICK = LeaseTiming(lease_s=0.4, linger_s=0.1, tick_s=0.02)


def tick_until(leases: SessionLeases, start: float, end: float) -> SessionLeases:
    """Tick twice a second, as the driver does, up to and including `end`."""
    for half in range(int((end - start) * 2) + 1):
        leases = leases.expire(start + half / 2)
    return leases


def test_a_new_service_waits_one_lease_for_its_first_client() -> None:
    leases = SessionLeases.start(USUAL, 100.0)
    assert not leases.is_unneeded(114.9)
    assert leases.is_unneeded(115.0)


def test_a_lease_holds_the_service_for_fifteen_seconds_after_each_heartbeat() -> None:
    leases = SessionLeases.start(USUAL, 0.0).renew("a", 0.0)
    leases = tick_until(leases, 0.0, 10.0).renew("a", 10.0)
    assert tick_until(leases, 10.5, 24.5).ends
    gone = tick_until(leases, 10.5, 25.0)
    assert not gone.ends
    assert gone.is_unneeded(25.0)


def test_after_the_last_lease_was_given_back_it_lingers() -> None:
    leases = SessionLeases.start(USUAL, 0.0).renew("a", 0.0).renew("b", 0.0)
    one = leases.release("a", 5.0)
    assert not one.is_unneeded(1000.0)
    none = one.release("b", 6.0)
    assert not none.is_unneeded(7.9)
    assert none.is_unneeded(8.0)


def test_giving_back_an_unknown_lease_changes_nothing() -> None:
    leases = SessionLeases.start(USUAL, 0.0)
    assert leases.release("never", 1.0) == leases


def test_time_asleep_does_not_count() -> None:
    leases = tick_until(SessionLeases.start(USUAL, 0.0).renew("a", 0.0), 0.0, 3.0)
    woken = leases.expire(3_603.0)
    assert woken.ends
    assert tick_until(woken, 3_603.5, 3_613.0).ends
    assert not tick_until(woken, 3_603.5, 3_617.0).ends


def test_the_wait_for_a_first_client_does_not_count_sleep_either() -> None:
    leases = tick_until(SessionLeases.start(USUAL, 0.0), 0.0, 3.0)
    assert not leases.expire(3_603.0).is_unneeded(3_603.0)


@pytest.fixture
def lifetime(tmp_path: Path) -> Iterator[LocalLifetime]:
    made = LocalLifetime(
        tmp_path / "data", version="0.1.0", schema=SCHEMA, managed=True, timing=QUICK
    )
    yield made
    made.close()


def runtime_files(data_dir: Path) -> list[Path]:
    return list((data_dir / "runtime").iterdir())


def test_the_runtime_file_is_whole_and_for_its_owner_alone(lifetime: LocalLifetime) -> None:
    lifetime.acquire()
    lifetime.publish("http://127.0.0.1:4711")
    [file] = runtime_files(lifetime.data_dir)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(lifetime.data_dir.stat().st_mode) == 0o700
    written = Runtime.model_validate_json(file.read_bytes())
    assert (written.url, written.token) == ("http://127.0.0.1:4711", lifetime.token)
    assert (written.version, written.wire, written.schema_) == ("0.1.0", local.WIRE, SCHEMA)
    assert written.pid == os.getpid()
    assert set(json.loads(file.read_bytes())) == {
        "url", "token", "pid", "version", "wire", "schema", "started_at",
    }  # fmt: skip


def test_it_publishes_no_address_but_loopback(lifetime: LocalLifetime) -> None:
    lifetime.acquire()
    with pytest.raises(ValueError, match="url"):
        lifetime.publish("http://192.0.2.1:80")
    assert not any(lifetime.data_dir.rglob("*.json"))


def test_each_run_has_a_token_of_256_bits(tmp_path: Path) -> None:
    tokens = {
        LocalLifetime(tmp_path, version="1", schema=1, managed=False).token for _ in range(50)
    }
    assert len(tokens) == 50
    assert all(len(token) >= 43 for token in tokens)


def test_only_one_service_holds_a_data_directory(lifetime: LocalLifetime) -> None:
    lifetime.acquire()
    other = LocalLifetime(lifetime.data_dir, version="9", schema=SCHEMA, managed=False)
    with pytest.raises(DataDirInUse, match="webdata stop"):
        other.acquire(wait_s=0.0)
    other.close()
    lifetime.publish("http://127.0.0.1:1")
    other.retire()
    assert runtime_files(lifetime.data_dir), "one that does not hold it removes nothing"
    lifetime.close()
    assert not runtime_files(lifetime.data_dir)
    other.acquire(wait_s=0.0)
    other.close()


def test_what_died_with_an_earlier_boot_is_swept(lifetime: LocalLifetime) -> None:
    lifetime.acquire()
    lifetime.publish("http://127.0.0.1:1")
    [ours] = runtime_files(lifetime.data_dir)
    boot = "-00000000-0000-4000-8000-000000000000"
    host = ours.stem[: -len(boot)]
    earlier = ours.with_name(f"{host}{boot}.json")
    strangers = ours.with_name(f"{host}-2{boot}.json")
    earlier.write_text("{}")
    strangers.write_text("{}")
    lifetime.publish("http://127.0.0.1:1")
    assert set(runtime_files(lifetime.data_dir)) == {ours, strangers}


def test_a_retiring_service_is_not_found_and_grants_no_lease(lifetime: LocalLifetime) -> None:
    lifetime.acquire()
    lifetime.publish("http://127.0.0.1:1")
    assert lifetime.renew("a")
    assert not lifetime.renew("a")
    lifetime.retire()
    assert not runtime_files(lifetime.data_dir)
    with pytest.raises(ServiceStopping):
        lifetime.renew("b")


def test_settings_live_as_long_as_their_lease(lifetime: LocalLifetime) -> None:
    mine = SessionSettings(proxy="http://proxy.test:3128")
    assert not lifetime.bind_settings("a", mine)
    lifetime.renew("a")
    assert lifetime.bind_settings("a", mine)
    assert lifetime.settings_of("a") == mine
    assert lifetime.settings_of("b") == lifetime.settings_of(None) == SessionSettings()
    lifetime.release("a")
    assert lifetime.settings_of("a") == SessionSettings()


def test_no_repr_shows_a_key_or_a_proxy_password() -> None:
    settings = SessionSettings.model_validate(
        {
            "providers": {"brave": {"url": "http://b.test", "key": "s3cret"}},
            "proxy": "http://me:s3cret@p",
        }
    )
    assert "s3cret" not in repr(settings)


class Jobs:
    """Active jobs, by a number that a test may change."""

    def __init__(self, active: int) -> None:
        self.active = active
        self.counted = asyncio.Event()

    async def __call__(self) -> int:
        self.counted.set()
        return self.active


@contextlib.asynccontextmanager
async def watching(lifetime: LocalLifetime, jobs: Jobs) -> AsyncIterator[asyncio.Event]:
    """Run the driver; the event is set when it stops the service."""
    stopped = asyncio.Event()
    lifetime.acquire()
    lifetime.publish("http://127.0.0.1:1")
    task = asyncio.create_task(lifetime.watch(jobs, stopped.set))
    try:
        yield stopped
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_it_stops_when_the_last_lease_runs_out(lifetime: LocalLifetime) -> None:
    async with watching(lifetime, Jobs(0)) as stopped:
        lifetime.renew("a")
        await asyncio.wait_for(stopped.wait(), 10)
    assert lifetime.retiring
    assert lifetime.settings_of("a") == SessionSettings()


async def test_it_stays_while_a_job_is_active(lifetime: LocalLifetime) -> None:
    jobs = Jobs(1)
    async with watching(lifetime, jobs) as stopped:
        await asyncio.wait_for(jobs.counted.wait(), 10)
        for _ in range(3):
            jobs.counted.clear()
            await asyncio.wait_for(jobs.counted.wait(), 10)
        assert not stopped.is_set()
        jobs.active = 0
        await asyncio.wait_for(stopped.wait(), 10)


async def test_a_client_that_comes_while_jobs_are_counted_keeps_it(lifetime: LocalLifetime) -> None:
    class Newcomer(Jobs):
        async def __call__(self) -> int:
            if not self.counted.is_set():
                lifetime.renew("just in time")
            return await super().__call__()

    jobs = Newcomer(0)
    async with watching(lifetime, jobs) as stopped:
        await asyncio.wait_for(jobs.counted.wait(), 10)
        assert lifetime.lease_count == 1
        assert not lifetime.retiring
        lifetime.release("just in time")
        await asyncio.wait_for(stopped.wait(), 10)


async def test_one_that_cannot_count_its_jobs_stops(
    lifetime: LocalLifetime, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Jobs):
        async def __call__(self) -> int:
            raise OSError("no disk")

    async with watching(lifetime, Broken(0)) as stopped:
        await asyncio.wait_for(stopped.wait(), 10)
    assert "no disk" in caplog.text


async def test_one_that_a_person_started_stays(tmp_path: Path) -> None:
    clock = iter(range(0, 10**9, 1000))
    own = LocalLifetime(
        tmp_path,
        version="0.1.0",
        schema=SCHEMA,
        managed=False,
        timing=LeaseTiming(lease_s=1, linger_s=0, tick_s=0.001),
        clock=lambda: float(next(clock)),
    )
    jobs = Jobs(0)
    async with watching(own, jobs) as stopped:
        for _ in range(20):
            await asyncio.sleep(0.002)
        assert not stopped.is_set()
        assert not jobs.counted.is_set()
    own.close()


@contextlib.asynccontextmanager
async def served(service: StubLocalService) -> AsyncIterator[httpx.AsyncClient]:
    """Serve on loopback, with a client that knows the token."""
    with listening_socket() as listening:
        host, port = listening.getsockname()
        task = asyncio.create_task(service.serve(listening))
        bearer = {"Authorization": f"Bearer {service.lifetime.token}"}
        url = f"http://{host}:{port}"
        async with httpx.AsyncClient(base_url=url, headers=bearer, trust_env=False) as client:
            yield client
        service.stop()
        await task


LEASE = paths.fill(paths.LOCAL_LEASE, lease_id="me")
SETTINGS = paths.fill(paths.LOCAL_SETTINGS, lease_id="me")


@pytest.fixture
async def service(
    tmp_path: Path,
) -> AsyncIterator[tuple[StubLocalService, httpx.AsyncClient]]:
    timing = LeaseTiming(lease_s=60.0)  # no lease expires during a test
    lifetime = LocalLifetime(
        tmp_path / "data", version="0.1.0", schema=SCHEMA, managed=True, timing=timing
    )
    stub = StubLocalService(lifetime, jobs=2)
    async with served(stub) as client:
        yield stub, client


async def test_hello_says_who_it_is(service: tuple[StubLocalService, httpx.AsyncClient]) -> None:
    stub, client = service
    await client.put(LEASE)
    answer = await client.get(paths.LOCAL_HELLO)
    hello = Hello.model_validate_json(answer.content)
    assert (hello.service, hello.version, hello.wire) == ("webdata_nb", "0.1.0", local.WIRE)
    assert (hello.schema_, hello.managed, hello.active_jobs, hello.leases) == (
        SCHEMA,
        True,
        2,
        1,
    )
    assert hello.pid == os.getpid()
    assert hello.pids[0] == hello.pid
    assert hello.started_at == stub.lifetime.started_at


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells all descendants")
async def test_hello_names_all_processes_below(
    service: tuple[StubLocalService, httpx.AsyncClient],
) -> None:
    child = await asyncio.create_subprocess_exec(
        "sh", "-c", "sleep 60 & wait", start_new_session=True
    )
    try:
        below: list[int] = []
        while not below:  # sh takes a moment to start sleep
            below = [each.pid for each in psutil.Process(child.pid).children()]
        answer = await service[1].get(paths.LOCAL_HELLO)
        pids = Hello.model_validate_json(answer.content).pids
        assert pids[0] == os.getpid()
        assert {child.pid, *below} <= {*pids}
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        await child.wait()


async def test_a_lease_is_made_renewed_and_given_back(
    service: tuple[StubLocalService, httpx.AsyncClient],
) -> None:
    stub, client = service
    first = await client.put(LEASE)
    assert (first.status_code, first.json()) == (200, {"expires_in": 60.0, "created": True})
    assert (await client.put(LEASE)).json() == {"expires_in": 60.0, "created": False}
    assert stub.lifetime.lease_count == 1
    for _ in range(2):
        assert (await client.delete(LEASE)).status_code == 204
    assert stub.lifetime.lease_count == 0


@pytest.mark.parametrize("lease_id", ["a b", "x" * 65, "é", "a;b"])
async def test_a_lease_id_is_a_plain_word(
    service: tuple[StubLocalService, httpx.AsyncClient], lease_id: str
) -> None:
    stub, client = service
    answer = await client.put(paths.fill(paths.LOCAL_LEASE, lease_id=lease_id))
    assert answer.status_code == 422
    assert stub.lifetime.lease_count == 0


async def test_settings_are_handed_over(
    service: tuple[StubLocalService, httpx.AsyncClient],
) -> None:
    stub, client = service
    body = {
        "engines": {"engine_one": ["brave", "local"]},
        "providers": {"brave": {"url": "https://b.test/", "key": "k"}},
        "llm": {"here": {"url": "http://127.0.0.1:1", "key": None}},
        "creatives": {"source": None, "terms": None, "url": None, "key": "k"},
        "proxy": None,
        "ca_bundle": "/etc/ca.pem",
        "user_agent": "ExampleBot/1.0",
    }
    assert (await client.put(SETTINGS, json=body)).status_code == 404
    await client.put(LEASE)
    assert (await client.put(SETTINGS, json=body)).status_code == 204
    bound = stub.lifetime.settings_of("me")
    assert bound.model_dump(mode="json", exclude_unset=True) == body


@pytest.mark.parametrize(
    ("body", "loc"),
    [
        ({"providers": {"brave": {"key": 5}}}, ["body", "providers", "brave", "key"]),
        ({"engines": {"engine_four": ["a"]}}, ["body", "engines", "engine_four", "[key]"]),
        ({"engines": {"engine_one": ["a", 5]}}, ["body", "engines", "engine_one", 1]),
        ({"engines": {"engine_one": "ab"}}, ["body", "engines", "engine_one"]),
        ({"secrets": {"s3cret": "s3cret"}}, ["body", "secrets"]),
    ],
)
async def test_wrong_settings_are_refused_without_an_echo(
    service: tuple[StubLocalService, httpx.AsyncClient], body: dict[str, object], loc: list[str]
) -> None:
    _, client = service
    await client.put(LEASE)
    answer = await client.put(SETTINGS, json=body)
    assert answer.status_code == 422
    [problem] = answer.json()["detail"]
    assert problem["loc"] == loc
    assert set(problem) == {"loc", "msg", "type"}
    assert "s3cret" not in answer.text


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"force": "yes"}', b"\xff"])
async def test_a_stop_that_makes_no_sense_stops_nothing(
    service: tuple[StubLocalService, httpx.AsyncClient], content: bytes
) -> None:
    stub, client = service
    assert (await client.post(paths.LOCAL_STOP, content=content)).status_code == 422
    assert not stub.lifetime.retiring


async def test_one_in_use_stops_only_by_force(
    service: tuple[StubLocalService, httpx.AsyncClient],
) -> None:
    stub, client = service
    refused = await client.post(paths.LOCAL_STOP, json={"force": False})
    assert refused.status_code == 409
    assert "2 active jobs" in refused.json()["detail"]
    stub.jobs = 0
    await client.put(LEASE)
    assert (await client.post(paths.LOCAL_STOP)).status_code == 409
    answer = await client.post(paths.LOCAL_STOP, json={"force": True})
    assert (answer.status_code, answer.json()) == (202, {"active_jobs": 0})
    assert stub.server.should_exit


@pytest.mark.slow
async def test_one_that_is_stopping_grants_no_lease(
    service: tuple[StubLocalService, httpx.AsyncClient],
) -> None:
    stub, client = service
    stub.lifetime.retire()
    answer = await client.put(LEASE)
    assert answer.status_code == 503
    assert "shutting down" in answer.json()["detail"]
