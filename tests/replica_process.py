"""A process of a service on PostgreSQL, which tests start, stop and kill."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import httpx

from tests import preloaded
from tests.ports import free_port
from webdata_nb.service.encryption import FixedKeys, SecretCipher, key_hash
from webdata_nb.service.ledger import Terms
from webdata_nb.service.store.postgres.database import PostgresDatabase
from webdata_nb.service.store.sql.store import Store

CHECKOUT: Final = Path(__file__).resolve().parents[1]
HEADERS: Final = {"Authorization": "Bearer wdk_alice"}
# A service exits within 10 s on an idle machine; a loaded one takes longer.
EXIT_S: Final = 60.0


def headers_of(account: str) -> dict[str, str]:
    """Return the headers of a request of an account."""
    return {"Authorization": f"Bearer wdk_{account}"}


async def add_account(url: str, key: str, *, account: str = "alice", concurrency: int = 50) -> None:
    """Add an account, by default that of Alice, whose key is in `HEADERS`."""
    async with Store(PostgresDatabase(url), SecretCipher(FixedKeys((key,)))) as store:
        await add_account_to(store, account, concurrency=concurrency)


async def add_account_to(store: Store, account: str, *, concurrency: int = 50) -> None:
    """Add an account to an open store; `headers_of` has its key."""
    now = store.now()
    await store.accounts.add(account, account, Terms("team", 100_000, concurrency), now=now)
    await store.accounts.add_key(
        f"key_{account}", account, "pc", key_hash(f"wdk_{account}"), now=now
    )


class ReplicaProcess:
    """A process of `webdata serve`, or of `webdata worker`, with options and variables.

    Its deadlines are those of `tests.patient_service`. A replica of another network namespace has
    another address, and a command that runs it there.
    """

    def __init__(
        self,
        folder: Path,
        url: str,
        key: str,
        *options: str,
        command: str = "serve",
        host: str = "127.0.0.1",
        run_in: Sequence[str] = (),
        **variables: str,
    ) -> None:
        self._command, self._options = command, options
        self._host, self._run_in = host, run_in
        self.port, self._metrics_port = free_port(), free_port()
        self._folder = folder
        self.store_url = url
        self._variables = variables | {"WEBDATA_STORE": url, "WEBDATA_SECRET_KEY": key}
        self.url = f"http://{host}:{self.port}"
        self.metrics_url = f"http://127.0.0.1:{self._metrics_port}/metrics"

    def start(self) -> None:
        """Start the process, and wait until it responds."""
        self.launch()
        self.wait_ready()

    def launch(self) -> None:
        """Start the process."""
        words = [self._command, "--allow-network", "127.0.0.0/8"]
        if self._command == "serve":
            words += ["--mode", "team", "--host", self._host, "--port", str(self.port)]
        if "--dask" not in self._options or self._command == "serve":
            words += ["--data-dir", str(self._folder)]
        words += ["--metrics", f"127.0.0.1:{self._metrics_port}", *self._options]
        self.launched_at = time.time()
        with self.log_path.open("ab") as log:
            start = subprocess.Popen if self._run_in else preloaded.popen
            self.process: subprocess.Popen[Any] = start(
                [*self._run_in, sys.executable, "-m", "tests.patient_service", *words],
                stdout=log,
                stderr=log,
                cwd=CHECKOUT,
                env=os.environ | self._variables,
                process_group=0,
            )

    def wait_ready(self) -> None:
        """Wait until the process responds."""
        url = self.url if self._command == "serve" else self.metrics_url.removesuffix("/metrics")
        deadline = time.monotonic() + 180  # on a loaded machine
        with httpx.Client(trust_env=False) as client:  # a new one reads the certificates each time
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    client.get(f"{url}/healthz").raise_for_status()
                    return
                assert self.process.poll() is None, self._end_of_log()
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def _end_of_log(self) -> str:
        return self.log_path.read_text(errors="replace")[-2000:]

    @property
    def log_path(self) -> Path:
        """The file with the output of the process."""
        return self._folder.with_suffix(".log")

    def terminate(self) -> int:
        """Send SIGTERM; return the exit code."""
        self.process.terminate()
        return self.process.wait(timeout=EXIT_S)

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the process and to its page workers."""
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
