"""Tests how the toolkit finds, starts, shares, replaces and stops the local service."""

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

from tests.preloaded import PACKAGE, start_command
from tests.site.document import document
from tests.wire.stub_local_service import StubLocalService, listening_socket
from tests.wire.waiting import TIMEOUT_S, until
from webdata_nb.contract.local import LEASE_SECONDS, WIRE, Hello, Runtime, SessionSettings
from webdata_nb.errors import LocalServiceError
from webdata_nb.service.local_lifetime import LeaseTiming, LocalLifetime
from webdata_nb.settings import Provider, Settings
from webdata_nb.toolkit import local
from webdata_nb.toolkit.client.client import Client
from webdata_nb.toolkit.local import ServiceAction, choose_action, service_environment

if TYPE_CHECKING:
    from tests.site.server import Site

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parent.parent.parent
# A program that takes a lease like a kernel, prints the service, and waits for a command.
CLIENT = """
import asyncio, json, os, sys
from webdata_nb import settings
from webdata_nb.toolkit import local

async def main():
    service = await local.ensure(settings.current())
    running = await local.find(settings.current())
    print(json.dumps([service.base_url, service.token, running.hello.pid]), flush=True)
    command = await asyncio.to_thread(sys.stdin.readline)
    if command == "close\\n":
        await service.close()
    if command == "abrupt\\n":
        os._exit(0)

asyncio.run(main())
"""

# The same with blocking calls, and with a forked child that runs its exit functions.
FORKING_CLIENT = """
import json, os, sys, warnings
from webdata_nb import settings
from webdata_nb.toolkit import local
from webdata_nb.toolkit.bridge import synced

warnings.simplefilter("ignore")  # a fork beside threads

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


def runtime_of(settings: Settings) -> Runtime:
    runtime = local.resolve_data_directory(settings).read_runtime()
    assert runtime is not None
    return runtime


async def hello_of(settings: Settings) -> Hello:
    """Return the hello of the running service, which may answer late on a busy machine."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            if (running := await local.find(settings)) is not None:
                return running.hello
            await asyncio.sleep(0.1)


