"""Where sync code meets async code: one portal thread, and the sync twin of an async function.

Every call of a sync name runs as a task on the portal's own event loop, in a daemon thread. The
caller's thread only waits, in ticks of 50 ms: it paints progress and listens for an interrupt.
So the same call works in a script, inside a running loop of any kind, in a thread and after a
fork, and an interrupt always finds somebody listening.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import contextvars
import functools
import importlib
import inspect
import logging
import os
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterator
from types import ModuleType
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

TICK_S: Final = 0.05
SETTLE_S: Final = 3.0

log = logging.getLogger("webdata_nb")


class Ticks:
    """Callbacks of one call; the thread that waits for the call runs them.

    Attributes
    ----------
    begun : threading.Event
        Whether there has been a callback.
    """

    def __init__(self) -> None:
        self.begun = threading.Event()
        self._live: dict[object, Callable[[], object]] = {}
        self._last: deque[Callable[[], object]] = deque()

    def add(self, callback: Callable[[], object]) -> object:
        """Register `callback`; return what `end` takes."""
        key = object()
        self._live[key] = callback
        self.begun.set()
        return key

    def end(self, key: object) -> None:
        """Unregister; the callback still runs once more, to show the state it ended in."""
        callback = self._live.pop(key, None)
        if callback is not None:
            self._last.append(callback)

    def run(self) -> None:
        """Run every callback once; one that raises is dropped, its call goes on."""
        for key, callback in list(self._live.items()):
            if not _ran(callback):
                self._live.pop(key, None)
        while self._last:
            _ran(self._last.popleft())


def _ran(callback: Callable[[], object]) -> bool:
    """Run a callback and tell whether it came through: drawing must not end a job."""
    try:
        callback()
    except Exception:
        log.warning("a progress listener failed and was dropped", exc_info=True)
        return False
    return True


class Call(concurrent.futures.Future[T]):
    """One coroutine on the portal. It is done only when its clean-up is, also after `cancel`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, T]) -> None:
        super().__init__()
        self.ticks = Ticks()
        self._loop = loop
        self._coro = coro
        self._task: asyncio.Task[T] | None = None
        self._asked_to_stop = False
        self.set_running_or_notify_cancel()

    def start(self) -> None:
        """Schedule the coroutine, in a copy of the caller's context (so output finds its cell)."""
        context = contextvars.copy_context()
        context.run(_TICKS.set, self.ticks)
        self._loop.call_soon_threadsafe(self._begin, context)

    def cancel(self) -> bool:
        """Ask the task to stop, from any thread; False when the call is done already."""
        if self.done():
            return False
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
            self._loop.call_soon_threadsafe(self._stop)
        return True

    def _begin(self, context: contextvars.Context) -> None:
        self._task = self._loop.create_task(self._coro, context=context)
        self._task.add_done_callback(self._finish)

    def _stop(self) -> None:
        # Once only: a second click must not cut short the clean-up that the first one began.
        if self._task is not None and not self._asked_to_stop:
            self._asked_to_stop = True
            self._task.cancel()

    def _finish(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            # Not asyncio's CancelledError: that would say the *caller's* task was cancelled.
            self.set_exception(concurrent.futures.CancelledError())
        elif (error := task.exception()) is not None:
            self.set_exception(error)
        else:
            self.set_result(task.result())


# Calls that nobody waits for, by the thread whose loop attends to them.
_ATTENDED: Final[dict[int, set[Call[Any]]]] = defaultdict(set)

# The ticks and not the call: connections and timers that outlive a call keep its context, and would
# keep its result with it.
_TICKS: contextvars.ContextVar[Ticks | None] = contextvars.ContextVar("webdata_ticks", default=None)


@contextlib.contextmanager
def on_tick(callback: Callable[[], object]) -> Iterator[None]:
    """Run `callback` each 50 ms inside the block, and once after it, where painting is allowed.

    To be used inside a coroutine. Under a sync name the thread that waits for the call runs the
    callback; where the coroutine was awaited directly, its own loop does.

    Parameters
    ----------
    callback : Callable[[], object]
        Takes nothing. If it raises, it is dropped with a logged warning.
    """
    ticks = _TICKS.get()
    if ticks is None:
        with _ticking_here(callback):
            yield
        return
    key = ticks.add(callback)
    try:
        yield
    finally:
        ticks.end(key)


@contextlib.contextmanager
def _ticking_here(callback: Callable[[], object]) -> Iterator[None]:
    """Tick from a task of the running loop."""

    async def tick() -> None:
        drawing = True
        while drawing:
            drawing = _ran(callback)
            await asyncio.sleep(TICK_S)

    task = asyncio.create_task(tick(), name="webdata-tick")
    try:
        yield
    finally:
        task.cancel()
        _ran(callback)


class Caller:
    """The asyncio task that a blocking call was made from, if any."""

    def __init__(self) -> None:
        try:
            self.loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self.loop = None
        self._task = asyncio.current_task() if self.loop is not None else None
        self._before = self._cancels()

    def _cancels(self) -> int:
        return self._task.cancelling() if self._task is not None else 0

    def check(self) -> None:
        """Raise if the task was cancelled while it waits.

        Inside `asyncio.run` this is how Ctrl-C arrives: the runner's signal handler cancels the
        main task instead of raising KeyboardInterrupt. (Before Python 3.13 the task's next await
        is cancelled as well: nothing outside an await can take a cancellation back.)
        """
        if self._cancels() > self._before:
            raise asyncio.CancelledError


class Portal:
    """One event loop on a daemon thread, for all sync calls of a process.

    Attributes
    ----------
    nest : Callable[[], bool]
        Whether a caller's own running loop is kept alive while it waits. Asked at each call;
        the session sets it to read `options.nest`.
    """

    def __init__(self) -> None:
        self.nest: Callable[[], bool] = lambda: False
        self._inherited: list[asyncio.AbstractEventLoop] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.close)

    def _forget(self) -> None:
        """Start anew: a forked child has neither the thread nor whoever held the lock."""
        if self._loop is not None:
            # Its sockets are the parent's as well, so it must never be finalised here.
            self._inherited.append(self._loop)
        self._lock = threading.Lock()
        self._loop = None
        self._thread: threading.Thread | None = None
        _ATTENDED.clear()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="webdata-portal", daemon=True
                )
                self._thread.start()
            return self._loop

    def submit(self, coro: Coroutine[Any, Any, T]) -> Call[T]:
        """Start `coro` on the portal and return at once.

        Returns
        -------
        Call
            A `concurrent.futures.Future`; its `cancel()` cancels the task, and it is done when
            the task has finished its clean-up.
        """
        call = Call(self._running_loop(), coro)
        call.start()
        return call

    def soon(self, callback: Callable[..., object], *args: object) -> None:
        """Call `callback` on the portal's loop, from any thread; returns at once."""
        self._running_loop().call_soon_threadsafe(callback, *args)

    def run(
        self,
        coro: Coroutine[Any, Any, T],
        *,
        tick: Callable[[concurrent.futures.Future[T]], object] | None = None,
    ) -> T:
        """Run `coro` on the portal, wait for it, and return its result.

        Parameters
        ----------
        coro : Coroutine
            What to run.
        tick : Callable[[Future], object], optional
            Called each 50 ms on the waiting thread with the call's future, whose `cancel()`
            cancels the task.

        Raises
        ------
        RuntimeError
            On the portal's own thread, where waiting would be for ever.
        concurrent.futures.CancelledError
            The task was cancelled through its future.
        BaseException
            Whatever interrupts the wait (KeyboardInterrupt first of all) cancels the task,
            waits up to 3 s for its clean-up, and is raised again.
        """
        try:
            self.refuse_own_thread()
        except RuntimeError:
            coro.close()
            raise
        call = Call(self._running_loop(), coro)
        if tick is not None:
            call.ticks.add(functools.partial(tick, call))
        # Before the start: a cancellation that comes while the call begins must count.
        caller = Caller()
        try:
            call.start()
            return self._wait(call, caller)
        except BaseException:
            settle(call)
            raise
        finally:
            call.ticks.run()

    def is_current(self) -> bool:
        """Whether the caller runs on the portal's own thread."""
        return threading.current_thread() is self._thread

    def refuse_own_thread(self) -> None:
        """Raise RuntimeError on the portal's own thread, where waiting would be for ever."""
        if self.is_current():
            raise RuntimeError(
                "a blocking call on webdata's own loop would wait for ever: "
                "await the async twin instead, such as asearch_df for search_df"
            )

    def _wait(self, call: Call[T], caller: Caller) -> T:
        nested = _nestable(caller.loop) if caller.loop is not None and self.nest() else None
        if nested is None or caller.loop is None:
            return _wait_in_ticks(call, caller)
        nested.apply(caller.loop)
        caller.loop.run_until_complete(_until_done(call, caller))
        return call.result()

    def close(self) -> None:
        """Cancel what is running, wait up to 3 s for its clean-up, and end the thread."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None or not thread.is_alive():
            return
        loop.call_soon_threadsafe(_cancel_all, loop)
        thread.join(SETTLE_S)


PORTAL: Final = Portal()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel every task of `loop`, and stop it when they have ended."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    ended = asyncio.gather(*tasks, return_exceptions=True) if tasks else None
    if ended is None:
        loop.stop()
    else:
        ended.add_done_callback(lambda _: loop.stop())


def _wait_in_ticks(call: Call[T], caller: Caller) -> T:
    while True:
        tick(call)
        caller.check()
        # `wait` instead of `result`: the job's own TimeoutError must not look like a tick.
        if concurrent.futures.wait([call], timeout=TICK_S).done:
            return call.result()


async def _until_done(call: Call[Any], caller: Caller) -> None:
    """Wait on the caller's own loop, which goes on serving its other tasks."""
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    call.add_done_callback(lambda _: loop.call_soon_threadsafe(done.set))
    while not call.done():
        call.ticks.run()
        caller.check()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), TICK_S)


