"""Repeats the call that returned a frame, or fetches its failed rows again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.api.frame_functions import (
    crawl_df,
    creatives_df,
    scrape_df,
    scrape_pages,
    search_df,
)
from webdata_nb.toolkit.bridge import blocking
from webdata_nb.toolkit.calls import budget as budgets
from webdata_nb.toolkit.calls import lists
from webdata_nb.toolkit.frames import frame, input_rows, receipt
from webdata_nb.toolkit.frames.frame import CallReceipt
from webdata_nb.toolkit.requests.arguments import CallOptions, FanOutOptions
from webdata_nb.toolkit.requests.inputs import (
    Input,
    JobSpec,
    page_inputs,
    request_values,
    valid_specs,
    with_units,
)
from webdata_nb.toolkit.requests.options import (
    ResultPageOptions,
    ScrapeOptionsDict,
    SinglePageOptions,
)

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import pandas as pd

    from webdata_nb.settings import Duration
    from webdata_nb.toolkit.session import Connection

# Failed rows


# The columns that hold a row's place in its frame, which a retry does not change.
_PLACE_COLUMNS: Final = frozenset(
    {"url", "rank", "snippet", "provider", "id", "depth", "start_url", "scraped", "query", "extra"}
)
# The argument that a column of labels has the values of, where it has another name.
_ARGUMENTS: Final = {"start_url": "url"}


async def aretry_failed(
    df: pd.DataFrame,
    *,
    headers: Mapping[str, str] | None = None,
    cookies: Mapping[str, str] | None = None,
    session: Connection | None = None,
    progress: bool | str | None = None,
    timeout: Duration | None = None,  # noqa: ASYNC109 - the user's name; asyncio.timeout does it
    executor: Executor | None = None,
    budget: float | None = None,
) -> pd.DataFrame:
    """Fetch the failed rows of a frame again, and return the frame with the new rows.

    `aretry_failed` is the same for async code. A failed page is read again with the options of the
    first call and merged by its place (rank or URL). An input that failed as a whole is run again,
    and its rows replace the row of the failure. Complete rows and columns that you added do not
    change. An input that is invalid, such as a URL without a host, is not tried again.

    Parameters
    ----------
    df
        A frame of `search_df`, `crawl_df`, `scrape_df` or `creatives_df`, whole or filtered, with
        its receipt in `attrs`.
    headers, cookies
        As in the first call; receipts hold neither.
    session, progress, timeout, executor, budget
        As in `crawl_df`; `timeout` holds for each page or input.

    Returns
    -------
    pandas.DataFrame
        Same columns and dtypes. The receipt's counts are those of the new frame, its `retried`
        counts the rows that were tried and those that are complete now.

    Raises
    ------
    InvalidArgument
        `df` has no receipt or no `success` column, or is of an archive; nothing was sent.
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
    receipt_attrs = getattr(df, "attrs", {}).get(frame.ATTRS)
    kinds = {"search", "crawl", "creatives"}
    if not isinstance(receipt_attrs, Mapping) or receipt_attrs.get("kind") not in kinds:
        raise InvalidArgument(
            "df must be a frame of search_df, crawl_df, scrape_df or creatives_df with its receipt "
            f"in attrs; it is {format_value(df)}"
        )
    if "success" not in getattr(df, "columns", ()):
        raise InvalidArgument(
            f"df has no column success, which says what failed; it is {format_value(df)}"
        )
    places = input_rows.retryable_row_indices(df)
    if not places:
        return df.copy(deep=False)
    if not {"archive", "as_of"}.isdisjoint(receipt_attrs["request"]):
        raise InvalidArgument(
            "the frame is of an archive, in which the pages that failed fail again; crawl_df with "
            "their URLs requests them from their sites"
        )
    backend = frame.backend_of(df)
    call = CallOptions.of(
        session=session, progress=progress, cache=True, timeout=timeout, dtype_backend=backend
    )
    fan_out = FanOutOptions.check({"executor": executor, "budget": budget})
    private = {"headers": headers, "cookies": cookies}
    secrets = {name: value for name, value in private.items() if value is not None}
    merged = await _Retry(df, receipt_attrs, secrets, call, fan_out).run(places)
    return await asyncio.to_thread(_with_receipt, merged, receipt_attrs, df, places)


retry_failed: Final = blocking(aretry_failed)


