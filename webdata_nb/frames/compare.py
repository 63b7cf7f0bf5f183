"""What changed between two frames of the same kind, or between two files of the cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa

from webdata_nb.errors import InvalidArgument
from webdata_nb.frames import frame
from webdata_nb.frames.parquet import Document

__all__ = ["diff"]

Key = tuple[object, ...]

# What differs each time although nothing changed.
VOLATILE: Final = frozenset({"fetched_at", "taken_at", "time_taken", "id"})
_LABELS: Final = ("query", "engine", "language", "country", "advertiser", "region", "date_range")
_KEYS: Final = ("creative_id", "url")


def diff(
    a: pd.DataFrame | str | Path,
    b: pd.DataFrame | str | Path,
    *,
    on: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return what is in `b` and was not in `a`, what is gone, and what changed.

    Parameters
    ----------
    a, b
        The earlier and the later frame, or Parquet files such as `cache.ls()["file"]` names.
    on
        Columns that say which row is which; by default `url` or `creative_id`, with the columns
        of several inputs. Rows with the same key are told apart by their order.
    columns
        Columns to compare; by default all that both frames have, but for `fetched_at`,
        `time_taken` and `id`, which differ each time.

    Returns
    -------
    pandas.DataFrame
        Changed and removed rows in the order of `a`, then added ones in the order of `b`.

        ============ ========= ====================================================
        column       dtype     meaning
        ============ ========= ====================================================
        change       str       added, removed or changed
        (the key)    as in a   `on`
        columns      object    list of str, the columns that changed
        before       object    dict, their values in `a` (of a removed row: all)
        after        object    dict, their values in `b` (of an added row: all)
        ============ ========= ====================================================

    Raises
    ------
    InvalidArgument
        A key or column that a frame does not have, or a file that cannot be read.

    Examples
    --------
    >>> import pandas as pd
    >>> before = pd.DataFrame({"url": ["/a", "/b"], "title": ["A", "B"]})
    >>> after = pd.DataFrame({"url": ["/a", "/c"], "title": ["A!", "C"]})
    >>> diff(before, after)[["change", "url"]].to_numpy().tolist()
    [['changed', '/a'], ['removed', '/b'], ['added', '/c']]
    """
    old, new = _frame("a", a), _frame("b", b)
    keys = _keys(old, new, on)
    compared = _compared(old, new, keys, columns)
    before, after = _Rows.of(old, keys, compared), _Rows.of(new, keys, compared)
    found = [_changed(key, before, after) for key in before.places]
    found += [_added(key, after) for key in after.places if key not in before.places]
    return _told([each for each in found if each is not None], keys, old)


@dataclass(frozen=True, slots=True)
class _Change:
    change: str
    key: Key
    columns: list[str]
    before: dict[str, Any]
    after: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a frame by key; the n-th row of one key is told apart by n."""

    places: dict[Key, int]
    values: dict[str, list[Any]]

    @classmethod
    def of(cls, df: pd.DataFrame, keys: list[str], compared: list[str]) -> _Rows:
        seen: Counter[Key] = Counter()
        places: dict[Key, int] = {}
        for place, key in enumerate(zip(*(_plain(df[name]) for name in keys), strict=True)):
            seen[key] += 1
            places[(*key, seen[key])] = place
        return cls(places, {name: _plain(df[name]) for name in compared})

    def row(self, key: Key) -> dict[str, Any]:
        place = self.places[key]
        return {name: values[place] for name, values in self.values.items()}


def _changed(key: Key, before: _Rows, after: _Rows) -> _Change | None:
    old = before.row(key)
    if key not in after.places:
        return _Change("removed", key, [], old, {})
    new = after.row(key)
    names = [name for name in old if old[name] != new[name]]
    if not names:
        return None
    picked = ({name: row[name] for name in names} for row in (old, new))
    return _Change("changed", key, names, *picked)


def _added(key: Key, after: _Rows) -> _Change:
    return _Change("added", key, [], {}, after.row(key))


def _told(found: list[_Change], keys: list[str], old: pd.DataFrame) -> pd.DataFrame:
    made: dict[str, pd.Series[Any]] = {
        "change": pd.Series([each.change for each in found], dtype="str")
    }
    for place, name in enumerate(keys):
        values = [each.key[place] for each in found]
        made[name] = pd.Series(values, dtype=old[name].dtype)
    for name in ("columns", "before", "after"):
        made[name] = pd.Series([getattr(each, name) for each in found], dtype=object)
    return pd.DataFrame(made)


def _frame(name: str, given: object) -> pd.DataFrame:
    if isinstance(given, pd.DataFrame):
        return given
    if not isinstance(given, str | Path):
        raise InvalidArgument(f"{name} must be a DataFrame, or the path of a Parquet file")
    try:
        document = Document(Path(given).expanduser().read_bytes())
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InvalidArgument(f"{name} cannot be read as a Parquet file: {error}") from None
    return frame.build(document.read(), attrs=document.attrs)


def _keys(old: pd.DataFrame, new: pd.DataFrame, on: str | Sequence[str] | None) -> list[str]:
    there = set(old.columns) & set(new.columns)
    if on is not None:
        named = [on] if isinstance(on, str) else list(on)
        missing = [name for name in named if name not in there]
        if missing or not named:
            raise InvalidArgument(f"on must name columns of both frames; not {missing or 'none'}")
        return named
    main = [name for name in _KEYS if name in there][:1]
    if not main:
        raise InvalidArgument("say with on= which columns tell the rows apart")
    labels = ("start_url",) if "start_url" in there else _LABELS
    return [*(name for name in labels if name in there), *main]


def _compared(
    old: pd.DataFrame, new: pd.DataFrame, keys: list[str], columns: Sequence[str] | None
) -> list[str]:
    both = [name for name in old.columns if name in set(new.columns)]
    if columns is None:
        return [name for name in both if name not in VOLATILE and name not in keys]
    wanted = [columns] if isinstance(columns, str) else list(columns)
    if missing := [name for name in wanted if name not in both]:
        raise InvalidArgument(f"columns must name columns of both frames; not {missing}")
    return wanted


def _plain(column: pd.Series[Any]) -> list[Any]:
    return [_value(value) for value in column.tolist()]


def _value(value: Any) -> Any:
    """Return a value that equals its like: lists for arrays, None for every kind of missing."""
    if callable(to_list := getattr(value, "tolist", None)):  # an array of numpy
        return to_list()
    if isinstance(value, list | dict | tuple):
        return value
    return None if pd.isna(value) else value
