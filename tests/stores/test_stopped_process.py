"""A process that is stopped in a transaction: another one takes its job, and nothing is wrong."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from tests.postgres import PostgresServer
from tests.stores.jobs import accepted, accounts, entry
from webdata_nb.service.encryption import FixedKeys, SecretCipher, new_key
from webdata_nb.service.store.postgres.database import IDLE_TRANSACTION_S, PostgresDatabase
from webdata_nb.service.store.records import CommitBatch, JobRecord, Lease
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.work.runner import LEASE_S, RENEW_S

# Two idle transactions could end in this time.
DEADLINE_S = 90.0


def test_transactions_end_before_leases() -> None:
    assert IDLE_TRANSACTION_S <= LEASE_S - RENEW_S


async def claim(store: Store) -> tuple[JobRecord, Lease]:
    """Wait until the job can be claimed."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if claimed := await store.claim("other", lease_s=600, now=store.now()):
                return claimed[0]
            await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_a_job_is_taken_from_a_process_stopped_in_a_transaction(
    postgres_server: PostgresServer,
) -> None:
    url, key = postgres_server.new_schema(), new_key()
    async with Store(PostgresDatabase(url), SecretCipher(FixedKeys((key,)))) as store:
        await accounts(store)
        job = await accepted(store, now=store.now())
        command = [sys.executable, "-m", "tests.stores.stopped_process", url, key]
        with subprocess.Popen(  # noqa: ASYNC220
            command, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                await asyncio.to_thread(os.waitid, os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
                _, lease = await claim(store)
                await store.commit(lease, CommitBatch(entries=(entry(1),)))
                process.send_signal(signal.SIGCONT)
                output, _ = await asyncio.to_thread(process.communicate, timeout=DEADLINE_S)
            finally:
                process.kill()
        assert output.split() == ["StoreUnavailable", "LeaseLost"]
        await store.commit(lease, CommitBatch(entries=(entry(2),)))
        assert [stored.ordinal for stored in await store.journal(job.id)] == [0, 1, 2]
