"""Returns the links of the pages of a crawl as a frame."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Unpack

from webdata_nb.errors import NotFound, NotSupported, OfflineError
from webdata_nb.toolkit.bridge import blocking
from webdata_nb.toolkit.client import paging
from webdata_nb.toolkit.frames import frame
from webdata_nb.toolkit.jobs.job import Job, checked_id
from webdata_nb.toolkit.requests.arguments import check_flag
from webdata_nb.toolkit.requests.call_options import CallOptions, within
from webdata_nb.toolkit.requests.options import ConnectionOptions
from webdata_nb.toolkit.requests.signatures import with_options
from webdata_nb.toolkit.sites import links
from webdata_nb.toolkit.sites.pages import PAGE_FACTS

if TYPE_CHECKING:
    import pandas as pd


@with_options(ConnectionOptions)
async def alinks_df(
    df: pd.DataFrame | Job | str, *, broken: bool = False, **options: Unpack[ConnectionOptions]
) -> pd.DataFrame:
    """Return every link of the pages, or the broken ones, one row each, with what it leads to.

    `alinks_df` is the same for async code. The links of a frame with the column `links` or
    `page_facts` come from there. For any other crawl they come from the service, for as long as it
    keeps the job: no format has to be requested for them.

    Parameters
    ----------
    df
        A frame of `crawl_df`, a job, or the id of one.
    session
        What `connect()` returned; the default session when None. A job has its own.
    broken
        True returns the links to pages that failed only: missing pages, pages without an answer,
        redirects that lead to one or to nothing. A file that the crawl could not read, such as a
        picture, is not broken, and neither is another site that answers with 401, 403 or 429.

    Returns
    -------
    pandas.DataFrame
        ============ ========= ====================================================
        column       dtype     meaning
        ============ ========= ====================================================
        url          str       the page
        position     Int32     position among the page's links, from 1
        link         str       the URL of the link
        internal     boolean   whether it is on the site of the page
        text, rel    str       text and `rel` of the first link to the URL; null for
                               a crawl without `audit=True`, but for `nofollow`
        status_code  Int32     HTTP status of what it leads to, after redirects
        error        str       why that failed
        ============ ========= ====================================================

        Each link of a page is there once, without fragment. `status_code` and `error` are null
        where the crawl requested nothing: at links to other sites, or beyond `max_pages`, without
        `check_links=True`.

        With the column `links` in `df`, links have their fragments, and what they lead to is known
        from the rows of `df`: not for a URL that was merged with another one.

    Raises
    ------
    InvalidArgument
        `df` is no crawl, and has no links, or `broken` is not True or False.
    NotFound, NotSupported
        The service has no such crawl, or offers no facts of pages.
    OfflineError
        The links would come from the service, and offline mode is on.

    Examples
    --------
    >>> import pandas as pd
    >>> pages = pd.DataFrame({"url": ["http://a.test/"], "links": [["http://b.test/"]]})
    >>> links_df(pages)["link"].tolist()
    ['http://b.test/']
    >>> pages["status_code"], pages["error"] = 404, "HTTP 404 Not Found"
    >>> pages["links"] = [["http://a.test/#top", "http://b.test/"]]
    >>> links_df(pages, broken=True)[["link", "status_code"]].values.tolist()
    [['http://a.test/#top', 404]]
    """
    check_flag("broken", broken)
    session = df.connection if isinstance(df, Job) else options["session"]
    if isinstance(df, Job | str):
        call = CallOptions.of(session=session, timeout=options["timeout"])
        crawl_id = df.job_id if isinstance(df, Job) else checked_id(df)
        return links.links_of_facts(await _facts(crawl_id, call), broken=broken)
    frame.require_frame(df)
    if not {PAGE_FACTS, "links"}.isdisjoint(df.columns):
        return links.links_df(df, broken=broken)
    job_id = _job_id(df)
    if job_id is None or "url" not in df.columns:
        return links.links_df(df, broken=broken)  # says which column is missing
    call = CallOptions.of(session=session, timeout=options["timeout"])
    facts = await _facts(job_id, call)
    return await asyncio.to_thread(links.links_of_facts, facts, df, broken=broken)


links_df = blocking(alinks_df)


def _job_id(df: pd.DataFrame) -> str | None:
    """Return the crawl that a frame comes from; None if there is none, or are several."""
    receipt = df.attrs.get(frame.ATTRS) if frame.has_receipt(df) else None
    if not isinstance(receipt, dict) or receipt.get("kind") != "crawl":
        return None
    return receipt.get("job_id")


async def _facts(job_id: str, call: CallOptions) -> list[dict[str, Any]]:
    """Return the facts of all URLs of a crawl."""
    if call.settings.offline:
        raise OfflineError(
            'offline, and the links of this crawl are at the service: pass formats=["links"] or '
            "audit=True to crawl_df"
        )
    async with call.connection.client(call.settings) as client:
        try:
            facts: list[dict[str, Any]] = await within(
                call.timeout_s, paging.page_facts(client, job_id)
            )
        except (NotFound, NotSupported) as error:
            error.add_note(
                "the facts of pages are an extra of our service: with another one, pass "
                'formats=["links"] to crawl_df'
            )
            raise
    return facts
