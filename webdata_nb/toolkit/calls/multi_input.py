"""Runs several inputs side by side, and stacks their rows in the order of the inputs."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from webdata_nb import caller
from webdata_nb.errors import (
    AuthError,
    IncompleteResult,
    InvalidArgument,
    JobCancelled,
    LocalServiceError,
    WebdataError,
)
from webdata_nb.toolkit.bridge import set_partial_result
from webdata_nb.toolkit.cache.job_refs import CancelToken
from webdata_nb.toolkit.cache.result_cache import CallResult, deliver
from webdata_nb.toolkit.calls import page_list, single_call
from webdata_nb.toolkit.calls.combined_progress import CombinedProgress
from webdata_nb.toolkit.calls.executor import InputResult, InputRunner, run_on_executor
from webdata_nb.toolkit.display.progress import Listener
from webdata_nb.toolkit.display.progress_view import UNITS
from webdata_nb.toolkit.frames import input_rows, receipt
from webdata_nb.toolkit.frames.input_rows import InputRows
from webdata_nb.toolkit.jobs.progress_scope import show_progress
from webdata_nb.toolkit.requests import arguments
from webdata_nb.toolkit.requests.call_options import PARTITION_NEEDS, CallOptions, FanOutOptions
from webdata_nb.toolkit.requests.inputs import Input, refuse_invalid_inputs, representative
from webdata_nb.toolkit.requests.job_spec import JobSpec

if TYPE_CHECKING:
    import pandas as pd

# The service's own limit on concurrent jobs is enforced by the client's limiter.
MAX_CONCURRENT_INPUTS: Final = 16
# After this time, the next input checks that the local service is alive, and restarts it if not.
_SEEN_S: Final = 1.0
_NO_SUBJECT: Final = "(none)"


async def run(
    inputs: Sequence[Input],
    options: CallOptions,
    fan_out: FanOutOptions,
) -> pd.DataFrame:
    """Run every input and return their rows as one frame.

    Raises
    ------
    InvalidArgument
        An input is invalid, and `on_error` is `"raise"`; nothing was sent.
    """
    if fan_out.dask is not None:
        raise InvalidArgument(
            "executor must be a concurrent.futures.Executor or None here: this function runs "
            "nothing on a Dask cluster"
        )
    arguments.check_requirement("partition", fan_out.partition, PARTITION_NEEDS)
    if fan_out.on_error == "raise":
        refuse_invalid_inputs(inputs)
    started_at = datetime.now(UTC)
    op = inputs[0].spec.op
    async with show_progress(f"{op} of {len(inputs)} inputs", None, options, unit=UNITS[op]) as bar:
        results, interrupted = await _run_all(inputs, options, fan_out, bar)
        combined_result = await asyncio.to_thread(
            stack, inputs, results, options, fan_out, started_at
        )
        line = str(combined_result.attrs["line"]).partition(": ")[2]
        bar.ended("cancelled" if interrupted else "completed", line)
    if fan_out.warns and not interrupted:
        is_reported = _warn_without_good_row(combined_result)
        if not (is_reported or fan_out.row_each):
            _warn_of_empty_results(inputs, results)
            _warn_of_shortcomings(results)
    built = await deliver(combined_result, options)
    if interrupted:
        set_partial_result(built)
    return built


# ------------------------------------------------------------------------------------- running


async def _run_all(
    inputs: Sequence[Input],
    options: CallOptions,
    fan_out: FanOutOptions,
    bar: Listener,
) -> tuple[list[InputResult | None], bool]:
    """Return each input's result, and whether an interrupt left some of them None."""
    if fan_out.row_each and fan_out.executor is None:
        pages = page_list.PageList(inputs, options, bar)
        if pages.is_one_job:
            try:
                return await pages.results(
                    partial(raise_fatal_error, options=options, fan_out=fan_out)
                )
            except page_list.NotOffered:
                pass  # another service reads each page in a job of its own
    if fan_out.executor is None:
        return await _gather(inputs, options, run_input, fan_out, bar)
    token = await asyncio.to_thread(CancelToken.create, options.settings.cache_dir)
    try:
        run = partial(run_on_executor, fan_out.executor, run_input, token)
        return await _gather(inputs, options, run, fan_out, bar)
    finally:
        token.cancel()


async def _gather(
    inputs: Sequence[Input],
    options: CallOptions,
    run: InputRunner,
    fan_out: FanOutOptions,
    bar: Listener,
) -> tuple[list[InputResult | None], bool]:
    # Inputs show no progress of their own; the bar of the whole call sums it up.
    settings = replace(options.settings, progress=False)
    input_options = replace(options, out=None, settings=settings, seen_s=_SEEN_S)
    on_executor = fan_out.executor is not None
    slots = asyncio.Semaphore(len(inputs) if on_executor else MAX_CONCURRENT_INPUTS)

    progress = CombinedProgress(bar, [item.spec.total for item in inputs])

    async def run_one(number: int, item: Input) -> InputResult:
        # A worker cannot report to this process, and must not from another thread.
        also = None if on_executor else partial(progress.update, number)
        result: InputResult
        if item.error is not None:
            result = item.error
        else:
            async with slots:
                result = await run(item.spec, replace(input_options, also=also))
        rows = result.table.num_rows if isinstance(result, CallResult) else None
        progress.finish(number, rows)
        await raise_fatal_error(result, options, fan_out)
        return result

    tasks = [asyncio.create_task(run_one(number, item)) for number, item in enumerate(inputs)]
    try:
        return list(await asyncio.gather(*tasks)), False
    except BaseException as error:
        await cancel_and_wait(tasks)
        cancelled = isinstance(error, asyncio.CancelledError)
        if not cancelled or options.on_cancel != "partial":
            raise
        return [_result_of(task) for task in tasks], True


