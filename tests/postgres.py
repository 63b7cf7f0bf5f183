"""A PostgreSQL server for tests: one per test run, on a loopback port, with fsync."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil
import psycopg
import pytest
from filelock import FileLock
from psycopg import sql

from tests.leaked_resources import MARK
from tests.ports import free_port
from tests.requirements import require

USER: Final = "webdata"
_PARENT: Final = "/tmp"
_START_S: Final = 60.0
_ROOT: Final = 0
_SETTINGS: Final = {
    "max_connections": "200",
    "shared_buffers": "128MB",
    "log_min_messages": "fatal",
    "deadlock_timeout": "100ms",
    "track_commit_timestamp": "on",
}
if sys.platform == "linux":
    # A restart after a crash takes one call for the file system, and not one per file.
    _SETTINGS["recovery_init_sync_method"] = "syncfs"


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A running server; its folder holds the data."""

    folder: Path
    port: int
    password: str

    @property
    def url(self) -> str:
        """The URL of its database, with the password."""
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/postgres"

    def new_schema(self, name: str | None = None) -> str:
        """Create a schema unless it exists, by default a new one; return the URL of its store."""
        name = name or f"test_{uuid.uuid4().hex}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            identifier = sql.Identifier(name)
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(identifier))
        return f"{self.url}?options=-csearch_path%3D{name}"

    def stop(self, mode: str = "fast") -> None:
        """Stop the server: `fast`, or `immediate` as in a crash."""
        self._control("stop", "-m", mode)

    def kill(self) -> None:
        """Kill all processes with SIGKILL, as if the machine was lost."""
        [pid, *_] = (self.folder / "data" / "postmaster.pid").read_text().splitlines()
        server = psutil.Process(int(pid))
        processes = [server, *server.children(recursive=True)]
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, timeout=_START_S)
        (self.folder / "data" / "postmaster.pid").unlink()

    def follow(self, primary: PostgresServer) -> None:
        """Become a standby of a server, without the data of before, and confirm its commits."""
        data = self.folder / "data"
        shutil.rmtree(data, ignore_errors=True)
        source = f"postgresql://{USER}:{primary.password}@127.0.0.1:{primary.port}/"
        program = require("postgresql") / "pg_basebackup"
        _run([str(program), "-d", source, "-D", str(data), "-R", "-c", "fast"])
        # As a primary it has no standby at first.
        self.configure(**server_address(self), synchronous_standby_names="''")
        self.start()
        primary.configure(synchronous_standby_names="'*'")
        primary.reload()

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        self._control("start", "-l", str(self.folder / "log"), "-t", str(int(_START_S)))

    def is_running(self) -> bool:
        """Whether the server runs: it stops by itself when it cannot write its WAL."""
        try:
            self._control("status")
        except subprocess.CalledProcessError:
            return False
        return True

    def promote(self) -> None:
        """Make a standby the primary."""
        self._control("promote")

    def configure(self, **settings: str) -> None:
        """Append settings to the configuration; those of a running server need `reload`."""
        with (self.folder / "data" / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())

    def reload(self) -> None:
        """Let the running server read its configuration again."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SELECT pg_reload_conf()")

    def _control(self, action: str, *options: str) -> None:
        program = require("postgresql") / "pg_ctl"
        _run([str(program), action, "-w", "-D", str(self.folder / "data"), *options])


def url_of_both(primary: PostgresServer, standby: PostgresServer, url: str) -> str:
    """Return the URL of a store that leads to the server which takes writes."""
    address = f"127.0.0.1:{primary.port}"
    url = url.replace(address, f"{address},127.0.0.1:{standby.port}")
    return f"{url}&target_session_attrs=read-write"


def schema_name(folder: Path) -> str:
    """Return the name of the schema that stands for a data directory."""
    return f"test_{uuid.uuid5(uuid.NAMESPACE_URL, str(folder)).hex}"


def _run(command: list[str], **options: Any) -> None:
    """Run a program as an ordinary user: PostgreSQL refuses to run as root."""
    if os.geteuid() == _ROOT:
        options |= {"user": "nobody", "group": "nogroup", "extra_groups": []}
    # The server inherits the standard streams: a pipe would stay open as long as it runs.
    subprocess.run(
        command,
        check=True,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=2 * _START_S,
        **options,
    )


def give_to_server(path: Path) -> None:
    """Make the user of the servers the owner of a file or folder."""
    if os.geteuid() == _ROOT:
        shutil.chown(path, "nobody", "nogroup")


def _new_folder() -> Path:
    # Not in the folder of the tests: only its owner may enter that one.
    folder = Path(tempfile.mkdtemp(prefix="webdata-postgres-", dir=_PARENT))
    give_to_server(folder)
    return folder


def create_server(*initdb_options: str) -> PostgresServer:
    """Create a server in a new folder, and start it."""
    server = PostgresServer(_new_folder(), free_port(), secrets.token_hex(8))
    password_file = server.folder / "password"
    password_file.write_text(server.password)
    give_to_server(password_file)
    command = [str(require("postgresql") / "initdb"), "-D", str(server.folder / "data")]
    command += ["-U", USER, "-A", "scram-sha-256", "--pwfile", str(password_file), "-E", "UTF8"]
    _run([*command, *initdb_options])
    server.configure(**_SETTINGS, **server_address(server))
    server.start()
    return server


def server_address(server: PostgresServer) -> dict[str, str]:
    """Return the settings of the port and of the places where a server listens."""
    return {
        "port": str(server.port),
        "listen_addresses": "'127.0.0.1'",
        "unix_socket_directories": f"'{server.folder}'",
    }


@contextmanager
def running(*initdb_options: str) -> Iterator[PostgresServer]:
    """Run a server of the caller's own, which it may stop and start."""
    server = create_server(*initdb_options)
    try:
        yield server
    finally:
        remove_server(server)


