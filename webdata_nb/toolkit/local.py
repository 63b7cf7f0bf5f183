"""Finds, starts and stops the local service: one process per data directory, shared by sessions.

A service is found by its runtime file, its lock and a handshake with its token, never by a
process id. Each session holds a lease, which it renews by heartbeat. The service exits when the
last lease has ended and no job is active. It is a detached process with its own log and without our
secrets; its data directory has a fallback if it cannot be used.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import enum
import errno
import functools
import hashlib
import importlib
import math
import os
import platform
import re
import site
import ssl
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import httpx
from filelock import FileLock, Timeout
from pydantic import ValidationError

import webdata_nb
from webdata_nb import caller
from webdata_nb.contract import local, paths
from webdata_nb.contract.error_messages import plain_message
from webdata_nb.contract.local import (
    Access,
    Creatives,
    Hello,
    LeaseReply,
    Runtime,
    SessionSettings,
    StopRequest,
)
from webdata_nb.errors import InvalidArgument, LocalServiceError
from webdata_nb.settings import (
    Settings,
    is_private,
    model_access,
    provider_access,
    user_directory,
)

# File systems without reliable locks and shared memory, which a database in WAL mode requires.
NETWORK_FILE_SYSTEMS: Final = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.ceph", "fuse.glusterfs",
        "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "glusterfs", "gpfs", "lustre", "ncpfs",
        "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb3", "smbfs", "wekafs",
    }
)  # fmt: skip
# More than an empty database takes with its log.
_START_BYTES: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """The data and log directories of one local service, which exist and are writable."""

    data_dir: Path
    log_dir: Path

    @property
    def log(self) -> Path:
        """The service's standard output and error."""
        return self.log_dir / "service.log"

    def service_lock(self) -> FileLock:
        """Return the lock that a service holds until its process ends."""
        return FileLock(self.data_dir / local.service_lock_name(platform.node()), mode=0o600)

    def start_lock(self) -> FileLock:
        """Return the lock that a client holds while it starts a service."""
        return FileLock(self.data_dir / local.start_lock_name(platform.node()), mode=0o600)

    def is_served(self) -> bool:
        """Whether a process holds the service's lock now."""
        lock = self.service_lock()
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return True
        lock.release()
        return False

    def read_runtime(self) -> Runtime | None:
        """Return the content of the runtime file; None without a file that is private and valid."""
        path = self.data_dir / local.runtime_name(platform.node(), _boot_id())
        try:
            with path.open("rb") as file:
                if not is_private(os.fstat(file.fileno())):
                    return None
                return Runtime.model_validate_json(file.read())
        except (OSError, ValidationError):
            return None


def _boot_id() -> str:
    with contextlib.suppress(OSError):
        return Path(local.BOOT_ID).read_text(encoding="ascii")
    return ""


def resolve_data_directory(settings: Settings, *, mounts: str | None = None) -> DataDirectory:
    """Return the directories of the local service of these settings.

    Parameters
    ----------
    settings
        Names the preferred data and log directories.
    mounts
        The mount table; this machine's by default.

    Raises
    ------
    LocalServiceError
        No directory is writable.

    Warns
    -----
    UserWarning
        Once per process, if a fallback directory on a local disk is used.
    """
    if mounts is None:
        mounts = ""
        with contextlib.suppress(OSError):
            mounts = Path("/proc/self/mounts").read_text("utf-8", "surrogateescape")
    preferred = settings.data_dir
    network = network_file_system(preferred, mounts)
    problem = None if network else write_problem(preferred)
    if network is None and problem is None:
        return _with_log_dir(preferred, settings.log_dir)
    fallback = _fallback_directory(preferred, mounts, persistent=network is not None)
    _warn_once(
        f"{preferred} is on a network file system ({network}), where a database is not safe: the "
        f"local service keeps its data in {fallback}, on this machine's disk. Set WEBDATA_HOME to "
        "choose another local directory."
        if network
        else f"{preferred} cannot be written ({problem}): the local service keeps its data in the "
        f"temporary directory {fallback}. Set WEBDATA_HOME to a directory that can be written."
    )
    return _with_log_dir(fallback, fallback / "logs")