async def cancel_and_wait(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks that were not cancelled yet, and wait for their clean-up."""
    for task in tasks:
        # A second cancellation would abort the clean-up that the first one began.
        if not task.cancelling():
            task.cancel()
    if tasks:
        await asyncio.wait(tasks)


def _result_of(task: asyncio.Task[InputResult]) -> InputResult | None:
    return None if task.cancelled() or task.exception() is not None else task.result()


async def raise_fatal_error(
    result: InputResult, options: CallOptions, fan_out: FanOutOptions
) -> None:
    """Raise an error that ends the whole call, by `on_error` or since every input would meet it."""
    if isinstance(result, AuthError | LocalServiceError):
        raise result
    if fan_out.on_error == "row":
        return
    if isinstance(result, WebdataError):
        raise result
    await deliver(result, replace(options, out=None))  # raises as a single call would


async def run_input(spec: JobSpec, options: CallOptions) -> InputResult:
    """Return the result of one input; an error is returned, not raised."""
    try:
        result = await single_call.fetch_result(spec, options)
    except WebdataError as error:
        return error
    error_at_end = result.error()
    if error_at_end is None or result.table.num_rows or isinstance(error_at_end, JobCancelled):
        return result
    return error_at_end


# ------------------------------------------------------------------------------------- stacking


def _part(item: Input, result: InputResult | None, options: CallOptions) -> InputRows:
    if result is None:
        return InputRows(item.labels, None, None)
    if isinstance(result, WebdataError):
        return InputRows(item.labels, None, datetime.now(UTC), _message(result))
    at = datetime.fromisoformat(result.attrs["timings"]["finished_at"])
    return InputRows(item.labels, result.table, at, _row_error(result.error(), options))


def _with_one_row(part: InputRows, result: InputResult | None) -> InputRows:
    """Limit an input to one row, or give it an error that says why it has none."""
    if part.table is None or not isinstance(result, CallResult):
        return part
    if part.table.num_rows:
        return replace(part, table=part.table.slice(0, 1), error=None)
    return part if part.error else replace(part, error=receipt.missing_row_reason(result.attrs))


def _row_error(error: WebdataError | None, options: CallOptions) -> str | None:
    """Return the message of the row that says that rows of an input are missing."""
    if error is None or (isinstance(error, JobCancelled) and options.on_cancel == "partial"):
        return None
    if isinstance(error, IncompleteResult) and options.on_incomplete != "raise":
        if options.on_incomplete == "warn":
            caller.warn(f"incomplete result: {error}")
        return None
    return _message(error)


def _message(error: WebdataError) -> str:
    return f"{type(error).__name__}: {error}"


def stack(
    inputs: Sequence[Input],
    results: Sequence[InputResult | None],
    options: CallOptions,
    fan_out: FanOutOptions,
    started_at: datetime,
) -> CallResult:
    """Return the rows of all inputs, and the receipt of the call."""
    parts = [_part(item, result, options) for item, result in zip(inputs, results, strict=True)]
    if fan_out.row_each:
        parts = [_with_one_row(*pair) for pair in zip(parts, results, strict=True)]
    first = representative(inputs)
    spec = first.spec
    table = input_rows.stack_inputs(spec.op, spec.columns, parts)
    runs = [
        receipt.InputRun(
            labels=dict(part.labels),
            attrs=result.attrs if isinstance(result, CallResult) else None,
            error=part.error,
        )
        for part, result in zip(parts, results, strict=True)
    ]
    attrs = receipt.of_runs(
        spec.op,
        runs,
        request=first.public_request,
        service=options.connection.scope(options.settings).service,
        rows=table.num_rows,
        started_at=started_at,
        finished_at=datetime.now(UTC),
    )
    return CallResult(table, attrs)


def _warn_without_good_row(result: CallResult) -> bool:
    """Warn of crawls whose rows all failed; returns whether it did."""
    attrs = result.attrs
    has_only_failures = attrs["counts"]["failed"] and not attrs["counts"]["ok"]
    if attrs["kind"] != "crawl" or not has_only_failures:
        return False
    row = next(row for row in range(result.table.num_rows) if result.table["error"][row].is_valid)
    subject = ", ".join(str(result.table[name][row]) for name in attrs["labels"])
    total = attrs["inputs"]["total"]
    scope = f"of {total} inputs: no row succeeded, such as " if total > 1 else ""
    caller.warn(f"{attrs['kind']} {scope}{receipt.shorten(subject)}: {result.table['error'][row]}")
    return True


def _warn_of_empty_results(inputs: Sequence[Input], results: Sequence[InputResult | None]) -> None:
    empty = [
        item.spec.subject
        for item, result in zip(inputs, results, strict=True)
        if isinstance(result, CallResult) and result.table.num_rows == 0
    ]
    if empty:
        caller.warn(
            f"{len(empty)} of {len(inputs)} inputs gave no rows, such as "
            f"{receipt.shorten(empty[0]) or _NO_SUBJECT}"
        )


def _warn_of_shortcomings(results: Sequence[InputResult | None]) -> None:
    """Warn once of crawls whose rows may not be the wanted ones."""
    receipts = [
        result.attrs
        for result in results
        if isinstance(result, CallResult) and result.attrs.get("warning")
    ]
    if receipts:
        first = f"{receipts[0]['subject']}: {receipts[0]['warning']}"
        caller.warn(f"{len(receipts)} of {len(results)} inputs, such as {first}")