@contextmanager
def running_standby(primary: PostgresServer) -> Iterator[PostgresServer]:
    """Run a standby of a server, which confirms each commit of it."""
    standby = PostgresServer(_new_folder(), free_port(), primary.password)
    try:
        standby.follow(primary)
        yield standby
    finally:
        remove_server(standby)
        if primary.is_running():
            primary.configure(synchronous_standby_names="''")
            primary.reload()


def remove_server(server: PostgresServer) -> None:
    """Stop a server, if it runs, and delete its data."""
    if (server.folder / "data" / "postmaster.pid").exists():
        server.stop("immediate")
    shutil.rmtree(server.folder, ignore_errors=True)


@contextmanager
def shared(folder: Path) -> Iterator[PostgresServer]:
    """Share one server among the processes of a test run, through files in `folder`.

    The first process starts it, the last one stops it.
    """
    record, lock = folder / "postgres.json", FileLock(folder / "postgres.lock")
    with lock:
        users, server = _read(record)
        if server is None:
            # It is no leftover of this process, which may end before the others.
            with pytest.MonkeyPatch.context() as patch:
                patch.delenv(MARK, raising=False)
                server = create_server()
        _write(record, users + 1, server)
    try:
        yield server
    finally:
        with lock:
            users, _ = _read(record)
            _write(record, users - 1, server)
            if users == 1:
                remove_server(server)


def _read(record: Path) -> tuple[int, PostgresServer | None]:
    """Return how many processes use the shared server, and the server if there is one."""
    if not record.exists():
        return 0, None
    values = json.loads(record.read_text())
    server = PostgresServer(Path(values["folder"]), values["port"], values["password"])
    return values["users"], server if values["users"] else None


def _write(record: Path, users: int, server: PostgresServer) -> None:
    values = {"folder": str(server.folder), "port": server.port, "password": server.password}
    record.write_text(json.dumps({"users": users, **values}))


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """Run the PostgreSQL server of this test run."""
    folder = tmp_path_factory.getbasetemp()
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    with shared(folder.parent if is_worker else folder) as server:
        yield server
