"""The toolkit's side: the local service is found, started, shared, replaced, stopped, and gone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.site.document import document
from tests.wire.stand_in import StandIn, listening_socket
from tests.wire.waiting import PATIENCE_S, until
from webdata_nb import local
from webdata_nb.client.client import Client
from webdata_nb.contract.local import LEASE_SECONDS, WIRE, Hello, Runtime, SessionSettings
from webdata_nb.errors import LocalServiceError
from webdata_nb.local.handshake import Verdict, verdict
from webdata_nb.local.process import environment
from webdata_nb.service.local_lifetime import LeaseTiming, LocalLifetime
from webdata_nb.settings import Provider, Settings

if TYPE_CHECKING:
    from tests.site.server import Site

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parent.parent.parent
# A program that uses the service as a kernel does: takes a lease, says so, and waits to be told.
CLIENT = """
import asyncio, json, os, sys
from webdata_nb import local, settings

async def main():
    service = await local.ensure(settings.current())
    running = await local.find(settings.current())
    print(json.dumps([service.base_url, service.token, running.hello.pid]), flush=True)
    how = await asyncio.to_thread(sys.stdin.readline)
    if how == "close\\n":
        await service.close()
    if how == "abrupt\\n":
        os._exit(0)

asyncio.run(main())
"""

# The same by blocking calls, with a child that ends as a program does: with its exit functions.
FORKING_CLIENT = """
import json, os, sys
from webdata_nb import local, settings
from webdata_nb.bridge import synced

service = synced(local.ensure)(settings.current())
running = synced(local.find)(settings.current())
print(json.dumps([service.base_url, service.token, running.hello.pid]), flush=True)
if os.fork() == 0:
    synced(service.close)()
    sys.exit(0)
