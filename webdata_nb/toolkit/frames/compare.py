"""Compares frames row by row: two of one kind, two searches by rank, and the rows of one frame.

Every comparison of the toolkit has one shape: a row for each changed field, with the columns of
`CHANGE_COLUMNS`. Those that name the row, such as `url`, are between `change` and `field`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from os.path import commonprefix
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import orjson
import pandas as pd
import pyarrow as pa

from webdata_nb.contract.url_keys import result_key
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import closest, counted, did_you_mean, format_value, quoted
from webdata_nb.toolkit.frames import frame, schemas
from webdata_nb.toolkit.frames.frame import CallReceipt, ResultFrame
from webdata_nb.toolkit.frames.receipt import shorten
from webdata_nb.toolkit.frames.rows import dumps
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
    for name in _SAME_CONTENT.get(frame.receipt_text(df, "kind"), ()):
        if name in df.columns:
            content = content.where(content.notna(), df[name].astype(object))
    unknown = content.isna().to_numpy(bool)
    repeats = content.duplicated(keep=keep).to_numpy(bool, copy=True)
    repeats[unknown] = _hashable(df[unknown]).duplicated(keep=keep).to_numpy(bool)
    return df[~repeats]


def _hashable(df: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose lists and dicts can be compared, also those that the user stored."""
    return frame.from_columns({name: df[name] for name in df.columns}, df.index)


# The shape of a change


ChangeKind = Literal["added", "changed", "removed"]
Key = tuple[object, ...]
CHANGE_KINDS: Final[tuple[ChangeKind, ...]] = ("changed", "added", "removed")
CHANGE_COLUMNS: Final = ("change", "field", "old", "new", "evidence", "old_at", "new_at")
_WHEN: Final = pd.DatetimeTZDtype("us", "UTC")


class Change(NamedTuple):
    """One changed field of the row with a key; `field` is None for a row without any value."""

    change: ChangeKind
    key: Key
    field: str | None
    old: str | None
    new: str | None
    evidence: str | None
    old_at: datetime | None
    new_at: datetime | None


def change_kind(old: object, new: object) -> ChangeKind:
    """Return what happened to a row; None is one that was not there."""
    return "added" if old is None else "removed" if new is None else "changed"


def other_provider(old: str | None, new: str | None) -> str | None:
    """Return the evidence of ranks by two providers; None where one is the same or not known."""
    return f"{new} answered, and {old} before" if old and new and old != new else None


def changes_frame(
    changes: Sequence[Change], keys: Mapping[str, Any], attrs: Mapping[str, Any]
) -> ResultFrame:
    """Return changes as a frame, typed also without rows.

    Parameters
    ----------
    changes
        The rows.
    keys
        The columns of the keys, with their dtypes.
    attrs
        The receipt, without `kind` and `counts`.
    """
    columns: dict[str, Any] = {}
    for name in CHANGE_COLUMNS:
        values = [getattr(change, name) for change in changes]
        columns[name] = pd.Series(values, dtype=_WHEN if name.endswith("_at") else "str")
        if name == "change":
            for index, (key, dtype) in enumerate(keys.items()):
                columns[key] = pd.Series([each.key[index] for each in changes], dtype=dtype)
    built = ResultFrame(columns)
    receipt = {"kind": "changes", "counts": {"rows": len(changes)}, **attrs}
    built.attrs = {frame.ATTRS: CallReceipt(receipt)}
    return built


def changes_line(counts: Mapping[str, int]) -> str:
    """Return how many rows changed, were added and were removed.

    Examples
    --------
    >>> changes_line({"changed": 2, "added": 0, "removed": 1}), changes_line({})
    ('2 changed, 1 removed', 'no change')
    """
    texts = (f"{counts[kind]:,} {kind}" for kind in CHANGE_KINDS if counts.get(kind))
    return ", ".join(texts) or "no change"


def count_changed_rows(changes: Sequence[Change]) -> dict[str, int]:
    """Return the number of rows by kind, each of which may have several changed fields."""
    kinds = dict.fromkeys((change.change, change.key) for change in changes)
    counts = Counter(kind for kind, _ in kinds)
    return {kind: counts[kind] for kind in CHANGE_KINDS}


