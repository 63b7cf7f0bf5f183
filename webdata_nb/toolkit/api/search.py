"""Runs searches and returns their results as a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack, cast

from webdata_nb.toolkit.api.frame_functions import frame_or_stream
from webdata_nb.toolkit.bridge import blocking
from webdata_nb.toolkit.frames.schemas import SEARCH_COLUMNS
from webdata_nb.toolkit.requests.inputs import search_inputs
from webdata_nb.toolkit.requests.options import SearchDfOptions
from webdata_nb.toolkit.requests.signatures import with_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from dask.dataframe import DataFrame as DaskFrame

    from webdata_nb.toolkit.api.frame_functions import AsyncSearchDf, SearchDf
    from webdata_nb.toolkit.calls.frame_stream import FrameStream


@with_options(SearchDfOptions, columns=SEARCH_COLUMNS)
async def _asearch_df(
    query: str | Sequence[str],
    *,
    stream: bool | int = False,
    lazy: bool = False,
    **options: Unpack[SearchDfOptions],
) -> pd.DataFrame | DaskFrame | FrameStream:
    """Search the web and return the ranked results, one row each.

    `asearch_df` is the same for async code. An omitted argument is not sent, so the
    service's default applies; the signature shows the defaults of the contract.

    Parameters
    ----------
    query
        The search terms. Lists here, and in `engine`, `language` and `country`, search for every
        combination, in order; columns of these names tell the rows apart.
    stream
        Return a stream of frames immediately, to loop over: the results in batches, in the order
        in which their pages are read; `rank` holds their place. Several inputs run concurrently,
        and their batches alternate. Leaving the loop cancels the running jobs. Streamed rows come
        from the cache if it has them, but are not stored in it. True makes frames of 20 rows at
        most; a number from 1 to 1000 is that of the rows of a frame at most.
    lazy
        Return a `dask.dataframe` over the Parquet parts in `out`, without reading a row: for more
        rows than memory holds. Each part is a partition; the columns are those of a call with
        lists. Without Dask as `executor`, the partitions run here, one after the other.

    Returns
    -------
    pandas.DataFrame, FrameStream or dask.dataframe.DataFrame
        The frame; with `stream`, a stream of such frames for `for` and `async for`. After the
        loop, its `receipt` is that of the whole call. With `lazy`, a lazy frame.
        With lists, `query`, each other list's column and `fetched_at` come first. The other
        columns depend on `formats` and `extract`, never on what was found. The receipt is
        `df.attrs["webdata"]`; its `line` says in one line what happened.

        {columns}

    Raises
    ------
    InvalidArgument
        An argument that is not allowed; nothing was sent.
    OverBudget
        See `budget`.
    JobFailed
        The job failed; `reason` says why, `partial` holds what arrived.
    JobCancelled, JobTimeout, IncompleteResult
        See `on_cancel`, `timeout`, `on_incomplete`; what arrived is on the error.
    OfflineError
        Offline mode is on and the cache has no answer.
    WebdataError
        The root of these, and of what a connection may meet.

    Warns
    -----
    WebdataWarning
        No result was found, and the message names the providers; or another provider than the
        first one answered, and the message names what was asked, what failed and what answered.

    Examples
    --------
    >>> df = search_df("aurora forecast", num_results=3, formats=[])
    >>> df[["rank", "url", "title"]].shape
    (3, 3)
    >>> df.attrs["webdata"]["status"]
    'completed'
    """
    inputs = search_inputs(query, options, lazy=lazy)
    return await frame_or_stream(inputs, options, stream=stream, lazy=lazy)


asearch_df = cast("AsyncSearchDf", _asearch_df)
search_df = cast("SearchDf", blocking(_asearch_df))
