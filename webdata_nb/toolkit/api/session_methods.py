"""Binds the public functions to one service, as methods of a session."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Concatenate, ParamSpec, TypeVar, cast

from webdata_nb.errors import InvalidArgument, checked_call
from webdata_nb.toolkit import session as connections
from webdata_nb.toolkit.api.advertisers import aadvertisers_df, advertisers_df
from webdata_nb.toolkit.api.captures import acaptures_df, captures_df
from webdata_nb.toolkit.api.crawl import acrawl_df, crawl_df
from webdata_nb.toolkit.api.creatives import acreatives_df, creatives_df
from webdata_nb.toolkit.api.links import alinks_df, links_df
from webdata_nb.toolkit.api.retry import aretry_failed, retry_failed
from webdata_nb.toolkit.api.scrape import ascrape_df, scrape_df
from webdata_nb.toolkit.api.search import asearch_df, search_df
from webdata_nb.toolkit.api.start import (
    acrawl_job,
    aexport_df,
    ajob,
    asearch_job,
    crawl_job,
    export_df,
    job,
    search_job,
)
from webdata_nb.toolkit.api.url_outcome import awhy, why
from webdata_nb.toolkit.api.verification import averify, verify
from webdata_nb.toolkit.api.watch import awatch_df, watch_df
from webdata_nb.toolkit.jobs.listings import (
    aengines_df,
    ajobs_df,
    ausage_df,
    aweights_df,
    engines_df,
    jobs_df,
    usage_df,
    weights_df,
)
from webdata_nb.toolkit.session import Connection

if TYPE_CHECKING:
    from webdata_nb.toolkit.api.frame_functions import (
        AsyncCrawlDf,
        AsyncCreativesDf,
        AsyncSearchDf,
        CrawlDf,
        CreativesDf,
        SearchDf,
    )

P = ParamSpec("P")
T = TypeVar("T")


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
    scrape_df = _method(scrape_df)
    ascrape_df = _method(ascrape_df)
    retry_failed = _method(retry_failed)
    aretry_failed = _method(aretry_failed)
    creatives_df: ClassVar[CreativesDf] = cast("CreativesDf", _method(creatives_df))
    acreatives_df: ClassVar[AsyncCreativesDf] = cast("AsyncCreativesDf", _method(acreatives_df))
    advertisers_df = _method(advertisers_df)
    aadvertisers_df = _method(aadvertisers_df)
    captures_df = _method(captures_df)
    acaptures_df = _method(acaptures_df)
    search_job = _method(search_job)
    asearch_job = _method(asearch_job)
    crawl_job = _method(crawl_job)
    acrawl_job = _method(acrawl_job)
    job = _method(job)
    ajob = _method(ajob)
    export_df = _method(export_df)
    aexport_df = _method(aexport_df)
    engines_df = _method(engines_df)
    aengines_df = _method(aengines_df)
    jobs_df = _method(jobs_df)
    ajobs_df = _method(ajobs_df)
    weights_df = _method(weights_df)
    aweights_df = _method(aweights_df)
    usage_df = _method(usage_df)
    ausage_df = _method(ausage_df)
    links_df = _method(links_df)
    alinks_df = _method(alinks_df)
    verify = _method(verify)
    averify = _method(averify)
    watch_df = _method(watch_df)
    awatch_df = _method(awatch_df)
    why = _method(why)
    awhy = _method(awhy)


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
