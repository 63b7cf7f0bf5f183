"""Work on threads ends with the task that waits for it, and takes no threads of others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from webdata_nb.service.runtime.work_threads import (
    StopCheck,
    StoppableFile,
    WorkStopped,
    WorkThreads,
    run_on_thread,
)


@pytest.fixture
def threads() -> Iterator[WorkThreads]:
    with closing(WorkThreads("test", 2)) as opened:
        yield opened


class Endless:
    """Work that goes on until it is stopped."""

    def __init__(self) -> None:
        self.began, self.ended = threading.Event(), threading.Event()

    def __call__(self, check: StopCheck) -> None:
        self.began.set()
        try:
            while True:
                check()
        finally:
            self.ended.set()


async def test_work_ends_with_its_task_and_leaves_its_thread(threads: WorkThreads) -> None:
    for _ in range(5):
        works = [Endless(), Endless()]
        tasks = [asyncio.create_task(threads.run(each)) for each in works]
        for each in works:
            await asyncio.to_thread(each.began.wait)
        for task in tasks:
            task.cancel()
        assert await threads.run(lambda _: "done") == "done"
        for each in works:
            await asyncio.to_thread(each.ended.wait)


async def test_work_that_waits_for_a_thread_does_not_begin_after_its_task(
    threads: WorkThreads,
) -> None:
    tasks = [asyncio.create_task(threads.run(Endless())) for _ in range(2)]
    waiting = Endless()
    tasks.append(asyncio.create_task(threads.run(waiting)))
    await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    await threads.run(lambda _: None)
    assert not waiting.began.is_set()


async def test_work_has_a_deadline(threads: WorkThreads) -> None:
    with pytest.raises(TimeoutError):
        await threads.run(Endless(), timeout_s=0.01)
    assert await threads.run(lambda _: "done") == "done"


async def test_errors_reach_the_caller(threads: WorkThreads) -> None:
    def fail(_: StopCheck) -> None:
        raise ValueError("reason")

    with pytest.raises(ValueError, match="reason"):
        await threads.run(fail)
    with pytest.raises(ValueError, match="reason"):
        await run_on_thread(lambda: fail(lambda: None))


async def test_calls_that_hang_take_no_thread_of_others() -> None:
    release = threading.Event()
    calls = [run_on_thread(release.wait) for _ in range(50)]
    assert await asyncio.to_thread(lambda: "done") == "done"
    calls[0].cancel()
    release.set()
    assert await asyncio.gather(*calls[1:]) == [True] * 49


def test_each_read_of_a_stoppable_file_asks_whether_to_stop(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    asked: list[None] = []
    with StoppableFile(path, lambda: asked.append(None)) as file:
        assert file.read() == b"content"
    assert asked

    def stop() -> None:
        raise WorkStopped

    with StoppableFile(path, stop) as file, pytest.raises(WorkStopped):
        file.read(1)
