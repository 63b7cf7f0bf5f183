"""Compares two search frames: rank changes, new results and missing results."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from webdata_nb.contract.results import result_key
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.frames.result_frame import ResultFrame

_PARAMETERS: Final = ("query", "num_results", "engine", "language", "country", "safe_search")
_NEEDED: Final = ("rank", "url")
_KEY: Final = "_key"
_RANKS: Final = ("old_rank", "new_rank")


def serp_diff(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """Compare two results of `search_df`: rank moves, entries and exits.

    Results match regardless of `http` or `https`, `www.`, a trailing slash and tracking
    parameters, as within a search. Frames of several inputs are compared input by input. Inputs
    that failed in either frame are left out.

    Parameters
    ----------
    old, new
        Frames of `search_df`, or any with columns `rank` and `url`.

    Returns
    -------
    pandas.DataFrame
        One row for each result of either frame, by input and new rank; results that left are at
        the end, by their old rank.

        ==================== ======= ======================================================
        column               dtype   meaning
        ==================== ======= ======================================================
        query, engine, ...   as is   the columns that identify the inputs, if any
        url, title           str     as in the new frame, or in the old one for a result that left
        old_rank, new_rank   Int32   ranks from 1; missing if the result is not in the frame
        move                 Int32   places gained (positive) or lost; missing unless in both
        change               str     `up`, `down`, `same`, `entered` or `left`
        ==================== ======= ======================================================

    Raises
    ------
    InvalidArgument
        A frame lacks these columns, or the frames have different columns for their inputs.

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
    by = _input_columns(old, new)
    sides = [_side(frame, by, rank) for frame, rank in zip((old, new), _RANKS, strict=True)]
    failed = pd.concat([_failed_inputs(frame, by) for frame in (old, new)], ignore_index=True)
    compared = [_without(side, failed, by) for side in sides]
    merged = compared[0].merge(
        compared[1], on=[*by, _KEY], how="outer", suffixes=("_old", ""), sort=False
    )
    changes = ResultFrame(
        {
            **{name: merged[name] for name in by},
            **{name: merged[name].fillna(merged[f"{name}_old"]) for name in ("url", "title")},
            **{name: merged[name] for name in _RANKS},
            "move": (merged["old_rank"] - merged["new_rank"]).astype("Int32"),
        }
    )
    changes["change"] = _change_names(changes)
    return _sorted(changes, by, pd.concat(compared, ignore_index=True))


def _input_columns(old: pd.DataFrame, new: pd.DataFrame) -> list[str]:
    """Return the columns that identify the inputs."""
    for name, frame in (("old", old), ("new", new)):
        if not isinstance(frame, pd.DataFrame) or not set(_NEEDED) <= set(frame.columns):
            raise InvalidArgument(
                f"{name} must be a frame of search_df, with `rank` and `url`; "
                f"it is {format_value(frame)}"
            )
    columns = [[name for name in _PARAMETERS if name in frame.columns] for frame in (old, new)]
    if columns[0] != columns[1]:
        raise InvalidArgument(
            "old and new must have the same columns for their inputs; "
            f"they have {columns[0] or 'none'} and {columns[1] or 'none'}"
        )
    return columns[0]


def _side(frame: pd.DataFrame, by: list[str], rank: str) -> pd.DataFrame:
    """Return the results of one frame with their keys, each result once with its best rank."""
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


def _failed_inputs(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the inputs of rows with an error and without a result."""
    if not by or "error" not in frame:
        return pd.DataFrame({name: pd.Series(dtype="object") for name in by})
    failed = frame["rank"].isna() & frame["error"].notna()
    return frame.loc[failed, by].astype("object").drop_duplicates()


def _without(side: pd.DataFrame, failed: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    if failed.empty:
        return side
    marked = side.merge(failed.drop_duplicates(), on=by, how="left", indicator="_source")
    return marked[marked.pop("_source") == "left_only"]


def _change_names(changes: pd.DataFrame) -> pd.Series[Any]:
    names = pd.Series("same", index=changes.index, dtype="str")
    names[(changes["move"] > 0).fillna(value=False)] = "up"
    names[(changes["move"] < 0).fillna(value=False)] = "down"
    names[changes["old_rank"].isna()] = "entered"
    names[changes["new_rank"].isna()] = "left"
    return names


def _sorted(changes: pd.DataFrame, by: list[str], results: pd.DataFrame) -> pd.DataFrame:
    """Sort by input in the order of the frames, then by new rank, then by old rank."""
    keys: list[str] = []
    if by:
        inputs = (
            results[by].drop_duplicates().assign(_input=range(len(results[by].drop_duplicates())))
        )
        changes = changes.merge(inputs, on=by, how="left")
        keys = ["_input"]
    changes = changes.sort_values([*keys, *reversed(_RANKS)], kind="stable", na_position="last")
    return changes.drop(columns=keys).reset_index(drop=True)
