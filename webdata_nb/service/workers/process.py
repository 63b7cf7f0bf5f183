"""One page worker process, and the pages that were sent to it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from webdata_nb.page.content.page_source import ConversionOptions
from webdata_nb.service.runtime.event_loop import run_cooperatively
from webdata_nb.service.runtime.fair_scheduler import current_account
from webdata_nb.service.runtime.process import python_command, python_environment
from webdata_nb.service.workers.messages import (
    SIZES,
    BadMessage,
    PageReply,
    check_sizes,
    decode_reply_in_steps,
)

log = logging.getLogger(__name__)

# A worker that neither replies nor uses up its processor time hangs. The seconds are counted in
# steps, so that time in which the machine or the service was suspended counts for one step at
# most; a worker that was stopped by a signal is replaced after one.
HANG_S: Final = 60.0
STEP_S: Final = 5.0
# How long the pages of a killed process wait for its exit code.
END_S: Final = 5.0
_CLOSE_S: Final = 2.0
# How long a killed process may take to end: its memory is freed first, on a busy machine slowly.
_REAP_S: Final = 60.0
PIPE_BYTES: Final = 1024 * 1024
_MODULE: Final = "webdata_nb.service.workers.worker"
_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)
_SET_PIPE_SIZE: Final = 1031  # Linux: fcntl's F_SETPIPE_SZ
CPU_LIMIT_EXIT: Final = -getattr(signal, "SIGPROF", 10_000)
"""The exit code of a worker that exceeded its processor time."""
FAULT_EXIT: Final = 1
"""Stands for the exit code of a worker that hung, broke the protocol, or did not start."""


class WorkerEnded(Exception):
    """The worker ended while it worked on this page."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


class PageNotStarted(Exception):
    """The worker ended before it started this page."""


@dataclass(frozen=True, slots=True)
class _PendingPage:
    options: ConversionOptions
    reply: asyncio.Future[PageReply]
    account: str


