"""Page workers for services of tests, forked: their imports take most of the time of a test."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, cast

import pytest

from tests.preloaded import ForkedProcess, PreloadedInterpreter
from webdata_nb.service.runtime.process import python_environment
from webdata_nb.service.workers.pool import PIPE_BYTES, WorkerProcess

INTERPRETER: Final = PreloadedInterpreter(
    "import webdata_nb.service.workers.worker, webdata_nb.page.extract.structured"
)
_MODULE: Final = "webdata_nb.service.workers.worker"


class _Process:
    """What a pool uses of `asyncio.subprocess.Process`."""

    def __init__(
        self,
        forked: ForkedProcess,
        stdin: asyncio.WriteTransport,
        stdout: asyncio.StreamReader,
        stdout_pipe: asyncio.ReadTransport,
    ) -> None:
        self._forked, self.pid = forked, forked.pid
        self.stdin, self.stdout = stdin, stdout
        self._pipes = (stdin, stdout_pipe)
        self._transport = self

    def get_pipe_transport(self, number: int) -> asyncio.BaseTransport:
        return self._pipes[number]

    @property
    def returncode(self) -> int | None:
        return self._forked.returncode

    async def wait(self) -> int:
        if self.returncode is not None:
            return self.returncode
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._forked.connection, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._forked.connection)
        return self._forked.wait()


async def _start(module: str, cpu_seconds: float, memory_bytes: int) -> WorkerProcess:
    limits = (str(cpu_seconds), str(memory_bytes))
    forked = INTERPRETER.start(
        *(f"from {module} import main; main()", *limits),
        command=["-m", module, *limits],
        env=python_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=PIPE_BYTES)
    stdout, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), forked.stdout
    )
    stdin, _ = await loop.connect_write_pipe(asyncio.Protocol, forked.stdin)
    return WorkerProcess(cast("Any", _Process(forked, stdin, reader, stdout)))


@contextmanager
def forked_workers(module: str = _MODULE) -> Iterator[None]:
    """Fork the page workers that are started in this block; `module` has their program."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkerProcess, "start", partial(_start, module))
        yield