def _with_log_dir(data_dir: Path, log_dir: Path) -> DataDirectory:
    """Use the data directory for the log if the log directory is not writable."""
    return DataDirectory(data_dir, log_dir if write_problem(log_dir) is None else data_dir)


@functools.cache
def _warn_once(message: str) -> None:
    caller.warn(message)


def write_problem(directory: Path) -> str | None:
    """Return why `directory` is not writable, or None if it is; a missing one is created."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return None
    except OSError as error:
        return error.strerror or str(error)


def is_full(directory: Path) -> bool:
    """Whether the disk, or this user's quota, has no room for the files of a new service."""
    try:
        # Unbuffered, since the error of a full disk comes with the write.
        with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
            return file.write(bytes(_START_BYTES)) < _START_BYTES
    except OSError as error:
        return error.errno in {errno.ENOSPC, errno.EDQUOT}


def network_file_system(path: Path, mounts: str) -> str | None:
    """Return the type of the network file system that contains `path`; None for a local disk.

    `mounts` has the format of Linux's /proc/self/mounts. Of two mounts on one mount point, the
    later one is in effect.
    """
    resolved, depth, mounted_type = path.resolve(), 0, ""
    for line in mounts.splitlines():
        _, escaped, file_system, *_ = line.split(" ")
        mount_point = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), escaped))
        if resolved.is_relative_to(mount_point) and len(mount_point.parts) >= depth:
            depth, mounted_type = len(mount_point.parts), file_system
    return mounted_type if mounted_type in NETWORK_FILE_SYSTEMS else None


def _fallback_directory(preferred: Path, mounts: str, *, persistent: bool) -> Path:
    """Return a directory for `preferred` in a temporary directory; local disks come first."""
    parents = [Path(tempfile.gettempdir())]
    if persistent:  # /var/tmp survives a restart of the machine
        parents.insert(0, Path("/var/tmp"))  # noqa: S108 - only a private directory in it is used
    parents.sort(key=lambda parent: network_file_system(parent, mounts) is not None)
    for parent in filter(None, map(user_directory, parents)):
        directory = parent / hashlib.sha256(os.fsencode(preferred)).hexdigest()[:12]
        if write_problem(directory) is None:
            return directory
    raise LocalServiceError(
        f"Neither {preferred} nor a temporary directory can be written; set WEBDATA_HOME to one "
        "that can, or WEBDATA_BASE_URL to use a service elsewhere."
    )


REMOTE_HINT: Final = "Set WEBDATA_BASE_URL and WEBDATA_API_KEY to use a service elsewhere instead."
_MAX_LOG_BYTES: Final = 1_000_000
_TAIL_BYTES: Final = 4_000
_START_POLL_S: Final = 0.01
# On Windows, the process gets no console window and no Ctrl-C; on POSIX, its own session.
if sys.platform == "win32":
    _CREATION_FLAGS = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
else:
    _CREATION_FLAGS = 0


async def start_service(directory: DataDirectory) -> bool:
    """Start a service and wait until it can be found; False if another client is starting one.

    Raises
    ------
    LocalServiceError
        No process can be started, or the service ended at once; the message has its log's end.
    """
    lock = directory.start_lock()
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    try:
        if not directory.is_served():
            await _start_and_wait(directory)
    finally:
        lock.release()
    return True


async def _start_and_wait(directory: DataDirectory) -> None:
    stale = directory.read_runtime()
    path = directory.log
    try:
        if path.stat().st_size > _MAX_LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))
    except OSError:
        pass  # there is no log yet, or another process has it open on Windows
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as log:
        offset = log.tell()
        child = _spawn(directory, log)
    loading = asyncio.create_task(asyncio.to_thread(load_http_client))
    try:
        while directory.read_runtime() in (None, stale) and child.poll() is None:  # noqa: ASYNC110 -
            # there is no event to wait for: another process writes the file
            await asyncio.sleep(_START_POLL_S)
        await loading
    except BaseException:
        child.terminate()  # no client has found it yet
        raise
    finally:
        # Reaps the process if it ends before this one.
        threading.Thread(target=child.wait, name="webdata-service-end", daemon=True).start()
    if child.poll() is not None:
        # A service whose disk is full could not write so into its log.
        full = next(filter(is_full, (directory.data_dir, directory.log_dir)), None)
        space = ""
        if full is not None:
            space = (
                f": no space is left on the disk of {full}; free some, or set WEBDATA_HOME to a "
                "directory on another disk"
            )
        raise LocalServiceError(
            f"The local service ended at once (exit code {child.returncode}){space}. "
            f"{REMOTE_HINT}{log_tail(path, offset)}"
        )