class _Retry:
    """A retry of the failed rows of one frame."""

    def __init__(
        self,
        df: pd.DataFrame,
        receipt_attrs: Mapping[str, Any],
        secrets: Mapping[str, Any],
        call: CallOptions,
        fan_out: FanOutOptions,
    ) -> None:
        self._df = df
        self._kind: str = receipt_attrs["kind"]
        self._request: dict[str, Any] = dict(receipt_attrs["request"])
        self._labels: list[str] = list(receipt_attrs.get("labels", ()))
        self._secrets = secrets
        self._call = call
        self._fan_out = fan_out

    async def run(self, places: Sequence[int]) -> pd.DataFrame:
        urls = input_rows.texts_at(self._df, "url", places)
        starts = input_rows.texts_at(self._df, "start_url", places)
        inputs_without_rows: set[int] = set()
        if self._single_pages():
            urls = [url or start for url, start in zip(urls, starts, strict=True)]
        elif "depth" in self._df.columns:
            # A row that stands for a whole crawl has its start, but no depth.
            depths = input_rows.texts_at(self._df, "depth", places)
            rows = zip(places, starts, depths, strict=True)
            inputs_without_rows = {
                place for place, start, depth in rows if start is not None and depth is None
            }
        by_place = dict(zip(places, urls, strict=True))
        pages = [
            (place, url)
            for place, url in by_place.items()
            if url is not None and place not in inputs_without_rows
        ]
        failed_inputs = [] if self._single_pages() else sorted(set(places) - dict(pages).keys())
        inputs = [self._input(place) for place in failed_inputs]
        # Pages and inputs together may cost too much: that is raised before anything is sent.
        single = page_inputs([url for _, url in pages], self._options()) if pages else []
        await budgets.check(valid_specs([*single, *inputs]), self._call, self._fan_out.budget)
        fan_out = FanOutOptions(executor=self._fan_out.executor, warns=False)
        merged = await self._retry_pages(sorted(pages), fan_out) if pages else self._df
        if not inputs:
            return merged
        retried = await lists.run(inputs, self._call, fan_out)
        pieces = {
            place: input_rows.rows_of_input(retried, each.labels)
            for place, each in zip(failed_inputs, inputs, strict=True)
        }
        return input_rows.replace_rows(merged, pieces)

    def _single_pages(self) -> bool:
        """Whether each input was one page, so that its row can be merged like any other."""
        return self._kind == "crawl" and self._request.get("max_pages") == 1

    async def _retry_pages(
        self, pages: Sequence[tuple[int, str]], fan_out: FanOutOptions
    ) -> pd.DataFrame:
        places = [place for place, _ in pages]
        urls = [url for _, url in pages]
        patch = await scrape_pages(urls, self._options(), self._call, fan_out)
        if "scraped" in self._df.columns:
            patch["scraped"] = patch["success"]
        unchanged = _PLACE_COLUMNS - {"scraped"}
        if self._kind == "search":
            unchanged |= {"title"}  # the title in the search result, not that of the page
        if self._single_pages():
            unchanged -= {"url", "depth"}
        columns = [name for name in patch.columns if name in self._df.columns]
        columns = [name for name in columns if name not in unchanged]
        return input_rows.replace_columns(self._df, places, patch, columns)

    def _options(self) -> SinglePageOptions:
        """Return the options with which the pages were requested."""
        if self._kind == "search":
            pages = request_values(self._request, ResultPageOptions)
            return {"scrape_options": self._with_secrets(pages)}
        pages = with_units(self._request.get("scrape_options", {}))
        return {
            "scrape_options": self._with_secrets(pages),
            "respect_robots_txt": self._request.get("respect_robots_txt"),
            "rights": self._request.get("purpose") or self._request.get("rights"),
        }

    def _with_secrets(self, pages: Mapping[str, Any]) -> ScrapeOptionsDict:
        return cast("ScrapeOptionsDict", {**pages, **self._secrets})

    def _input(self, place: int) -> Input:
        labels = {name: input_rows.texts_at(self._df, name, [place])[0] for name in self._labels}
        labelled: dict[str, Any] = {
            _ARGUMENTS.get(name, name): value for name, value in labels.items()
        }
        request = {name: value for name, value in self._request.items() if name not in labelled}
        if self._kind == "search":
            return Input(labels, JobSpec.search(**request, **labelled, **self._secrets))
        if self._kind == "creatives":
            for name in ("advertiser_id", "url"):
                request.pop(name, None)
            return Input(labels, JobSpec.creatives(**request, **labelled))
        request.pop("url", None)
        request["scrape_options"] = {**request.get("scrape_options", {}), **self._secrets}
        return Input(labels, JobSpec.crawl(**request, **labelled))


