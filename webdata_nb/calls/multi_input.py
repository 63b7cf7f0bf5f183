"""Several inputs in one call: run side by side, answered by one tidy frame in a fixed order."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from webdata_nb.cache.cancel_token import CancelToken
from webdata_nb.cache.result import Result, delivered
from webdata_nb.calls import budget, executor
from webdata_nb.calls.cached_call import answer, gained
from webdata_nb.calls.combined_progress import CombinedProgress
from webdata_nb.calls.executor import Outcome, Run
from webdata_nb.display.progress_view import UNITS
from webdata_nb.errors import (
    AuthError,
    IncompleteResult,
    JobCancelled,
    LocalServiceError,
    WebdataError,
)
from webdata_nb.frames import receipt, stacked
from webdata_nb.frames.stacked import Part
from webdata_nb.jobs.progress_scope import shown
from webdata_nb.requests.blocking import salvage
from webdata_nb.requests.call_options import CallOptions, FanOutOptions
from webdata_nb.requests.inputs import Input
from webdata_nb.requests.job_spec import JobSpec

if TYPE_CHECKING:
    import pandas as pd

# Inputs under way at a time; the service's own cap is the limiter's matter.
MAX_CONCURRENT_INPUTS: Final = 16
# A service that dies is started again by the next input that looks for it.
_SEEN_S: Final = 1.0
_ABSENT: Final = "(none)"


async def answers(
    inputs: Sequence[Input], call: CallOptions, fan_out: FanOutOptions
) -> pd.DataFrame:
    """Return the frame of a single input without labels, or of all inputs of a list."""
    await budget.check([each.spec for each in inputs], call, fan_out.budget)
    if not inputs[0].labels:
        return await answer(inputs[0].spec, call)
    return await together(inputs, call, fan_out)


async def together(
    inputs: Sequence[Input], call: CallOptions, fan_out: FanOutOptions
) -> pd.DataFrame:
    """Run every input and return their rows as one frame."""
    began = datetime.now(UTC)
    outcomes, interrupted = await _outcomes(inputs, call, fan_out)
    parts = [_part(each, got, call) for each, got in zip(inputs, outcomes, strict=True)]
    if fan_out.row_each:
        parts = [_with_a_row(part, got) for part, got in zip(parts, outcomes, strict=True)]
    result = await asyncio.to_thread(_stacked, inputs, parts, outcomes, call, began)
    if not interrupted and not fan_out.row_each:
        _warn_of_empty(inputs, outcomes)
        _warn_of_little(outcomes)
    framed = await delivered(result, call)
    if interrupted:
        salvage(framed)
    return framed


# ------------------------------------------------------------------------------------- running


async def _outcomes(
    inputs: Sequence[Input], call: CallOptions, fan_out: FanOutOptions
) -> tuple[list[Outcome | None], bool]:
    if fan_out.executor is None:
        return await _gathered(inputs, call, _here, fan_out)
    token = await asyncio.to_thread(CancelToken.create, call.settings.cache_dir)
    try:
        handed = executor.fan_out(fan_out.executor, _here, token)
        return await _gathered(inputs, call, handed, fan_out)
    finally:
        token.cancel()


async def _gathered(
    inputs: Sequence[Input], call: CallOptions, run: Run, fan_out: FanOutOptions
) -> tuple[list[Outcome | None], bool]:
    """Return each input's outcome, None where an interrupt came first."""
    spec = inputs[0].spec
    # Each input keeps still; the bar of the whole call adds them up.
    settings = replace(call.settings, progress=False)
    quiet = replace(call, out=None, settings=settings, seen_s=_SEEN_S)
    what = f"{spec.op} of {len(inputs)} inputs"
    places = asyncio.Semaphore(MAX_CONCURRENT_INPUTS if fan_out.executor is None else len(inputs))

    async with shown(what, None, call, unit=UNITS[spec.op]) as listener:
        overview = CombinedProgress(listener, [each.spec.total for each in inputs])

        async def one(number: int, each: Input) -> Outcome:
            # Another process could not tell, and another thread must not.
            also = None if fan_out.executor is not None else partial(overview.seen, number)
            async with places:
                outcome = await run(each.spec, replace(quiet, also=also))
            rows = outcome.table.num_rows if isinstance(outcome, Result) else None
            overview.ended(number, rows)
            await _raise_what_ends_all(outcome, call, fan_out)
            return outcome

        tasks = [asyncio.create_task(one(*each)) for each in enumerate(inputs)]
        try:
            return list(await asyncio.gather(*tasks)), False
        except BaseException as error:
            await _ended(tasks)
            stopped = isinstance(error, asyncio.CancelledError) and call.on_cancel == "partial"
            if not stopped:
                raise
            listener.ended("cancelled")
            return [_result_of(task) for task in tasks], True


