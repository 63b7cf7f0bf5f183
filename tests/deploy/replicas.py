"""Two replicas of one service on PostgreSQL as processes of their own, behind the proxy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.deploy.proxy import ReverseProxy
from tests.openapi.service_process import ENVIRON
from tests.postgres import PostgresServer
from tests.replica_process import HEADERS, ReplicaProcess, add_account
from webdata_nb.service.encryption import new_key

# Longer than the promise of ten seconds: the callers compare the seconds.
_END_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class ProxiedService:
    """Two running replicas, and the proxy in front of them."""

    url: str
    replicas: tuple[ReplicaProcess, ReplicaProcess]
    store_url: str = field(repr=False)
    secret_key: str = field(repr=False)
    proxy: ReverseProxy

    @property
    def headers(self) -> dict[str, str]:
        """The headers of a user's request."""
        return dict(HEADERS)


@contextmanager
def proxied_service(
    server: PostgresServer,
    home: Path,
    *options: str,
    concurrency: int = 50,
    run_in: Sequence[str] = (),
) -> Iterator[ProxiedService]:
    """Run two replicas with `options` behind the proxy, and one account, until the block ends.

    `run_in` is a command that runs another one.
    """
    store_url, key = server.new_schema(), new_key()
    asyncio.run(add_account(store_url, key, concurrency=concurrency))
    first, second = (
        ReplicaProcess(
            home / name, store_url, key, *options, "--replica", name, run_in=run_in, **ENVIRON
        )
        for name in ("first", "second")
    )
    with ExitStack() as stack:
        for replica in (first, second):
            stack.callback(_end, replica)
            replica.launch()
        for replica in (first, second):
            replica.wait_ready()
        proxy = stack.enter_context(ReverseProxy((first.port, second.port)))
        yield ProxiedService(proxy.url, (first, second), store_url, key, proxy)


def _end(replica: ReplicaProcess) -> None:
    """Stop a replica, if it was started and runs."""
    if hasattr(replica, "process") and replica.process.poll() is None:
        stop(replica)


def stop(replica: ReplicaProcess) -> tuple[int, float]:
    """Send SIGTERM, and wait for the end; return the exit code and the seconds."""
    began = time.monotonic()
    replica.process.terminate()
    code = replica.process.wait(_END_S)
    return code, time.monotonic() - began
