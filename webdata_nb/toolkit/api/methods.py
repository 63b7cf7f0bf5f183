"""Binds the public functions to a service, as `Session`, and to a frame, as `df.webdata`."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Final, Literal, cast

from webdata_nb.errors import InvalidArgument, NoReceipt, checked_call
from webdata_nb.toolkit import session as connections
from webdata_nb.toolkit.api import frame_views, start
from webdata_nb.toolkit.api.crawl_questions import alinks_df, averify, awhy, links_df, verify, why
from webdata_nb.toolkit.api.frame_functions import (
    acrawl_df,
    acreatives_df,
    arank_df,
    arecords_df,
    ascrape_df,
    asearch_df,
    awatch_df,
    crawl_df,
    creatives_df,
    rank_df,
    records_df,
    scrape_df,
    search_df,
    watch_df,
)
from webdata_nb.toolkit.api.listings import (
    aadvertisers_df,
    acaptures_df,
    advertisers_df,
    captures_df,
)
from webdata_nb.toolkit.api.retry import aretry_failed, repeat_call, retry_failed
from webdata_nb.toolkit.bridge import P, T
from webdata_nb.toolkit.frames import compare, derive, frame, input_rows
from webdata_nb.toolkit.frames.chunks import By, TokenCounter, chunks_df
from webdata_nb.toolkit.frames.derive import rights_df
from webdata_nb.toolkit.frames.extracted import extract_df
from webdata_nb.toolkit.jobs import listings
from webdata_nb.toolkit.session import Connection
from webdata_nb.toolkit.sites import ranks
from webdata_nb.toolkit.sites.audit import audit_df
from webdata_nb.toolkit.terminal_text import encodable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from webdata_nb.settings import Duration
    from webdata_nb.toolkit.api.crawl_questions import Why
    from webdata_nb.toolkit.api.frame_functions import (
        AsyncCrawlDf,
        AsyncCreativesDf,
        AsyncSearchDf,
        CrawlDf,
        CreativesDf,
        SearchDf,
    )
    from webdata_nb.toolkit.frames.compare import Keep

# Methods of a session


def _method(function: Callable[P, T]) -> Callable[Concatenate[Connection, P], T]:
    """Return a method that passes its object to `function` as `session`."""
    untyped: Callable[..., T] = function  # no type can say that P has a `session`

    def method(self: Connection, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return untyped(*args, session=self, **kwargs)

    functools.update_wrapper(method, function)

    signature = inspect.signature(function)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    rest = [each for each in signature.parameters.values() if each.name != "session"]
    vars(method).pop("__wrapped__")  # inspect would follow it to the function
    vars(method)["__signature__"] = signature.replace(parameters=[own, *rest])
    return method


class Session(Connection):
    """One service and key, with the public functions as methods.

    `connect` returns one. As a context manager, it closes its connections at the end of the block;
    otherwise they close when the process ends.

    Examples
    --------
    >>> with Session() as session:
    ...     df = session.search_df("aurora forecast", formats=[])
    >>> df.attrs["webdata"]["kind"]
    'search'
    """

    search_df: ClassVar[SearchDf] = cast("SearchDf", _method(search_df))
    asearch_df: ClassVar[AsyncSearchDf] = cast("AsyncSearchDf", _method(asearch_df))
    crawl_df: ClassVar[CrawlDf] = cast("CrawlDf", _method(crawl_df))
    acrawl_df: ClassVar[AsyncCrawlDf] = cast("AsyncCrawlDf", _method(acrawl_df))
    rank_df: Final = _method(rank_df)
    arank_df: Final = _method(arank_df)
    scrape_df: Final = _method(scrape_df)
    ascrape_df: Final = _method(ascrape_df)
    retry_failed: Final = _method(retry_failed)
    aretry_failed: Final = _method(aretry_failed)
    creatives_df: ClassVar[CreativesDf] = cast("CreativesDf", _method(creatives_df))
    acreatives_df: ClassVar[AsyncCreativesDf] = cast("AsyncCreativesDf", _method(acreatives_df))
    advertisers_df: Final = _method(advertisers_df)
    aadvertisers_df: Final = _method(aadvertisers_df)
    captures_df: Final = _method(captures_df)
    acaptures_df: Final = _method(acaptures_df)
    search_job: Final = _method(start.search_job)
    asearch_job: Final = _method(start.asearch_job)
    crawl_job: Final = _method(start.crawl_job)
    acrawl_job: Final = _method(start.acrawl_job)
    job: Final = _method(start.job)
    ajob: Final = _method(start.ajob)
    export_df: Final = _method(start.export_df)
    aexport_df: Final = _method(start.aexport_df)
    engines_df: Final = _method(listings.engines_df)
    aengines_df: Final = _method(listings.aengines_df)
    jobs_df: Final = _method(listings.jobs_df)
    ajobs_df: Final = _method(listings.ajobs_df)
    weights_df: Final = _method(listings.weights_df)
    aweights_df: Final = _method(listings.aweights_df)
    usage_df: Final = _method(listings.usage_df)
    ausage_df: Final = _method(listings.ausage_df)
    records_df: Final = _method(records_df)
    arecords_df: Final = _method(arecords_df)
    links_df: Final = _method(links_df)
    alinks_df: Final = _method(alinks_df)
    verify: Final = _method(verify)
    averify: Final = _method(averify)
    watch_df: Final = _method(watch_df)
    awatch_df: Final = _method(awatch_df)
    why: Final = _method(why)
    awhy: Final = _method(awhy)


@checked_call
def connect(*, base_url: str | None = None, api_key: str | None = None) -> Session:
    """Choose the service for later calls, and return it as a session.

    Sends nothing: the first call does.

    Parameters
    ----------
    base_url
        Address of the service, such as `https://data.example.com`. When None, WEBDATA_BASE_URL
        at each call; without that, the local service, which is started on demand.
    api_key
        The bearer key; when None, WEBDATA_API_KEY at each call. No repr, message or file shows
        it.

    Returns
    -------
    Session
        With `search_df`, `crawl_df` and the others as methods. It is the default session from
        now on.

    Raises
    ------
    InvalidArgument
        An address or key that cannot be right, or a key without an address.

    Examples
    --------
    >>> session = connect(base_url="https://data.example.com", api_key="wd-123")
    >>> session
    Session(base_url='https://data.example.com')
    """
    session = Session(base_url=base_url, api_key=api_key)
    if api_key is not None and session.settings().base_url is None:
        raise InvalidArgument(
            "api_key has no effect on the local service, which needs none: give base_url as well, "
            "or set WEBDATA_BASE_URL"
        )
    connections.set_default_connection(session)
    return session


# `df.webdata`


@frame.register_accessor
class FrameAccessor:
    """The receipt of a frame, its failed rows, the frames derived from it, and its refresh.

    Every frame of this package has it as `df.webdata`, also after filtering and sorting. pandas
    drops the receipt in operations such as `merge`; the accessor then raises `NoReceipt`.

    Examples
    --------
    >>> df = crawl_df(start_url, max_pages=5, formats=["links"])
    >>> df.webdata.receipt["kind"]
    'crawl'
    >>> len(df.webdata.failed)
    0
    >>> list(df.webdata.links().columns)
    ['url', 'position', 'link', 'internal', 'text', 'rel', 'status_code', 'error']
    """

    def __init__(self, df: pd.DataFrame) -> None:
        if not frame.has_receipt(df):
            raise NoReceipt(
                "this DataFrame has no receipt in df.attrs['webdata']: df.webdata exists for "
                "frames of webdata_nb (pandas drops the receipt in operations such as merge)"
            )
        self._df = df

    @property
    def receipt(self) -> dict[str, Any]:
        """The receipt, `df.attrs["webdata"]`."""
        return frame.receipt_of(self._df)

    @property
    def line(self) -> str:
        """The receipt in one line."""
        return frame.receipt_text(self._df, "line")

    @property
    def failed(self) -> pd.DataFrame:
        """The rows that failed: those with `success` False, or for creatives with an `error`."""
        if "success" in self._df.columns:
            return self._df.iloc[input_rows.failed_row_indices(self._df)]
        if "error" in self._df.columns:
            return self._df[self._df["error"].notna()]
        raise InvalidArgument("the frame has neither success nor error, so no row can have failed")

    def why(self, url: str, *, session: Connection | None = None) -> Why:
        """Return the outcome of a URL in a crawl; see `why`."""
        return why(self._df, url, session=session)

    def links(
        self,
        *,
        broken: bool = False,
        timeout: float | None = None,
        session: Connection | None = None,
    ) -> pd.DataFrame:
        """Return every link of the pages, or the broken ones, one row each; this is `links_df`."""
        return links_df(self._df, broken=broken, timeout=timeout, session=session)

    def audit(self) -> pd.DataFrame:
        """Return what is wrong with the site, what matters most first; see `audit_df`."""
        return audit_df(self._df)

    def images(self) -> pd.DataFrame:
        """Return every image of the pages, one row each; see `images_df`."""
        return derive.images_df(self._df)

    def headings(self) -> pd.DataFrame:
        """Return every heading of the pages, one row each; see `headings_df`."""
        return derive.headings_df(self._df)

    def records(
        self,
        *,
        by: Literal["record", "page"] = "record",
        groups: bool = False,
        group: int | None = None,
    ) -> pd.DataFrame:
        """Return the repeated things of the pages, one row each; see `records_df`."""
        return records_df(self._df, by=by, groups=groups, group=group)

    def chunks(
        self,
        *,
        size: int = 400,
        overlap: int = 0,
        by: By = "headings",
        tokens: str | TokenCounter = "words",
        near: float | None = 0.8,
    ) -> pd.DataFrame:
        """Return the Markdown of the pages in chunks, one row each; see `chunks_df`."""
        return chunks_df(self._df, size=size, overlap=overlap, by=by, tokens=tokens, near=near)

    def save(self, target: str | Path) -> Path | str:
        """Write the frame to a file or folder that opens without this package.

        Parameters
        ----------
        target
            A file that ends in `.html` (the table of `show` as one page that loads nothing, with
            the first 1,000 rows), `.xlsx`, `.csv`, `.parquet` or `.jsonl`, or the URL of one of the
            last four. In workbooks and CSV, lists and dicts are JSON text, and a text that looks
            like a formula stays a text. Or a folder, such as `"corpus/"`: a dataset that
            `datasets.load_dataset("corpus")` of Hugging Face loads, with Parquet files and a card.

        Returns
        -------
        pathlib.Path or str
            The absolute path of what was written, or its URL. A file appears complete or not at
            all.

        Raises
        ------
        InvalidArgument
            The name ends otherwise, or nothing can be written there.
        MissingExtra
            XlsxWriter, or a library for the kind of URL, is not installed.
        OSError
            It cannot be written.

        Examples
        --------
        >>> df = crawl_df(start_url, max_pages=5)
        >>> df.webdata.save("pages.html").name
        'pages.html'
        """
        return frame_views.save(self._df, target)

    def rights(self) -> pd.DataFrame:
        """Return every declaration about the use of the pages, one row each; see `rights_df`."""
        return rights_df(self._df)

    def extract(self) -> pd.DataFrame:
        """Return the extracted fields as typed columns; see `extract_df`."""
        return extract_df(self._df)

    def ranks(self, values: str = "rank") -> pd.DataFrame:
        """Return ranks over time: a row for each query, and a column for each snapshot.

        The frame is one of `rank_df`, of its file or of `history_df(rank_df, ...)`. The rows are
        also of engines, languages, countries and sites where there are several.

        Parameters
        ----------
        values
            The column to show. `rank` is missing where the site was not among the results, and
            where the search failed; `"status"` tells them apart.

        Returns
        -------
        pandas.DataFrame
            A pivot, whose columns are the times of the snapshots.
        """
        return ranks.rank_pivot(self._df, values)

    def changes(self) -> pd.DataFrame:
        """Return how the ranks of the last snapshot differ from what was known before.

        A search that failed is passed over: the rank after it is compared with the one before it.
        Where another number of results was looked at, ranks that one snapshot could not see are
        not compared.

        Returns
        -------
        pandas.DataFrame
            The columns of `diff`, `watch_df` and `serp_diff`, with the query, its engine, language
            and country, the site and the URL as the key, and `move`, the ranks gained (positive)
            or lost. `field` is `rank`, or `url` where another page has the rank; `evidence` says
            which provider answered instead, or which URLs are now above. The `line` of the receipt
            says what was compared, also where nothing changed.
        """
        return ranks.rank_changes(self._df)

    def verify(self, *, session: Connection | None = None) -> pd.DataFrame:
        """Compare the extracted values with their pages; see `verify`."""
        return verify(self._df, session=session)

    def refresh(
        self,
        *,
        headers: Mapping[str, str] | None = None,
        cookies: Mapping[str, str] | None = None,
        session: Connection | None = None,
        progress: bool | str | None = None,
        timeout: Duration | None = None,
    ) -> pd.DataFrame:
        """Repeat the call that returned the frame, with a new request, and return the new frame.

        Parameters
        ----------
        headers, cookies
            As in the first call; receipts hold neither.
        session, progress, timeout
            As in `crawl_df`.

        Returns
        -------
        pandas.DataFrame
            Of several inputs, those that the frame still has.

        Raises
        ------
        InvalidArgument
            The frame is not of `search_df`, `crawl_df`, `scrape_df` or `creatives_df`, or comes
            from another service.
        WebdataError
            As the first call.
        """
        private = {"headers": headers, "cookies": cookies}
        secrets = {name: value for name, value in private.items() if value is not None}
        return repeat_call(
            self._df, secrets, {"session": session, "progress": progress, "timeout": timeout}
        )

    def drop_duplicates(
        self, subset: str | Sequence[str] | None = None, *, keep: Keep = "first"
    ) -> pd.DataFrame:
        """Return the frame without the rows whose content is in another row.

        Pages have equal content if their `content_hash` is equal, results of searches if their
        `url` is, creatives and advertisers by their id, captures by their `digest`. Rows of other
        frames, and rows whose content is not known, are compared in every column.

        Parameters
        ----------
        subset
            Columns to compare instead, also of lists and dicts.
        keep
            The row of each group that stays: `"first"`, `"last"`, or False for none.
        """
        return compare.without_duplicates(self._df, subset, keep)

    def __repr__(self) -> str:
        return encodable(self.line or f"frame of kind {self.receipt['kind']}")
