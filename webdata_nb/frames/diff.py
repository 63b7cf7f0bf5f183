"""Two search frames against each other: who moved, who came, who left."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from webdata_nb.contract.results import result_key
from webdata_nb.errors import InvalidArgument

_PARAMETERS: Final = ("query", "num_results", "engine", "language", "country", "safe_search")
_NEEDED: Final = ("rank", "url")
_KEY: Final = "_key"
_RANKS: Final = ("old_rank", "new_rank")


def serp_diff(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """Compare two results of `search_df`: rank moves, entries and exits.

    Results are matched as a search itself tells them apart: `http` or `https`, `www.`, a trailing
    slash and tracking parameters make no difference. Frames of several inputs are compared input
    by input; one that failed in either frame has no results to compare, and is left out.

    Parameters
    ----------
    old, new
        Frames of `search_df`, or any with columns `rank` and `url`.

    Returns
    -------
    pandas.DataFrame
        One row for each result of either frame: by input, then by new rank, and those that left
        at the end by their old rank.

        ==================== ======= ======================================================
        column               dtype   meaning
        ==================== ======= ======================================================
        query, engine, ...   as is   the columns that tell the inputs apart, if there are any
        url, title           str     as in the new frame, or in the old one where it left
        old_rank, new_rank   Int32   positions from 1; missing where it was not there
        move                 Int32   places gained (positive) or lost; missing unless in both
        change               str     `up`, `down`, `same`, `entered` or `left`
        ==================== ======= ======================================================

    Raises
    ------
    InvalidArgument
        A frame without these columns, or two that are told apart by different ones.

    Examples
    --------
    >>> before = pd.DataFrame({"rank": [1, 2], "url": ["https://a.test/", "https://b.test/"]})
    >>> after = pd.DataFrame({"rank": [1, 2], "url": ["http://www.b.test", "https://c.test/"]})
    >>> for row in serp_diff(before, after)[["url", "move", "change"]].to_numpy().tolist():
    ...     print(row)
    ['http://www.b.test', 1, 'up']
    ['https://c.test/', <NA>, 'entered']
    ['https://a.test/', <NA>, 'left']
    """
    by = _parameters(old, new)
    sides = [_side(frame, by, rank) for frame, rank in zip((old, new), _RANKS, strict=True)]
    lost = pd.concat([_failed(frame, by) for frame in (old, new)], ignore_index=True)
    kept = [_without(side, lost, by) for side in sides]
    whole = kept[0].merge(kept[1], on=[*by, _KEY], how="outer", suffixes=("_old", ""), sort=False)
    told = pd.DataFrame(
        {
            **{name: whole[name] for name in by},
            **{name: whole[name].fillna(whole[f"{name}_old"]) for name in ("url", "title")},
            **{name: whole[name] for name in _RANKS},
            "move": (whole["old_rank"] - whole["new_rank"]).astype("Int32"),
        }
    )
    told["change"] = _changes(told)
    return _sorted(told, by, pd.concat(kept, ignore_index=True))


def _parameters(old: pd.DataFrame, new: pd.DataFrame) -> list[str]:
    """Return the columns that tell several inputs apart."""
    for name, frame in (("old", old), ("new", new)):
        if not isinstance(frame, pd.DataFrame) or not set(_NEEDED) <= set(frame.columns):
            raise InvalidArgument(f"{name} must be a frame of search_df, with `rank` and `url`")
    found = [[name for name in _PARAMETERS if name in frame.columns] for frame in (old, new)]
    if found[0] != found[1]:
        raise InvalidArgument(
            "old and new must have the same columns for their inputs; "
            f"they have {found[0] or 'none'} and {found[1] or 'none'}"
        )
    return found[0]


def _side(frame: pd.DataFrame, by: list[str], rank: str) -> pd.DataFrame:
    """Return one frame's results with their keys, each result once, at its best rank."""
    results = frame[frame["rank"].notna() & frame["url"].notna()]
    urls = results["url"].astype("str")
    title = results["title"] if "title" in results else pd.Series(pd.NA, index=results.index)
    side = pd.DataFrame(
        {
            **{name: results[name].astype("object") for name in by},
            _KEY: urls.map(result_key).astype("str"),
            "url": urls,
            "title": title.astype("str"),
            rank: results["rank"].astype("Int32"),
        }
    )
    return side.sort_values(rank, kind="stable").drop_duplicates([*by, _KEY])


def _failed(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the inputs whose search failed: rows with an error and no result."""
    if not by or "error" not in frame:
        return pd.DataFrame({name: pd.Series(dtype="object") for name in by})
    failed = frame["rank"].isna() & frame["error"].notna()
    return frame.loc[failed, by].astype("object").drop_duplicates()


def _without(side: pd.DataFrame, lost: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    if lost.empty:
        return side
    marked = side.merge(lost.drop_duplicates(), on=by, how="left", indicator="_lost")
    return marked[marked.pop("_lost") == "left_only"]


def _changes(told: pd.DataFrame) -> pd.Series[Any]:
    names = pd.Series("same", index=told.index, dtype="str")
    names[(told["move"] > 0).fillna(value=False)] = "up"
    names[(told["move"] < 0).fillna(value=False)] = "down"
    names[told["old_rank"].isna()] = "entered"
    names[told["new_rank"].isna()] = "left"
    return names


def _sorted(told: pd.DataFrame, by: list[str], seen: pd.DataFrame) -> pd.DataFrame:
    """Order rows by input as the frames have them, then by new rank, then by old."""
    keys: list[str] = []
    if by:
        inputs = seen[by].drop_duplicates().assign(_input=range(len(seen[by].drop_duplicates())))
        told = told.merge(inputs, on=by, how="left")
        keys = ["_input"]
    told = told.sort_values([*keys, *reversed(_RANKS)], kind="stable", na_position="last")
    return told.drop(columns=keys).reset_index(drop=True)
