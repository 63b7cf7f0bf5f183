"""Estimates the cost of a call, and lists the cached answers of a call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, ParamSpec, cast

from webdata_nb.errors import InvalidArgument, InvalidCall
from webdata_nb.suggestions import closest, did_you_mean, format_value
from webdata_nb.toolkit.bridge import PORTAL
from webdata_nb.toolkit.cache import snapshots
from webdata_nb.toolkit.cache.result_cache import ResultCache
from webdata_nb.toolkit.calls import budget
from webdata_nb.toolkit.calls.budget import Estimate
from webdata_nb.toolkit.frames import frame, input_rows
from webdata_nb.toolkit.frames.input_rows import InputRows
from webdata_nb.toolkit.requests.call_options import CallOptions
from webdata_nb.toolkit.requests.crawls import crawl_inputs
from webdata_nb.toolkit.requests.inputs import (
    Input,
    creatives_inputs,
    page_inputs,
    search_inputs,
    valid_specs,
)
from webdata_nb.toolkit.requests.options import DEFAULTS, CallArguments
from webdata_nb.toolkit.requests.signatures import with_lists
from webdata_nb.toolkit.session import Connection

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

P = ParamSpec("P")


_INPUTS: Final[Mapping[str, Callable[..., Sequence[Input]]]] = {
    "search_df": search_inputs,
    "crawl_df": crawl_inputs,
    "creatives_df": creatives_inputs,
    "scrape_df": page_inputs,
}


def estimate(function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> Estimate:
    """Return what a call may cost at most, without making it.

    Requests the service's catalog of weights, unless the cache has every answer.

    Parameters
    ----------
    function
        `search_df`, `crawl_df`, `scrape_df` or `creatives_df`, an async twin, or one of these
        methods of a session.
    *args, **kwargs
        The arguments of the call.

    Returns
    -------
    Estimate
        `credits` where every page succeeds (failed pages cost nothing), None where the call has
        no bound; `parts` by operation; `inputs`, and how many of them are `cached`.

    Raises
    ------
    InvalidArgument
        Another function, or an argument that is not allowed.
    WebdataError
        What a connection may meet.

    Examples
    --------
    >>> estimate(crawl_df, start_url, max_pages=50).credits
    50.0
    """
    inputs, call = _inputs(function, args, kwargs)
    return PORTAL.run(budget.estimate_cost(valid_specs(inputs), call))


def history_df(function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> pd.DataFrame:
    """Return every cached answer to a call, oldest first; sends nothing.

    Parameters
    ----------
    function
        `search_df`, `crawl_df`, `scrape_df` or `creatives_df`, an async twin, or one of these
        methods of a session.
    *args, **kwargs
        The arguments of the call; lists give the history of every combination.

    Returns
    -------
    pandas.DataFrame
        `taken_at` (datetime64[us, UTC]), then the columns of the call.

    Raises
    ------
    InvalidArgument
        Another function, or an argument that is not allowed.

    Examples
    --------
    >>> df = search_df("aurora forecast", formats=[])
    >>> history_df(search_df, "aurora forecast", formats=[])["taken_at"].nunique()
    1
    """
    inputs, call = _inputs(function, args, kwargs)
    valid = [each for each in inputs if each.error is None]
    history = [(each, snapshot) for each in valid for snapshot in _snapshots(each, call)]
    history.sort(key=lambda entry: entry[1].at)
    tables = [_dated_table(*entry) for entry in history] or [_empty_table(inputs[0])]
    op = inputs[0].spec.op
    attrs = {"kind": f"{op} history", "snapshots": len(history), "subject": inputs[0].spec.subject}
    return frame.build(
        input_rows.concat_tables(tables), attrs=attrs, dtype_backend=call.dtype_backend
    )


def _inputs(
    function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> tuple[Sequence[Input], CallOptions]:
    """Return the inputs and the checked options of a call."""
    inputs = _INPUTS.get(str(getattr(function, "__name__", "")).removeprefix("a"))
    if inputs is None:
        name = getattr(function, "__name__", None)
        suggestion = did_you_mean(closest(name, _INPUTS))
        raise InvalidArgument(
            f"function must be one of {', '.join(_INPUTS)}; "
            f"it is {name or format_value(function)}{suggestion}"
        )
    signature = inspect.signature(function)
    args, kwargs = with_lists(signature, args, kwargs)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        raise InvalidCall.of(function.__name__, signature, args, kwargs) from None
    (_, subject), *passed = bound.arguments.items()
    options: dict[str, Any] = {name: DEFAULTS.get(name) for name in signature.parameters}
    options |= {**_session_of(function), **dict(passed)}
    return inputs(subject, options), CallOptions.check(_call_arguments(options))


def _session_of(function: Callable[..., object]) -> dict[str, object]:
    """Return the session of a method of `Session`."""
    owner = getattr(function, "__self__", None)
    return {"session": owner} if isinstance(owner, Connection) else {"session": None}


def _call_arguments(options: dict[str, Any]) -> CallArguments:
    """Return the options that decide where an answer is looked up; the others have no effect."""
    names = ("session", "cache", "ttl", "refresh", "offline", "timeout", "dtype_backend")
    return cast("CallArguments", {name: options[name] for name in names})


def _snapshots(each: Input, call: CallOptions) -> list[snapshots.Snapshot]:
    cache = ResultCache.of_spec(each.spec, call)
    return snapshots.history(cache.root, cache.key, columns=each.spec.columns)


def _dated_table(each: Input, snapshot: snapshots.Snapshot) -> pa.Table:
    table = snapshot.table
    if each.labels:
        table = input_rows.stack_inputs(
            each.spec.op, each.spec.columns, [InputRows(each.labels, table, snapshot.at)]
        )
    return input_rows.with_time("taken_at", table, snapshot.at)


def _empty_table(each: Input) -> pa.Table:
    table = input_rows.stack_inputs(
        each.spec.op, each.spec.columns, [InputRows(each.labels, None, None)]
    )
    plain = table if each.labels else table.select(list(each.spec.columns))
    return input_rows.with_time("taken_at", plain, None)