def comparison_receipt(
    old: pd.DataFrame,
    new: pd.DataFrame,
    kind: str | None,
    counts: Mapping[str, int],
    note: str = "",
) -> dict[str, Any]:
    """Return what the receipt of a comparison says: what was compared, and what has changed."""
    receipts = [frame.receipt_of(each) for each in (old, new)]
    noun = _NOUNS.get(kind or "", "row")
    times = [taken_at(each) for each in (old, new)]
    stated = [f" ({at.astimezone(UTC):%Y-%m-%d %H:%M} UTC)" if at else "" for at in times]
    subject = next((each["subject"] for each in receipts if each.get("subject")), "")
    of = f" of {shorten(str(subject))}" if subject else ""
    compared = f"compared {counted(len(old), noun)}{of}{stated[0]} with {len(new):,}{stated[1]}"
    return {
        "subject": subject,
        "changes": {
            "since": None if times[0] is None else times[0].isoformat(),
            "compared": [len(old), len(new)],
            f"{noun}s": dict(counts),
        },
        "line": f"{compared}: {changes_line(counts)}{note}",
    }


_NOUNS: Final = {
    "crawl": "page",
    "search": "result",
    "creatives": "creative",
    "changes": "change",
    "captures": "capture",
}


def taken_at(df: pd.DataFrame) -> datetime | None:
    """Return when the call ended that returned a frame, or the last time in its rows."""
    timings = frame.receipt_of(df).get("timings")
    if isinstance(timings, dict) and isinstance(timings.get("finished_at"), str):
        return datetime.fromisoformat(timings["finished_at"])
    times = [at for at in _times(df) if at is not None]
    return max(times, default=None)


def _times(df: pd.DataFrame) -> list[datetime | None]:
    """Return when each row was fetched."""
    name = next((name for name in ("fetched_at", "taken_at") if name in df.columns), None)
    if name is None:
        return [None] * len(df)
    times = pd.to_datetime(df[name], utc=True, errors="coerce")
    return [None if pd.isna(at) else at.to_pydatetime() for at in times]


def text_of(value: Any) -> str | None:
    """Return a value as text: a text as it is, a list with an item in each line, others as JSON.

    Of times it is ISO 8601, and of bytes a hash.

    Examples
    --------
    >>> text_of(24.0), text_of("24"), text_of({"b": 1, "a": None})
    ('24', '24', '{"a":null,"b":1}')
    >>> print(text_of(["x", "y"]))
    [
    "x",
    "y"
    ]
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return f"sha256:{hashlib.sha256(value).hexdigest()}"
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(map(_sorted_json, value)) + "\n]"
    return _sorted_json(value)


def _sorted_json(value: Any) -> str:
    """Return JSON that is equal for equal values, whatever the order of keys."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:
        return dumps(value)


_MAX_CHARS: Final = 2000
_MAX_LINE_CHARS: Final = 300
# Characters that are shown before and after what differs in a long line.
_CONTEXT: Final = 60
_ELLIPSIS: Final = "…"


def changed_lines(old: str, new: str) -> str:
    r"""Return the lines that only one of two texts has, `- ` before old ones and `+ ` before new.

    Of long lines, only the part that differs is shown, and of many lines the first.

    Examples
    --------
    >>> print(changed_lines("Kettle\n29 EUR\nin stock", "Kettle\n24 EUR\nin stock"))
    - 29 EUR
    + 24 EUR
    """
    removed, added = _lines_of_one(old, new), _lines_of_one(new, old)
    if not removed and not added:
        return "the same lines in another order"
    lines: list[str] = []
    size = 0
    for old_line, new_line in zip_longest(removed, added):
        if size > _MAX_CHARS:
            break
        marked = _marked_lines(old_line, new_line)
        size += sum(map(len, marked))
        lines += marked
    text = "\n".join(lines)
    return text if len(text) <= _MAX_CHARS else text[: _MAX_CHARS - 1] + _ELLIPSIS


def _lines_of_one(text: str, other: str) -> list[str]:
    """Return the lines that a text has more often than the other, in their order."""
    common = Counter(_lines(other))
    lines: list[str] = []
    for line in _lines(text):
        if common[line]:
            common[line] -= 1
        else:
            lines.append(line)
    return lines


def _lines(text: str) -> Sequence[str]:
    stripped = (line.strip().rstrip(",") for line in text.splitlines())
    return [line for line in stripped if line]


def _marked_lines(old: str | None, new: str | None) -> list[str]:
    if old is None or new is None:
        line, mark = (new, "+") if old is None else (old, "-")
        return [f"{mark} {_cut(line or '')}"]
    start = max(0, len(commonprefix([old, new])) - _CONTEXT)  # noqa: RUF071 - of characters
    end = max(0, len(commonprefix([old[::-1], new[::-1]])) - _CONTEXT)  # noqa: RUF071 - as above
    return [f"{mark} {_part(line, start, end)}" for mark, line in (("-", old), ("+", new))]