os.wait()
print("forked", flush=True)
sys.stdin.readline()
"""


def place(settings: Settings) -> local.Place:
    return local.place(settings)


def runtime_of(settings: Settings) -> Runtime:
    runtime = place(settings).runtime()
    assert runtime is not None
    return runtime


async def hello_of(settings: Settings) -> Hello:
    running = await local.find(settings)
    assert running is not None
    return running.hello


@contextlib.contextmanager
def a_client(
    home: Path, *, program: str = CLIENT, **environ: str
) -> Iterator[subprocess.Popen[str]]:
    """Start the client program; it ends with the block, at the latest."""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
        env=os.environ | {"WEBDATA_HOME": str(home)} | environ,
    ) as process:
        yield process
        if process.poll() is None:
            process.communicate("close\n", timeout=PATIENCE_S)


def told(process: subprocess.Popen[str]) -> tuple[str, str, int]:
    """Return address, token and process id of the service that a client found."""
    assert process.stdout is not None
    url, token, pid = json.loads(process.stdout.readline())
    return url, token, pid


def started(data_dir: Path, options: tuple[str, ...]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.wire.stand_in", str(data_dir), *options]
    return subprocess.Popen(command, cwd=CHECKOUT)


@contextlib.asynccontextmanager
async def stand_in(settings: Settings, *options: str) -> AsyncIterator[subprocess.Popen[bytes]]:
    """Run another version of the service on the same data directory."""
    where = place(settings)
    with started(settings.data_dir, options) as process:
        try:
            await until(lambda: where.runtime() is not None or process.poll() is not None)
            assert process.poll() is None
            yield process
        finally:
            process.kill()


# found, shared, gone


@pytest.mark.smoke
async def test_the_first_call_starts_it_and_the_next_finds_it(chosen: Settings) -> None:
    assert await local.find(chosen) is None
    first = await local.ensure(chosen)
    second = await local.ensure(chosen)
    assert (first.base_url, first.token) == (second.base_url, second.token)
    assert first.lease_id != second.lease_id
    hello = await hello_of(chosen)
    assert (hello.leases, hello.managed, hello.active_jobs) == (2, True, 0)
    await first.close()
    assert (await hello_of(chosen)).leases == 1
    await second.close()


async def test_a_lease_that_holds_is_kept(chosen: Settings) -> None:
    first = await local.ensure(chosen)
    again = await local.ensure(chosen, current=first)
    assert again is first
    assert (await hello_of(chosen)).leases == 1
    await again.close()


async def test_two_kernels_at_once_share_one_service(tmp_path: Path, chosen: Settings) -> None:
    with a_client(tmp_path) as one, a_client(tmp_path) as two, a_client(tmp_path) as three:
        assert told(one) == told(two) == told(three)
        assert (await hello_of(chosen)).leases == 3


@pytest.mark.smoke
async def test_a_script_leaves_no_process_behind(tmp_path: Path, chosen: Settings) -> None:
    with a_client(tmp_path) as script:
        _, _, pid = told(script)
        script.communicate("close\n", timeout=PATIENCE_S)
    service = psutil.Process(pid) if psutil.pid_exists(pid) else None
    await until(lambda: service is None or not service.is_running())
    assert not place(chosen).served()
    assert place(chosen).runtime() is None


async def test_a_script_that_closes_nothing_gives_its_lease_back_all_the_same(
    tmp_path: Path, chosen: Settings
) -> None:
    with a_client(tmp_path, **{LEASE_SECONDS: "3600"}) as script:
        told(script)
        script.communicate("return\n", timeout=PATIENCE_S)
    await until(lambda: not place(chosen).served())


async def test_after_a_killed_client_it_leaves_when_the_lease_runs_out(
    tmp_path: Path, chosen: Settings
) -> None:
    with a_client(tmp_path, **{LEASE_SECONDS: "1"}) as kernel:
        told(kernel)
        kernel.kill()
    await until(lambda: not place(chosen).served())


@pytest.mark.usefixtures("quick")
async def test_a_crawl_outlives_its_kernel_and_then_the_service_leaves(
    chosen: Settings, site: Site
) -> None:
    url = site.page("/", document("One"))
    with site.hold("/"):
        kernel = await local.ensure(chosen)
        async with Client(kernel.base_url, kernel.token, trust_env=False) as client:
            job = await client.start_crawl({"url": url})
        await asyncio.to_thread(site.wait_for, "/", timeout=PATIENCE_S)
        await kernel.close()
        await asyncio.sleep(3)
        next_kernel = await local.ensure(chosen)
        assert next_kernel.token == kernel.token
        assert (await hello_of(chosen)).active_jobs == 1
        await next_kernel.close()
    await until(lambda: not place(chosen).served())
    last = await local.ensure(chosen)
    async with Client(last.base_url, last.token, trust_env=False) as client:
        assert (await client.crawl_status(job.job_id)).status == "completed"
    await last.close()


@pytest.mark.smoke
@pytest.mark.usefixtures("quick")
async def test_a_killed_service_is_started_again_by_the_next_call(chosen: Settings) -> None:
    service = await local.ensure(chosen)
    before = await hello_of(chosen)
    psutil.Process(before.pid).kill()
    again = await local.ensure(chosen, current=service)
    after = await hello_of(chosen)
    assert again is not service
    assert after.pid != before.pid
    assert again.token != service.token
    await again.close()


@pytest.mark.usefixtures("quick")
async def test_heartbeats_keep_it_alive_beyond_a_lease(chosen: Settings) -> None:
    service = await local.ensure(chosen)
    pid = (await hello_of(chosen)).pid
    await asyncio.sleep(3)
    hello = await hello_of(chosen)
    assert (hello.pid, hello.leases) == (pid, 1)
    await service.close()


@pytest.mark.skipif(sys.platform == "win32", reason="stops a process as sleep does")
@pytest.mark.usefixtures("quick")
async def test_a_lease_outlives_the_sleep_of_the_service(chosen: Settings) -> None:
    service = await local.ensure(chosen)
    asleep = psutil.Process((await hello_of(chosen)).pid)
    asleep.suspend()
    await asyncio.sleep(3)
    asleep.resume()
    again = await local.ensure(chosen, current=service)
    assert again is service
    assert (await hello_of(chosen)).pid == asleep.pid
    await again.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
async def test_a_forked_child_does_not_end_its_parents_lease(
    tmp_path: Path, chosen: Settings
) -> None:
    with a_client(tmp_path, program=FORKING_CLIENT) as kernel:
        told(kernel)
        assert kernel.stdout is not None
        assert kernel.stdout.readline() == "forked\n"
        assert (await hello_of(chosen)).leases == 1


async def test_nothing_waits_for_a_pipe_that_the_service_inherited(
    tmp_path: Path, chosen: Settings
) -> None:
    with a_client(tmp_path) as script:
        told(script)
        # Returns at the end of the pipe, which the service would otherwise keep open.
        script.communicate("abrupt\n", timeout=PATIENCE_S)
    assert (await hello_of(chosen)).leases == 1


# stopping


@pytest.mark.smoke
async def test_stop_ends_it_and_waits_until_it_is_gone(chosen: Settings) -> None:
    service = await local.ensure(chosen)
    pid = (await hello_of(chosen)).pid
    assert await local.stop(chosen)
    assert not place(chosen).served()
    await until(lambda: not psutil.pid_exists(pid))
    assert not await local.stop(chosen)
    await service.close()


async def test_stop_says_when_something_else_holds_the_directory(chosen: Settings) -> None:
    with (
        place(chosen).service_lock(),
        pytest.raises(LocalServiceError, match=r"did not stop within 0\.2 s"),
    ):
        await local.stop(chosen, deadline_s=0.2)


# handed over


@contextlib.asynccontextmanager
async def in_process(settings: Settings, timing: LeaseTiming) -> AsyncIterator[LocalLifetime]:
    """Run a stand-in here, to look into it."""
    lifetime = LocalLifetime(
        settings.data_dir, version="0.1.0", schema=1, managed=False, timing=timing
    )
    service = StandIn(lifetime)
    with listening_socket() as listening:
        task = asyncio.create_task(service.serve(listening))
        await until(lambda: place(settings).runtime() is not None)
        yield lifetime
        service.stop()
        await task


@pytest.mark.smoke
async def test_settings_are_bound_to_the_lease(chosen: Settings) -> None:
    mine = replace(
        chosen,
        engines={"engine_one": ("brave", "local")},
        providers={"brave": Provider("http://127.0.0.1:9/", "k3y")},
        llm={"here": Provider(None, "k4y")},
        proxy="http://me:pw@proxy.test",
        ca_bundle="/etc/ca.pem",
        user_agent="ExampleBot/1.0",
    )
    async with in_process(chosen, LeaseTiming()) as lifetime:
        service = await local.ensure(mine)
        other = await local.ensure(chosen)
        bound = lifetime.settings_of(service.lease_id)
        assert bound.model_dump(mode="json", exclude_defaults=True) == {
            "engines": {"engine_one": ["brave", "local"]},
            "providers": {"brave": {"url": "http://127.0.0.1:9/", "key": "k3y"}},
            "llm": {"here": {"key": "k4y"}},
            "proxy": "http://me:pw@proxy.test",
            "ca_bundle": "/etc/ca.pem",
            "user_agent": "ExampleBot/1.0",
        }
        assert lifetime.settings_of(other.lease_id) == SessionSettings()
        assert service.token not in repr(service)
        assert await local.ensure(replace(mine, proxy=None), current=service) is service
        assert lifetime.settings_of(service.lease_id).proxy is None
        assert lifetime.settings_of(service.lease_id).providers == bound.providers
        await other.close()
        await service.close()
        assert lifetime.lease_count == 0


async def test_a_lease_made_anew_has_its_settings_again(chosen: Settings) -> None:
    """As after a night in which only the service was awake."""
    mine = replace(chosen, engines={"engine_two": ("local",)})
    async with in_process(chosen, LeaseTiming(lease_s=0.6)) as lifetime:
        service = await local.ensure(mine)
        bound = lifetime.settings_of(service.lease_id)
        assert bound.engines == {"engine_two": ("local",)}
        lifetime.release(service.lease_id)
        assert lifetime.settings_of(service.lease_id) == SessionSettings()
        await until(lambda: lifetime.settings_of(service.lease_id) == bound)
        await service.close()


@pytest.mark.smoke
def test_the_service_inherits_no_setting() -> None:
    ours = {"WEBDATA_BRAVE_KEY": "k3y", "webdata_home": "x", "PATH": "/bin", LEASE_SECONDS: "2"}
    theirs = environment(ours)
    assert {name for name in theirs if name != "PYTHONPATH"} == {"PATH", LEASE_SECONDS}


async def test_its_process_holds_no_key_and_no_terminal(
    chosen: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBDATA_BRAVE_KEY", "k3y")
    service = await local.ensure(chosen)
    process = psutil.Process((await hello_of(chosen)).pid)
    assert not any(name.startswith("WEBDATA_") for name in process.environ())
    assert "k3y" not in " ".join(process.cmdline())
    assert service.token not in " ".join(process.cmdline())
    if sys.platform != "win32":
        assert os.getsid(process.pid) == process.pid
    await service.close()


# versions


def hello(version: str, **changes: object) -> Hello:
    said = {
        "service": "webdata_nb", "version": version, "wire": WIRE, "schema": 1, "pid": 1,
        "started_at": "2026-01-01T00:00:00Z", "managed": True, "active_jobs": 0, "leases": 0,
    }  # fmt: skip
    return Hello.model_validate(said | changes)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("theirs", "changes", "expected"),
    [
        ("0.4.0", {}, Verdict.USE),
        ("0.4.0rc1", {}, Verdict.USE),
        ("0.3.9", {}, Verdict.REPLACE),
        ("0.3.9", {"wire": WIRE - 1}, Verdict.REPLACE),
        ("0.3.9", {"leases": 1}, Verdict.USE),
        ("0.3.9", {"active_jobs": 1}, Verdict.USE),
        ("0.3.9", {"managed": False}, Verdict.USE),
        ("0.3.9", {"wire": WIRE - 1, "leases": 1}, Verdict.REFUSE),
        ("0.3.9", {"wire": WIRE - 1, "managed": False}, Verdict.REFUSE),
        ("0.10.0", {}, Verdict.USE),
        ("0.10.0", {"wire": WIRE + 1}, Verdict.REFUSE),
    ],
)
def test_which_version_is_used(theirs: str, changes: dict[str, object], expected: Verdict) -> None:
    assert verdict(hello(theirs, **changes), "0.4.0") is expected


async def test_an_idle_older_service_is_replaced(
    chosen: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LEASE_SECONDS, "3600")  # it would not leave by itself
    async with stand_in(chosen, "--version", "0.0.9", "--managed") as older:
        service = await local.ensure(chosen)
        assert (await hello_of(chosen)).version != "0.0.9"
        assert older.wait(PATIENCE_S) == 0
        await service.close()


async def test_an_older_service_in_use_is_shared(chosen: Settings) -> None:
    async with stand_in(chosen, "--version", "0.0.9", "--managed", "--jobs", "1"):
        service = await local.ensure(chosen)
        assert (await hello_of(chosen)).version == "0.0.9"
        await service.close()


async def test_a_newer_service_is_used_where_the_wire_is_the_same(chosen: Settings) -> None:
    async with stand_in(chosen, "--version", "99.0.0", "--managed"):
        service = await local.ensure(chosen)
        assert (await hello_of(chosen)).version == "99.0.0"
        await service.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--version", "99.0.0", "--wire", "2"), "too new .* upgrade this one"),
        (
            ("--version", "0.0.9", "--wire", "0", "--jobs", "3", "--managed"),
            "in use .3 active jobs",
        ),
        (("--version", "0.0.9", "--wire", "0"), "started by `webdata serve`"),
    ],
)
async def test_a_service_that_speaks_otherwise_is_left_alone(
    chosen: Settings, options: tuple[str, ...], message: str
) -> None:
    async with stand_in(chosen, *options) as other:
        with pytest.raises(LocalServiceError, match=message):
            await local.ensure(chosen)
        assert other.poll() is None


# what is not our service


async def test_what_a_dead_service_left_behind_is_not_trusted(chosen: Settings) -> None:
    """Its port belongs to a stranger now, who hears nothing from us."""
    async with stand_in(chosen) as dead:
        runtime = runtime_of(chosen)
        dead.kill()
        dead.wait()
    port = int(runtime.url.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)) as stranger:
        stranger.settimeout(0)
        assert place(chosen).runtime() == runtime
        assert await local.find(chosen) is None
        service = await local.ensure(chosen)
        assert service.base_url != runtime.url
        with pytest.raises(BlockingIOError):
            stranger.accept()
        await service.close()


async def test_one_that_does_not_know_its_own_token_is_not_ours(chosen: Settings) -> None:
    async with stand_in(chosen, "--token", "another"):
        assert await local.find(chosen) is None
        with pytest.raises(LocalServiceError, match=r"does not answer.*WEBDATA_BASE_URL"):
            await local.ensure(chosen, deadline_s=0.5)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX file modes")
async def test_a_runtime_file_that_others_may_write_is_not_trusted(chosen: Settings) -> None:
    async with stand_in(chosen):
        [file] = (chosen.data_dir / "runtime").glob("*.json")
        file.chmod(0o644)
        assert place(chosen).runtime() is None
        file.chmod(0o600)
        assert place(chosen).runtime() is not None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": "http://127.0.0.1:1"}', "\x00"])
async def test_a_broken_runtime_file_is_no_service(chosen: Settings, text: str) -> None:
    async with stand_in(chosen):
        [file] = (chosen.data_dir / "runtime").glob("*.json")
        file.write_text(text)
        assert await local.find(chosen) is None


@pytest.mark.parametrize(
    "url", ["http://example.com:80", "https://127.0.0.1:80", "http://127.0.0.1@evil.test:80"]
)
async def test_a_token_goes_nowhere_but_to_loopback(chosen: Settings, url: str) -> None:
    async with stand_in(chosen):
        [file] = (chosen.data_dir / "runtime").glob("*.json")
        file.write_text(json.dumps(json.loads(file.read_text()) | {"url": url}))
        assert place(chosen).runtime() is None


async def test_a_proxy_of_the_environment_is_not_asked(
    chosen: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with stand_in(chosen):
        assert await local.find(chosen) is not None


# where it cannot start


async def test_without_subprocesses_the_error_names_the_way_out(
    chosen: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(chosen.data_dir / "no python"))
    with pytest.raises(LocalServiceError, match=r"no process .*WEBDATA_BASE_URL"):
        await local.ensure(chosen)


async def test_an_older_version_never_opens_a_newer_ones_data(chosen: Settings) -> None:
    service = await local.ensure(chosen)
    await service.close()
    await local.stop(chosen)
    with contextlib.closing(sqlite3.connect(chosen.data_dir / "jobs.sqlite")) as database:
        database.execute("PRAGMA user_version = 999")
    with pytest.raises(LocalServiceError, match=r"(?s)WEBDATA_BASE_URL.*newer"):
        await local.ensure(chosen)


async def test_one_that_ends_at_once_shows_the_end_of_its_log(chosen: Settings) -> None:
    where = place(chosen)
    where.log.write_text("an old line\n")
    (chosen.data_dir / "jobs.sqlite").mkdir()
    with pytest.raises(LocalServiceError, match="exit code 1") as caught:
        await local.ensure(chosen)
    message = str(caught.value)
    assert "WEBDATA_BASE_URL" in message
    assert str(where.log) in message
    assert "an old line" not in message
    assert len(message.splitlines()) > 2


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX file modes")
async def test_a_long_log_is_put_aside_and_a_new_one_is_private(chosen: Settings) -> None:
    where = place(chosen)
    where.log.write_bytes(b"x" * 1_000_001)
    service = await local.ensure(chosen)
    assert (where.log_dir / "service.log.1").stat().st_size == 1_000_001
    assert stat.S_IMODE(where.log.stat().st_mode) == 0o600
    assert where.log.stat().st_size < 1_000_000
    await service.close()
