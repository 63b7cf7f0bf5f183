"""PgBouncer in front of a PostgreSQL server of the tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal

from tests.ports import free_port
from tests.postgres import USER, PostgresServer
from tests.requirements import require

PoolMode = Literal["session", "transaction", "statement"]

_START_S: Final = 60.0
_ROOT: Final = 0


@contextmanager
def pooler(server: PostgresServer, mode: PoolMode, **settings: int) -> Iterator[str]:
    """Run PgBouncer before the server; yield the URL of its databases, without a name."""
    program, port = require("pgbouncer"), free_port()
    folder = Path(tempfile.mkdtemp(prefix="webdata-pgbouncer-", dir="/tmp"))
    folder.chmod(0o755)  # PgBouncer refuses to run as root
    users, configuration = folder / "users.txt", folder / "pgbouncer.ini"
    users.write_text(f'"{USER}" "{server.password}"\n')
    lines = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "plain",
        "auth_file": users,
        "pool_mode": mode,
        **settings,
    }
    text = "".join(f"{name} = {value}\n" for name, value in lines.items())
    databases = f"[databases]\n* = host=127.0.0.1 port={server.port}\n"
    configuration.write_text(f"{databases}[pgbouncer]\n{text}")
    options: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if os.geteuid() == _ROOT:
        options |= {"user": "nobody", "group": "nogroup", "extra_groups": []}
    with subprocess.Popen([program, configuration], **options) as process:
        try:
            _wait_until_open(port, process)
            yield f"postgresql://{USER}:{server.password}@127.0.0.1:{port}/"
        finally:
            process.kill()
            shutil.rmtree(folder, ignore_errors=True)


def _wait_until_open(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        assert process.poll() is None, "PgBouncer does not start"
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.02)
    raise TimeoutError
