"""Reads known pages and returns one row for each URL."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Unpack, cast

from webdata_nb.toolkit.api.frame_functions import run_partitions
from webdata_nb.toolkit.bridge import blocking
from webdata_nb.toolkit.calls import budget, lists
from webdata_nb.toolkit.requests.call_options import CallOptions, FanOutOptions
from webdata_nb.toolkit.requests.inputs import page_inputs, valid_specs
from webdata_nb.toolkit.requests.options import ScrapeDfOptions, SinglePageOptions
from webdata_nb.toolkit.requests.signatures import with_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd


@with_options(ScrapeDfOptions)
async def ascrape_df(urls: str | Sequence[str], **options: Unpack[ScrapeDfOptions]) -> pd.DataFrame:
    """Read known pages, without following their links, and return one row for each URL.

    `ascrape_df` is the same for async code. Each URL has its own cached answer; the service reads
    the others in one job, or in a job for each where it offers no lists.

    Parameters
    ----------
    urls
        The pages, in the order of the rows; a URL that occurs twice is read once and has two rows.
    timeout
        Seconds to wait for the end of a job; then JobTimeout, and the job goes on.
    on_error
        `"row"`: a page that cannot be read is a row with `success` False and its `error`;
        `"raise"` ends the call where a job fails.

    Returns
    -------
    pandas.DataFrame
        `start_url`, the URL in `urls`, then the columns of `crawl_df`; `url` is the URL after
        redirects.

    Raises
    ------
    InvalidArgument
        An argument that is not allowed; nothing was sent.
    OverBudget
        See `budget`.
    WebdataError
        An error that concerns all pages, such as a wrong key.

    Examples
    --------
    >>> df = scrape_df([start_url, start_url + "about"])
    >>> len(df)
    2
    """
    fan_out = FanOutOptions.check(options)
    if fan_out.dask is not None:
        inputs = page_inputs(urls, options)
        partitions = replace(fan_out, row_each=True)
        return cast("pd.DataFrame", await run_partitions(inputs, options, partitions))
    return await scrape_pages(urls, options, CallOptions.check(options), fan_out)


scrape_df = blocking(ascrape_df)


async def scrape_pages(
    urls: str | Sequence[str],
    options: SinglePageOptions,
    call: CallOptions,
    fan_out: FanOutOptions,
) -> pd.DataFrame:
    """Return one row for each URL, in their order."""
    inputs = page_inputs(urls, options)
    await budget.check(valid_specs(inputs), call, fan_out.budget)
    return await lists.run(inputs, call, replace(fan_out, row_each=True))
