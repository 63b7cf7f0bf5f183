"""Fetches again what failed, and only that."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.api.scrape import scrape_pages
from webdata_nb.bridge import blocking
from webdata_nb.calls import budget as budgets
from webdata_nb.calls import multi_input
from webdata_nb.errors import InvalidArgument
from webdata_nb.frames import frame, merge_retried, receipt
from webdata_nb.requests.call_options import CallOptions, FanOutOptions
from webdata_nb.requests.inputs import Input, page_inputs, request_values
from webdata_nb.requests.job_spec import JobSpec
from webdata_nb.requests.options import ResultPageOptions, SinglePageOptions

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import pandas as pd

    from webdata_nb.session import Connection

# The columns that hold a row's place in its frame, which a retry does not change.
_PLACE_COLUMNS: Final = frozenset(
    {"url", "rank", "snippet", "id", "depth", "start_url", "scraped", "query", "extra"}
)
_LABELS: Final = {"start_url": "url"}


async def aretry_failed(
    df: pd.DataFrame,
    *,
    headers: Mapping[str, str] | None = None,
    cookies: Mapping[str, str] | None = None,
    session: Connection | None = None,
    progress: bool | str | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - the user's name; asyncio.timeout does it
    executor: Executor | None = None,
    budget: float | None = None,
) -> pd.DataFrame:
    """Fetch the failed rows of a frame again, and return the frame with what came.

    `aretry_failed` is the same for async code. A failed page is read again as it was asked for
    and merged by its place (rank or URL); an input that failed as a whole is run again, and its
    rows take the place of the row that told of the failure. Rows that are whole are left alone,
    and so are columns that you added.

    Parameters
    ----------
    df
        A frame of `search_df`, `crawl_df`, `scrape_df` or `creatives_df`, whole or filtered, with
        its receipt in `attrs`.
    headers, cookies
        As in the first call; receipts keep neither.
    session, progress, timeout, executor, budget
        As in `crawl_df`; `timeout` holds for each page or input.

    Returns
    -------
    pandas.DataFrame
        Same columns and dtypes. The receipt's counts are those of the new frame, its `retried`
        says how many rows were tried and how many are whole now.

    Raises
    ------
    InvalidArgument
        `df` has no receipt or no `success` column; nothing was sent.
    OverBudget
        See `budget`.
    WebdataError
        What concerns all rows, such as a wrong key.

    Examples
    --------
    >>> df = crawl_df(start_url, max_pages=5)
    >>> retry_failed(df).equals(df)  # nothing had failed
    True
    """
    told = _receipt(df)
    places = merge_retried.failed(df)
    if not places:
        return df.copy(deep=False)
    backend: frame.DtypeBackend = "pyarrow" if frame.arrow_backed(df) else "pandas"
    call = CallOptions.of(
        session=session, progress=progress, cache=True, timeout=timeout, dtype_backend=backend
    )
    fan_out = FanOutOptions.check({"executor": executor, "budget": budget})
    private = {"headers": headers, "cookies": cookies}
    known = {name: value for name, value in private.items() if value is not None}
    made = await _Retry(df, told, known, call, fan_out).run(places)
    return await asyncio.to_thread(_with_receipt, made, told, df, places)


retry_failed = blocking(aretry_failed)


class _Retry:
    """One frame's failed rows."""

    def __init__(
        self,
        df: pd.DataFrame,
        told: Mapping[str, Any],
        private: Mapping[str, Any],
        call: CallOptions,
        fan_out: FanOutOptions,
    ) -> None:
        self._df = df
        self._kind: str = told["kind"]
        self._request: dict[str, Any] = dict(told["request"])
        self._labels: list[str] = list(told.get("labels", ()))
        self._private = private
        self._call = call
        self._fan_out = fan_out

    async def run(self, places: Sequence[int]) -> pd.DataFrame:
        urls = merge_retried.texts(self._df, "url", places)
        paged = [(place, url) for place, url in zip(places, urls, strict=True) if url is not None]
        whole = [place for place, url in zip(places, urls, strict=True) if url is None]
        single = self._single_pages()
        inputs = [self._input(place) for place in whole if not single]
        if single:
            starts = merge_retried.texts(self._df, "start_url", whole)
            paged += [(p, url) for p, url in zip(whole, starts, strict=True) if url is not None]
        await self._check([url for _, url in paged], inputs)
        made = await self._pages(sorted(paged)) if paged else self._df
        return await self._inputs(made, whole, inputs) if inputs else made

    def _single_pages(self) -> bool:
        """Whether each input was one page, so that its row can be merged like any other."""
        return self._kind == "crawl" and self._request.get("max_pages") == 1

    async def _check(self, urls: Sequence[str], inputs: Sequence[Input]) -> None:
        """Stop before anything is sent where pages and inputs together cost too much."""
        pages = page_inputs(urls, self._options()) if urls else []
        specs = [each.spec for each in [*pages, *inputs]]
        await budgets.check(specs, self._call, self._fan_out.budget)

    async def _pages(self, paged: Sequence[tuple[int, str]]) -> pd.DataFrame:
        places = [place for place, _ in paged]
        fan_out = FanOutOptions(executor=self._fan_out.executor)
        urls = [url for _, url in paged]
        patch = await scrape_pages(urls, self._options(), self._call, fan_out)
        if "scraped" in self._df.columns:
            patch["scraped"] = patch["success"]
        kept = _PLACE_COLUMNS - {"scraped"}
        if self._kind == "search":
            kept |= {"title"}  # the engine's, not the page's
        if self._single_pages():
            kept -= {"url", "depth"}
        columns = [name for name in patch.columns if name in self._df.columns and name not in kept]
        return merge_retried.merged(self._df, places, patch, columns)

    def _options(self) -> SinglePageOptions:
        """Return the options with which the pages were requested."""
        if self._kind == "search":
            pages = request_values(self._request, ResultPageOptions)
            return {"scrape_options": {**pages, **self._private}}
        options = {**self._request.get("scrape_options", {}), **self._private}
        obeyed = self._request.get("respect_robots_txt")
        return {"scrape_options": options, "respect_robots_txt": obeyed}

    def _input(self, place: int) -> Input:
        labels = {name: merge_retried.texts(self._df, name, [place])[0] for name in self._labels}
        given: dict[str, Any] = {_LABELS.get(name, name): value for name, value in labels.items()}
        request = {name: value for name, value in self._request.items() if name not in given}
        if self._kind == "search":
            return Input(labels, JobSpec.search(**request, **given, **self._private))
        if self._kind == "creatives":
            for name in ("advertiser_id", "url"):
                request.pop(name, None)
            whole: dict[str, Any] = {**request, **given}
            return Input(labels, JobSpec.creatives(**whole))
        request.pop("url", None)
        request["scrape_options"] = {**request.get("scrape_options", {}), **self._private}
        return Input(labels, JobSpec.crawl(**request, **given))

    async def _inputs(
        self, made: pd.DataFrame, whole: Sequence[int], inputs: Sequence[Input]
    ) -> pd.DataFrame:
        again = await multi_input.run(
            inputs, self._call, FanOutOptions(executor=self._fan_out.executor)
        )
        pieces = {}
        for place, each in zip(whole, inputs, strict=True):
            pieces[place] = merge_retried.chosen(again, each.labels)
        return merge_retried.replaced(made, pieces)


def _receipt(df: object) -> Mapping[str, Any]:
    told = getattr(df, "attrs", {}).get(frame.ATTRS)
    if not isinstance(told, Mapping) or told.get("kind") not in {"search", "crawl", "creatives"}:
        raise InvalidArgument(
            "df must be a frame of search_df, crawl_df, scrape_df or creatives_df"
        )
    if "success" not in getattr(df, "columns", ()):
        raise InvalidArgument("df has no column success: nothing says which rows failed")
    return told


def _with_receipt(
    made: pd.DataFrame, told: Mapping[str, Any], before: pd.DataFrame, places: Sequence[int]
) -> pd.DataFrame:
    left = len(merge_retried.failed(made))
    made.attrs = {
        **before.attrs,
        frame.ATTRS: receipt.after_retry(told, rows=len(made), failed=left, retried=len(places)),
    }
    return made