def _spawn(directory: DataDirectory, log: IO[bytes]) -> subprocess.Popen[bytes]:
    arguments = ("serve", "--mode", "local", "--managed", "--port", "0", "--data-dir")
    try:
        return subprocess.Popen(  # noqa: S603 - our own interpreter and module, no shell
            # -P keeps files in the working directory from shadowing libraries.
            [sys.executable, "-P", "-m", "webdata_nb", *arguments, str(directory.data_dir)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=directory.data_dir,
            env=service_environment(os.environ),
            start_new_session=sys.platform != "win32",
            creationflags=_CREATION_FLAGS,
        )
    except OSError as error:
        raise LocalServiceError(
            f"The local service cannot be started: this system lets Python start no process "
            f"({error}). {REMOTE_HINT}"
        ) from error


def service_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the service's environment: without WEBDATA_*, with an import path for this package.

    The session hands over keys and addresses in a control call, for its own jobs only.
    """
    variables = {
        name: value
        for name, value in environ.items()
        if not name.upper().startswith("WEBDATA_") or name == local.LEASE_SECONDS
    }
    parent = str(Path(webdata_nb.__file__).resolve().parent.parent)
    site_packages = {
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
        site.getusersitepackages(),
    }
    if parent not in site_packages:
        python_path = variables.get("PYTHONPATH")
        variables["PYTHONPATH"] = f"{python_path}{os.pathsep}{parent}" if python_path else parent
    return variables


def log_tail(log: Path, offset: int = 0) -> str:
    """Return the end of the log after `offset`, as the last lines of an error message."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(offset, size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace").strip()
    except OSError:
        return ""
    return f"\nThe end of {log}:\n{text}" if text else f"\n{log} is empty."


POLL_S: Final = 0.05
_REPLY_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True, repr=False)
class DiscoveredService:
    """The address, the token and the handshake reply of a running local service."""

    url: str
    token: str
    hello: Hello

    def __repr__(self) -> str:
        return f"DiscoveredService({self.url}, version {self.hello.version})"


class ServiceAction(enum.Enum):
    """What to do with a running service."""

    USE = "use"
    REPLACE = "replace"
    REFUSE = "refuse"


def choose_action(hello: Hello, version: str | None = None) -> ServiceAction:
    """Compare a running service with the toolkit's `version`.

    A newer toolkit replaces an older service that is idle and was not started by `webdata serve`.
    Any other service is used if it has the same wire version, and refused if not.
    """
    is_older = _release(hello.version) < _release(version or webdata_nb.__version__)
    is_idle = not hello.active_jobs and not hello.leases
    if is_older and is_idle and hello.managed:
        return ServiceAction.REPLACE
    return ServiceAction.USE if hello.wire == local.WIRE else ServiceAction.REFUSE


