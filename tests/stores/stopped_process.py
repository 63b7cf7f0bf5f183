"""A process that claims a job, locks its row in a transaction, and stops itself before the commit.

Arguments: the URL of the store and its secret key. After SIGCONT it prints the outcome of the
transaction and of a commit under its lease.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Awaitable

from tests.stores.jobs import entry
from webdata_nb.page.errors import ApplicationError
from webdata_nb.service.encryption import FixedKeys, SecretCipher
from webdata_nb.service.errors import StoreUnavailable
from webdata_nb.service.store.postgres.database import PostgresDatabase
from webdata_nb.service.store.records import CommitBatch, Lease
from webdata_nb.service.store.sql.batches import write_batches
from webdata_nb.service.store.sql.connection import Transaction
from webdata_nb.service.store.sql.store import Store

LEASE_S = 10.0


async def main(url: str, key: str) -> None:
    database = PostgresDatabase(url)
    async with Store(database, SecretCipher(FixedKeys((key,)))) as store:
        [(_, lease)] = await store.claim("stopped", lease_s=LEASE_S, now=store.now())
        await store.commit(lease, CommitBatch(entries=(entry(0),)))

        def write_and_stop(transaction: Transaction) -> None:
            write_batches(transaction, lease, [CommitBatch(entries=(entry(1),))])
            transaction.row("job_by_id", id=lease.job_id)
            # Not os.kill: this thread might commit before the process stops.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

        print(await outcome(database.change(write_and_stop)), flush=True)  # noqa: T201
        # The pool may still replace connections that the server has closed meanwhile.
        result = StoreUnavailable.__name__
        while result == StoreUnavailable.__name__:
            await asyncio.sleep(0.1)
            result = await outcome(commit(store, lease))
        print(result, flush=True)  # noqa: T201


async def commit(store: Store, lease: Lease) -> None:
    await store.commit(lease, CommitBatch(entries=(entry(2),)))


async def outcome(change: Awaitable[object]) -> str:
    """Return the name of the error of a change; "committed" without one."""
    try:
        await change
    except ApplicationError as error:
        return type(error).__name__
    return "committed"


asyncio.run(main(*sys.argv[1:]))
