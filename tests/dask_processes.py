"""A Dask scheduler and Dask workers as processes, which tests start, stop and kill."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psutil
from distributed import Client
from distributed.security import Security

from tests.ports import free_port
from tests.preloaded import CHECKOUT, PreloadedInterpreter
from tests.processes import arguments_of

_DEADLINE_S: Final = 180.0
_INTERPRETER: Final = PreloadedInterpreter(
    "import distributed.cli.dask_scheduler, distributed.cli.dask_worker, pandas\n"
    "import webdata_nb.service.job_workers.cluster"
)
# The variables of its environment are in the configuration.
_CODE: Final = "import dask; dask.config.refresh(); from {} import main; main()"


class _Process:
    """A process with a log of its own."""

    def __init__(self, folder: Path, name: str, module: str, **environ: str) -> None:
        self.name, self.log = name, folder / f"{name}.log"
        self._folder, self._module, self._environ = folder, module, environ

    def _launch(self, *arguments: str) -> None:
        with self.log.open("ab") as log:
            options: dict[str, Any] = {
                "stdout": log,
                "stderr": log,
                "cwd": CHECKOUT,
                "env": os.environ | scratch(self._folder) | self._environ,
            }
            self.process: subprocess.Popen[Any]
            if any(name.startswith("DASK_") for name in self._environ):
                # Its import reads how to log.
                command = [sys.executable, "-m", self._module, *arguments]
                self.process = subprocess.Popen(command, **options)
            else:
                words = ["-m", self._module, *arguments]
                code = _CODE.format(self._module)
                self.process = _INTERPRETER.start(code, *arguments, command=words, **options)

    def kill(self) -> None:
        """Kill the process with all that it started."""
        if self.process.poll() is None:
            tree = psutil.Process(self.process.pid).children(recursive=True)
            self.process.kill()
            for child in tree:
                if child.is_running():
                    child.kill()
        self.process.wait()

    def terminate(self, timeout_s: float = 60.0) -> int:
        """Send SIGTERM; return the exit code."""
        self.process.terminate()
        return self.process.wait(timeout_s)


class SchedulerProcess(_Process):
    """A `dask scheduler` on a loopback port that stays the same after a restart."""

    def __init__(
        self, folder: Path, *, protocol: str = "tcp", tls: tuple[Path, Path] | None = None
    ) -> None:
        super().__init__(folder, "scheduler", "distributed.cli.dask_scheduler")
        self._port, self._protocol, self._tls = free_port(), protocol, tls
        self.address = f"{protocol}://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the process."""
        options = ["--host", self.address.rpartition(":")[0], "--port", str(self._port)]
        self._launch(*options, "--no-dashboard", *tls_options(self._tls))

    def ask(self, question: Callable[[Client], Any]) -> Any:
        """Return the result of a coroutine function that gets a client."""

        async def ask() -> Any:
            async with Client(
                self.address, asynchronous=True, set_as_default=False, timeout=60
            ) as client:
                return await question(client)

        return asyncio.run(ask())

    def retire(self, name: str) -> None:
        """Retire a worker."""
        self.ask(lambda client: client.retire_workers(names=[name]))


class WorkerProcess(_Process):
    """A `dask worker`, by default without a nanny; the environment has its store and keys."""

    def __init__(
        self,
        folder: Path,
        name: str,
        scheduler: str,
        *,
        nanny: bool = False,
        threads: int = 1,
        tls: tuple[Path, Path] | None = None,
        **environ: str,
    ) -> None:
        super().__init__(folder, name, "distributed.cli.dask_worker", **environ)
        self._options = [
            scheduler,
            *("--name", name, "--nthreads", str(threads), "--no-dashboard"),
            *("--local-directory", str(folder / f"{name}-scratch")),
            *("--memory-limit", "0", "--nanny" if nanny else "--no-nanny"),
            *("--death-timeout", "120"),
            *tls_options(tls),
        ]

    def start(self) -> None:
        """Start the process."""
        self._launch(*self._options)

    def kill_worker(self) -> None:
        """Kill the worker below a nanny, which starts another one."""
        [worker, *_] = [
            child
            for child in psutil.Process(self.process.pid).children()
            if "spawn_main" in " ".join(arguments_of(child))
        ]
        worker.send_signal(signal.SIGKILL)


def scratch(folder: Path) -> dict[str, str]:
    """Return the variable that lets Dask put its files into a folder."""
    return {"DASK_TEMPORARY_DIRECTORY": str(folder)}


def tls_options(files: tuple[Path, Path] | None) -> list[str]:
    """Return the options for a certificate, which is its own authority, and its key."""
    if files is None:
        return []
    certificate, key = map(str, files)
    return ["--tls-ca-file", certificate, "--tls-cert", certificate, "--tls-key", key]


def create_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate that is its own authority, and its key; return their paths."""
    security = Security.temporary()
    certificate, key = folder / "dask.pem", folder / "dask.key"
    certificate.write_text(str(security.tls_ca_file))
    key.write_text(str(security.tls_scheduler_key))
    return certificate, key


def wait_until(is_met: Callable[[], Any], what: str, *, within_s: float = _DEADLINE_S) -> Any:
    """Wait for a true value, and return it."""
    deadline = time.monotonic() + within_s
    while not (value := is_met()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return value
