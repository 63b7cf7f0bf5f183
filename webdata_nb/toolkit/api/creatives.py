"""Lists the advertising creatives of advertisers as a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack, cast

from webdata_nb.contract import limits
from webdata_nb.toolkit.api.frame_functions import frame_or_stream
from webdata_nb.toolkit.bridge import blocking
from webdata_nb.toolkit.requests.arguments import check_flag
from webdata_nb.toolkit.requests.inputs import creatives_inputs
from webdata_nb.toolkit.requests.options import CreativesDfOptions
from webdata_nb.toolkit.requests.signatures import with_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from webdata_nb.toolkit.api.frame_functions import AsyncCreativesDf, CreativesDf
    from webdata_nb.toolkit.calls.frame_stream import FrameStream


@with_options(CreativesDfOptions)
async def _acreatives_df(
    advertiser: str | Sequence[str],
    *,
    stream: bool = False,
    **options: Unpack[CreativesDfOptions],
) -> pd.DataFrame | FrameStream:
    """List an advertiser's creatives from the ads transparency source, one row each.

    `acreatives_df` is the same for async code. Every page is read, unless `limit` ends the
    listing sooner. An interrupted call continues at its cursor if it is repeated within a day (not
    with `refresh`, and not without the cache). No creative is listed twice. An omitted argument is
    not sent, so the service's default applies; the signature shows the defaults of the local
    service.

    Parameters
    ----------
    advertiser
        The advertiser's id, such as `"AR17828074650563772417"`, or the URL of its page. Lists
        here, and in `region` and `date_range`, request every combination; columns of these names
        tell the rows apart, with `fetched_at`, `success` and `error`.
    timeout
        Seconds to wait for all pages together; then ConnectionFailed.
    on_incomplete
        Where rows are missing: `"raise"`, `"warn"` or `"ignore"`.
    on_cancel
        When the call is interrupted: `"raise"`, or `"partial"` for the rows so far.
    stream
        Return a stream of frames immediately, to loop over: one for each page of up to 40 rows, as
        it arrives. Several inputs run concurrently. Leaving the loop ends the listing; the same
        call continues it later. Streamed rows come from the cache if it has them, but are not
        stored in it as an answer.

    Returns
    -------
    pandas.DataFrame or FrameStream
        The frame; with `stream`, a stream of such frames for `for` and `async for`. After the
        loop, its `receipt` is that of the whole call. The receipt is
        `df.attrs["webdata"]`.

        ================================== =================== ================================
        column                             dtype               meaning
        ================================== =================== ================================
        position                           Int32               place in the listing, from 1
        advertiser_id, creative_id         str                 the source's ids
        format                             str                 text, image or video
        first_shown, last_shown            datetime64[us, UTC] when
        days_shown                         Int32               days
        political                          boolean             declared as such
        error                              str                 what could not be read or done
        extra                              object              fields unknown to this version
        preview_url, advertiser_name       str                 preview's address, advertiser
        regions, asset_urls                object              lists (1)
        impressions_min, impressions_max   Int64               where the source tells (1)
        assets                             object              list of downloaded files (3)
        preview                            object              the downloaded preview (4)
        text_confidence                    float64             0 to 1 (2)
        landing_domain                     str                 (1)
        headline, description              str                 (1), (2)
        text                               str                 lines of the picture (2)
        ================================== =================== ================================

        (1) with `skip_details=False` or `should_download_assets`, (2) with `ocr`, (3) with
        `should_download_assets`, (4) with `should_download_previews`. A file is a dict of url,
        sha256, mime, bytes, width, height and `file`, its path in the cache.

    Raises
    ------
    InvalidArgument
        An argument that is not allowed; nothing was sent.
    OverBudget
        See `budget`.
    IncompleteResult
        See `on_incomplete`; a cursor that repeats counts as missing rows.
    OfflineError
        Offline mode is on and the cache has no answer.
    WebdataError
        The root of these, and of what a connection may meet.

    Warns
    -----
    UserWarning
        There was no creative.

    Examples
    --------
    >>> df = creatives_df("AR17828074650563772417", limit=3)
    >>> df["position"].tolist()
    [1, 2, 3]
    """
    inputs = creatives_inputs(advertiser, options)
    most = inputs[0].spec.max_rows or limits.CREATIVES_LIMIT_DEFAULT
    page_rows = min(most, limits.CREATIVES_LIMIT_DEFAULT)
    frame = await frame_or_stream(
        inputs, options, stream=page_rows if check_flag("stream", stream) else False
    )
    return cast("pd.DataFrame | FrameStream", frame)


acreatives_df = cast("AsyncCreativesDf", _acreatives_df)
creatives_df = cast("CreativesDf", blocking(_acreatives_df))
