"""Displays frames in notebooks: as a table with links and pictures, or creatives as cards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.display import tables
from webdata_nb.toolkit.display import tables as drawing
from webdata_nb.toolkit.frames import frame
from webdata_nb.toolkit.requests import arguments

if TYPE_CHECKING:
    import pandas as pd

    from webdata_nb.toolkit.display.tables import Gallery, Sheet


def gallery(df: pd.DataFrame, *, max_cards: int = 60) -> Gallery:
    """Show creatives as cards with their pictures.

    Pictures come from the files that `should_download_previews` or `should_download_assets`
    brought into the cache; nothing is loaded from elsewhere, and whatever an advertiser wrote is
    shown as text.

    Parameters
    ----------
    df
        A frame of `creatives_df`.
    max_cards
        Cards at most.

    Returns
    -------
    Gallery
        A notebook shows it when it is the last value of a cell.

    Raises
    ------
    InvalidArgument
        `df` is no frame of creatives.

    Examples
    --------
    >>> gallery(creatives_df("AR17828074650563772417", limit=3))
    Gallery of 3 creatives
    """
    if "creative_id" not in getattr(df, "columns", ()):
        raise InvalidArgument(f"df must be a frame of creatives_df; it is {format_value(df)}")
    most = arguments.check_integer("max_cards", max_cards, minimum=1)
    rows = df.head(most).to_dict(orient="records")
    records_list = [{str(name): value for name, value in row.items()} for row in rows]
    return drawing.gallery(records_list, left_out=max(0, len(df) - most))


def show(df: pd.DataFrame, *, max_rows: int = 20) -> Sheet:
    """Show a frame as a table to read: with links, small pictures, and long texts folded.

    Every column that has a value is there, in the order of the frame: choose columns as usual,
    `show(df[["rank", "title", "url"]])`. Addresses become links (http and https only), screenshots
    and downloaded files small pictures, lists and long texts unfold at a click. Whatever a page
    said is shown as text; the table has no script and loads nothing.

    Parameters
    ----------
    df
        A frame, of this package or any other.
    max_rows
        Rows at most.

    Returns
    -------
    Sheet
        A notebook shows it when it is the last value of a cell.

    Raises
    ------
    InvalidArgument
        `df` is no frame, or `max_rows` is not a whole number from 1.

    Examples
    --------
    >>> df = search_df("aurora forecast", formats=[])
    >>> show(df, max_rows=2)
    Sheet of 2 rows
    """
    if not isinstance(df, frame.DATA_FRAME):
        raise InvalidArgument(f"df must be a pandas DataFrame; it is {format_value(df)}")
    most = arguments.check_integer("max_rows", max_rows, minimum=1)
    return tables.sheet(
        [str(name) for name in df.columns],
        frame.to_lists(df.head(most)),
        line=frame.receipt_line(df),
        left_out=max(0, len(df) - most),
    )
