"""Starts the local service as a detached process with its own log and without our secrets."""

from __future__ import annotations

import asyncio
import os
import site
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

from filelock import Timeout

import webdata_nb
from webdata_nb.contract import local
from webdata_nb.errors import LocalServiceError
from webdata_nb.toolkit.local.data_dir import DataDirectory, is_full
from webdata_nb.toolkit.local.service_lease import load_http_client

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
    log = _open_log(directory)
    offset = log.tell()
    with log:
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
        raise LocalServiceError(
            f"The local service ended at once (exit code {child.returncode})"
            f"{_full_disk_text(directory)}. {REMOTE_HINT}{log_tail(directory.log, offset)}"
        )


def _full_disk_text(directory: DataDirectory) -> str:
    """Say that the disk is full, where the service could not write so into its log."""
    for folder in (directory.data_dir, directory.log_dir):
        if is_full(folder):
            return (
                f": no space is left on the disk of {folder}; free some, or set WEBDATA_HOME to a "
                "directory on another disk"
            )
    return ""


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


def _open_log(directory: DataDirectory) -> IO[bytes]:
    """Open the log to append, after renaming a long one."""
    log = directory.log
    try:
        if log.stat().st_size > _MAX_LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))
    except OSError:
        pass  # there is no log yet, or another process has it open on Windows
    return os.fdopen(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")


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
