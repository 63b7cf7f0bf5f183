"""Compares frames row by row: two of one kind, two searches by rank, and the rows of one frame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import orjson
import pandas as pd
import pyarrow as pa

from webdata_nb.contract.url_keys import result_key
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import closest, did_you_mean, format_value, quoted
from webdata_nb.toolkit.frames import frame, schemas
from webdata_nb.toolkit.frames.frame import JSON_DTYPE, NestedArray, NestedDtype, ResultFrame
from webdata_nb.toolkit.frames.storage import ParquetDocument

__all__ = ["diff"]

Keep = Literal["first", "last", False]
# The columns whose values are equal for equal content, by the kind of the frame. The first one with
# a value counts: not every service sends `content_hash`.
_SAME_CONTENT: Final[Mapping[str, tuple[str, ...]]] = {
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
        return df[~_hashable(df[names]).duplicated(keep=keep).to_numpy()]
    content = pd.Series(None, df.index, dtype=object)
    for name in _SAME_CONTENT.get(frame.receipt_kind(df), ()):
        if name in df.columns:
            content = content.where(content.notna(), df[name].astype(object))
    unknown = content.isna().to_numpy(bool)
    repeats = content.duplicated(keep=keep).to_numpy(bool, copy=True)
    repeats[unknown] = _hashable(df[unknown]).duplicated(keep=keep).to_numpy(bool)
    return df[~repeats]


def _hashable(df: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose lists and dicts can be compared, also those that the user stored."""
    return frame.from_columns({name: df[name] for name in df.columns}, df.index)


_SEARCH_LABELS: Final = ("query", "num_results", "engine", "language", "country", "safe_search")
_NEEDED: Final = ("rank", "url")
_RESULT_KEY: Final = "_key"
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
    sides = [_side(df, by, rank) for df, rank in zip((old, new), _RANKS, strict=True)]
    failed = pd.concat([_failed_inputs(df, by) for df in (old, new)], ignore_index=True)
    compared = [_without(side, failed, by) for side in sides]
    merged = compared[0].merge(
        compared[1], on=[*by, _RESULT_KEY], how="outer", suffixes=("_old", ""), sort=False
    )
    changes = ResultFrame(
        {
            **{name: merged[name] for name in by},
            **{name: merged[name].fillna(merged[f"{name}_old"]) for name in ("url", "title")},
            **{name: merged[name] for name in _RANKS},
            "move": (merged["old_rank"] - merged["new_rank"]).astype("Int32"),
        }
    )
    names = pd.Series("same", index=changes.index, dtype="str")
    names[(changes["move"] > 0).fillna(value=False)] = "up"
    names[(changes["move"] < 0).fillna(value=False)] = "down"
    names[changes["old_rank"].isna()] = "entered"
    names[changes["new_rank"].isna()] = "left"
    changes["change"] = names
    return _in_input_order(changes, by, pd.concat(compared, ignore_index=True))


def _input_columns(old: pd.DataFrame, new: pd.DataFrame) -> list[str]:
    """Return the columns that identify the inputs."""
    for name, df in (("old", old), ("new", new)):
        if not isinstance(df, pd.DataFrame) or not set(_NEEDED) <= set(df.columns):
            raise InvalidArgument(
                f"{name} must be a frame of search_df, with `rank` and `url`; "
                f"it is {format_value(df)}"
            )
    columns = [[name for name in _SEARCH_LABELS if name in df.columns] for df in (old, new)]
    if columns[0] != columns[1]:
        raise InvalidArgument(
            "old and new must have the same columns for their inputs; "
            f"they have {columns[0] or 'none'} and {columns[1] or 'none'}"
        )
    return columns[0]


def _side(df: pd.DataFrame, by: list[str], rank: str) -> pd.DataFrame:
    """Return the results of one frame with their keys, each result once with its best rank."""
    results = df[df["rank"].notna() & df["url"].notna()]
    urls = results["url"].astype("str")
    title = results["title"] if "title" in results else pd.Series(pd.NA, index=results.index)
    side = pd.DataFrame(
        {
            **{name: results[name].astype("object") for name in by},
            _RESULT_KEY: urls.map(result_key).astype("str"),
            "url": urls,
            "title": title.astype("str"),
            rank: results["rank"].astype("Int32"),
        }
    )
    return side.sort_values(rank, kind="stable").drop_duplicates([*by, _RESULT_KEY])