class WorkerProcess:
    """A process that works on pages in the order in which they are sent."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._pending: deque[_PendingPage] = deque()
        self._hang_check: asyncio.TimerHandle | None = None
        self._reader = asyncio.create_task(self._read_replies())
        self.pages_sent = 0
        self.ended = False

    @classmethod
    async def start(cls, cpu_seconds: float, memory_bytes: int) -> WorkerProcess:
        """Start a process. It is ready when it replies to its first page."""
        process = await asyncio.create_subprocess_exec(
            *python_command(_MODULE, str(cpu_seconds), str(memory_bytes)),
            env=python_environment(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=PIPE_BYTES,
        )
        _enlarge_pipes(process)
        return cls(process)

    @property
    def load(self) -> int:
        """The number of pages without a reply."""
        return len(self._pending)

    def send(self, message: bytes, options: ConversionOptions) -> asyncio.Future[PageReply]:
        """Send an encoded page; return its reply, which may raise WorkerEnded or PageNotStarted."""
        reply: asyncio.Future[PageReply] = asyncio.get_running_loop().create_future()
        self._pending.append(_PendingPage(options, reply, current_account()))
        self.pages_sent += 1
        if self._process.stdin is not None:
            self._process.stdin.write(message)
        if self._hang_check is None:
            self._check_again(None, 0)
        return reply

    def count_pages(self, account: str) -> int:
        """Count the pages of an account that have no reply."""
        return sum(page.account == account for page in self._pending)

    def position(self, reply: asyncio.Future[PageReply]) -> int | None:
        """Return how many pages are before the one of this reply; None once it has its reply."""
        positions = (at for at, page in enumerate(self._pending) if page.reply is reply)
        return next(positions, None)

    def _check_again(self, page: _PendingPage | None, steps: int) -> None:
        self._hang_check = asyncio.get_running_loop().call_later(
            STEP_S, self._check_for_hang, page, steps
        )

    def _check_for_hang(self, page: _PendingPage | None, steps: int) -> None:
        """Kill the process if a signal stopped it, or after so many steps at one page."""
        self._hang_check = None
        if not self._pending or self.ended:
            return
        first = self._pending[0]
        steps = steps + 1 if first is page else 1
        is_stopped = self._is_stopped_by_signal()
        if not is_stopped and steps < HANG_S / STEP_S:
            self._check_again(first, steps)
            return
        if not first.reply.done():
            first.reply.set_exception(WorkerEnded(-_KILL if is_stopped else FAULT_EXIT))
        self.ended = True
        self._kill()

    def _is_stopped_by_signal(self) -> bool:
        """Return whether a signal stopped the process, if the system reports it (Linux)."""
        try:
            text = Path(f"/proc/{self._process.pid}/stat").read_text()
        except OSError:
            return False
        return text.rpartition(")")[2].split()[0] in {"T", "t"}

    async def close(self) -> None:
        """End the process; kill it if it has pages or does not end by itself."""
        self.ended = True
        if self._hang_check is not None:
            self._hang_check.cancel()
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._pending or not self.pages_sent:  # it works, or still imports its modules
            self._kill()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await asyncio.shield(self._reader)
        self._kill()
        await asyncio.wait({self._reader}, timeout=_REAP_S)
        if not self._reader.done():
            log.warning("page worker %d has not ended after its kill", self._process.pid)
            self._reader.cancel()

    def _kill(self) -> None:
        # Process.kill() polls, and so takes the exit code from the watcher that waits for it.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, _KILL)

    async def _read_replies(self) -> None:
        """Pass replies on until the process ends or has to be replaced."""
        replies = self._process.stdout
        out_of_memory = fault = False
        try:
            while replies is not None and not out_of_memory:
                reply = await self._read_reply(replies)
                out_of_memory = isinstance(reply, tuple) and reply[0] == "memory_limit"
                page = self._pending.popleft()
                if not page.reply.done():
                    page.reply.set_result(reply)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except BadMessage as violation:
            # A page may control this worker, so its replies about later pages are worthless.
            log.warning("a page worker sent %s and is replaced", violation)
            fault = True
        except Exception:
            log.exception("a page worker sent what cannot be read")
            fault = True
        self.ended = True
        self._kill()
        # The end of the process closes a pipe only if nothing is left in it to be read.
        for pipe in _pipes(self._process):
            pipe.close()
        exit_code = await self._exit_code()
        self._fail_pending(FAULT_EXIT if fault else exit_code, first_not_started=out_of_memory)
        await self._process.wait()

    async def _exit_code(self) -> int:
        try:
            async with asyncio.timeout(END_S):
                return await self._process.wait()
        except TimeoutError:
            return -_KILL

    async def _read_reply(self, replies: asyncio.StreamReader) -> PageReply:
        head_size, parts_size = check_sizes(await replies.readexactly(SIZES.size))
        message = memoryview(await replies.readexactly(head_size + parts_size))
        if not self._pending:
            raise BadMessage("a reply to no page")
        options = self._pending[0].options
        steps = decode_reply_in_steps(message[:head_size], message[head_size:], options)
        return await run_cooperatively(steps)

    def _fail_pending(self, exit_code: int, *, first_not_started: bool) -> None:
        for position, page in enumerate(self._pending):
            if not page.reply.done():
                started = position == 0 and not first_not_started
                page.reply.set_exception(WorkerEnded(exit_code) if started else PageNotStarted())
        self._pending.clear()


def _enlarge_pipes(process: asyncio.subprocess.Process) -> None:
    """Make the pipes large enough for a whole page, where the system allows it."""
    if sys.platform != "linux":
        return
    import fcntl  # noqa: PLC0415 - POSIX only

    for pipe in _pipes(process):
        # A process that has ended already has closed pipes: ValueError.
        with contextlib.suppress(OSError, AttributeError, ValueError):
            file: Any = pipe.get_extra_info("pipe")
            fcntl.fcntl(file.fileno(), _SET_PIPE_SIZE, PIPE_BYTES)


def _pipes(process: asyncio.subprocess.Process) -> list[asyncio.BaseTransport]:
    """Return the transports of the standard input and output."""
    transport: asyncio.SubprocessTransport | None = getattr(process, "_transport", None)
    pipes = (transport and transport.get_pipe_transport(number) for number in (0, 1))
    return [pipe for pipe in pipes if pipe]
