"""Known pages as a frame: one row for each URL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from webdata_nb.calls import budget as credit
from webdata_nb.calls.multi_input import FanOutOptions, OnError, together
from webdata_nb.errors import InvalidArgument
from webdata_nb.requests import arguments
from webdata_nb.requests.blocking import blocking
from webdata_nb.requests.call_options import CallOptions, OnCancel
from webdata_nb.requests.inputs import combined
from webdata_nb.requests.job_spec import JobSpec

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from pathlib import Path

    import pandas as pd

    from webdata_nb.frames.frame import DtypeBackend
    from webdata_nb.session import Connection


async def ascrape_df(
    urls: str | Sequence[str],
    *,
    scrape_options: Mapping[str, Any] | None = None,
    respect_robots_txt: bool | None = None,
    session: Connection | None = None,
    progress: bool | str | None = None,
    cache: bool = True,
    ttl: float | None = None,
    refresh: bool = False,
    offline: bool | None = None,
    stale_if_error: bool | float = False,
    timeout: float | None = None,  # noqa: ASYNC109 - the user's name; asyncio.timeout does it
    on_cancel: OnCancel = "raise",
    on_error: OnError = "row",
    executor: Executor | None = None,
    budget: float | None = None,
    dtype_backend: DtypeBackend = "pandas",
    out: str | Path | None = None,
) -> pd.DataFrame:
    """Read known pages, without following their links, and return one row for each URL.

    `ascrape_df` is the same for async code. Each page is a crawl of that page alone, so it works
    with every service of the contract, and each URL has a cached answer of its own.

    Parameters
    ----------
    urls
        The pages, in the order of the rows; one that is named twice is read once and has two rows.
    scrape_options
        How each page is read, as in `crawl_df`.
    respect_robots_txt
        Obey each site's robots.txt (default True).
    session, progress, cache, ttl, refresh, offline, stale_if_error, timeout, on_cancel
        As in `crawl_df`; `timeout` holds for each page.
    on_error
        `"row"`: a page that cannot be read is a row with `success` False and its `error`;
        `"raise"` ends the call where a job fails.
    executor
        A `concurrent.futures.Executor` that runs them; by default up to 16 run side by side here.
    budget
        Credits that this call may cost at most; where it may cost more, OverBudget.
    dtype_backend, out
        As in `crawl_df`.

    Returns
    -------
    pandas.DataFrame
        `start_url`, the URL as it was given, then the columns of `crawl_df`; `url` is where its
        redirects ended.

    Raises
    ------
    InvalidArgument
        An argument that is not allowed; nothing was sent.
    OverBudget
        See `budget`.
    WebdataError
        What concerns all pages, such as a wrong key.

    Examples
    --------
    >>> df = scrape_df([start_url, start_url + "about"])
    >>> len(df)
    2
    """
    listed = arguments.listed("urls", [urls] if isinstance(urls, str) else urls)
    if listed is None:
        raise InvalidArgument("urls must be a URL or a list of URLs")
    call = CallOptions.of(
        session=session,
        progress=progress,
        cache=cache,
        ttl=ttl,
        refresh=refresh,
        offline=offline,
        stale_if_error=stale_if_error,
        timeout=timeout,
        on_cancel=on_cancel,
        dtype_backend=dtype_backend,
        out=out,
    )
    fan_out = FanOutOptions.of(on_error=on_error, executor=executor, budget=budget)
    options = {"scrape_options": scrape_options, "respect_robots_txt": respect_robots_txt}
    return await pages(listed, options, call, fan_out)


scrape_df = blocking(ascrape_df)


async def pages(
    urls: Sequence[str], options: Mapping[str, Any], call: CallOptions, fan_out: FanOutOptions
) -> pd.DataFrame:
    """Return one row for each URL, in their order."""
    given = {"url": list(urls), "max_pages": 1, "max_depth": 1, **options}
    inputs = combined(JobSpec.crawl, given, {"url": "start_url"}) or []
    await credit.check([each.spec for each in inputs], call, fan_out.budget)
    return await together(inputs, call, replace(fan_out, row_each=True))
