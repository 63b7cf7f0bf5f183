"""Checks a PostgreSQL server for a store: version, rights, settings, signals. Changes nothing."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import psycopg
from psycopg import sql

from webdata_nb.service.errors import OtherSchema, StoreForbidden, StoreUnavailable
from webdata_nb.service.store.postgres.pool import CONNECTION, CONNECTIONS_PER_PROCESS, translated
from webdata_nb.service.store.sql.consistency import CheckResult
from webdata_nb.service.store.sql.named_statements import SCHEMA_VERSION, check_schema

Connection = psycopg.Connection[Any]

MIN_SERVER_VERSION: Final = 15_00_00
# Several processes are the purpose of a database, and one of them may be replaced by a new one.
MIN_PROCESSES: Final = 2
ANOTHER: Final = "an empty PostgreSQL database"
_SIGNAL_S: Final = 10.0
_UTF8: Final = "UTF8"
# The settings that must be on, and what is lost without them.
_REQUIRED: Final = {
    "fsync": "a crash of the machine can destroy the database",
    "full_page_writes": "a crash of the machine can destroy the database",
    "synchronous_commit": "a crash of the server loses jobs whose start was confirmed",
    "autovacuum": "tables grow and become slow, since every job changes its row often",
    "track_counts": "autovacuum does not run without it",
}
_TABLE_RIGHTS: Final = "SELECT, INSERT, UPDATE, DELETE"


def check_version(connection: Connection) -> None:
    """Raise `StoreUnavailable` if the server is too old."""
    version = connection.info.server_version
    if version < MIN_SERVER_VERSION:
        raise StoreUnavailable(
            f"the server is PostgreSQL {version // 10_000}; version "
            f"{MIN_SERVER_VERSION // 10_000} or newer is needed"
        )


def check_signals(connect: Callable[[], Connection]) -> None:
    """Raise `StoreForbidden` if a notification of one connection does not reach another."""
    channel = f"webdata_check_{secrets.token_hex(8)}"
    with connect() as listener, connect() as sender:
        listener.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        sender.execute("SELECT pg_notify(%s, '')", [channel])
        for _ in listener.notifies(timeout=_SIGNAL_S, stop_after=1):
            return
    raise StoreForbidden(
        "the store's URL leads to a pooler that drops LISTEN: use the port of PostgreSQL itself, "
        "or a pooler in session mode (PgBouncer: pool_mode = session)"
    )


def check_server(conninfo: str) -> list[CheckResult]:
    """Check a server for a store.

    Raises
    ------
    StoreUnavailable
        There is no connection.
    """

    def connect() -> Connection:
        # In a database without an encoding, texts would be bytes.
        return psycopg.connect(conninfo, client_encoding=_UTF8, **CONNECTION)

    with translated(), connect() as connection:
        version = connection.info.parameter_status("server_version")
        return [
            CheckResult("server", _problems(check_version, connection), f"PostgreSQL {version}"),
            CheckResult("settings", tuple(_settings_problems(connection))),
            CheckResult("signals", _problems(check_signals, connect)),
            CheckResult("rights", tuple(_rights_problems(connection))),
            _check_schema(connection),
        ]


def has_current_schema(results: Sequence[CheckResult]) -> bool:
    """Whether the results of `check_server` are those of a usable store of this release."""
    by_name = {result.check: result for result in results}
    usable = not any(by_name[name].problems for name in ("server", "signals", "rights", "schema"))
    return usable and by_name["schema"].detail == _schema_detail(SCHEMA_VERSION)


def _problems(check: Callable[[Any], None], argument: object) -> tuple[str, ...]:
    try:
        check(argument)
    except (StoreForbidden, StoreUnavailable) as error:
        return (str(error),)
    return ()


def _setting(connection: Connection, name: str) -> str:
    row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
    return str(row[0]) if row else ""


def _settings_problems(connection: Connection) -> Iterator[str]:
    for name, consequence in _REQUIRED.items():
        if _setting(connection, name) == "off":
            yield f"{name} is off: {consequence}; set {name} = on"
    if (encoding := _setting(connection, "server_encoding")) != _UTF8:
        yield (
            f"the database has the encoding {encoding}: use one of CREATE DATABASE ... "
            "ENCODING 'UTF8' TEMPLATE template0"
        )
    if _setting(connection, "transaction_read_only") == "on":
        yield "the database is read-only or a standby: use the URL of the primary server"
    if (timeout := _setting(connection, "idle_session_timeout")) != "0":
        yield (
            f"idle_session_timeout = {timeout} ends connections that wait for signals: set "
            "idle_session_timeout = 0"
        )
    yield from _connection_problems(connection)


def _connection_problems(connection: Connection) -> Iterator[str]:
    row = connection.execute(
        "SELECT current_setting('max_connections')::int"
        " - current_setting('superuser_reserved_connections')::int,"
        " (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user),"
        " (SELECT datconnlimit FROM pg_database WHERE datname = current_database())"
    ).fetchone()
    needed = MIN_PROCESSES * CONNECTIONS_PER_PROCESS
    limits = ("max_connections", "the connection limit of the role", "that of the database")
    for name, limit in zip(limits, row or (), strict=True):
        if 0 <= limit < needed:
            yield (
                f"{name} leaves {limit} connections; a process uses up to "
                f"{CONNECTIONS_PER_PROCESS}, so that {MIN_PROCESSES} processes need {needed}"
            )


def _rights_problems(connection: Connection) -> Iterator[str]:
    row = connection.execute(
        "SELECT current_schema(), current_user,"
        " has_schema_privilege(current_schema(), 'CREATE'), current_database()"
    ).fetchone()
    schema, role, may_create, database = row or (None, None, False, None)
    if schema is None or not may_create:
        yield (
            f"the role {role} needs a schema in which it may create tables: "
            f"CREATE SCHEMA {role} AUTHORIZATION {role} in the database {database}"
        )
        return
    tables = connection.execute(
        "SELECT tablename, pg_has_role(tableowner, 'USAGE'),"
        " has_table_privilege(format('%%I.%%I', schemaname, tablename), %s)"
        " FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename",
        [_TABLE_RIGHTS],
    ).fetchall()
    for table, is_owner, may_write in tables:
        if not is_owner:
            action = "read and write" if not may_write else "change, as new releases do,"
            yield f"the role {role} may not {action} the table {table}: make it the owner"


def _check_schema(connection: Connection) -> CheckResult:
    row = connection.execute(
        "SELECT to_regclass('schema_version') IS NOT NULL AND"
        " has_table_privilege(to_regclass('schema_version'), 'SELECT')"
    ).fetchone()
    if not (row and row[0]):
        return CheckResult("schema", detail="no tables yet; the first start creates them")
    row = connection.execute("SELECT MAX(version) FROM schema_version").fetchone()
    present = int((row and row[0]) or 0)
    try:
        check_schema(present, ANOTHER)
    except OtherSchema as error:
        return CheckResult("schema", (str(error),))
    return CheckResult("schema", detail=_schema_detail(present))


def _schema_detail(version: int) -> str:
    return f"version {version}"