async def _ended(tasks: Sequence[asyncio.Task[Outcome]]) -> None:
    for task in tasks:
        # Once only: a second cancellation would cut short what the first one began.
        if not task.cancelling():
            task.cancel()
    await asyncio.wait(tasks)


def _result_of(task: asyncio.Task[Outcome]) -> Outcome | None:
    return None if task.cancelled() or task.exception() is not None else task.result()


async def _raise_what_ends_all(outcome: Outcome, call: CallOptions, fan_out: FanOutOptions) -> None:
    """Raise where the others need not be tried: by wish, or since they would meet the same."""
    if isinstance(outcome, AuthError | LocalServiceError):
        raise outcome
    if fan_out.on_error == "row":
        return
    if isinstance(outcome, WebdataError):
        raise outcome
    await delivered(outcome, replace(call, out=None))  # raises as a single call would


async def _here(spec: JobSpec, call: CallOptions) -> Outcome:
    try:
        result = await gained(spec, call)
    except WebdataError as error:
        return error
    trouble = None if result.fetched is None else result.fetched.trouble()
    if trouble is not None and result.table.num_rows == 0 and not isinstance(trouble, JobCancelled):
        return trouble
    return result


# ------------------------------------------------------------------------------------- stacking


def _part(each: Input, outcome: Outcome | None, call: CallOptions) -> Part:
    if outcome is None:
        return Part(each.labels, None, None)
    if isinstance(outcome, WebdataError):
        return Part(each.labels, None, datetime.now(UTC), _words(outcome))
    trouble = None if outcome.fetched is None else outcome.fetched.trouble()
    at = datetime.fromisoformat(outcome.attrs["timings"]["finished_at"])
    return Part(each.labels, outcome.table, at, _complaint(trouble, call))


def _with_a_row(part: Part, outcome: Outcome | None) -> Part:
    """Give an input that ended without a row an error that says why; one row is enough."""
    if part.table is None or not isinstance(outcome, Result):
        return part
    if part.table.num_rows:
        return replace(part, table=part.table.slice(0, 1), error=None)
    return part if part.error else replace(part, error=receipt.missing_row_reason(outcome.attrs))


def _complaint(trouble: WebdataError | None, call: CallOptions) -> str | None:
    """Return what a row is to say about an input whose rows are not all there."""
    if trouble is None or (isinstance(trouble, JobCancelled) and call.on_cancel == "partial"):
        return None
    if isinstance(trouble, IncompleteResult) and call.on_incomplete != "raise":
        if call.on_incomplete == "warn":
            warnings.warn(f"incomplete result: {trouble}", stacklevel=2)
        return None
    return _words(trouble)


def _words(error: WebdataError) -> str:
    return f"{type(error).__name__}: {error}"


def _stacked(
    inputs: Sequence[Input],
    parts: Sequence[Part],
    outcomes: Sequence[Outcome | None],
    call: CallOptions,
    began: datetime,
) -> Result:
    spec = inputs[0].spec
    table = stacked.stack(spec.op, spec.columns, parts)
    runs = [
        receipt.InputRun(
            labels=dict(part.labels),
            attrs=outcome.attrs if isinstance(outcome, Result) else None,
            error=part.error,
        )
        for part, outcome in zip(parts, outcomes, strict=True)
    ]
    attrs = receipt.of_runs(
        spec.op,
        runs,
        request=spec.public,
        service=call.connection.scope(call.settings).service,
        rows=table.num_rows,
        started_at=began,
        finished_at=datetime.now(UTC),
    )
    return Result(table, attrs)


def _warn_of_empty(inputs: Sequence[Input], outcomes: Sequence[Outcome | None]) -> None:
    empty = [
        each.spec.subject
        for each, got in zip(inputs, outcomes, strict=True)
        if isinstance(got, Result) and got.table.num_rows == 0
    ]
    if empty:
        warnings.warn(
            f"{len(empty)} of {len(inputs)} inputs gave no rows, such as "
            f"{receipt.shorten(empty[0]) or _ABSENT}",
            stacklevel=2,
        )


def _warn_of_little(outcomes: Sequence[Outcome | None]) -> None:
    """Warn once of crawls whose rows may not be what was wanted."""
    told = [got.attrs for got in outcomes if isinstance(got, Result) and got.attrs.get("warning")]
    if told:
        first = f"{told[0]['subject']}: {told[0]['warning']}"
        warnings.warn(f"{len(told)} of {len(outcomes)} inputs, such as {first}", stacklevel=2)
