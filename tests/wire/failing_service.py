"""A service that dies at a chosen instant as by kill -9: `python -m tests.wire.failing_service`.

The instants are: `accept`, inside the transaction that stores a job; `accepted`, after it and
before the caller is answered; `outbox`, inside the transaction that ends a job and before its
notice is written; `committed`, after that transaction and before anything is sent; `mark`, after
the receiver's answer and before it is written down; `never`.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from webdata_nb.service import app
from webdata_nb.service.store.sql import batches, jobs
from webdata_nb.service.store.sql.outbox import Outbox
from webdata_nb.service.store.sqlite.database import SqliteStore
from webdata_nb.service.webhooks.delivery import Sender


def die(*_: Any, **__: Any) -> NoReturn:
    """End as a process ends that the kernel kills: nothing is written, nothing is closed."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


_accept = SqliteStore.accept


async def die_after_accepting(store: SqliteStore, *arguments: Any, **named: Any) -> NoReturn:
    """Store a job, then end."""
    await _accept(store, *arguments, **named)
    die()


INSTANTS = {
    "accept": (jobs, "remember_key", die),
    "accepted": (SqliteStore, "accept", die_after_accepting),
    "outbox": (batches, "add_end_delivery", die),
    "committed": (Sender, "post", die),
    "mark": (Outbox, "record_attempt", die),
}


def main(data_dir: str, instant: str) -> int:
    if instant in INSTANTS:
        place, name, instead = INSTANTS[instant]
        assert hasattr(place, name)
        setattr(place, name, instead)
    return app.serve(data_dir=Path(data_dir))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
