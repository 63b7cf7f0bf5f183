"""The portal in every place a call may come from, and what an interrupt leaves behind."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import importlib.util
import inspect
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Callable, Iterator

import pytest

from webdata_nb.toolkit.bridge import Portal, on_tick, synced

HAS_FORK = hasattr(os, "fork")


async def adouble(number: int, *, times: int = 2) -> int:
    """Return `number` times `times`."""
    await asyncio.sleep(0)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        part = group.create_task(asyncio.to_thread(lambda: number))
    return part.result() * times


double = synced(adouble)


@pytest.fixture
def portal() -> Iterator[Portal]:
    portal = Portal()
    yield portal
    portal.close()


class Result:
    """Something large that a call returns."""


def test_result_is_released_while_context_lives(portal: Portal) -> None:
    async def call() -> Result:
        # As a pooled connection does, or the timer that closes it.
        asyncio.get_running_loop().call_later(3600, print)
        return Result()

    result = weakref.ref(portal.run(call()))
    gc.collect()
    assert result() is None


class Sleeper:
    """A coroutine that says when it began, and what its clean-up saw."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.cleaned = threading.Event()

    async def run(self) -> str:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            self.cleaned.set()
        return "never"


def run_script(body: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(body), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


# ------------------------------------------------------------------------------------ the twin


def test_twin_keeps_signature_docstring_and_module() -> None:
    assert inspect.signature(double) == inspect.signature(adouble)
    assert double.__doc__ == adouble.__doc__
    assert (double.__name__, double.__qualname__) == ("double", "double")
    assert double.__module__ == adouble.__module__
    assert not inspect.iscoroutinefunction(double)


def test_import_of_bridge_is_light() -> None:
    heavy = ("pandas", "pyarrow", "pydantic", "httpx", "nest_asyncio2", "platformdirs", "IPython")
    script = f"""
        import sys, webdata_nb.toolkit.bridge
        print([name for name in {heavy!r} if name in sys.modules])
    """
    assert run_script(script).stdout.strip() == "[]"


# ------------------------------------------------------------------------- where calls come from


def test_call_from_script() -> None:
    assert double(21) == 42


async def test_call_inside_running_loop_keeps_its_tasks_alive() -> None:
    beats: list[int] = []

    async def beat(times: int) -> None:
        for _ in range(times):
            beats.append(1)
            await asyncio.sleep(0)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(beat(100))
        await asyncio.sleep(0)
        assert double(21) == 42
    assert len(beats) == 100


def test_call_inside_uvloop() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> int:
        return double(21)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(main()) == 42


def test_call_inside_trio() -> None:
    trio = pytest.importorskip("trio")

    async def main() -> int:
        await trio.lowlevel.checkpoint()
        return double(21)

    assert trio.run(main) == 42


def test_calls_from_many_threads() -> None:
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert list(pool.map(double, range(64))) == [2 * number for number in range(64)]


def test_call_from_thread_of_portal_call() -> None:
    async def aouter() -> int:
        return await asyncio.to_thread(double, 21)

    assert synced(aouter)() == 42


@pytest.mark.skipif(not HAS_FORK, reason="no fork on this system")
def test_call_after_fork() -> None:
    script = """
        import asyncio, os, signal, sys
        from webdata_nb.toolkit.bridge import PORTAL, synced
        async def atwice(n): await asyncio.sleep(0); return 2 * n
        twice = synced(atwice)
        assert twice(1) == 2
        # As if another thread held it at that moment: in the child nobody would release it.
        PORTAL._lock.acquire()
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            sys.exit(twice(21))
        PORTAL._lock.release()
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), twice(2))
    """
    done = run_script(script)
    assert done.stdout.split() == ["42", "4"], done.stderr


def test_call_in_spawned_process() -> None:
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        assert pool.submit(double, 21).result(60) == 42


def test_portal_thread_is_rejected(portal: Portal) -> None:
    async def inner() -> None:
        """Never awaited to its end, and must not warn that it was not."""

    async def outer() -> None:
        portal.run(inner())

    with pytest.raises(RuntimeError, match="await the async twin"):
        portal.run(outer())


def test_close_cancels_running_calls_and_next_call_restarts_loop(portal: Portal) -> None:
    sleeper = Sleeper()
    call = portal.submit(sleeper.run())
    assert sleeper.began.wait(60)
    portal.close()
    assert sleeper.cleaned.is_set()
    with pytest.raises(concurrent.futures.CancelledError):
        call.result(0)
    assert portal.run(adouble(2)) == 4


# ---------------------------------------------------------------------------- results and errors


def test_error_reaches_caller_unchanged(portal: Portal) -> None:
    async def fails() -> None:
        raise KeyError("rank")

    with pytest.raises(KeyError, match="rank"):
        portal.run(fails())


def test_timeout_error_of_job_is_no_tick(portal: Portal) -> None:
    async def fails() -> None:
        raise TimeoutError("the job's own")

    with pytest.raises(TimeoutError, match="the job's own"):
        portal.run(fails())


# ------------------------------------------------------------------------------ cancel, interrupt


def test_cancelled_call_waits_for_clean_up(portal: Portal) -> None:
    sleeper = Sleeper()
    call = portal.submit(sleeper.run())
    assert sleeper.began.wait(10)
    assert call.cancel()
    with pytest.raises(concurrent.futures.CancelledError):
        call.result(10)
    assert sleeper.cleaned.is_set()


def test_cancelled_call_may_return_result(portal: Portal) -> None:
    began = threading.Event()

    async def partial() -> list[int]:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return [1, 2]
        return []

    call = portal.submit(partial())
    assert began.wait(10)
    assert call.cancel()
    assert call.result(10) == [1, 2]


def test_cancel_of_finished_call_does_nothing(portal: Portal) -> None:
    call = portal.submit(adouble(2))
    assert call.result(10) == 4
    assert not call.cancel()
    assert call.result(0) == 4


INTERRUPTED = """
    import asyncio, os, signal, sys, threading
    from webdata_nb.toolkit.bridge import synced
    log = []
    async def ajob():
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.2)
            log.append("cleaned")
    job = synced(ajob)
    def sync_main(): job()
    async def async_main(): job()
    try:
        {call}
    except KeyboardInterrupt:
        log.append("interrupt")
    async def atwice(n): return 2 * n
    log.append(synced(atwice)(21))
    print(log)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill ends the process on Windows")
@pytest.mark.parametrize("call", ["sync_main()", "asyncio.run(async_main())"])
def test_interrupt_cancels_waits_for_clean_up_and_is_raised(call: str) -> None:
    done = run_script(INTERRUPTED.replace("{call}", call))
    assert done.stdout.strip() == "['cleaned', 'interrupt', 42]", done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill ends the process on Windows")
def test_second_interrupt_ends_wait() -> None:
    script = """
        import asyncio, os, signal, threading
        from webdata_nb.toolkit import bridge
        bridge.CLEANUP_S = 60.0
        async def ajob():
            os.kill(os.getpid(), signal.SIGINT)
            try:
                await asyncio.Event().wait()
            finally:
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.sleep(30)
        try:
            bridge.synced(ajob)()
        except KeyboardInterrupt:
            print("interrupt", flush=True)
        os._exit(0)
    """
    assert run_script(script).stdout.strip() == "interrupt"


async def test_cancelled_caller_task_ends_call() -> None:
    sleeper = Sleeper()
    loop = asyncio.get_running_loop()
    job = synced(sleeper.run)

    async def caller() -> None:
        # A blocked loop runs no callbacks, so a signal handler or another thread does this.
        task = asyncio.current_task()
        assert task is not None
        threading.Thread(target=lambda: sleeper.began.wait(60) and task.cancel()).start()
        job()

    task = loop.create_task(caller())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sleeper.cleaned.is_set()


# ------------------------------------------------------------------------------------------ ticks


def ticking(ticks: list[int], enough: threading.Event) -> Callable[[], None]:
    def tick() -> None:
        ticks.append(threading.get_ident())
        if len(ticks) >= 3:
            enough.set()

    return tick


def test_ticks_run_on_waiting_thread_and_once_after_end(portal: Portal) -> None:
    ticks: list[int] = []
    enough = threading.Event()
    seen_at_end: list[int] = []

    async def job() -> None:
        with on_tick(ticking(ticks, enough)):
            await asyncio.to_thread(enough.wait, 60)
        seen_at_end.append(len(ticks))

    portal.run(job())
    assert set(ticks) == {threading.get_ident()}
    assert len(ticks) > seen_at_end[0]


async def test_ticks_of_awaited_coroutine_run_on_its_loop() -> None:
    ticks: list[int] = []
    enough = threading.Event()
    with on_tick(ticking(ticks, enough)):
        await asyncio.to_thread(enough.wait, 60)
    assert set(ticks) == {threading.get_ident()}


def test_failing_listener_is_removed_and_call_continues(
    portal: Portal, caplog: pytest.LogCaptureFixture
) -> None:
    failures: list[int] = []
    good: list[int] = []
    enough = threading.Event()

    def bad() -> None:
        failures.append(1)
        raise ValueError("no canvas")

    async def job() -> str:
        with on_tick(bad), on_tick(ticking(good, enough)):
            await asyncio.to_thread(enough.wait, 60)
        return "done"

    assert portal.run(job()) == "done"
    assert len(failures) == 1
    assert "dropped" in caplog.text


# ------------------------------------------------------------------------------------------- nest
# nest-asyncio2 patches asyncio for the whole process, so each case has its own.

NESTED = """
    import asyncio, sys
    from webdata_nb.toolkit.bridge import PORTAL, synced
    PORTAL.nest = lambda: sys.argv[1] == "nest"
    {loop}
    async def aask(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            async with asyncio.timeout({timeout_s}):
                return (await reader.read()).decode()
        except TimeoutError:
            return "nobody answered"
        finally:
            writer.close()
    ask = synced(aask)
    async def main():
        async def serve(reader, writer):
            writer.write(b"alive"); writer.close()
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            return ask(server.sockets[0].getsockname()[1])
    with asyncio.Runner(loop_factory=factory) as runner:
        print(runner.run(main()))
"""
PLAIN_LOOP = "factory = None"
UVLOOP = "import uvloop; factory = uvloop.new_event_loop"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loop", "option", "answer"),
    [
        pytest.param(PLAIN_LOOP, "nest", "alive", id="nest"),
        pytest.param(PLAIN_LOOP, "wait", "nobody answered", id="default"),
        pytest.param(
            UVLOOP,
            "nest",
            "nobody answered",
            id="uvloop-cannot-nest",
            marks=pytest.mark.skipif(
                importlib.util.find_spec("uvloop") is None, reason="uvloop is not installed"
            ),
        ),
    ],
)
def test_nest_keeps_caller_loop_alive(loop: str, option: str, answer: str) -> None:
    timeout_s = "60" if answer == "alive" else "2"
    script = NESTED.replace("{loop}", loop).replace("{timeout_s}", timeout_s)
    done = run_script(script, option)
    assert done.stdout.strip() == answer, done.stderr


def test_nest_timeout_of_caller_ends_call() -> None:
    script = """
        import asyncio, sys
        from webdata_nb.toolkit.bridge import PORTAL, synced
        PORTAL.nest = lambda: True
        log = []
        async def ajob():
            try:
                await asyncio.Event().wait()
            finally:
                log.append("cleaned")
        job = synced(ajob)
        async def main():
            try:
                async with asyncio.timeout(0.3):
                    job()
            except TimeoutError:
                log.append("timeout")
        try:
            asyncio.run(main())
        except asyncio.CancelledError:
            assert sys.version_info < (3, 13), "its next await, see Caller.check"
        print(log)
    """
    done = run_script(script)
    assert done.stdout.strip() == "['cleaned', 'timeout']", done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill ends the process on Windows")
def test_nest_interrupt_leaves_no_task() -> None:
    script = INTERRUPTED.replace("{call}", "asyncio.run(async_main())").replace(
        "log = []",
        "log = []; from webdata_nb.toolkit.bridge import PORTAL; PORTAL.nest = lambda: True",
    )
    done = run_script(script)
    assert done.stdout.strip() == "['cleaned', 'interrupt', 42]", done.stderr


def test_interpreter_exit_waits_for_clean_up() -> None:
    script = """
        import asyncio, threading
        from webdata_nb.toolkit.bridge import PORTAL
        began = threading.Event()
        async def job():
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                print("cleaned", flush=True)
        PORTAL.submit(job())
        began.wait()
    """
    assert run_script(script).stdout.strip() == "cleaned"


DAEMON_THREADS = {
    "a call": "PORTAL.run(job())",
    "a stream": "list(Stream(rows))",
    "many calls": "while True: PORTAL.run(asyncio.to_thread(time.sleep, 0.01))",
}


@pytest.mark.parametrize("target", DAEMON_THREADS.values(), ids=DAEMON_THREADS)
def test_daemon_thread_in_a_call_is_quiet_at_exit(target: str) -> None:
    script = f"""
        import asyncio, sys, threading, time
        from webdata_nb.toolkit.bridge import PORTAL
        from webdata_nb.toolkit.stream import Stream
        began = threading.Event()
        async def job():
            began.set()
            while True:
                await asyncio.to_thread(time.sleep, 0.01)
        async def rows():
            yield 1
            await job()
        def work():
            {target}
        PORTAL.submit(job())
        threading.Thread(target=work, daemon=True).start()
        began.wait()
        time.sleep(0.2)
        sys.exit(4)
    """
    done = run_script(script)
    assert (done.returncode, done.stdout, done.stderr) == (4, "", "")


def test_call_of_a_thread_that_outlives_the_main_thread_is_finished() -> None:
    script = """
        import asyncio, threading
        from webdata_nb.toolkit.bridge import PORTAL
        async def job():
            while threading.main_thread().is_alive():
                await asyncio.sleep(0.01)
            print(await asyncio.to_thread(sum, [1, 2]), flush=True)
        began = threading.Event()
        def work():
            PORTAL.submit(asyncio.sleep(0)).result()
            began.set()
            PORTAL.run(job())
        threading.Thread(target=work).start()
        began.wait()
    """
    done = run_script(script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


def test_connections_close_after_the_clean_up_of_calls(portal: Portal) -> None:
    sleeper = Sleeper()
    cleaned_before = []

    async def close_connections() -> None:
        cleaned_before.append(sleeper.cleaned.is_set())

    portal.on_close(close_connections)
    portal.submit(sleeper.run())
    assert sleeper.began.wait(60)
    portal.close()
    assert cleaned_before == [True]