def _part(line: str, start: int, end: int) -> str:
    """Return a line without what it has in common with the other, if it is long."""
    if len(line) <= _MAX_LINE_CHARS:
        return line
    part = line[start : max(start, len(line) - end)]
    before, after = _ELLIPSIS if start else "", _ELLIPSIS if end else ""
    return f"{before}{_cut(part)}{after}"


def _cut(line: str) -> str:
    return line if len(line) <= _MAX_LINE_CHARS else line[: _MAX_LINE_CHARS - 1] + _ELLIPSIS


# A longer text, or one of several lines, has its changed lines as evidence.
_SHORT_TEXT: Final = 200


def changed_text(old: str | None, new: str | None) -> str | None:
    """Return the changed lines of two texts; None for short ones, which are seen at once."""
    if old is None or new is None:
        return None
    is_short = all(len(text) <= _SHORT_TEXT and "\n" not in text for text in (old, new))
    return None if is_short else changed_lines(old, new)


# Searches by rank


_SEARCH_LABELS: Final = ("query", "num_results", "engine", "language", "country", "safe_search")
_NEEDED: Final = ("rank", "url")


def serp_diff(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """Return the results of `search_df` whose rank changed, and those that entered or left.

    Results match regardless of `http` or `https`, `www.`, a trailing slash and tracking
    parameters, as within a search. Frames of several inputs are compared input by input. Inputs
    that failed in either frame are left out, and counted in the receipt.

    Parameters
    ----------
    old, new
        Frames of `search_df`, or any with columns `rank` and `url`.

    Returns
    -------
    pandas.DataFrame
        One row for each change, by input and new rank; results that left are at the end, by their
        old rank. The columns are those of `diff` and `watch_df`, and two more. The `line` of the
        receipt says what was compared, also where nothing changed.

        ==================== =================== ==========================================
        column               dtype               meaning
        ==================== =================== ==========================================
        change               str                 added, changed or removed (the result)
        query, engine, ...   str                 the columns that identify the inputs, if
                                                 any
        url                  str                 as in the new frame, or in the old one for
                                                 a result that left
        field                str                 `rank`
        old, new             str                 ranks from 1; missing if the result is not
                                                 in the frame
        evidence             str                 the providers, if another one answered
        old_at, new_at       datetime64[us, UTC] when the results were fetched
        title                str                 as `url`
        move                 Int32               ranks gained (positive) or lost; missing
                                                 unless in both
        ==================== =================== ==========================================

    Raises
    ------
    InvalidArgument
        A frame lacks these columns, or the frames have different columns for their inputs.

    Examples
    --------
    >>> before = pd.DataFrame({"rank": [1, 2], "url": ["https://a.test/", "https://b.test/"]})
    >>> after = pd.DataFrame({"rank": [1, 2], "url": ["http://www.b.test", "https://c.test/"]})
    >>> for row in serp_diff(before, after)[["change", "url", "move"]].to_numpy().tolist():
    ...     print(row)
    ['changed', 'http://www.b.test', 1]
    ['added', 'https://c.test/', <NA>]
    ['removed', 'https://a.test/', <NA>]
    """
    for name, df in (("old", old), ("new", new)):
        if not isinstance(df, pd.DataFrame) or not set(_NEEDED) <= set(df.columns):
            raise InvalidArgument(
                f"{name} must be a frame of search_df, with `rank` and `url`; "
                f"it is {format_value(df)}"
            )
    # The columns that identify the inputs.
    by, others = ([name for name in _SEARCH_LABELS if name in df.columns] for df in (old, new))
    if by != others:
        raise InvalidArgument(
            "old and new must have the same columns for their inputs; "
            f"they have {by or 'none'} and {others or 'none'}"
        )
    failed = {*_failed_inputs(old, by), *_failed_inputs(new, by)}
    sides = [_ranked_results(each, by, failed) for each in (old, new)]
    before, after = sides
    order: dict[Key, int] = {}
    for each in (old, new):
        for key in zip(*(_comparable(each[name]) for name in by), strict=True):
            order.setdefault(key, len(order))
    keys = sorted({**after, **before}, key=lambda key: (order.get(key[:-1], 0), key not in after))
    changes: list[Change] = []
    titles, moves = list[str | None](), list[int | None]()
    for key in keys:
        was, now = before.get(key), after.get(key)
        if (shown := now or was) is None or (was and now and was.rank == now.rank):
            continue
        changes.append(_rank_change((*key[:-1], shown.url), was, now))
        titles.append(shown.title)
        moves.append(was.rank - now.rank if was and now else None)
    note = f"; {len(failed)} failed and not compared" if failed else ""
    ranked = [each[each["rank"].notna()] for each in (old, new)]
    counts = count_changed_rows(changes)
    receipt = comparison_receipt(ranked[0], ranked[1], "search", counts, note)
    built = changes_frame(changes, dict.fromkeys([*by, "url"], "str"), receipt)
    built["title"] = pd.Series(titles, dtype="str")
    built["move"] = pd.Series(moves, dtype="Int32")
    return built


class _RankedResult(NamedTuple):
    rank: int
    url: str
    title: str | None
    provider: str | None
    at: datetime | None


def _rank_change(key: Key, old: _RankedResult | None, new: _RankedResult | None) -> Change:
    return Change(
        change_kind(old, new),
        key,
        "rank",
        None if old is None else str(old.rank),
        None if new is None else str(new.rank),
        other_provider(old.provider, new.provider) if old and new else None,
        None if old is None else old.at,
        None if new is None else new.at,
    )


def _failed_inputs(df: pd.DataFrame, by: list[str]) -> set[Key]:
    """Return the inputs of rows with an error and without a result."""
    if not by or "error" not in df:
        return set()
    failed = df[df["rank"].isna() & df["error"].notna()]
    return set(zip(*(_comparable(failed[name]) for name in by), strict=True))


def _ranked_results(df: pd.DataFrame, by: list[str], failed: set[Key]) -> dict[Key, _RankedResult]:
    """Return the results by input and key of the URL, each with its best rank, the first first."""
    ranked = df[df["rank"].notna() & df["url"].notna()].sort_values("rank", kind="stable")
    names = [*by, "rank", "url", "title", "provider"]
    columns = [
        _comparable(ranked[name]) if name in ranked else [None] * len(ranked) for name in names
    ]
    whole = taken_at(df)
    found: dict[Key, _RankedResult] = {}
    for *inputs, rank, url, title, provider, at in zip(*columns, _times(ranked), strict=True):
        if (given := tuple(inputs)) not in failed:
            result = _RankedResult(int(rank), str(url), title, provider, at or whole)
            found.setdefault((*given, result_key(str(url))), result)
    return found


# Frames of one kind


# Columns that may differ in each run even if nothing changed: times and ids, the quality, which is
# computed from the content, and screenshots, whose bytes depend on the rendering.
VOLATILE: Final = frozenset(
    {"fetched_at", "taken_at", "time_taken", "id", "quality", "screenshot", "position"}
)
# Of the received bytes, which often hold tokens: compared only where there is no content.
_RECEIVED: Final = frozenset({"content_hash", "raw_html"})
_CONTENT: Final = frozenset({"markdown", "html"})
_VOLATILE_METADATA: Final = frozenset(
    {"fetched_at", "content_hash", "crawl_score", "extract", "rung"}
)
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
# What a page has whether it was read or not.
_OUTCOME: Final = frozenset({"success", "status", "status_code", "error"})


def diff(
    a: pd.DataFrame | str | Path,
    b: pd.DataFrame | str | Path,
    *,
    on: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return what has changed from `a` to `b`, by field: of rows added, removed and changed.

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
        `fetched_at`, `content_hash`, `crawl_score`, `extract` and `rung` are ignored, and those
        that are columns too. An added or removed
        row has one row with its title; with `columns`, one for each of its values in them.

    Returns
    -------
    pandas.DataFrame
        One row for each changed field: of changed and removed rows in the order of `a`, then of
        added ones in the order of `b`. `watch_df` and `serp_diff` return the same columns. The
        `line` of the receipt says what was compared, also where nothing changed.

        ============== =================== ================================================
        column         dtype               meaning
        ============== =================== ================================================
        change         str                 added, changed or removed (the row)
        (the key)      as in a             `on`
        field          str                 the column, or the entry of a dict, such as
                                           `metadata.author`; missing for a row without
                                           any of the values
        old, new       str                 the values: text as it is, others as JSON;
                                           missing where there is none
        evidence       str                 the changed lines of a longer text
        old_at, new_at datetime64[us, UTC] when both were fetched; where there is no row,
                                           when the call ended
        ============== =================== ================================================

        A page that could not be read in one frame has no values of its content there; these are
        no changes, but its `status_code` and `error` are.

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
    >>> changes = diff(before, after)
    >>> changes[["change", "url", "field"]].to_numpy().tolist()
    [['changed', '/a', 'title'], ['removed', '/b', 'title'], ['added', '/c', 'title']]
    >>> changes.webdata
    compared 2 rows with 2: 1 changed, 1 added, 1 removed
    """
    old, new = _read_frame("a", a), _read_frame("b", b)
    kinds = [_kind(old), _kind(new)]
    if None not in kinds and kinds[0] != kinds[1]:
        raise InvalidArgument(
            f"a is a frame of kind {kinds[0]} and b of kind {kinds[1]}: compare frames of one kind"
        )
    keys = _key_columns(old, new, on)
    compared = _compared_columns(old, new, keys, columns)
    shown = compared if columns is not None else [name for name in compared if name == "title"]
    before, after = _KeyedRows.of(old, keys, compared), _KeyedRows.of(new, keys, compared)
    changes: list[Change] = []
    for key in {**before.indices, **after.indices}:
        was, now = before.row(key), after.row(key)
        at = before.time(key), after.time(key)
        change = change_kind(was, now)
        if was is not None and now is not None:
            unread = before.has_failed(key) or after.has_failed(key)
            fields = [
                each
                for each in _changed_fields(was, now)
                if not unread or each[0] in _OUTCOME or None not in each[1:]
            ]
        else:
            values = {name: (was or now or {})[name] for name in shown}
            found = [(name, value) for name, value in values.items() if value is not None]
            fields = [
                (n, v, None) if now is None else (n, None, v) for n, v in found or [("", None)]
            ]
        for name, *pair in fields:
            before_text, after_text = map(text_of, pair)
            evidence = changed_text(before_text, after_text)
            changes.append(
                Change(change, key, name or None, before_text, after_text, evidence, *at)
            )
    kind = kinds[0] or kinds[1]
    receipt = comparison_receipt(old, new, kind, count_changed_rows(changes))
    return changes_frame(changes, {name: old[name].dtype for name in keys}, receipt)


@dataclass(frozen=True, slots=True)
class _KeyedRows:
    """The rows of a frame by key and the number of the row among those with its key."""

    indices: dict[Key, int]
    values: dict[str, list[Any]]
    failed: list[bool]
    times: list[datetime | None]
    at: datetime | None

    @classmethod
    def of(cls, df: pd.DataFrame, keys: list[str], compared: list[str]) -> _KeyedRows:
        seen: Counter[Key] = Counter()
        indices: dict[Key, int] = {}
        for index, key in enumerate(zip(*(_comparable(df[name]) for name in keys), strict=True)):
            seen[key] += 1
            indices[(*key, seen[key])] = index
        values = {name: _comparable(df[name]) for name in compared}
        failed = [flag is False for flag in _comparable(df["success"])] if "success" in df else []
        return cls(indices, values, failed or [False] * len(df), _times(df), taken_at(df))

    def row(self, key: Key) -> dict[str, Any] | None:
        index = self.indices.get(key)
        return None if index is None else {name: each[index] for name, each in self.values.items()}

    def has_failed(self, key: Key) -> bool:
        index = self.indices.get(key)
        return index is not None and self.failed[index]

    def time(self, key: Key) -> datetime | None:
        index = self.indices.get(key)
        return (None if index is None else self.times[index]) or self.at


def _changed_fields(
    old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the columns that differ with both values; of dicts, the entries that differ.

    What two columns say, such as `status` and `success`, is there once.
    """
    for name, was in old.items():
        now = new[name]
        if was == now or (name == "success" and old.get("status") != new.get("status")):
            continue
        if isinstance(was, dict) and isinstance(now, dict):
            for entry in {**was, **now}:
                if was.get(entry) != now.get(entry) and entry not in old:
                    yield f"{name}.{entry}", was.get(entry), now.get(entry)
        else:
            yield name, was, now


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
    if kind := frame.receipt_text(df, "kind"):
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
    if column.name == _METADATA:
        values = [
            {name: each for name, each in value.items() if name not in _VOLATILE_METADATA}
            if isinstance(value, dict)
            else value
            for value in values
        ]
    return values


def _decoded(value: Any) -> Any:
    """Return the value of JSON text, which frames with Arrow types hold."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value


def _comparable_value(value: Any) -> Any:
    """Return a value that `==` can compare: a list for an array, None for missing values."""
    if callable(to_list := getattr(value, "tolist", None)):  # a numpy array
        return to_list()
    return None if frame.is_missing(value) else value
