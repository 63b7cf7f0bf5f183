"""Distributes pages to worker processes that can be killed.

A page goes to the worker with the fewest pages. A worker that exceeds its processor time or memory
is replaced, and its page fails. A worker that ends or hangs for another reason is replaced too; its
page is read again a limited number of times (`WorkerFailures`), and the pages behind it go to
another worker.

Free places go round-robin to the accounts that wait, and while several accounts have pages none of
them uses every worker.

Large bodies pass through unnamed files that a thread writes. They have no name, so a killed service
leaves none behind. A worker opens a file through the service's descriptor under ``/proc``, which
exists on Linux only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Self, cast

from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse, FileSlice
from webdata_nb.page.errors import ScrapeError
from webdata_nb.page.scrape.scraped import Scraped
from webdata_nb.service.observability.operations import waiting_for
from webdata_nb.service.runtime.event_loop import awake_timeout, run_cooperatively, start_task
from webdata_nb.service.runtime.fair_scheduler import FairSemaphore, current_account
from webdata_nb.service.runtime.process import (
    KILL_SIGNAL,
    MEMORY_LIMIT_EXIT,
    available_processors,
    python_command,
    python_environment,
)
from webdata_nb.service.runtime.work_threads import run_on_thread
from webdata_nb.service.workers.messages import (
    OUT_OF_MEMORY,
    SIZES,
    BadMessage,
    PageReply,
    check_sizes,
    decode_reply_in_steps,
    encode_job,
)

# One page worker process, and the pages that were sent to it.


log: Final = logging.getLogger(__name__)

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
        self.pages_sent: int = 0
        self.ended: bool = False

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
        if sys.platform == "linux":
            import fcntl  # noqa: PLC0415 - POSIX only

            # Large enough for a whole page, where the system allows it.
            for pipe in _pipes(process):
                # A process that has ended already has closed pipes: ValueError.
                with contextlib.suppress(OSError, AttributeError, ValueError):
                    file: Any = pipe.get_extra_info("pipe")
                    fcntl.fcntl(file.fileno(), _SET_PIPE_SIZE, PIPE_BYTES)
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
        is_stopped = False
        with contextlib.suppress(OSError):  # only Linux tells
            text = Path(f"/proc/{self._process.pid}/stat").read_text()
            is_stopped = text.rpartition(")")[2].split()[0] in {"T", "t"}
        if not is_stopped and steps < HANG_S / STEP_S:
            self._check_again(first, steps)
            return
        if not first.reply.done():
            first.reply.set_exception(WorkerEnded(-KILL_SIGNAL if is_stopped else FAULT_EXIT))
        self.ended = True
        self._kill()

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
                os.kill(self._process.pid, KILL_SIGNAL)

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
        try:
            async with asyncio.timeout(END_S):
                exit_code = await self._process.wait()
        except TimeoutError:
            exit_code = -KILL_SIGNAL
        if fault:
            exit_code = FAULT_EXIT
        for position, page in enumerate(self._pending):
            if not page.reply.done():
                started = position == 0 and not out_of_memory
                page.reply.set_exception(WorkerEnded(exit_code) if started else PageNotStarted())
        self._pending.clear()
        await self._process.wait()

    async def _read_reply(self, replies: asyncio.StreamReader) -> PageReply:
        head_size, parts_size = check_sizes(await replies.readexactly(SIZES.size))
        message = memoryview(await replies.readexactly(head_size + parts_size))
        if not self._pending:
            raise BadMessage("a reply to no page")
        options = self._pending[0].options
        steps = decode_reply_in_steps(message[:head_size], message[head_size:], options)
        return await run_cooperatively(steps)


def _pipes(process: asyncio.subprocess.Process) -> list[asyncio.BaseTransport]:
    """Return the transports of the standard input and output."""
    transport: asyncio.SubprocessTransport | None = getattr(process, "_transport", None)
    pipes = (transport and transport.get_pipe_transport(number) for number in (0, 1))
    return [pipe for pipe in pipes if pipe]


CRASHES: Final = 3
"""Crashes of workers with the same page after which the page fails."""
KILLS: Final = 10
"""Killed or unresponsive workers with the same page after which the page fails."""
RESTARTS: Final = 100
"""Ended workers after which a page that none of them had begun fails."""
_EXTERNAL_SIGNALS: Final = frozenset(
    -_number
    for name in ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGSTOP", "SIGTSTP")
    if (_number := getattr(signal, name, None)) is not None
)


@dataclass(slots=True)
class WorkerFailures:
    """Counts the workers that ended while they held one page.

    A signal from outside (SIGKILL, SIGTERM) says little about the page: an administrator, the
    kernel or a stopped machine may have sent it. A crash (SIGSEGV, an exit code) says more. A
    worker parses one page at a time, so a page with this many failures is their cause.
    """

    crashes: int = 0
    kills: int = 0
    restarts: int = 0

    def add_exit(self, code: int) -> bool:
        """Count a worker that ended while it parsed the page; return whether to try again."""
        if code in _EXTERNAL_SIGNALS:
            self.kills += 1
        else:
            self.crashes += 1
        return self.crashes < CRASHES and self.kills < KILLS

    def add_restart(self) -> bool:
        """Count a worker that ended before it began the page; return whether to try again."""
        self.restarts += 1
        return self.restarts < RESTARTS

    @property
    def exits(self) -> int:
        """Number of workers that ended while they parsed the page."""
        return self.crashes + self.kills


CPU_SECONDS: Final = 5.0
MEMORY_BYTES: Final = 400 * 1024 * 1024
# One page in work, one in the pipe, and one for the time in which the event loop sends the next: a
# worker never waits for a page.
PAGES_AHEAD: Final = 3
START_S: Final = 60.0
PLACE_S: Final = 60 * CPU_SECONDS
"""How long a page may wait for a place: for 60 pages that use all of their processor time."""
READ_S: Final = START_S + (CRASHES + 1) * HANG_S
"""How long a page with a place may take: workers hang over a page before it and over itself."""
_START_AGAIN_S: Final = 1.0
# Seconds for which a worker may continue with a page of a cancelled job.
ABANDONED_S: Final = 1.0
# An account shares the workers for this long after its last page.
RECENT_S: Final = 2.0
# A worker takes 25 MB before its first page, and more after it.
IDLE_S: Final = 300.0
# A new process frees what many pages leave behind in an old one.
PAGES_PER_PROCESS: Final = 5000


class PagePool:
    """Turns pages into data in worker processes.

    Parameters
    ----------
    workers : int
        The most processes. One that is missing is started when there is work for it.
    cpu_seconds : float
        The processor time of one page.
    memory_bytes : int
        How far a worker may grow beyond its size at the start.

    Examples
    --------
    >>> async def title(source: FetchedResponse) -> str | None:
    ...     async with PagePool(1) as pages:
    ...         return (await pages.scrape(source, ConversionOptions())).title
    """

    def __init__(
        self,
        workers: int,
        *,
        cpu_seconds: float = CPU_SECONDS,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self._size, self._cpu, self._memory = workers, cpu_seconds, memory_bytes
        self._workers: list[WorkerProcess] = []
        self._places = FairSemaphore(workers * PAGES_AHEAD, spare=PAGES_AHEAD)
        self._last_page_at: dict[str, float] = {}
        self._start_lock = asyncio.Lock()
        self._starting: asyncio.Task[None] | None = None
        self._used_at = time.monotonic()
        self._closing: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})
        async with self._start_lock:  # no worker is being started, and none will be
            self._is_closed = True
        await asyncio.gather(*(worker.close() for worker in self._workers), *self._closing)

    async def keep_ready(self) -> None:
        """Start the workers, and stop them whenever no page has come for `IDLE_S`; forever."""
        await self._start_missing()
        while True:
            await asyncio.sleep(IDLE_S / 10)
            is_busy = any(worker.load for worker in self._workers)
            if not is_busy and time.monotonic() - self._used_at > IDLE_S:
                for worker in [*self._workers]:
                    self._retire(worker)

    def start_soon(self) -> None:
        """Start missing workers in the background, for a job whose first pages are on their way."""
        self._used_at = time.monotonic()
        if self._lacks_workers() and self._starting is None:
            self._starting = asyncio.create_task(self._start_missing())
            self._starting.add_done_callback(self._forget_start)

    def _forget_start(self, _task: asyncio.Task[None]) -> None:
        self._starting = None

    async def _start_missing(self) -> None:
        with contextlib.suppress(WorkerEnded):  # the first page tries again
            while self._lacks_workers():
                async with self._start_lock:
                    if self._lacks_workers():
                        self._workers.append(await self._start_worker())

    def _lacks_workers(self) -> bool:
        return len(self._workers) < self._size and not self._is_closed

    async def scrape(
        self, source: FetchedResponse, options: ConversionOptions, *, outlinks: bool = True
    ) -> Scraped:
        """Return a page's data.

        Raises
        ------
        ScrapeError
            The page's own failure, or of kind ``cpu_limit``, ``memory_limit``, ``worker_died`` or
            ``worker_timeout``.
        """
        self._used_at = time.monotonic()
        async with body_in_file(source) as stored:
            await self._take_place()
            try:
                reply = await self._read(encode_job((stored, options, outlinks)), options)
            finally:
                self._places.release()
        if isinstance(reply, tuple):
            raise ScrapeError(*reply)
        return reply

    async def _take_place(self) -> None:
        if not self._places.locked():
            await self._places.acquire()
            return
        try:
            with waiting_for("a page worker", PLACE_S):
                async with awake_timeout(PLACE_S):
                    await self._places.acquire()
        except TimeoutError:
            message = f"no page worker was free within {PLACE_S:g} s"
            raise ScrapeError("worker_timeout", message) from None

    async def _read(self, message: bytes, options: ConversionOptions) -> PageReply:
        try:
            with waiting_for("a page worker", READ_S):
                async with awake_timeout(READ_S):
                    return await self._read_with_retries(message, options)
        except TimeoutError:
            return "worker_timeout", f"page workers did not read the page within {READ_S:g} s"

    async def _read_with_retries(self, message: bytes, options: ConversionOptions) -> PageReply:
        failures = WorkerFailures()
        while True:
            try:
                worker = await self._choose_worker()
                reply = worker.send(message, options)
                try:
                    return await reply
                except asyncio.CancelledError:
                    reply.cancel()
                    self._abandon(worker, reply)
                    raise
            except PageNotStarted:
                if not failures.add_restart():
                    return "worker_died", "page workers ended before they came to the page"
            except WorkerEnded as end:
                if end.exit_code == CPU_LIMIT_EXIT:
                    return "cpu_limit", f"the page took more than {self._cpu:g} s of processor time"
                if end.exit_code == MEMORY_LIMIT_EXIT:
                    return "memory_limit", OUT_OF_MEMORY
                if not failures.add_exit(end.exit_code):
                    reason = f"{failures.exits} processes that worked on the page died"
                    return "worker_died", reason
                log.warning(
                    "a page worker ended (exit code %d); its page is read again", end.exit_code
                )

    async def _choose_worker(self) -> WorkerProcess:
        async with self._start_lock:
            if self._is_closed:
                raise ScrapeError("worker_died", "the page workers were stopped")
            for present in [*self._workers]:
                is_used_up = present.pages_sent >= PAGES_PER_PROCESS and not present.load
                if present.ended or is_used_up:
                    self._retire(present)
            share = self._share_of(current_account())
            worker = min(share or self._workers, key=lambda worker: worker.load, default=None)
            may_start = share is None and self._lacks_workers()
            if worker is None or (worker.load and may_start):
                worker = await self._start_worker()
                self._workers.append(worker)
            return worker

    def _share_of(self, account: str) -> list[WorkerProcess] | None:
        """Return the workers that an account must use; None where it may use any.

        While another account has pages too, one worker is reserved for it, regardless of the
        duration of this account's pages.
        """
        now = time.monotonic()
        recent = {name: at for name, at in self._last_page_at.items() if now - at < RECENT_S}
        self._last_page_at = {**recent, account: now}
        max_workers = self._size - 1
        if max_workers < 1 or len(self._last_page_at) == 1:
            return None
        account_workers = [worker for worker in self._workers if worker.count_pages(account)]
        account_workers.sort(key=lambda worker: worker.count_pages(account), reverse=True)
        return account_workers[:max_workers] if len(account_workers) >= max_workers else None

    async def _start_worker(self) -> WorkerProcess:
        try:
            async with asyncio.timeout(START_S):
                return await WorkerProcess.start(self._cpu, self._memory)
        except (OSError, TimeoutError) as error:
            log.warning("a page worker could not be started (%s)", error or type(error).__name__)
            await asyncio.sleep(_START_AGAIN_S)
            raise WorkerEnded(FAULT_EXIT) from None

    def _abandon(self, worker: WorkerProcess, reply: asyncio.Future[PageReply]) -> None:
        """Retire a worker that still works on a cancelled page after `ABANDONED_S`."""

        def retire_if_working() -> None:
            position = worker.position(reply)
            if position == 0:
                self._retire(worker)
            elif position is not None:
                self._abandon(worker, reply)

        asyncio.get_running_loop().call_later(ABANDONED_S, retire_if_working)

    def _retire(self, worker: WorkerProcess) -> None:
        if worker in self._workers:
            self._workers.remove(worker)
            start_task(worker.close(), self._closing)


def default_workers() -> int:
    """Return one worker per usable processor, less one for the service where there are several."""
    processors = available_processors()
    return max(min(processors, 2), processors - 1)


# The pipe is faster than a file for smaller bodies.
MAX_PIPE_BODY_BYTES: Final = 1024 * 1024
# Other threads run between two system calls that write this much.
WRITE_BYTES: Final = 4 * 1024 * 1024
WRITE_S: Final = 60.0
"""How long the disk may take; a body that is not written by then goes through the pipe."""


@asynccontextmanager
async def body_in_file(source: FetchedResponse) -> AsyncIterator[FetchedResponse]:
    """Provide the page with its body in a file that exists until the block ends.

    A page stays as it is if it is small or in a file already, if the disk does not take it, and on
    systems other than Linux.
    """
    small = len(source.body) <= MAX_PIPE_BODY_BYTES
    if small or source.body_slice is not None or sys.platform != "linux":
        yield source
        return
    # On a thread of its own: a disk that hangs must not take those that other pages need.
    writing = run_on_thread(lambda: _write_file(source.body))
    try:
        file = None
        with suppress(TimeoutError), waiting_for("a page's temporary file", WRITE_S):
            async with awake_timeout(WRITE_S):
                file = await asyncio.shield(writing)
        if file is None:
            yield source
        else:
            path = f"/proc/{os.getpid()}/fd/{file.fileno()}"
            yield source.with_body_in(FileSlice(path, 0, len(source.body)))
    finally:
        # A thread cannot be cancelled, so the file may have to be closed later.
        writing.add_done_callback(_close_file)


def _write_file(body: bytes) -> BinaryIO | None:
    """Write a body to an unnamed file; return None if the disk does not take it."""
    with suppress(OSError):
        file = cast("BinaryIO", tempfile.TemporaryFile(buffering=0))  # noqa: SIM115 - closed by `_close_file`
        try:
            remaining = memoryview(body)
            while remaining:
                remaining = remaining[file.write(remaining[:WRITE_BYTES]) :]
        except BaseException:
            file.close()
            raise
        return file
    return None


def _close_file(writing: asyncio.Future[BinaryIO | None]) -> None:
    if not writing.cancelled() and (file := writing.result()) is not None:
        file.close()
