"""Page work in other processes: the cores are used, and a hostile page dies alone.

A page is given to the worker with the least to do. A worker that exceeds its processor time or
memory on a page is replaced, and the page becomes a failure. A worker that ends or stops for
another reason is replaced too; its page is read again, a bounded number of times (`page_tries`),
and pages that waited behind it go to another worker as if nothing had happened.

Accounts take turns: a place that comes free goes to the next account, and while several have pages
no account uses every worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from webdata_nb.service.content.source import ScrapeOptions, Source
from webdata_nb.service.errors import ScrapeError
from webdata_nb.service.observability.operations import waiting_for
from webdata_nb.service.runtime.child_process import python, python_environment
from webdata_nb.service.runtime.cooperative import in_turns
from webdata_nb.service.runtime.fair_scheduler import FairSemaphore, current_account
from webdata_nb.service.scrape.scraped import Scraped
from webdata_nb.service.workers.body_files import handed_over
from webdata_nb.service.workers.messages import (
    SIZES,
    Answer,
    BadMessage,
    check_sizes,
    decoding,
    encode_job,
)
from webdata_nb.service.workers.retries import WorkerFailures

log = logging.getLogger(__name__)

CPU_SECONDS: Final = 5.0
MEMORY_BYTES: Final = 400 * 1024 * 1024
# One page in work, one in the pipe, and one for the time that the loop takes to give another: a
# worker never waits for its next page.
AHEAD: Final = 3
# A worker that neither answers nor uses up its processor time is stuck all the same. The seconds
# are counted in steps, so that time in which the whole machine or service stood still counts for
# one step at most; a worker that was stopped by a signal is replaced after one.
STUCK_S: Final = 60.0
STEP_S: Final = 5.0
# How long a process may take to start, and to be gone once it was killed.
START_S: Final = 60.0
# What a page may wait for in all: the pages before it have deadlines, and only so many are kept.
WORKER_S: Final = 3600.0
END_S: Final = 5.0
# What a page that nobody waits for any more, of a job that was cancelled, may still take.
ABANDONED_S: Final = 1.0
# What a long life may leave behind in a process ends with it.
# An account that had a page within so many seconds shares the workers.
RECENT_S: Final = 2.0
PAGES_A_LIFE: Final = 5000
PIPE_BYTES: Final = 1024 * 1024
_MODULE: Final = "webdata_nb.service.workers.worker"
_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)
_CPU_LIMIT: Final = -getattr(signal, "SIGPROF", 10_000)
# Stands for the exit code of a worker that was stuck, broke the protocol, or did not start.
_FAULT: Final = 1
_SET_PIPE_SIZE: Final = 1031  # Linux: fcntl's F_SETPIPE_SZ


class _Died(Exception):
    """The worker ended before it answered; `code` is its exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class _Given:
    """A page that a worker was given, and who waits for it."""

    options: ScrapeOptions
    answer: asyncio.Future[Answer]
    account: str


