"""Removes rows of a frame whose content is in another row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import pandas as pd

from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.frames import records, result_frame

Keep = Literal["first", "last", False]
# The columns whose values are equal for equal content, by the kind of the frame. The first one with
# a value counts: not every service sends `content_hash`.
_CONTENT: Final[Mapping[str, tuple[str, ...]]] = {
    "crawl": ("content_hash", "markdown", "html", "raw_html"),
    "search": ("url",),
    "creatives": ("creative_id",),
    "advertisers": ("advertiser_id",),
    "captures": ("digest",),
}


def without_duplicates(
    df: pd.DataFrame, subset: str | Sequence[str] | None, keep: Keep
) -> pd.DataFrame:
    """Return `df` without the rows whose content, or values in `subset`, are in another row.

    Rows whose content is not known, such as failed pages, are compared in every column, as are
    those of frames without a column for it.

    Raises
    ------
    InvalidArgument
        The frame does not have a column of `subset`.
    """
    names = [subset] if isinstance(subset, str) else None if subset is None else list(subset)
    if names is not None and (missing := [name for name in names if name not in df.columns]):
        raise InvalidArgument(f"subset must name columns of the frame; not {missing}")
    if names is not None and not names:
        raise InvalidArgument("subset must name a column, or be None for the content")
    if names is not None:
        return df[~_comparable(df[names]).duplicated(keep=keep).to_numpy()]
    content = pd.Series(None, df.index, dtype=object)
    for name in _CONTENT.get(records.receipt_kind(df), ()):
        if name in df.columns:
            content = content.where(content.notna(), df[name].astype(object))
    unknown = content.isna().to_numpy(bool)
    repeats = content.duplicated(keep=keep).to_numpy(bool, copy=True)
    repeats[unknown] = _comparable(df[unknown]).duplicated(keep=keep).to_numpy(bool)
    return df[~repeats]


def _comparable(df: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose lists and dicts can be compared, also those that the user stored."""
    return result_frame.from_columns({name: df[name] for name in df.columns}, df.index)
