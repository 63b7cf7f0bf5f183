"""An S3 server of this machine, whose credentials and address fsspec reads from its variables."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import fsspec  # type: ignore[import-untyped]
import fsspec.asyn  # type: ignore[import-untyped]
import pytest

from tests.ports import free_port

_DEADLINE_S: Final = 120.0


@contextlib.contextmanager
def running(log: Path) -> Iterator[str]:
    """Start a server with a bucket, and name it to fsspec here and in processes that start later.

    Yields the URL of the bucket.
    """
    url = f"http://127.0.0.1:{(port := free_port())}"
    server_command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    variables = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "FSSPEC_S3_ENDPOINT_URL": url,
    }
    with (
        log.open("wb") as output,
        subprocess.Popen(server_command, stdout=output, stderr=output) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.setitem(fsspec.config.conf, "s3", {"endpoint_url": url})
        try:
            _wait_until_it_responds(url)
            fsspec.filesystem("s3").mkdir("batches")
            yield "s3://batches"
        finally:
            _close_file_systems()
            server.kill()


def _wait_until_it_responds(url: str) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while True:
        with contextlib.suppress(OSError):  # refused, or no answer in time while it starts
            urllib.request.urlopen(url, timeout=5).close()
            return
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _close_file_systems() -> None:
    """Close the connections of this process, and the loop of asynchronous file systems.

    The next use starts another loop.
    """
    kind = fsspec.get_filesystem_class("s3")
    for system in kind._cache.values():  # one for each thread that used it
        kind.close_session(system.loop, system.s3)
    kind.clear_instance_cache()
    loop, thread = fsspec.asyn.loop[0], fsspec.asyn.iothread[0]
    if not isinstance(thread, threading.Thread):
        return
    fsspec.asyn.sync(loop, loop.shutdown_default_executor)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(_DEADLINE_S)
    loop.close()
    fsspec.asyn.loop[0] = fsspec.asyn.iothread[0] = None
