"""A process that moves or sweeps contents once, and kills itself in a step of it.

Arguments: `move` or `sweep`, the step, the folder of the store, the folder of the files, and the
URL and schema of the store, unless it is on SQLite.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from webdata_nb.service.blobs import BlobStore, LocalFolder
from webdata_nb.service.encryption import KEY_FILE, KeyFile, SecretCipher
from webdata_nb.service.observability.metrics import Metrics
from webdata_nb.service.segments.mover import BodyMover, SegmentSweep
from webdata_nb.service.store.postgres.database import PostgresDatabase
from webdata_nb.service.store.sql.connection import SqlDatabase, Transaction
from webdata_nb.service.store.sql.contents import _complete
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.store.sqlite.database import SqliteDatabase

# Where a kill may come: before and after each write, and in the middle of those that take time.
WRITE_STEPS: Final = (
    "before the row",
    "before the file",
    "in the file",
    "before its name",
    "after the file",
    "in the transaction",
    "after the transaction",
)
MOVE_STEPS: Final = (*WRITE_STEPS, "before the mark")
SWEEP_STEPS: Final = (*WRITE_STEPS, "before the deletion", "before the row's deletion")


def die(*_: object, **__: object) -> None:
    """End this process as the kernel would."""
    os.kill(os.getpid(), signal.SIGKILL)


async def die_later(*_: object, **__: object) -> None:
    die()


class KillingFolder(LocalFolder):
    """A folder whose process dies in a step."""

    step = ""

    def write(self, name: str, data: bytes) -> None:
        if self.step == "before the file":
            die()
        if self.step in {"in the file", "before its name"}:
            path = self._path(f"{name}-draft-{secrets.token_hex(4)}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data if self.step == "before its name" else data[: len(data) // 2])
            die()
        super().write(name, data)
        if self.step == "after the file":
            die()

    def delete(self, name: str) -> None:
        if self.step == "before the deletion":
            die()
        super().delete(name)


def _die_in_transaction(database: SqlDatabase) -> None:
    """Let the process die before the commit that points contents to a segment."""
    run = database.change

    async def change(work: Callable[[Transaction], Any], **options: Any) -> Any:
        def run_and_die(transaction: Transaction) -> Any:
            value = work(transaction)
            if isinstance(work, partial) and work.func is _complete:
                die()
            return value

        return await run(run_and_die, **options)

    database.change = change  # type: ignore[method-assign, assignment]


def _prepare(store: Store, step: str) -> None:
    segments = store.segments
    method = {
        "before the row": "begin",
        "before the mark": "mark_moved",
        "before the row's deletion": "remove",
    }.get(step)
    if method is not None:
        setattr(segments, method, die_later)
    if step == "in the transaction":
        _die_in_transaction(store.database)
    if step == "after the transaction":
        complete = segments.complete

        async def complete_and_die(*arguments: Any, **options: Any) -> int:
            await complete(*arguments, **options)
            die()
            return 0

        setattr(segments, "complete", complete_and_die)  # noqa: B010 - mypy refuses an assignment


async def main(work: str, step: str, folder: str, files: str, *address: str) -> None:
    database: SqlDatabase = SqliteDatabase(Path(folder, "jobs.sqlite"))
    if address:
        url, schema = address
        database = PostgresDatabase(url, schema=schema)
    cipher = SecretCipher(KeyFile(Path(folder, KEY_FILE)))
    async with Store(database, cipher) as store:
        place = KillingFolder(Path(files))
        place.step = step
        _prepare(store, step)
        blobs, metrics = BlobStore(place, "a folder"), Metrics()
        if work == "sweep":
            await SegmentSweep(store, blobs, metrics, clock=store.now).sweep()
        else:
            await BodyMover(store, blobs, metrics, clock=store.now).move()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