class _Worker:
    """One process, and the pages given to it in their order."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._waiting: deque[_Given] = deque()
        self._reading = asyncio.create_task(self._read())
        self.given = 0
        self.dead = False

    @classmethod
    async def start(cls, cpu_seconds: float, memory_bytes: int) -> _Worker:
        """Start a process; it is ready when it answers its first page."""
        process = await asyncio.create_subprocess_exec(
            *python(_MODULE, str(cpu_seconds), str(memory_bytes)),
            env=python_environment(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=PIPE_BYTES,
        )
        _widen(process)
        return cls(process)

    @property
    def load(self) -> int:
        """Pages given and not answered."""
        return len(self._waiting)

    def give(self, job: bytes, options: ScrapeOptions) -> asyncio.Future[Answer]:
        """Send an encoded page; its answer may be `_Died` or `_NotBegun`, to try again."""
        done: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Given(options, done, current_account()))
        self.given += 1
        if self._process.stdin is not None:
            self._process.stdin.write(job)
        return done

    def pages_of(self, account: str) -> int:
        """Count the pages of an account that were given and not answered."""
        return sum(given.account == account for given in self._waiting)

    def place(self, page: asyncio.Future[Answer]) -> int | None:
        """Return how many pages stand before this one; None once it is answered."""
        waiting = (place for place, given in enumerate(self._waiting) if given.answer is page)
        return next(waiting, None)

    async def answered(self, page: asyncio.Future[Answer]) -> Answer:
        """Return a page's answer; a worker that is stuck at it is killed."""
        steps = STUCK_S / STEP_S
        while not page.done():
            await asyncio.wait({page}, timeout=STEP_S)
            if page.done() or self.place(page) != 0:
                continue
            steps -= 1
            stopped = self._is_stopped()
            if stopped or steps <= 0:
                page.cancel()
                self.dead = True
                self._kill()
                raise _Died(-_KILL if stopped else _FAULT)
        return page.result()

    def _is_stopped(self) -> bool:
        """Tell whether a signal stopped the process, where the system says so (Linux)."""
        try:
            text = Path(f"/proc/{self._process.pid}/stat").read_text()
        except OSError:
            return False
        return text.rpartition(")")[2].split()[0] in {"T", "t"}

    async def close(self) -> None:
        """End the process: no more pages, then no more patience."""
        self.dead = True
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._waiting:
            self._kill()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2):
                await asyncio.shield(self._reading)
        self._kill()
        await asyncio.wait({self._reading}, timeout=2 * END_S)

    def _kill(self) -> None:
        # Not the process object's own kill(), which polls and so takes the exit code from the
        # watcher that waits for it.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, _KILL)

    async def _read(self) -> None:
        """Settle pages in their order until the process ends, or is better ended."""
        answers = self._process.stdout
        worn_out = fault = False
        try:
            while answers is not None and not worn_out:
                answer = await self._decoded(*await self._message(answers))
                worn_out = isinstance(answer, tuple) and answer[0] == "memory_limit"
                self._settle(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except BadMessage as broken:
            # What a page that broke its worker says of the pages behind it is worth nothing.
            log.warning("a page worker sent %s and is replaced", broken)
            fault = True
        except Exception:
            log.exception("a page worker sent what cannot be read")
            fault = True
        self.dead = True
        self._kill()
        code = await self._exit_code()
        self._bury(_FAULT if fault else code, innocent=worn_out)

    async def _exit_code(self) -> int:
        try:
            async with asyncio.timeout(END_S):
                return await self._process.wait()
        except TimeoutError:
            return -_KILL

    async def _message(self, answers: asyncio.StreamReader) -> tuple[memoryview, memoryview]:
        head, parts = check_sizes(await answers.readexactly(SIZES.size))
        message = memoryview(await answers.readexactly(head + parts))
        return message[:head], message[head:]

    async def _decoded(self, head: memoryview, parts: memoryview) -> Answer:
        if not self._waiting:
            raise BadMessage("an answer that nobody asked for")
        return await in_turns(decoding(head, parts, self._waiting[0].options))

    def _settle(self, answer: Answer) -> None:
        done = self._waiting.popleft().answer
        if not done.done():
            done.set_result(answer)

    def _bury(self, code: int, *, innocent: bool) -> None:
        """Tell the page in work what happened; those behind it were not begun."""
        for place, given in enumerate(self._waiting):
            if not given.answer.done():
                in_work = place == 0 and not innocent
                given.answer.set_exception(_Died(code) if in_work else _NotBegun())
        self._waiting.clear()


class _NotBegun(Exception):
    """The worker ended before it came to this page."""


class PagePool:
    """Turns pages into data in worker processes.

    Parameters
    ----------
    workers : int
        How many processes at most; each is started when there is work for it.
    cpu_seconds : float
        Processor time that one page may take.
    memory_bytes : int
        How far a worker may grow over what it needs to be there.

    Examples
    --------
    >>> async def title(source: Source) -> str | None:
    ...     async with PagePool(1) as pages:
    ...         return (await pages.scrape(source, ScrapeOptions())).title
    """

    def __init__(
        self,
        workers: int,
        *,
        cpu_seconds: float = CPU_SECONDS,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self._size, self._cpu, self._memory = workers, cpu_seconds, memory_bytes
        self._workers: list[_Worker] = []
        self._free = FairSemaphore(workers * AHEAD, spare=AHEAD)
        self._seen: dict[str, float] = {}
        self._starting = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.gather(*(worker.close() for worker in self._workers), *self._closing)

    async def scrape(
        self, source: Source, options: ScrapeOptions, *, outlinks: bool = True
    ) -> Scraped:
        """Return a page's data.

        Raises
        ------
        ScrapeError
            What the page itself fails with, or of kind ``cpu_limit``, ``memory_limit`` or
            ``worker_died`` when its worker did not survive it.
        """
        with waiting_for("a page worker", WORKER_S):
            async with handed_over(source) as lying, self._free:
                answer = await self._answer(encode_job((lying, options, outlinks)), options)
        if isinstance(answer, tuple):
            raise ScrapeError(*answer)
        return answer

    async def _answer(self, message: bytes, options: ScrapeOptions) -> Answer:
        failures = WorkerFailures()
        while True:
            try:
                return await self._tried(message, options)
            except _NotBegun:
                if not failures.add_restart():
                    return "worker_died", "page workers ended before they came to the page"
            except _Died as death:
                if death.code == _CPU_LIMIT:
                    return "cpu_limit", f"the page took more than {self._cpu:g} s of processor time"
                if not failures.add_exit(death.code):
                    error = f"{failures.exits} processes that worked on the page died"
                    return "worker_died", error
                log.warning(
                    "a page worker ended (exit code %d); its page is read again", death.code
                )

    async def _tried(self, message: bytes, options: ScrapeOptions) -> Answer:
        worker = await self._least_busy()
        page = worker.give(message, options)
        try:
            return await worker.answered(page)
        except asyncio.CancelledError:
            page.cancel()
            self._abandon(worker, page)
            raise

    async def _least_busy(self) -> _Worker:
        async with self._starting:
            for worker in [each for each in self._workers if _is_spent(each)]:
                self._retire(worker)
            share = self._share(current_account())
            best = min(share or self._workers, key=lambda worker: worker.load, default=None)
            room = share is None and len(self._workers) < self._size
            if best is None or (best.load and room):
                best = await self._start()
                self._workers.append(best)
            return best

    def _share(self, account: str) -> list[_Worker] | None:
        """Return the workers that an account keeps to; None where it may use any.

        While another account has pages too, one worker is left to that, however long the pages of
        the first one take.
        """
        now = time.monotonic()
        self._seen = {name: at for name, at in self._seen.items() if now - at < RECENT_S}
        self._seen[account] = now
        most = self._size - 1
        if most < 1 or len(self._seen) == 1:
            return None
        used = [worker for worker in self._workers if worker.pages_of(account)]
        used.sort(key=lambda worker: worker.pages_of(account), reverse=True)
        return used[:most] if len(used) >= most else None

    async def _start(self) -> _Worker:
        try:
            async with asyncio.timeout(START_S):
                return await _Worker.start(self._cpu, self._memory)
        except (OSError, TimeoutError) as error:
            log.warning("a page worker could not be started (%s)", error or type(error).__name__)
            await asyncio.sleep(1.0)
            raise _Died(_FAULT) from None

    def _abandon(self, worker: _Worker, page: asyncio.Future[Answer]) -> None:
        """End a worker that is still at a page then; pages behind it go elsewhere."""

        def look() -> None:
            place = worker.place(page)
            if place == 0:
                self._retire(worker)
            elif place is not None:
                self._abandon(worker, page)

        asyncio.get_running_loop().call_later(ABANDONED_S, look)

    def _retire(self, worker: _Worker) -> None:
        if worker in self._workers:
            self._workers.remove(worker)
            task = asyncio.create_task(worker.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def _is_spent(worker: _Worker) -> bool:
    return worker.dead or (worker.given >= PAGES_A_LIFE and not worker.load)


def _widen(process: asyncio.subprocess.Process) -> None:
    """Let a whole page fit into the pipe at once, where the system allows it."""
    if sys.platform != "linux":
        return
    import fcntl  # noqa: PLC0415 - POSIX only

    transport: Any = getattr(process, "_transport", None)
    for number in (0, 1):
        with contextlib.suppress(OSError, AttributeError):
            pipe = transport.get_pipe_transport(number).get_extra_info("pipe")
            fcntl.fcntl(pipe.fileno(), _SET_PIPE_SIZE, PIPE_BYTES)


def default_workers() -> int:
    """Return one worker a core, but for the one that a service of several cores needs itself."""
    cores = os.cpu_count() or 1
    return max(min(cores, 2), cores - 1)
