"""Inputs in the hands of an executor: threads, processes or machines, which hear of an end."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import replace
from typing import Final

from webdata_nb.bridge import PORTAL, SETTLE_S
from webdata_nb.cache.cancel_token import CancelToken
from webdata_nb.cache.result import Result
from webdata_nb.errors import JobCancelled, WebdataError
from webdata_nb.requests.call_options import CallOptions
from webdata_nb.requests.job_spec import JobSpec

Outcome = Result | WebdataError
Run = Callable[[JobSpec, CallOptions], Awaitable[Outcome]]

_LOOK_S: Final = 0.1


def fan_out(executor: Executor, run: Run, token: CancelToken) -> Run:
    """Return what hands an input to `executor`, whose worker does as `run` while `token` stands.

    Where the caller is cancelled, an input that was not begun is taken back; one that was ends its
    job at the service, and may still give the rows so far.
    """

    async def handed(spec: JobSpec, call: CallOptions) -> Outcome:
        future = executor.submit(_work, run, spec, call, token)
        waited = asyncio.wrap_future(future)
        try:
            return await asyncio.shield(waited)
        except asyncio.CancelledError:
            token.cancel()
            if not future.cancel():
                # As long as the bridge waits for everything that an interrupt ends.
                await asyncio.wait([waited], timeout=SETTLE_S)
            got = _partial(waited)
            if got is None or call.on_cancel != "partial":
                raise
            return got

    return handed


def _partial(waited: asyncio.Future[Outcome]) -> Result | None:
    """Return the rows of a worker that was told to stop, where it had some."""
    if not waited.done():
        # Nobody asks for it any more: an error that comes later is no news.
        waited.add_done_callback(lambda late: late.cancelled() or late.exception())
        return None
    if waited.cancelled() or waited.exception() is not None:
        return None
    got = waited.result()
    return got if isinstance(got, Result) else None


def _work(run: Run, spec: JobSpec, call: CallOptions, token: CancelToken) -> Outcome:
    """Run one input in another thread or process; whatever it returns pickles."""
    if token.visible and token.cancelled:
        return JobCancelled("")
    try:
        outcome = PORTAL.run(_while_wanted(run(spec, call), token))
    except (KeyboardInterrupt, concurrent.futures.CancelledError):
        # Ctrl-C in a terminal reaches every process of its group. Raised, it would end the loop
        # of the process that waits, where an interrupt of its own is on its way.
        return JobCancelled("")
    return outcome if isinstance(outcome, WebdataError) else replace(outcome, objects={})


async def _while_wanted(running: Awaitable[Outcome], token: CancelToken) -> Outcome:
    """Wait for an input, and cancel it once nobody wants it: it ends its job as any call does."""
    task = asyncio.ensure_future(running)
    watched = token.visible
    try:
        while not task.done():
            await asyncio.wait([task], timeout=_LOOK_S if watched else None)
            if watched and not await asyncio.to_thread(token.path.exists):
                break
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
    return task.result()
