"""Copies a service's data to PostgreSQL, kills the copy several times, and compares every GET.

Run it from the checkout, with the `test` extra and PostgreSQL's server programs; a run takes
some minutes and 4 GB of disk::

    python -m benchmarks.store_copy
    python -m benchmarks.store_copy --jobs 20 --rows 2000 --kills 2

It prints the duration of the copy, its peak memory, the kills, and the number of compared replies;
the exit code is 1 if a reply differs.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from tests import postgres
from tests.service.conftest import open_service
from tests.service.replicas.every_get import every_reply
from tests.stores.filled_store import ACCOUNTS, bearer, fill_store
from webdata_nb.service.encryption import new_key
from webdata_nb.service.store.sqlite.store import SqliteStore

ROW_BYTES = 20_000
POLL_S = 0.01


def start_copy(directory: Path, url: str, key: str) -> subprocess.Popen[bytes]:
    """Start the command in a process of its own."""
    words = ["store", "copy", f"sqlite:{directory}", url]
    return subprocess.Popen(
        [sys.executable, "-m", "webdata_nb", *words],
        env=os.environ | {"WEBDATA_SECRET_KEY": key},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def stored_rows(connection: psycopg.Connection[tuple[int]]) -> int:
    """Count the rows that are committed in the target."""
    try:
        row = connection.execute("SELECT COUNT(*) FROM entry").fetchone()
    except psycopg.errors.UndefinedTable:
        return 0
    return row[0] if row else 0


def kill_after(process: subprocess.Popen[bytes], url: str, rows: int) -> int:
    """Kill a copy once so many rows are stored; return how many were."""
    with psycopg.connect(url, autocommit=True) as connection:
        while (present := stored_rows(connection)) < rows:
            if process.poll() is not None:
                raise SystemExit(f"the copy ended with {process.returncode} before {rows} rows")
            time.sleep(POLL_S)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return present


def finish_copy(process: subprocess.Popen[bytes]) -> float:
    """Wait for the end of a copy; return its peak memory in MB."""
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"the copy ended with {os.waitstatus_to_exitcode(status)}")
    return usage.ru_maxrss / 1024


async def fill(directory: Path, options: argparse.Namespace) -> dict[str, list[str]]:
    """Write the data directory of a stopped service."""
    async with SqliteStore(directory / "jobs.sqlite") as store:
        return await fill_store(
            store, job_count=options.jobs, row_count=options.rows, row_bytes=ROW_BYTES
        )


async def compare(
    directory: Path, other: Path, url: str, key: str, job_ids: dict[str, list[str]]
) -> tuple[int, list[str]]:
    """Ask both services everything; return the number of replies and the URLs that differ."""
    async with (
        open_service(directory, "team") as old,
        open_service(other, "team", store=url, secret_keys=(key,)) as new,
    ):
        count, different = 0, []
        for account in ACCOUNTS:
            replies = [
                await every_reply(api.http, bearer(account), job_ids[account]) for api in (old, new)
            ]
            count += len(replies[0])
            different += [
                path
                for path in replies[0].keys() | replies[1].keys()
                if replies[0].get(path) != replies[1].get(path)
            ]
        return count, different


def main() -> int:
    """Print the figures; return 1 if a reply differs."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--jobs", type=int, default=100)
    arguments.add_argument("--rows", type=int, default=50_000)
    arguments.add_argument("--kills", type=int, default=5)
    arguments.add_argument("--seed", type=int, default=0, help="for the moments of the kills")
    options = arguments.parse_args()
    logging.disable(logging.CRITICAL)
    chance, key = random.Random(options.seed), new_key()
    with tempfile.TemporaryDirectory() as name, postgres.running() as server:
        directory = Path(name) / "data"
        job_ids = asyncio.run(fill(directory, options))
        size = (directory / "jobs.sqlite").stat().st_size / 1e6
        print(f"{options.jobs} jobs, {options.rows} rows, {size:.0f} MB in SQLite", flush=True)
        url = server.new_schema()
        began = time.monotonic()
        peak_mb = finish_copy(start_copy(directory, url, key))
        print(
            f"undisturbed: {time.monotonic() - began:.1f} s, {peak_mb:.0f} MB at most", flush=True
        )
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA " + url.rpartition("%3D")[2] + " CASCADE")
        url = server.new_schema()
        for moment in sorted(chance.randrange(1, options.rows) for _ in range(options.kills)):
            present = kill_after(start_copy(directory, url, key), url, moment)
            print(f"killed with {present} rows", flush=True)
        finish_copy(start_copy(directory, url, key))
        count, different = asyncio.run(compare(directory, Path(name) / "new", url, key, job_ids))
        print(f"{count} replies compared, {len(different)} differ")
        for path in sorted(different)[:20]:
            print(f"  {path}")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