def _failed_inputs(df: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the inputs of rows with an error and without a result."""
    if not by or "error" not in df:
        return pd.DataFrame({name: pd.Series(dtype="object") for name in by})
    failed = df["rank"].isna() & df["error"].notna()
    return df.loc[failed, by].astype("object").drop_duplicates()


def _without(side: pd.DataFrame, failed: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    if failed.empty:
        return side
    marked = side.merge(failed.drop_duplicates(), on=by, how="left", indicator="_source")
    return marked[marked.pop("_source") == "left_only"]


def _in_input_order(changes: pd.DataFrame, by: list[str], results: pd.DataFrame) -> pd.DataFrame:
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


Key = tuple[object, ...]

# Columns that may differ in each run even if nothing changed: times and ids, the quality, which is
# computed from the content, and screenshots, whose bytes depend on the rendering.
VOLATILE: Final = frozenset(
    {"fetched_at", "taken_at", "time_taken", "id", "quality", "screenshot", "position"}
)
# Of the received bytes, which often hold tokens: compared only where there is no content.
_RECEIVED: Final = frozenset({"content_hash", "raw_html"})
_CONTENT: Final = frozenset({"markdown", "html"})
_VOLATILE_METADATA: Final = frozenset({"fetched_at", "content_hash", "crawl_score", "extract"})
_METADATA: Final = "metadata"
_JSON_COLUMNS: Final = frozenset(
    field.name
    for schema in schemas.SCHEMAS.values()
    for field in schema
    if schemas.kind(field) == schemas.JSON
)
# Columns that only frames of one kind have.
_KIND_COLUMNS: Final = {"search": "snippet", "crawl": "depth", "creatives": "creative_id"}
_LABELS: Final = ("query", "engine", "language", "country", "advertiser", "region", "date_range")
_KEYS: Final = ("creative_id", "url")


def diff(
    a: pd.DataFrame | str | Path,
    b: pd.DataFrame | str | Path,
    *,
    on: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the added, removed and changed rows from `a` to `b`.

    Parameters
    ----------
    a, b
        The earlier and the later frame, or Parquet files such as `cache.ls()["file"]` names.
    on
        Columns that identify a row; by default `url` or `creative_id`, with the columns
        of several inputs. Rows with the same key are matched in their order.
    columns
        Columns to compare; by default all common columns except those that may differ although
        nothing changed: `fetched_at`, `time_taken`, `id`, `position`, `quality` and `screenshot`;
        `content_hash` and `raw_html` if there is `markdown` or `html`. Of `metadata`, the entries
        `fetched_at`, `content_hash`, `crawl_score` and `extract` are ignored.

    Returns
    -------
    pandas.DataFrame
        Changed and removed rows in the order of `a`, then added rows in the order of `b`.

        ============ ========= ====================================================
        column       dtype     meaning
        ============ ========= ====================================================
        change       str       added, removed or changed
        (the key)    as in a   `on`
        columns      object    list of str, the columns that changed
        before       object    dict, their values in `a` (of a removed row: all)
        after        object    dict, their values in `b` (of an added row: all)
        ============ ========= ====================================================

        Of a changed `metadata`, `before` and `after` have only the entries that changed.

    Raises
    ------
    InvalidArgument
        The frames are of different kinds, a key or column is missing in a frame, or a file cannot
        be read.

    Examples
    --------
    >>> import pandas as pd
    >>> before = pd.DataFrame({"url": ["/a", "/b"], "title": ["A", "B"]})
    >>> after = pd.DataFrame({"url": ["/a", "/c"], "title": ["A!", "C"]})
    >>> diff(before, after)[["change", "url"]].to_numpy().tolist()
    [['changed', '/a'], ['removed', '/b'], ['added', '/c']]
    """
    old, new = _read_frame("a", a), _read_frame("b", b)
    kinds = [_kind(old), _kind(new)]
    if None not in kinds and kinds[0] != kinds[1]:
        raise InvalidArgument(
            f"a is a frame of kind {kinds[0]} and b of kind {kinds[1]}: compare frames of one kind"
        )
    keys = _key_columns(old, new, on)
    compared = _compared_columns(old, new, keys, columns)
    before, after = _KeyedRows.of(old, keys, compared), _KeyedRows.of(new, keys, compared)
    changes = [_change_of(key, before, after) for key in before.indices]
    changes += [
        _RowChange("added", key, [], {}, after.row(key))
        for key in after.indices
        if key not in before.indices
    ]
    return _to_frame([change for change in changes if change is not None], keys, old)


@dataclass(frozen=True, slots=True)
class _RowChange:
    change: str
    key: Key
    columns: list[str]
    before: dict[str, Any]
    after: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _KeyedRows:
    """The rows of a frame by key and the number of the row among those with its key."""

    indices: dict[Key, int]
    values: dict[str, list[Any]]

    @classmethod
    def of(cls, df: pd.DataFrame, keys: list[str], compared: list[str]) -> _KeyedRows:
        seen: Counter[Key] = Counter()
        indices: dict[Key, int] = {}
        for index, key in enumerate(zip(*(_comparable(df[name]) for name in keys), strict=True)):
            seen[key] += 1
            indices[(*key, seen[key])] = index
        return cls(indices, {name: _comparable(df[name]) for name in compared})

    def row(self, key: Key) -> dict[str, Any]:
        index = self.indices[key]
        return {name: values[index] for name, values in self.values.items()}


def _change_of(key: Key, before: _KeyedRows, after: _KeyedRows) -> _RowChange | None:
    old = before.row(key)
    if key not in after.indices:
        return _RowChange("removed", key, [], old, {})
    new = after.row(key)
    names = [name for name in old if old[name] != new[name]]
    if not names:
        return None
    before_values = {name: _changed_part(name, old[name], new[name]) for name in names}
    after_values = {name: _changed_part(name, new[name], old[name]) for name in names}
    return _RowChange("changed", key, names, before_values, after_values)


def _changed_part(name: str, value: Any, other: Any) -> Any:
    """Return a value, or of metadata the entries that differ."""
    if name != _METADATA or not (isinstance(value, dict) and isinstance(other, dict)):
        return value
    return {
        entry: value[entry] for entry in value if entry not in other or value[entry] != other[entry]
    }


def _to_frame(changes: list[_RowChange], keys: list[str], old: pd.DataFrame) -> pd.DataFrame:
    columns: dict[str, Any] = {
        "change": pd.Series([change.change for change in changes], dtype="str")
    }
    for index, name in enumerate(keys):
        values = [change.key[index] for change in changes]
        columns[name] = pd.Series(values, dtype=old[name].dtype)
    texts = NestedDtype(schemas.TEXTS)
    for name, dtype in {"columns": texts, "before": JSON_DTYPE, "after": JSON_DTYPE}.items():
        columns[name] = NestedArray([getattr(change, name) for change in changes], dtype)
    return ResultFrame(columns)


def _read_frame(name: str, source: object) -> pd.DataFrame:
    if isinstance(source, pd.DataFrame):
        return source
    if not isinstance(source, str | Path):
        raise InvalidArgument(
            f"{name} must be a DataFrame, or the path of a Parquet file; "
            f"it is {format_value(source)}"
        )
    try:
        document = ParquetDocument(Path(source).expanduser().read_bytes())
    except (OSError, RuntimeError, ValueError, pa.ArrowException) as error:
        raise InvalidArgument(f"{name} cannot be read as a Parquet file: {error}") from None
    return frame.build(document.read(), attrs=document.attrs)


def _kind(df: pd.DataFrame) -> str | None:
    """Return the kind in the receipt, or the one that the columns show."""
    receipt = df.attrs.get(frame.ATTRS)
    kind = receipt.get("kind") if isinstance(receipt, dict) else None
    if isinstance(kind, str):
        return kind
    kinds = [kind for kind, column in _KIND_COLUMNS.items() if column in df.columns]
    return kinds[0] if len(kinds) == 1 else None


def _key_columns(old: pd.DataFrame, new: pd.DataFrame, on: str | Sequence[str] | None) -> list[str]:
    common = set(old.columns) & set(new.columns)
    if on is not None:
        named = [on] if isinstance(on, str) else list(on)
        missing = [name for name in named if name not in common]
        if missing or not named:
            raise InvalidArgument(_column_message("on", missing, common))
        return named
    main = [name for name in _KEYS if name in common][:1]
    if not main:
        raise InvalidArgument(
            "on must name the columns that tell the rows apart: both frames have "
            f"{', '.join(map(str, common)) or 'no column'}"
        )
    labels = ("start_url",) if "start_url" in common else _LABELS
    return [*(name for name in labels if name in common), *main]


def _compared_columns(
    old: pd.DataFrame, new: pd.DataFrame, keys: list[str], columns: Sequence[str] | None
) -> list[str]:
    both = [name for name in old.columns if name in set(new.columns)]
    if columns is None:
        ignored = {*VOLATILE, *keys}
        if not _CONTENT.isdisjoint(both):
            ignored |= _RECEIVED
        return [name for name in both if name not in ignored]
    wanted = [columns] if isinstance(columns, str) else list(columns)
    if missing := [name for name in wanted if name not in both]:
        raise InvalidArgument(_column_message("columns", missing, both))
    return wanted


def _column_message(argument: str, missing: Sequence[str], common: Collection[str]) -> str:
    if not missing:
        return f"{argument} must name at least one column of both frames"
    suggestion = did_you_mean(quoted(closest(missing[0], common)))
    names = ", ".join(map(repr, missing))
    return f"{argument} must name columns of both frames; {names} is none of them{suggestion}"


def _comparable(column: pd.Series[Any]) -> list[Any]:
    values = [_comparable_value(value) for value in column.tolist()]
    if column.name in _JSON_COLUMNS:
        values = [_decoded(value) for value in values]
    return [_stable(value) for value in values] if column.name == _METADATA else values


def _decoded(value: Any) -> Any:
    """Return the value of JSON text, which frames with Arrow types hold."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value


def _stable(metadata: Any) -> Any:
    if not isinstance(metadata, dict):
        return metadata
    return {name: value for name, value in metadata.items() if name not in _VOLATILE_METADATA}


def _comparable_value(value: Any) -> Any:
    """Return a value that `==` can compare: a list for an array, None for missing values."""
    if callable(to_list := getattr(value, "tolist", None)):  # a numpy array
        return to_list()
    if isinstance(value, list | dict | tuple):
        return value
    return None if pd.isna(value) else value
