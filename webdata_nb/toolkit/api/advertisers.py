"""Resolves names and domains to the advertiser ids that creatives are listed by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webdata_nb.contract import limits
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.bridge import blocking
from webdata_nb.toolkit.jobs.listings import listing_frame
from webdata_nb.toolkit.requests import arguments
from webdata_nb.toolkit.requests.call_options import CallOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from webdata_nb.contract.replies import Reply
    from webdata_nb.toolkit.client.client import Client
    from webdata_nb.toolkit.frames.frame import DtypeBackend
    from webdata_nb.toolkit.session import Connection


async def aadvertisers_df(
    query: str,
    *,
    limit: int = limits.ADVERTISERS_DEFAULT,
    session: Connection | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - the user's name; asyncio.timeout does it
    dtype_backend: DtypeBackend = "pandas",
) -> pd.DataFrame:
    """Find the advertisers that a name or a domain may mean, best first.

    `aadvertisers_df` is the same for async code. Names are not unique: look at the alternatives
    before listing the creatives of the first. Finding advertisers is an extra of our service.

    Parameters
    ----------
    query
        A name, or part of one, or a domain such as `"example.com"`.
    limit
        Advertisers at most, 1 to 50.
    session
        What `connect()` returned; the default session when None.
    timeout
        Seconds to wait for the answer.
    dtype_backend
        `"pandas"` or `"pyarrow"`.

    Returns
    -------
    pandas.DataFrame
        ================== ======= =====================================================
        column             dtype   meaning
        ================== ======= =====================================================
        rank               Int32   from 1, best first
        advertiser_id      str     what `creatives_df` takes
        region             str     where the advertiser is based, by the source
        ads_min, ads_max   Int64   how many ads there are, where the source tells
        extra              object  fields unknown to this version
        domain             str     where its ads lead, as far as known
        name               str     as the source has it
        ================== ======= =====================================================

    Raises
    ------
    InvalidArgument
        An argument that is not allowed; nothing was sent.
    NotSupported
        The service does not offer it, or has no source to ask.
    WebdataError
        The root of these, and of what a connection may meet.

    Examples
    --------
    >>> advertisers_df("fulmar")["advertiser_id"].tolist()
    ['AR1', 'AR2']
    """
    if not isinstance(query, str) or not query.strip():
        raise InvalidArgument(f"query must be a name or a domain; it is {format_value(query)}")
    limit = arguments.check_integer("limit", limit, minimum=1)
    if limit > limits.ADVERTISERS[1]:
        raise InvalidArgument(f"limit must be at most {limits.ADVERTISERS[1]}; it is {limit}")
    call = CallOptions.of(session=session, timeout=timeout, dtype_backend=dtype_backend)
    text = query.strip()

    async def fetch(client: Client) -> Sequence[Reply]:
        return (await client.advertisers(text, limit=limit)).advertisers

    return await listing_frame("advertisers", {"query": text, "limit": limit}, call, fetch)


advertisers_df = blocking(aadvertisers_df)