def tick(call: Call[Any]) -> None:
    """Run the callbacks of a call that is waited for, and of those attended on this thread.

    The loop that attends to them stands still while its thread waits.
    """
    call.ticks.run()
    for other in tuple(_ATTENDED.get(threading.get_ident(), ())):
        other.ticks.run()


def attend(call: Call[Any]) -> asyncio.Task[None]:
    """Run the callbacks of a call that nobody waits for, on the running loop, until its end.

    Returns
    -------
    asyncio.Task
        Ends with the call, whatever the call's end is.
    """
    return asyncio.get_running_loop().create_task(_attended(call), name="webdata-attend")


async def _attended(call: Call[Any]) -> None:
    here = _ATTENDED[threading.get_ident()]
    here.add(call)
    try:
        while not call.done():
            call.ticks.run()
            await asyncio.sleep(TICK_S)
    finally:
        here.discard(call)
        call.ticks.run()
    if not call.cancelled() and (error := call.exception()) is not None:
        log.info("a call that nobody waits for failed: %s", error)


def settle(call: Call[Any]) -> None:
    """Cancel the task and give its clean-up the time to reach the service."""
    if call.cancel():
        concurrent.futures.wait([call], timeout=SETTLE_S)


def _nestable(loop: asyncio.AbstractEventLoop) -> ModuleType | None:
    """Return nest-asyncio2 where it can patch `loop`; uvloop and others block instead."""
    if not isinstance(loop, asyncio.BaseEventLoop):
        return None
    # Imported only here: it is opt-in.
    return importlib.import_module("nest_asyncio2")


