"""A server of a benchmark, in a process of its own: its work is not that of what is measured."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web


def serve(app: web.Application) -> None:
    """Print the port, and serve until the pipe to the parent closes."""

    async def run() -> None:
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.to_thread(sys.stdin.read)
        await runner.cleanup()

    asyncio.run(run())


@contextmanager
def server_process(module: str, argument: str) -> Iterator[str]:
    """Run a module that serves if it has that argument, and yield its address."""
    command = [sys.executable, "-m", module, argument]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()