def _release(version: str) -> tuple[int, ...]:
    """Return the release numbers of a version, without a pre-release suffix."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def refusal_message(hello: Hello, data_dir: Path) -> str:
    """Return why the service cannot be used, and what to do."""
    own_version = webdata_nb.__version__
    prefix = f"The local service on {data_dir} is version {hello.version}, "
    if hello.wire > local.WIRE:
        return (
            f"{prefix}too new for this webdata_nb {own_version}: upgrade this one, or set "
            "WEBDATA_HOME to another directory (an older version never opens a newer one's data)."
        )
    users = f"{hello.active_jobs} active jobs, {hello.leases} other sessions"
    reason = f"in use ({users})" if hello.managed else "started by `webdata serve`"
    return (
        f"{prefix}too old for this webdata_nb {own_version}, and {reason}: wait until it is idle, "
        "or end it with `webdata stop`; its jobs continue in the new version."
    )


async def discover(directory: DataDirectory) -> DiscoveredService | None:
    """Return the service of a data directory; None if none passes the handshake."""
    runtime = directory.read_runtime()
    # Without the lock, the process that wrote the file is dead, and another may have its port.
    if runtime is None or not directory.is_served():
        return None
    try:
        async with control_client(runtime.url, runtime.token) as client:
            reply = await client.get(paths.LOCAL_HELLO)
        hello = Hello.model_validate_json(reply.content)
    except (httpx.HTTPError, ValidationError):
        return None
    if hello.service != local.SERVICE:
        return None
    return DiscoveredService(runtime.url, runtime.token, hello)


async def request_stop(service: DiscoveredService, *, force: bool) -> None:
    """Request a graceful stop; without `force`, a service in use refuses it."""
    body = StopRequest(force=force).model_dump()
    try:
        async with control_client(service.url, service.token) as client:
            await client.post(paths.LOCAL_STOP, json=body)
    except httpx.HTTPError:
        return  # the caller checks whether the service has ended


def load_http_client() -> None:
    """Import what the first request needs, which takes a while."""
    control_client("http://127.0.0.1", "")
    importlib.import_module("anyio._backends._asyncio")  # by name: anyio loads it at a first use


def control_client(url: str, token: str) -> httpx.AsyncClient:
    """Return an HTTP client for control calls over loopback, without proxy and keep-alive."""
    return httpx.AsyncClient(
        base_url=url,
        headers={"Authorization": f"Bearer {token}"},
        timeout=_REPLY_TIMEOUT_S,
        trust_env=False,
        # The calls are plain HTTP, and loading the system's certificates is slow.
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        # The service closes connections that are idle between two heartbeats.
        limits=httpx.Limits(max_keepalive_connections=0),
    )


_RELEASE_TIMEOUT_S: Final = 1.0


class LocalService:
    """The local service, held by a lease until `close()`.

    Attributes
    ----------
    base_url : str
        The address of its API.
    token : str
        The bearer token of every request to it.
    lease_id : str
        Sent with every request as `contract.paths.LEASE_HEADER`, so that jobs use the settings of
        the session that started them.
    """

    def __init__(
        self,
        directory: DataDirectory,
        discovered: DiscoveredService,
        session_settings: SessionSettings,
    ) -> None:
        self.base_url: str = discovered.url
        self.token: str = discovered.token
        self.lease_id: str = uuid.uuid4().hex
        self._directory = directory
        self._session_settings = session_settings
        self._client = control_client(discovered.url, discovered.token)
        self._lease_path = paths.fill(paths.LOCAL_LEASE, lease_id=self.lease_id)
        self._heartbeat_interval_s = 0.0
        self._renewed_at = 0.0
        self._settings_directories: tuple[Path, Path] | None = None
        self._settings: Settings | None = None
        self._pid = os.getpid()
        self._is_lost = False
        self._heartbeat: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"LocalService({self.base_url}, lease {self.lease_id})"

    @classmethod
    async def attach(
        cls,
        directory: DataDirectory,
        discovered: DiscoveredService,
        session_settings: SessionSettings,
    ) -> LocalService | None:
        """Take a lease on a running service; None if the service is stopping or has ended."""
        service = cls(directory, discovered, session_settings)
        try:
            is_leased = await service._renew_lease()
        except (httpx.HTTPError, ValidationError):
            is_leased = False
        except BaseException:
            await service.close()
            raise
        if not is_leased:
            await service.close()
            return None
        service._heartbeat = asyncio.create_task(service._run_heartbeat(), name="webdata lease")
        _OPEN_LEASES.add(service)
        return service

    def remember_settings(self, settings: Settings) -> None:
        """Store the settings for which the lease is valid, for `is_fresh`."""
        self._settings = settings
        self._settings_directories = (settings.data_dir, settings.log_dir)

    def is_fresh(self, settings: Settings, since: float) -> bool:
        """Whether a request after `since` renewed the lease for these settings.

        Then calls that waited for the same lock need not renew it again.
        """
        return (
            not self._is_lost
            and self._pid == os.getpid()
            and self._renewed_at >= since
            # The inputs of one call share their settings.
            and (
                settings is self._settings
                or (
                    self._settings_directories == (settings.data_dir, settings.log_dir)
                    and self._session_settings == session_settings_of(settings)
                )
            )
        )

    async def renew(self, directory: DataDirectory, session_settings: SessionSettings) -> bool:
        """Renew the lease and hand over changed settings; False if the lease is lost.

        A lease is lost if its service has ended, it is for another directory, it was released, or
        it belongs to the parent of a forked process.
        """
        if self._is_lost or directory != self._directory or self._pid != os.getpid():
            return False
        is_changed = session_settings != self._session_settings
        self._session_settings = session_settings
        try:
            return await self._renew_lease(hand_over=is_changed)
        except (httpx.HTTPError, ValidationError):
            return False

    async def _renew_lease(self, *, hand_over: bool = False) -> bool:
        """Renew the lease; a lease that had expired needs the settings again."""
        # If the lock is free, the service is dead, and another process may have its port.
        if self._is_lost or not self._directory.is_served():
            return False
        sent_at = time.monotonic()
        reply = await self._client.put(self._lease_path)
        if reply.status_code != httpx.codes.OK:
            return False
        lease = LeaseReply.model_validate_json(reply.content)
        self._heartbeat_interval_s = lease.expires_in / 3
        self._renewed_at = sent_at
        if not (lease.created or hand_over):
            return True
        path = paths.fill(paths.LOCAL_SETTINGS, lease_id=self.lease_id)
        body = self._session_settings.model_dump(mode="json")
        reply = await self._client.put(path, json=body)
        if reply.status_code == httpx.codes.UNPROCESSABLE_ENTITY:
            raise LocalServiceError(
                f"The local service does not understand these provider settings: {reply.text}"
            )
        return reply.is_success

    async def _run_heartbeat(self) -> None:
        while not self._is_lost:
            await asyncio.sleep(self._heartbeat_interval_s)
            # A failed request may only mean that the machine is busy or has just resumed.
            with contextlib.suppress(httpx.HTTPError, ValidationError):
                self._is_lost = not await self._renew_lease()

    async def close(self) -> None:
        """Stop the heartbeat and release the lease."""
        _OPEN_LEASES.discard(self)
        if self._pid != os.getpid():  # a forked child: task, sockets and lease are the parent's
            return
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        if not self._is_lost:
            self._is_lost = True
            with contextlib.suppress(httpx.HTTPError):
                await self._client.delete(self._lease_path, timeout=_RELEASE_TIMEOUT_S)
        await self._client.aclose()

    def release_at_exit(self) -> None:
        """Release the lease when the interpreter exits and no event loop runs."""
        if self._is_lost or self._pid != os.getpid():
            return
        self._is_lost = True
        with contextlib.suppress(httpx.HTTPError):
            httpx.delete(
                self.base_url + self._lease_path,
                headers={"Authorization": f"Bearer {self.token}"},
                timeout=_RELEASE_TIMEOUT_S,
                trust_env=False,
            )


def session_settings_of(settings: Settings) -> SessionSettings:
    """Return the settings that the service needs for this session's jobs."""
    providers = {name: provider_access(each) for name, each in settings.providers.items()}
    try:
        models = {name: model_access(each) for name, each in settings.llm.items()}
    except ValidationError as error:
        [first, *_] = error.errors(include_input=False)
        field = "_".join(map(str, first["loc"]))
        raise InvalidArgument(f"llm: {field}: {plain_message(first)}") from None
    # The source of creatives has the address and key of its provider entry.
    access = providers.get(settings.creatives_source or "", Access())
    creatives = Creatives.model_validate(
        {
            "source": settings.creatives_source,
            "terms": settings.creatives_terms,
            "url": access.url,
            "key": access.key,
        }
    )
    return SessionSettings.model_validate(
        {
            "engines": settings.engines,
            "providers": providers,
            "llm": models,
            "creatives": creatives,
            "proxy": settings.proxy,
            "ca_bundle": settings.ca_bundle,
            "user_agent": settings.user_agent,
        }
    )