def synced(afunction: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Return the blocking twin of an async function.

    Parameters
    ----------
    afunction : Callable
        An async function whose name starts with `a`; a `_` at its end is dropped as well, so
        that `await_` has the twin `wait`.

    Returns
    -------
    Callable
        The same signature and docstring; the name without its first letter.

    Examples
    --------
    >>> async def aready(word: str, *, times: int = 1) -> str:
    ...     return word * times
    >>> ready = synced(aready)
    >>> ready("ok ", times=2)
    'ok ok '
    """

    @functools.wraps(afunction)
    def twin(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return PORTAL.run(afunction(*args, **kwargs))
        except TypeError as error:
            # Errors about the arguments name the async function.
            words = str(error)
            if not words.startswith(f"{afunction.__qualname__}() "):
                raise
            words = words.replace(afunction.__qualname__, twin.__qualname__, 1)
            raise TypeError(words) from None

    twin.__name__ = afunction.__name__.removeprefix("a").rstrip("_")
    head, dot, _ = afunction.__qualname__.rpartition(".")
    twin.__qualname__ = head + dot + twin.__name__
    twin.__signature__ = inspect.signature(afunction)  # type: ignore[attr-defined]
    # Else inspect and the type checkers' runtime twins would follow it back to the coroutine.
    del twin.__wrapped__
    return twin