def _with_receipt(
    df: pd.DataFrame, attrs: Mapping[str, Any], before: pd.DataFrame, places: Sequence[int]
) -> pd.DataFrame:
    labels = attrs.get("labels", ())
    updated = receipt.after_retry(
        attrs,
        rows=len(df),
        failed=len(input_rows.failed_row_indices(df)),
        failed_inputs=input_rows.count_failed_inputs(df, labels) if labels else 0,
        retried=len(places),
    )
    df.attrs = {**before.attrs, frame.ATTRS: CallReceipt(updated)}
    return df


# The first argument of the function of each kind, and the columns that name several inputs.
_SUBJECTS: Final = {"search": "query", "crawl": "url", "creatives": "advertiser"}
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "search": search_df,
    "crawl": crawl_df,
    "creatives": creatives_df,
}
_MASK: Final = "***@"


def repeat_call(
    df: pd.DataFrame, secrets: Mapping[str, Any], options: Mapping[str, Any]
) -> pd.DataFrame:
    """Send the request in the receipt of `df` again, for the inputs that the frame has.

    Raises
    ------
    InvalidArgument
        The receipt is not of a call that can be repeated, or not of this service.
    """
    receipt: Mapping[str, Any] = df.attrs[frame.ATTRS]
    kind = receipt["kind"]
    if kind not in _FUNCTIONS or not isinstance(receipt.get("request"), Mapping):
        raise InvalidArgument(
            f"a frame of kind {kind} cannot be refreshed: only those of search_df, crawl_df, "
            "scrape_df and creatives_df"
        )
    call = CallOptions.of(session=options["session"])
    service = call.connection.scope(call.settings).service
    if receipt.get("service") != service:
        raise InvalidArgument(
            f"the frame comes from the service {receipt.get('service')}, and this call would ask "
            f"{service}: pass session=connect(...) of the first"
        )
    backend = frame.backend_of(df)
    arguments = {**_arguments(df, receipt), **options, "refresh": True, "dtype_backend": backend}
    if kind == "creatives" and secrets:
        raise InvalidArgument(f"creatives_df has no {' and '.join(secrets)}")
    if kind == "crawl" and secrets:
        secrets = {"scrape_options": {**arguments.get("scrape_options", {}), **secrets}}
    arguments.update(secrets)
    subject = arguments.pop(_SUBJECTS[kind])
    request = receipt["request"]
    is_of_pages = request.get("max_pages") == 1 and request.get("max_depth") == 1
    if kind == "crawl" and receipt.get("labels") and is_of_pages:
        for name in ("max_pages", "max_depth"):
            arguments.pop(name, None)
        return scrape_df(subject, **arguments)
    repeated: pd.DataFrame = _FUNCTIONS[kind](subject, **arguments)
    return repeated


def _arguments(df: pd.DataFrame, receipt: Mapping[str, Any]) -> dict[str, Any]:
    arguments = dict(receipt["request"])
    if receipt["kind"] == "crawl":
        arguments = _crawl_arguments(arguments)
    if receipt["kind"] == "creatives":
        by_id, by_url = arguments.pop("advertiser_id", None), arguments.pop("url", None)
        arguments["advertiser"] = by_id or by_url
    for label in receipt.get("labels", ()):
        values = df[label].drop_duplicates().astype(object)
        arguments[_ARGUMENTS.get(label, label)] = values.where(values.notna(), None).tolist()
    if receipt.get("only_new"):
        arguments["only_new"] = True
    if _MASK in str(arguments.get(_SUBJECTS[receipt["kind"]])):
        raise InvalidArgument("the receipt does not hold the password in the URL: repeat the call")
    return arguments


def _crawl_arguments(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `crawl_df` for the fields of a request in a receipt."""
    arguments = dict(fields)
    arguments.pop("archive_version", None)
    if "scrape_options" in arguments:
        arguments["scrape_options"] = with_units(arguments["scrape_options"])
    if "warc" in arguments:
        arguments["out"] = arguments.pop("warc")
    if (purpose := arguments.pop("purpose", None)) is not None:
        arguments["rights"] = purpose
    captures = {name: arguments.pop(name, None) for name in ("source", "max_distance")}
    if "as_of" in arguments:
        arguments["as_of"] = {"date": arguments["as_of"], **captures}
    archive = arguments.pop("archive", None)
    if archive is not None and "url" in arguments:
        arguments["as_of"] = {"source": archive}
    elif archive is not None:
        arguments["url"] = archive
    return arguments
