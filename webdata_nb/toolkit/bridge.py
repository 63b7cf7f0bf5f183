"""Runs async functions from sync code: a portal thread with an event loop, and sync twins.

Every call of a sync name runs as a task on the portal's event loop, in a daemon thread. The
caller's thread waits in ticks of 50 ms: it paints progress and handles interrupts. So the same
call works in a script, inside a running loop of any kind, in a thread and after a fork.
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
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, Final, ParamSpec, TypeVar

from webdata_nb import caller
from webdata_nb.caller import DISPLAY
from webdata_nb.errors import InvalidCall, WebdataError

P = ParamSpec("P")
T = TypeVar("T")

TICK_S: Final = 0.05
CLEANUP_S: Final = 3.0
# For the connections, once the calls have ended; a process that ends waits for both.
_CLOSE_S: Final = 1.0
# Within CLEANUP_S, so that one slow worker does not cost a cancelled call the rows of the others.
PARTIAL_RESULT_S: Final = 2.5

log: Final = logging.getLogger("webdata_nb")


class TickCallbacks:
    """Callbacks of one call, run on each tick by the thread that waits for the call.

    Attributes
    ----------
    registered : threading.Event
        Set by the first callback.
    """

    def __init__(self) -> None:
        self.registered: threading.Event = threading.Event()
        self._active: dict[object, Callable[[], object]] = {}
        self._final: deque[Callable[[], object]] = deque()

    def add(self, callback: Callable[[], object]) -> object:
        """Register `callback`; return its key for `remove`."""
        key = object()
        self._active[key] = callback
        self.registered.set()
        return key

    def remove(self, key: object) -> None:
        """Unregister a callback; it runs once more, to show the final state."""
        callback = self._active.pop(key, None)
        if callback is not None:
            self._final.append(callback)

    def run(self) -> None:
        """Run every callback once; one that raises is removed, and its call continues."""
        for key, callback in list(self._active.items()):
            if not _run_callback(callback):
                self._active.pop(key, None)
        while self._final:
            _run_callback(self._final.popleft())


def _run_callback(callback: Callable[[], object]) -> bool:
    """Return whether a callback succeeded: a drawing error must not end a job."""
    try:
        callback()
    except Exception:
        log.warning("a progress listener failed and was dropped", exc_info=True)
        return False
    return True


class PortalCall(concurrent.futures.Future[T]):
    """One coroutine on the portal; it is done once its clean-up is, also after `cancel`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, T]) -> None:
        super().__init__()
        self.ticks: TickCallbacks = TickCallbacks()
        self._loop = loop
        self._coro = coro
        self._task: asyncio.Task[T] | None = None
        self._cancel_requested = False
        self.set_running_or_notify_cancel()

    def start(self) -> None:
        """Schedule the coroutine in a copy of the caller's context, where its output belongs."""
        context = contextvars.copy_context()
        context.run(_TICKS.set, self.ticks)
        self._loop.call_soon_threadsafe(self._create_task, context)

    def cancel(self) -> bool:
        """Request the cancellation of the task, from any thread; False when the call is done."""
        if self.done():
            return False
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
            self._loop.call_soon_threadsafe(self._cancel_task)
        return True

    def _create_task(self, context: contextvars.Context) -> None:
        self._task = self._loop.create_task(self._coro, context=context)
        self._task.add_done_callback(self._finish)

    def _cancel_task(self) -> None:
        # Once only: a second click must not abort the clean-up that the first one began.
        if self._task is not None and not self._cancel_requested:
            self._cancel_requested = True
            self._task.cancel()

    def _finish(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            # Not asyncio's CancelledError: that would say the *caller's* task was cancelled.
            self.set_exception(concurrent.futures.CancelledError())
        elif (error := task.exception()) is not None:
            self.set_exception(error)
        else:
            self.set_result(task.result())


# Calls without a waiting thread, by the thread whose event loop paints them.
_BACKGROUND_CALLS: Final[dict[int, set[PortalCall[Any]]]] = defaultdict(set)

# Not the call itself: connections and timers outlive a call and hold its context, which would hold
# the call's result in memory.
_TICKS: contextvars.ContextVar[TickCallbacks | None] = contextvars.ContextVar(
    "webdata_ticks", default=None
)


@contextlib.contextmanager
def on_tick(callback: Callable[[], object]) -> Iterator[None]:
    """Run `callback` every 50 ms inside the block and once after it, on the thread that may paint.

    Use it inside a coroutine. Under a sync name, the thread that waits for the call runs the
    callback; where the coroutine is awaited directly, its own loop does.

    Parameters
    ----------
    callback : Callable[[], object]
        Takes no arguments. If it raises, it is removed and a warning is logged.
    """
    ticks = _TICKS.get()
    if ticks is not None:
        key = ticks.add(callback)
        try:
            yield
        finally:
            ticks.remove(key)
        return

    async def tick() -> None:
        drawing = True
        while drawing:
            drawing = _run_callback(callback)
            await asyncio.sleep(TICK_S)

    task = asyncio.create_task(tick(), name="webdata-tick")
    try:
        yield
    finally:
        task.cancel()
        _run_callback(callback)


class CallerTask:
    """The asyncio task that made a blocking call, if any."""

    def __init__(self) -> None:
        try:
            self.loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self.loop = None
        self._task = asyncio.current_task() if self.loop is not None else None
        self._earlier_cancellations = self._cancellations()

    def _cancellations(self) -> int:
        return self._task.cancelling() if self._task is not None else 0

    def raise_if_cancelled(self) -> None:
        """Raise if the task was cancelled during the wait.

        Inside `asyncio.run`, Ctrl-C arrives this way: the runner's signal handler cancels the main
        task instead of raising KeyboardInterrupt. (Before Python 3.13 the task's next await is
        cancelled as well: a cancellation can be taken back only inside an await.)
        """
        if self._cancellations() > self._earlier_cancellations:
            raise asyncio.CancelledError


class Portal:
    """One event loop on a daemon thread, for all sync calls of the process.

    Attributes
    ----------
    nest : Callable[[], bool]
        Returns whether a caller's own running loop continues while it waits; called for each call.
        The session sets it to read `options.nest`.
    """

    def __init__(self) -> None:
        self.nest: Callable[[], bool] = lambda: False
        self._closers: list[Callable[[], Coroutine[Any, Any, object]]] = []
        self._inherited_loops: list[asyncio.AbstractEventLoop] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._reset)
        atexit.register(self.close)

    def _reset(self) -> None:
        """Start without loop and thread: a forked child has neither, nor the holder of the lock."""
        if self._loop is not None:
            # The parent uses its sockets as well, so it must never be finalised here.
            self._inherited_loops.append(self._loop)
        self._lock = threading.Lock()
        self._loop = None
        self._thread: threading.Thread | None = None
        self._calls: set[PortalCall[Any]] = set()
        _BACKGROUND_CALLS.clear()

    def on_close(self, closer: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Await `closer()` whenever the portal closes, after the clean-up of its calls."""
        self._closers.append(closer)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="webdata-portal", daemon=True
                )
                self._thread.start()
            return self._loop

    def submit(self, coro: Coroutine[Any, Any, T]) -> PortalCall[T]:
        """Start `coro` on the portal and return at once.

        Returns
        -------
        PortalCall
            A `concurrent.futures.Future`; its `cancel()` cancels the task, and it is done when
            the task has finished its clean-up.
        """
        hang_at_exit()
        call = self._call(coro)
        call.start()
        return call

    def _call(self, coro: Coroutine[Any, Any, T]) -> PortalCall[T]:
        try:
            call = PortalCall(self._running_loop(), coro)
        except RuntimeError as error:
            coro.close()
            if not is_exiting():
                raise
            raise RuntimeError(
                "the main thread has ended, so the first call of this process cannot start: "
                "let the main thread wait for this one, with its join()"
            ) from error
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        return call

    def soon(self, callback: Callable[..., object], *args: object) -> None:
        """Schedule `callback` on the portal's loop, from any thread."""
        self._running_loop().call_soon_threadsafe(callback, *args)

    def run(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run `coro` on the portal, wait for it, and return its result.

        Raises
        ------
        RuntimeError
            On the portal's own thread, where the wait would deadlock.
        concurrent.futures.CancelledError
            The task was cancelled through its future.
        BaseException
            An exception that interrupts the wait, such as KeyboardInterrupt, cancels the task,
            waits up to 3 s for its clean-up, and is raised again.
        """
        try:
            self.refuse_own_thread()
        except RuntimeError:
            coro.close()
            raise
        hang_at_exit()
        call = self._call(coro)
        # Before the start, so that a cancellation during the start counts.
        caller = CallerTask()
        try:
            call.start()
            return self._wait(call, caller)
        except BaseException:
            hang_at_exit()
            cancel_and_wait(call)
            raise
        finally:
            call.ticks.run()

    async def call(self, coro: Coroutine[Any, Any, T]) -> T:
        """Await `coro` on the portal's loop, from any loop."""
        if self.is_current():
            return await coro
        return await asyncio.wrap_future(self.submit(coro))

    def is_current(self) -> bool:
        """Whether the caller runs on the portal's own thread."""
        return threading.current_thread() is self._thread

    def refuse_own_thread(self) -> None:
        """Raise RuntimeError on the portal's own thread, where a wait would deadlock."""
        if self.is_current():
            raise RuntimeError(
                "a blocking call on webdata's own loop would wait for ever: "
                "await the async twin instead, such as asearch_df for search_df"
            )

    def _wait(self, call: PortalCall[T], caller: CallerTask) -> T:
        loop = caller.loop
        # uvloop and others, which cannot be patched, block.
        if loop is not None and self.nest() and isinstance(loop, asyncio.BaseEventLoop):
            importlib.import_module("nest_asyncio2").apply(loop)  # only here, since it is opt-in
            loop.run_until_complete(_until_done(call, caller))
            return call.result()
        while True:
            run_ticks(call)
            caller.raise_if_cancelled()
            # `wait` instead of `result`: a TimeoutError of the job must not look like a tick.
            if concurrent.futures.wait([call], timeout=TICK_S).done:
                return call.result()

    def close(self) -> None:
        """Cancel all calls, wait up to 3 s for their clean-up, and end the thread.

        The calls end first: their clean-up needs the connections, which `on_close` closes.
        """
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None or not thread.is_alive():
            return
        closing = asyncio.run_coroutine_threadsafe(self._close_calls(tuple(self._calls)), loop)
        closing.add_done_callback(lambda _: loop.call_soon_threadsafe(_cancel_all, loop))
        thread.join(CLEANUP_S + _CLOSE_S)

    async def _close_calls(self, calls: Iterable[PortalCall[Any]]) -> None:
        ends = [asyncio.wrap_future(call) for call in calls if call.cancel()]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLEANUP_S):
                await asyncio.gather(*ends, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await asyncio.gather(*(each() for each in self._closers), return_exceptions=True)


PORTAL: Final = Portal()


def is_exiting() -> bool:
    """Whether the process is ending, when executors refuse work and no thread can start."""
    # Python says so in no public place before its executors refuse work.
    return getattr(threading, "_SHUTTING_DOWN", False)


class _Threads(concurrent.futures.ThreadPoolExecutor):
    """Runs functions in threads, or at once in a process that is ending.

    A thread that the process waits for may still be in a call then, and a cancelled call cleans up.
    """

    def submit(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> concurrent.futures.Future[T]:
        try:
            return super().submit(fn, *args, **kwargs)
        except RuntimeError:
            if not is_exiting():
                raise
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - raised to whoever waits for the future
            future.set_exception(error)
        return future


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.set_default_executor(_Threads(thread_name_prefix="asyncio"))
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        # This tells the threads of the default executor to end, without waiting for them: from
        # Python 3.12 on no thread can be started for the wait while the interpreter ends, and the
        # interpreter waits for them itself.
        loop.close()


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel every task of `loop`, and stop the loop when they have ended."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    all_done = asyncio.gather(*tasks, return_exceptions=True) if tasks else None
    if all_done is None:
        loop.stop()
    else:
        all_done.add_done_callback(lambda _: loop.stop())


def hang_at_exit() -> None:
    """Block a daemon thread for ever once its process is ending.

    Its call is cancelled and no other can start. The error would reach nobody, but be printed.
    """
    if is_exiting() and threading.current_thread().daemon:
        threading.Event().wait()


async def _until_done(call: PortalCall[Any], caller: CallerTask) -> None:
    """Wait on the caller's own loop, which continues to serve its other tasks."""
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    call.add_done_callback(lambda _: loop.call_soon_threadsafe(done.set))
    while not call.done():
        call.ticks.run()
        caller.raise_if_cancelled()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), TICK_S)


def run_ticks(call: PortalCall[Any]) -> None:
    """Run the callbacks of the awaited call, and of the background calls of this thread.

    The event loop that paints background calls is blocked while its thread waits.
    """
    call.ticks.run()
    for background_call in tuple(_BACKGROUND_CALLS.get(threading.get_ident(), ())):
        background_call.ticks.run()


def paint_in_background(call: PortalCall[Any]) -> asyncio.Task[None]:
    """Run the callbacks of a call without a waiting thread on the running loop, until its end.

    Returns
    -------
    asyncio.Task
        Ends with the call, whether it succeeds or not.
    """
    return asyncio.get_running_loop().create_task(_paint_until_done(call), name="webdata-attend")


async def _paint_until_done(call: PortalCall[Any]) -> None:
    calls = _BACKGROUND_CALLS[threading.get_ident()]
    calls.add(call)
    try:
        while not call.done():
            call.ticks.run()
            await asyncio.sleep(TICK_S)
    finally:
        calls.discard(call)
        call.ticks.run()
    if not call.cancelled() and (error := call.exception()) is not None:
        log.info("a background call failed: %s", error)


def cancel_and_wait(call: PortalCall[Any]) -> None:
    """Cancel the task, and wait for its clean-up to reach the service."""
    if call.cancel():
        concurrent.futures.wait([call], timeout=CLEANUP_S)


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
    signature = inspect.signature(afunction)

    @functools.wraps(afunction)
    def twin(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            with caller.called_here():
                return PORTAL.run(afunction(*args, **kwargs))
        except TypeError as error:
            # Errors about the arguments name the async function.
            if not str(error).startswith(f"{afunction.__qualname__}() "):
                raise
            raise InvalidCall.of(twin.__qualname__, signature, args, kwargs) from None
        except WebdataError as error:
            DISPLAY.hide_internals(error)
            raise

    twin.__name__ = afunction.__name__.removeprefix("a").rstrip("_")
    head, dot, _ = afunction.__qualname__.rpartition(".")
    twin.__qualname__ = head + dot + twin.__name__
    twin.__signature__ = signature  # type: ignore[attr-defined]
    # Otherwise inspect would follow it back to the coroutine function.
    del twin.__wrapped__
    return twin


# Holds the partial result of an interrupted call for the thread that waited for it.
_PARTIAL_RESULT: Final[contextvars.ContextVar[list[Any] | None]] = contextvars.ContextVar(
    "webdata_partial_result", default=None
)


def blocking(afunction: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Return the blocking twin as `synced` does, which returns a partial result of an interrupt.

    The bridge raises an interrupt again once the task has ended. With `on_cancel="partial"` the
    task has ended with rows, which it has handed to `set_partial_result`.
    """
    plain = synced(afunction)

    @functools.wraps(plain)
    def twin(*args: P.args, **kwargs: P.kwargs) -> T:
        results: list[T] = []
        token = _PARTIAL_RESULT.set(results)
        try:
            return plain(*args, **kwargs)
        except (KeyboardInterrupt, asyncio.CancelledError) as interrupt:
            if results:
                return results[0]
            # An interrupt is no error: it has no traceback, for which IPython has a hook.
            line = f"{type(interrupt).__name__}: interrupted"
            interrupt._render_traceback_ = lambda: [line]  # type: ignore[union-attr]
            raise interrupt.with_traceback(None) from None
        finally:
            _PARTIAL_RESULT.reset(token)

    del twin.__wrapped__  # otherwise inspect would follow it back to the coroutine function
    return twin


def set_partial_result(result: object) -> None:
    """Hand a partial result to the waiting thread, in case an interrupt ends its call."""
    results = _PARTIAL_RESULT.get()
    if results is not None:
        results.append(result)
