"""Runs inputs on an executor's threads, processes or machines, and cancels them with their call."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable
from concurrent.futures import BrokenExecutor, Executor
from dataclasses import replace
from typing import Final

from webdata_nb.errors import JobCancelled, WebdataError, WorkerLost
from webdata_nb.toolkit.bridge import PARTIAL_RESULT_S, PORTAL
from webdata_nb.toolkit.cache.job_refs import CancelToken
from webdata_nb.toolkit.cache.result_cache import CallResult
from webdata_nb.toolkit.requests.call_options import CallOptions
from webdata_nb.toolkit.requests.job_spec import JobSpec

InputResult = CallResult | WebdataError
InputRunner = Callable[[JobSpec, CallOptions], Awaitable[InputResult]]

_CHECK_TOKEN_S: Final = 0.1
_WORKER_LOST: Final = (
    "a worker process of the executor ended, and with it the executor: this input has no rows; "
    "repeat the call with a new executor"
)


async def run_on_executor(
    executor: Executor,
    run: InputRunner,
    token: CancelToken,
    spec: JobSpec,
    options: CallOptions,
) -> InputResult:
    """Run an input on a worker of `executor`.

    If a worker of a pool is killed, all unfinished inputs of the pool end with `WorkerLost`.
    Where the caller is cancelled, an input that was not started is withdrawn; a running one cancels
    its job at the service, and may still return the rows so far.
    """
    try:
        future = executor.submit(_run_in_worker, run, spec, options, token)
    except BrokenExecutor:
        return WorkerLost(_WORKER_LOST)
    pending = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(pending)
    except BrokenExecutor:
        return WorkerLost(_WORKER_LOST)
    except asyncio.CancelledError:
        token.cancel()
        if not future.cancel():
            await asyncio.wait([pending], timeout=PARTIAL_RESULT_S)
        result = _result_of_cancelled(pending)
        if result is None or options.on_cancel != "partial":
            raise
        return result


def _result_of_cancelled(pending: asyncio.Future[InputResult]) -> CallResult | None:
    """Return the rows of a cancelled worker, where it returned some in time."""
    if not pending.done():
        # Retrieves a later exception, which asyncio would log otherwise.
        pending.add_done_callback(lambda future: future.cancelled() or future.exception())
        return None
    if pending.cancelled() or pending.exception() is not None:
        return None
    result = pending.result()
    return result if isinstance(result, CallResult) else None


def _run_in_worker(
    run: InputRunner, spec: JobSpec, options: CallOptions, token: CancelToken
) -> InputResult:
    """Run one input in another thread or process; the result pickles."""
    if token.visible and token.cancelled:
        return JobCancelled("")
    try:
        result = PORTAL.run(_run_unless_cancelled(run(spec, options), token))
    except (KeyboardInterrupt, concurrent.futures.CancelledError):
        # Ctrl-C in a terminal reaches every process of its group. Raised here, it would end the
        # loop of the waiting process, which gets an interrupt of its own.
        return JobCancelled("")
    return result if isinstance(result, WebdataError) else replace(result, objects={})


async def _run_unless_cancelled(running: Awaitable[InputResult], token: CancelToken) -> InputResult:
    """Wait for an input, and cancel it once the token is; it then cancels its job."""
    task = asyncio.ensure_future(running)
    visible = token.visible
    try:
        while not task.done():
            await asyncio.wait([task], timeout=_CHECK_TOKEN_S if visible else None)
            if visible and not await asyncio.to_thread(token.path.exists):
                break
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
    return task.result()