# Released at exit, so that the service does not wait until they expire.
_OPEN_LEASES: Final[weakref.WeakSet[LocalService]] = weakref.WeakSet()


@atexit.register
def _release_all() -> None:
    for service in list(_OPEN_LEASES):
        service.release_at_exit()


__all__ = [
    "DataDirectory",
    "DiscoveredService",
    "LocalService",
    "OnStart",
    "ensure",
    "find",
    "is_recoverable",
    "resolve_data_directory",
    "stop",
]

OnStart = Callable[[], object]

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0


async def ensure(
    settings: Settings,
    *,
    current: LocalService | None = None,
    since: float = math.inf,
    deadline_s: float = START_TIMEOUT_S,
    on_start: OnStart | None = None,
) -> LocalService:
    """Return a lease on the local service, which is started if none runs.

    Parameters
    ----------
    settings
        The data directory, and the provider settings to hand over to the service.
    current
        The lease of an earlier call. A valid lease is renewed and returned, after changed
        settings are handed over again; a lost lease is closed and replaced.
    since
        A time on the monotonic clock; a lease that was renewed after it is not renewed again.
    deadline_s
        Seconds to wait for a service to answer.
    on_start
        Called once, before the wait for a service that does not run yet.

    Returns
    -------
    LocalService
        The address, token and lease. A task on the running loop renews the lease until `close()`.

    Raises
    ------
    LocalServiceError
        The service cannot be started or does not answer, or its version is incompatible.
    """
    if current is not None and current.is_fresh(settings, since):
        return current
    directory = resolve_data_directory(settings)
    session_settings = session_settings_of(settings)
    if current is not None:
        if await current.renew(directory, session_settings):
            current.remember_settings(settings)
            return current
        await current.close()
    try:
        async with asyncio.timeout(deadline_s):
            service = await _attach_or_start(directory, session_settings, on_start)
    except TimeoutError:
        runtime = directory.read_runtime()
        holder = f"process {runtime.pid}" if runtime else "a process without a runtime file"
        reason = (
            f"{holder} holds {directory.data_dir} but does not answer as a local service"
            if directory.is_served()
            else "it did not come up"
        )
        raise LocalServiceError(
            f"No local service within {deadline_s:g} s: {reason}. {REMOTE_HINT}"
            f"{log_tail(directory.log)}"
        ) from None
    except OSError as error:
        raise LocalServiceError(
            f"The local service cannot use {directory.data_dir}: {error}. {REMOTE_HINT}"
        ) from error
    service.remember_settings(settings)
    return service