async def wait_for_leases(settings: Settings, count: int) -> None:
    """Wait until the service has this many leases; a client waits 1 s to release its own."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            if (await hello_of(settings)).leases == count:
                return
            await asyncio.sleep(0.1)


@contextlib.contextmanager
def run_client(
    home: Path, *, program: str = CLIENT, **environ: str
) -> Iterator[subprocess.Popen[str]]:
    """Run the client program; it ends with the block at the latest."""
    with PACKAGE.start(
        program,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
        env=os.environ | {"WEBDATA_HOME": str(home)} | environ,
    ) as process:
        yield process
        if process.poll() is None:
            process.communicate("close\n", timeout=TIMEOUT_S)


def service_of_client(process: subprocess.Popen[str]) -> tuple[str, str, int]:
    """Return the address, token and process id of the service that a client found."""
    assert process.stdout is not None
    url, token, pid = json.loads(process.stdout.readline())
    return url, token, pid


def start_stub_service(data_dir: Path, options: tuple[str, ...]) -> subprocess.Popen[bytes]:
    module = "tests.wire.stub_local_service"
    return start_command(str(data_dir), *options, module=module, cwd=CHECKOUT)


@contextlib.asynccontextmanager
async def stub_service(settings: Settings, *options: str) -> AsyncIterator[subprocess.Popen[bytes]]:
    """Run another version of the service on the same data directory."""
    directory = local.resolve_data_directory(settings)
    with start_stub_service(settings.data_dir, options) as process:
        try:
            await until(lambda: directory.read_runtime() is not None or process.poll() is not None)
            assert process.poll() is None
            yield process
        finally:
            process.kill()


# finding and sharing


@pytest.mark.smoke
@pytest.mark.usefixtures("started_services")
async def test_first_call_starts_service_and_second_finds_it(local_settings: Settings) -> None:
    assert await local.find(local_settings) is None
    first = await local.ensure(local_settings)
    second = await local.ensure(local_settings)
    assert (first.base_url, first.token) == (second.base_url, second.token)
    assert first.lease_id != second.lease_id
    hello = await hello_of(local_settings)
    assert (hello.leases, hello.managed, hello.active_jobs) == (2, True, 0)
    await first.close()
    await wait_for_leases(local_settings, 1)
    await second.close()


async def test_valid_lease_is_reused(local_settings: Settings) -> None:
    first = await local.ensure(local_settings)
    again = await local.ensure(local_settings, current=first)
    assert again is first
    assert (await hello_of(local_settings)).leases == 1
    await again.close()


async def test_concurrent_kernels_share_service(tmp_path: Path, local_settings: Settings) -> None:
    with run_client(tmp_path) as one, run_client(tmp_path) as two, run_client(tmp_path) as three:
        assert service_of_client(one) == service_of_client(two) == service_of_client(three)
        assert (await hello_of(local_settings)).leases == 3


@pytest.mark.smoke
async def test_service_exits_after_script(tmp_path: Path, local_settings: Settings) -> None:
    with run_client(tmp_path) as script:
        _, _, pid = service_of_client(script)
        script.communicate("close\n", timeout=TIMEOUT_S)
    await until(lambda: not psutil.pid_exists(pid))
    assert not local.resolve_data_directory(local_settings).is_served()
    assert local.resolve_data_directory(local_settings).read_runtime() is None


async def test_lease_is_released_at_exit(tmp_path: Path, local_settings: Settings) -> None:
    with run_client(tmp_path, **{LEASE_SECONDS: "3600"}) as script:
        service_of_client(script)
        script.communicate("return\n", timeout=TIMEOUT_S)
    await until(lambda: not local.resolve_data_directory(local_settings).is_served())


async def test_service_exits_when_lease_of_killed_client_expires(
    tmp_path: Path, local_settings: Settings
) -> None:
    with run_client(tmp_path, **{LEASE_SECONDS: "1"}) as kernel:
        service_of_client(kernel)
        kernel.kill()
    await until(lambda: not local.resolve_data_directory(local_settings).is_served())


@pytest.mark.usefixtures("quick")
async def test_crawl_continues_without_kernel(local_settings: Settings, site: Site) -> None:
    url = site.page("/", document("One"))
    with site.hold("/"):
        kernel = await local.ensure(local_settings)
        async with Client(kernel.base_url, kernel.token, trust_env=False) as client:
            job = await client.start_crawl({"url": url})
        await asyncio.to_thread(site.wait_for, "/", timeout=TIMEOUT_S)
        await kernel.close()
        await asyncio.sleep(7)
        next_kernel = await local.ensure(local_settings)
        assert next_kernel.token == kernel.token
        assert (await hello_of(local_settings)).active_jobs == 1
        await next_kernel.close()
    await until(lambda: not local.resolve_data_directory(local_settings).is_served())
    last = await local.ensure(local_settings)
    async with Client(last.base_url, last.token, trust_env=False) as client:
        assert (await client.crawl_status(job.job_id)).status == "completed"
    await last.close()


@pytest.mark.usefixtures("quick")
async def test_killed_service_is_restarted(local_settings: Settings) -> None:
    service = await local.ensure(local_settings)
    before = await hello_of(local_settings)
    psutil.Process(before.pid).kill()
    again = await local.ensure(local_settings, current=service)
    after = await hello_of(local_settings)
    assert again is not service
    assert after.pid != before.pid
    assert again.token != service.token
    await again.close()


@pytest.mark.usefixtures("quick")
async def test_heartbeat_renews_lease(local_settings: Settings) -> None:
    service = await local.ensure(local_settings)
    pid = (await hello_of(local_settings)).pid
    await asyncio.sleep(7)
    hello = await hello_of(local_settings)
    assert (hello.pid, hello.leases) == (pid, 1)
    await service.close()


@pytest.mark.skipif(sys.platform == "win32", reason="suspends a process with a signal")
@pytest.mark.usefixtures("quick")
async def test_lease_survives_suspension_of_service(local_settings: Settings) -> None:
    service = await local.ensure(local_settings)
    suspended = psutil.Process((await hello_of(local_settings)).pid)
    suspended.suspend()
    await asyncio.sleep(7)
    suspended.resume()
    again = await local.ensure(local_settings, current=service)
    assert again is service
    assert (await hello_of(local_settings)).pid == suspended.pid
    await again.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
async def test_forked_child_keeps_lease_of_parent(tmp_path: Path, local_settings: Settings) -> None:
    with run_client(tmp_path, program=FORKING_CLIENT) as kernel:
        service_of_client(kernel)
        assert kernel.stdout is not None
        assert kernel.stdout.readline() == "forked\n"
        assert (await hello_of(local_settings)).leases == 1


async def test_service_does_not_inherit_pipes(tmp_path: Path, local_settings: Settings) -> None:
    with run_client(tmp_path) as script:
        service_of_client(script)
        # Returns at the end of the pipe, which the service would otherwise keep open.
        script.communicate("abrupt\n", timeout=TIMEOUT_S)
    assert (await hello_of(local_settings)).leases == 1


# stopping


@pytest.mark.smoke
async def test_stop_waits_until_process_has_ended(local_settings: Settings) -> None:
    service = await local.ensure(local_settings)
    pid = (await hello_of(local_settings)).pid
    assert await local.stop(local_settings)
    assert not local.resolve_data_directory(local_settings).is_served()
    await until(lambda: not psutil.pid_exists(pid))
    assert not await local.stop(local_settings)
    await service.close()


async def test_stop_fails_if_directory_stays_locked(local_settings: Settings) -> None:
    with (
        local.resolve_data_directory(local_settings).service_lock(),
        pytest.raises(LocalServiceError, match=r"did not stop within 0\.2 s"),
    ):
        await local.stop(local_settings, deadline_s=0.2)


# settings


@contextlib.asynccontextmanager
async def in_process_service(
    settings: Settings, timing: LeaseTiming
) -> AsyncIterator[LocalLifetime]:
    """Run a stand-in in this process, and give access to its lifetime."""
    lifetime = LocalLifetime(
        settings.data_dir, version="0.1.0", schema=1, managed=False, timing=timing
    )
    service = StubLocalService(lifetime)
    with listening_socket() as listening:
        task = asyncio.create_task(service.serve(listening))
        await until(lambda: local.resolve_data_directory(settings).read_runtime() is not None)
        yield lifetime
        service.stop()
        await task


@pytest.mark.smoke
async def test_settings_are_bound_to_lease(local_settings: Settings) -> None:
    mine = replace(
        local_settings,
        engines={"engine_one": ("brave", "local")},
        providers={"brave": Provider("http://127.0.0.1:9/", "k3y")},
        llm={"here": Provider(None, "k4y")},
        proxy="http://me:pw@proxy.test",
        ca_bundle="/etc/ca.pem",
        user_agent="ExampleBot/1.0",
    )
    async with in_process_service(local_settings, LeaseTiming()) as lifetime:
        service = await local.ensure(mine)
        other = await local.ensure(local_settings)
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


async def test_recreated_lease_gets_settings_again(local_settings: Settings) -> None:
    """This happens if only the machine of the client was suspended."""
    mine = replace(local_settings, engines={"engine_two": ("local",)})
    async with in_process_service(local_settings, LeaseTiming(lease_s=0.6)) as lifetime:
        service = await local.ensure(mine)
        bound = lifetime.settings_of(service.lease_id)
        assert bound.engines == {"engine_two": ("local",)}
        lifetime.release(service.lease_id)
        assert lifetime.settings_of(service.lease_id) == SessionSettings()
        await until(lambda: lifetime.settings_of(service.lease_id) == bound)
        await service.close()


@pytest.mark.smoke
def test_service_environment_has_no_settings() -> None:
    environ = {"WEBDATA_BRAVE_KEY": "k3y", "webdata_home": "x", "PATH": "/bin", LEASE_SECONDS: "2"}
    inherited = service_environment(environ)
    assert {name for name in inherited if name != "PYTHONPATH"} == {"PATH", LEASE_SECONDS}


@pytest.mark.usefixtures("started_services")
async def test_service_process_has_no_key_and_no_terminal(
    local_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBDATA_BRAVE_KEY", "k3y")
    service = await local.ensure(local_settings)
    process = psutil.Process((await hello_of(local_settings)).pid)
    assert not any(name.startswith("WEBDATA_") for name in process.environ())
    assert "k3y" not in " ".join(process.cmdline())
    assert service.token not in " ".join(process.cmdline())
    if sys.platform != "win32":
        assert os.getsid(process.pid) == process.pid
    await service.close()


# versions


def hello(version: str, **changes: object) -> Hello:
    fields = {
        "service": "webdata_nb", "version": version, "wire": WIRE, "schema": 1, "pid": 1,
        "started_at": "2026-01-01T00:00:00Z", "managed": True, "active_jobs": 0, "leases": 0,
    }  # fmt: skip
    return Hello.model_validate(fields | changes)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("version", "changes", "expected"),
    [
        ("0.4.0", {}, ServiceAction.USE),
        ("0.4.0rc1", {}, ServiceAction.USE),
        ("0.3.9", {}, ServiceAction.REPLACE),
        ("0.3.9", {"wire": WIRE - 1}, ServiceAction.REPLACE),
        ("0.3.9", {"leases": 1}, ServiceAction.USE),
        ("0.3.9", {"active_jobs": 1}, ServiceAction.USE),
        ("0.3.9", {"managed": False}, ServiceAction.USE),
        ("0.3.9", {"wire": WIRE - 1, "leases": 1}, ServiceAction.REFUSE),
        ("0.3.9", {"wire": WIRE - 1, "managed": False}, ServiceAction.REFUSE),
        ("0.10.0", {}, ServiceAction.USE),
        ("0.10.0", {"wire": WIRE + 1}, ServiceAction.REFUSE),
    ],
)
def test_choose_action_by_version(
    version: str, changes: dict[str, object], expected: ServiceAction
) -> None:
    assert choose_action(hello(version, **changes), "0.4.0") is expected


async def test_idle_older_service_is_replaced(
    local_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LEASE_SECONDS, "3600")  # the service would not exit by itself
    async with stub_service(local_settings, "--version", "0.0.9", "--managed") as older:
        service = await local.ensure(local_settings)
        assert (await hello_of(local_settings)).version != "0.0.9"
        assert older.wait(TIMEOUT_S) == 0
        await service.close()


async def test_older_service_in_use_is_shared(local_settings: Settings) -> None:
    async with stub_service(local_settings, "--version", "0.0.9", "--managed", "--jobs", "1"):
        service = await local.ensure(local_settings)
        assert (await hello_of(local_settings)).version == "0.0.9"
        await service.close()


async def test_newer_service_with_same_wire_version_is_used(local_settings: Settings) -> None:
    async with stub_service(local_settings, "--version", "99.0.0", "--managed"):
        service = await local.ensure(local_settings)
        assert (await hello_of(local_settings)).version == "99.0.0"
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
async def test_service_with_other_wire_version_is_refused(
    local_settings: Settings, options: tuple[str, ...], message: str
) -> None:
    async with stub_service(local_settings, *options) as other:
        with pytest.raises(LocalServiceError, match=message):
            await local.ensure(local_settings)
        assert other.poll() is None


# untrusted runtime files


async def test_runtime_file_of_dead_service_is_ignored(local_settings: Settings) -> None:
    """Another process has its port, and must not get a request with the token."""
    async with stub_service(local_settings) as dead:
        runtime = runtime_of(local_settings)
        dead.kill()
        dead.wait()
    port = int(runtime.url.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)) as stranger:
        stranger.settimeout(0)
        assert local.resolve_data_directory(local_settings).read_runtime() == runtime
        assert await local.find(local_settings) is None
        service = await local.ensure(local_settings)
        assert service.base_url != runtime.url
        with pytest.raises(BlockingIOError):
            stranger.accept()
        await service.close()


async def test_service_with_other_token_is_ignored(local_settings: Settings) -> None:
    async with stub_service(local_settings, "--token", "another"):
        assert await local.find(local_settings) is None
        with pytest.raises(LocalServiceError, match=r"does not answer.*WEBDATA_BASE_URL"):
            await local.ensure(local_settings, deadline_s=0.5)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX file modes")
async def test_public_runtime_file_is_ignored(local_settings: Settings) -> None:
    async with stub_service(local_settings):
        [file] = (local_settings.data_dir / "runtime").glob("*.json")
        file.chmod(0o644)
        assert local.resolve_data_directory(local_settings).read_runtime() is None
        file.chmod(0o600)
        assert local.resolve_data_directory(local_settings).read_runtime() is not None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": "http://127.0.0.1:1"}', "\x00"])
async def test_broken_runtime_file_is_ignored(local_settings: Settings, text: str) -> None:
    async with stub_service(local_settings):
        [file] = (local_settings.data_dir / "runtime").glob("*.json")
        file.write_text(text)
        assert await local.find(local_settings) is None


@pytest.mark.parametrize(
    "url", ["http://example.com:80", "https://127.0.0.1:80", "http://127.0.0.1@evil.test:80"]
)
async def test_runtime_file_with_remote_url_is_ignored(local_settings: Settings, url: str) -> None:
    async with stub_service(local_settings):
        [file] = (local_settings.data_dir / "runtime").glob("*.json")
        file.write_text(json.dumps(json.loads(file.read_text()) | {"url": url}))
        assert local.resolve_data_directory(local_settings).read_runtime() is None


async def test_proxy_variables_are_ignored(
    local_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with stub_service(local_settings):
        assert await local.find(local_settings) is not None


# failures to start


@pytest.mark.usefixtures("started_services")
async def test_failed_process_start_names_remote_service(
    local_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(local_settings.data_dir / "no python"))
    with pytest.raises(LocalServiceError, match=r"no process .*WEBDATA_BASE_URL"):
        await local.ensure(local_settings)


async def test_newer_database_is_not_opened(local_settings: Settings) -> None:
    service = await local.ensure(local_settings)
    await service.close()
    await local.stop(local_settings)
    with contextlib.closing(sqlite3.connect(local_settings.data_dir / "jobs.sqlite")) as database:
        database.execute("PRAGMA user_version = 999")
    with pytest.raises(LocalServiceError, match=r"(?s)WEBDATA_BASE_URL.*newer"):
        await local.ensure(local_settings)


@pytest.mark.usefixtures("started_services")
async def test_error_shows_end_of_log(local_settings: Settings) -> None:
    directory = local.resolve_data_directory(local_settings)
    directory.log.write_text("an old line\n")
    (local_settings.data_dir / "jobs.sqlite").mkdir()
    with pytest.raises(LocalServiceError, match="exit code 1") as caught:
        await local.ensure(local_settings)
    message = str(caught.value)
    assert "WEBDATA_BASE_URL" in message
    assert str(directory.log) in message
    assert "an old line" not in message
    assert len(message.splitlines()) > 2


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX file modes")
async def test_long_log_is_rotated(local_settings: Settings) -> None:
    directory = local.resolve_data_directory(local_settings)
    directory.log.write_bytes(b"x" * 1_000_001)
    service = await local.ensure(local_settings)
    assert (directory.log_dir / "service.log.1").stat().st_size == 1_000_001
    assert stat.S_IMODE(directory.log.stat().st_mode) == 0o600
    assert directory.log.stat().st_size < 1_000_000
    await service.close()
