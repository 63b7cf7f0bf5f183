"""The creatives of a frame, to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webdata_nb.display import gallery as drawing
from webdata_nb.errors import InvalidArgument
from webdata_nb.functions import arguments

if TYPE_CHECKING:
    import pandas as pd

    from webdata_nb.display.gallery import Gallery


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
    >>> gallery(creatives_df("AR17828074650563772417", max_rows=3))
    Gallery of 3 creatives
    """
    if "creative_id" not in getattr(df, "columns", ()):
        raise InvalidArgument("df must be a frame of creatives_df")
    most = arguments.whole("max_cards", max_cards, least=1)
    rows = df.head(most).to_dict(orient="records")
    told = [{str(name): value for name, value in row.items()} for row in rows]
    return drawing.shown(told, left_out=max(0, len(df) - most))
