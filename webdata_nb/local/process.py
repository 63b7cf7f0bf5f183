"""The service's process: started detached, with a log of its own and none of our secrets."""

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
from webdata_nb.local.data_dir import Place
from webdata_nb.local.handshake import POLL_S

ELSEWHERE: Final = "Set WEBDATA_BASE_URL and WEBDATA_API_KEY to use a service elsewhere instead."
_LOG_BYTES: Final = 1_000_000
_TAIL_BYTES: Final = 4_000
# Windows: no console window, no part in the console's Ctrl-C. POSIX: a session of its own.
if sys.platform == "win32":
    _FLAGS = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
else:
    _FLAGS = 0


async def start(where: Place) -> None:
    """Start a service and wait until it can be found, unless another client is doing that.

    Raises
    ------
    LocalServiceError
        No process may be started, or the service ended at once: with the end of its log.
    """
    lock = where.start_lock()
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return
    try:
        if not where.served():
            await _up(where)
    finally:
        lock.release()


async def _up(where: Place) -> None:
    stale = where.runtime()
    log = _opened_log(where)
    offset = log.tell()
    with log:
        child = _spawn(where, log)
    try:
        while where.runtime() in (None, stale) and child.poll() is None:  # noqa: ASYNC110 - a file
            # of another process has no event to wait for
            await asyncio.sleep(POLL_S)
    except BaseException:
        child.terminate()  # nobody can have found it yet
        raise
    finally:
        # It outlives its starter; but if not, someone must collect it.
        threading.Thread(target=child.wait, name="webdata-service-end", daemon=True).start()
    if child.poll() is not None:
        raise LocalServiceError(
            f"The local service ended at once (exit code {child.returncode}). {ELSEWHERE}"
            f"{tail(where.log, offset)}"
        )


def _spawn(where: Place, log: IO[bytes]) -> subprocess.Popen[bytes]:
    serve = ("serve", "--mode", "local", "--managed", "--port", "0", "--data-dir")
    try:
        return subprocess.Popen(  # noqa: S603 - our own interpreter and module, no shell
            # -P: a file in the working directory must not stand in for a library.
            [sys.executable, "-P", "-m", "webdata_nb", *serve, str(where.data_dir)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=where.data_dir,
            env=environment(os.environ),
            start_new_session=sys.platform != "win32",
            creationflags=_FLAGS,
        )
    except OSError as error:
        raise LocalServiceError(
            f"The local service cannot be started: this system lets Python start no process "
            f"({error}). {ELSEWHERE}"
        ) from error


def environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Return the service's environment: ours without WEBDATA_*, and able to import this package.

    Keys and addresses reach the service by the session's control call, for its own jobs only.
    """
    kept = {
        name: value
        for name, value in ours.items()
        if not name.upper().startswith("WEBDATA_") or name == local.LEASE_SECONDS
    }
    parent = str(Path(webdata_nb.__file__).resolve().parent.parent)
    found = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    if parent not in {*found, site.getusersitepackages()}:
        search = kept.get("PYTHONPATH")
        kept["PYTHONPATH"] = f"{search}{os.pathsep}{parent}" if search else parent
    return kept


def _opened_log(where: Place) -> IO[bytes]:
    """Open the log to append, after putting a long one aside."""
    log = where.log
    try:
        if log.stat().st_size > _LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))
    except OSError:
        pass  # there is none yet, or Windows keeps it open: it grows a little more
    return os.fdopen(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")


def tail(log: Path, offset: int = 0) -> str:
    """Return the end of what was logged from `offset` on, to stand at the end of a message."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(offset, size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace").strip()
    except OSError:
        return ""
    return f"\nThe end of {log}:\n{text}" if text else f"\n{log} is empty."