async def _attach_or_start(
    directory: DataDirectory, session_settings: SessionSettings, on_start: OnStart | None
) -> LocalService:
    announced = False
    while True:
        discovered = await discover(directory)
        if discovered is not None:
            match choose_action(discovered.hello):
                case ServiceAction.REFUSE:
                    raise LocalServiceError(refusal_message(discovered.hello, directory.data_dir))
                case ServiceAction.REPLACE:
                    await request_stop(discovered, force=False)
                case ServiceAction.USE:
                    service = await LocalService.attach(directory, discovered, session_settings)
                    if service is not None:
                        return service
        else:
            if on_start is not None and not announced:
                announced = True
                on_start()
            if not directory.is_served() and await start_service(directory):
                continue
        await asyncio.sleep(POLL_S)


def is_recoverable(settings: Settings) -> bool:
    """Whether a local service runs or was killed; a stopped one leaves no runtime file."""
    return resolve_data_directory(settings).read_runtime() is not None


async def find(settings: Settings) -> DiscoveredService | None:
    """Return the running local service, or None; this never starts one."""
    return await discover(resolve_data_directory(settings))


async def stop(settings: Settings, *, deadline_s: float = STOP_TIMEOUT_S) -> bool:
    """Stop the local service and wait until its process has ended.

    Active jobs continue when a service starts again.

    Returns
    -------
    bool
        Whether a service was running.

    Raises
    ------
    LocalServiceError
        The process has not ended after `deadline_s` seconds.
    """
    directory = resolve_data_directory(settings)
    was_running = False
    try:
        async with asyncio.timeout(deadline_s):
            # A service holds the lock until its process ends.
            while directory.is_served():
                discovered = await discover(directory)
                if discovered is not None:
                    was_running = True
                    await request_stop(discovered, force=True)
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise LocalServiceError(
            f"The local service on {directory.data_dir} did not stop within {deadline_s:g} s."
        ) from None
    return was_running
