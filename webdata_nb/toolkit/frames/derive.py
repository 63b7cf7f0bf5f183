"""Derives frames of images, headings, tables and declared rights from the pages of a crawl.

Each row has the page (`url`) and its position on the page (`position`, from 1), so that the frames
join with the crawl and with each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import unquote, urlsplit

import pandas as pd
import pyarrow as pa

from webdata_nb.contract.choices import PURPOSES
from webdata_nb.contract.url_keys import result_key
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import closest, did_you_mean, format_value, quoted
from webdata_nb.toolkit.frames import frame, schemas
from webdata_nb.toolkit.frames.rows import decoded, dumps

if TYPE_CHECKING:
    from webdata_nb.page.content.tables import TableTexts

__all__ = ["headings_df", "images_df", "rights_df", "tables"]

Source = Literal["html", "raw_html", "markdown"]
_SOURCES: Final = ("html", "raw_html", "markdown")


def _plain(**named: pa.DataType) -> list[pa.Field[Any]]:
    return [pa.field(name, data_type) for name, data_type in named.items()]


_POSITION_FIELDS: Final = _plain(url=schemas.TEXT, position=pa.int32())
_EXTRA: Final = pa.field("extra", schemas.TEXT, metadata={b"webdata.type": schemas.JSON})
_IMAGES: Final = pa.schema(
    [
        *_POSITION_FIELDS,
        *_plain(width=pa.int32(), height=pa.int32()),
        _EXTRA,
        *_plain(src=schemas.TEXT, alt=schemas.TEXT, caption=schemas.TEXT),
    ]
)
_HEADINGS: Final = pa.schema(
    [
        *_POSITION_FIELDS,
        *_plain(level=pa.int16()),
        _EXTRA,
        *_plain(anchor=schemas.TEXT, text=schemas.TEXT),
    ]
)


def images_df(df: pd.DataFrame) -> pd.DataFrame:
    """Return every image of the pages, one row each.

    Parameters
    ----------
    df
        A frame with an `images` column, from a call with `"images"` in `formats`.

    Returns
    -------
    pandas.DataFrame
        `url`, `position`; `width`, `height` (Int32, CSS pixels) as stated by the page; `extra`
        (dict of other fields); `src`, `alt`, `caption` (str).

    Raises
    ------
    InvalidArgument
        The column is missing.

    Examples
    --------
    >>> import pandas as pd
    >>> pages = pd.DataFrame({"url": ["http://a.test/"], "images": [[{"src": "/a.png"}]]})
    >>> images_df(pages)["src"].tolist()
    ['/a.png']
    """
    return to_frame("images", list(_items(df, "images", _IMAGES)), _IMAGES, df)


def headings_df(df: pd.DataFrame) -> pd.DataFrame:
    """Return every heading of the pages, one row each.

    Parameters
    ----------
    df
        A frame with a `headings` column, from a call with `"headings"` in `formats`.

    Returns
    -------
    pandas.DataFrame
        `url`, `position`; `level` (Int16, 1 to 6); `extra` (dict of other fields); `anchor`,
        `text` (str).

    Raises
    ------
    InvalidArgument
        The column is missing.

    Examples
    --------
    >>> import pandas as pd
    >>> listed = [[{"level": 1, "text": "Welcome"}]]
    >>> pages = pd.DataFrame({"url": ["http://a.test/"], "headings": listed})
    >>> headings_df(pages)["text"].tolist()
    ['Welcome']
    """
    return to_frame("headings", list(_items(df, "headings", _HEADINGS)), _HEADINGS, df)


def tables(
    df: pd.DataFrame, *, source: Source | None = None, min_rows: int = 1
) -> list[pd.DataFrame]:
    r"""Return each table of the pages as a DataFrame.

    Parameters
    ----------
    df
        A frame with an `html`, `raw_html` or `markdown` column.
    source
        The column to read; by default the first of these three that exists. All three give the same
        tables, except that `markdown` and `html` have those of the main content only, and Markdown
        has no captions.
    min_rows
        The minimum number of rows, not counting the header.

    Returns
    -------
    list of pandas.DataFrame
        In the order of the pages. The first two columns are `url` and `position` (of the table on
        its page, from 1). The others are those of the table: numbers as Int64 or Float64, truth
        values as boolean, everything else as str. `attrs["webdata"]` has `url`, `position`,
        `caption`, and `total_rows`, the positions of rows such as "Total", which add up others.

    Notes
    -----
    A cell stands in every row and column that it covers, unless it is longer than 120 characters.
    Header cells above each other are joined to one name. A table without header cells has the
    columns `column 1`, `column 2` and so on. Hidden parts and references to footnotes are left out;
    an exponent follows "^", so that its digits join no number. A table in a cell is part of it.

    Raises
    ------
    InvalidArgument
        The column is missing.

    Examples
    --------
    >>> import pandas as pd
    >>> text = "| city | people |\n|---|---|\n| Oslo | 700000 |"
    >>> pages = pd.DataFrame({"url": ["http://a.test/"], "markdown": [text]})
    >>> tables(pages)[0]["people"].tolist()
    [700000]
    """
    # The parser is loaded only here.
    from webdata_nb.page.scrape import page as text_tables  # noqa: PLC0415

    frame.require_frame(df)
    if source is not None and source not in _SOURCES:
        suggestion = did_you_mean(quoted(closest(source, _SOURCES)))
        raise InvalidArgument(
            f"source must be one of {', '.join(map(repr, _SOURCES))}, or None; "
            f"it is {format_value(source)}{suggestion}"
        )
    wanted = _SOURCES if source is None else (source,)
    chosen = next((name for name in wanted if name in df.columns), None)
    if chosen is None:
        raise InvalidArgument(
            f"df has no column {' or '.join(_SOURCES)}: pass it in formats= to the call; "
            f"it is {format_value(df)}"
        )
    return [
        _table(url, position, table)
        for url, text in zip(page_urls(df), df[chosen].tolist(), strict=True)
        if isinstance(text, str)
        for position, table in enumerate(
            text_tables.markdown_tables(text)
            if chosen == "markdown"
            else text_tables.html_tables(text, url),
            1,
        )
        if len(table.rows) >= min_rows
    ]


def _table(url: str, position: int, table: TableTexts) -> pd.DataFrame:
    width = max(map(len, (table.header, *table.rows)))
    header = [*table.header, *[""] * (width - len(table.header))]
    columns: dict[str, Any] = {
        "url": pd.Series([url] * len(table.rows), dtype="str"),
        "position": pd.Series([position] * len(table.rows), dtype="Int32"),
    }
    # Repeated names, `url` and `position` get a number.
    counts = Counter(columns.keys())
    for index, text in enumerate(header):
        name = text or f"column {index + 1}"
        counts[name] += 1
        cells = [row[index] if index < len(row) else "" for row in table.rows]
        unique = name if counts[name] == 1 else f"{name} ({counts[name]})"
        columns[unique] = _typed_column(cells)
    df = pd.DataFrame(columns)
    attrs = {"kind": "table", "url": url, "position": position, "caption": table.caption}
    attrs["total_rows"] = table.totals
    df.attrs = {frame.ATTRS: attrs}
    return df


def _typed_column(cells: list[str]) -> pd.Series[Any]:
    """Return a column of numbers or truth values if all cells are; empty cells are missing."""
    filled = [cell for cell in cells if cell]
    for dtype, parse in (
        ("Int64", _parse_integer),
        ("Float64", _parse_float),
        ("boolean", lambda cell: {"true": True, "false": False}.get(cell.lower())),
    ):
        values = [parse(cell) for cell in filled]
        if filled and None not in values:
            parsed = iter(values)
            return pd.Series([next(parsed) if cell else pd.NA for cell in cells], dtype=dtype)
    return pd.Series(cells, dtype="str")


def _parse_integer(cell: str) -> int | None:
    plain = cell.replace(",", "")
    # Digits with leading zeros, and 19 digits or more, are identifiers.
    is_integer = plain.lstrip("+-").isdecimal() and plain.isascii() and len(plain) < len(str(2**62))
    is_identifier = len(plain.lstrip("+-")) > 1 and plain.lstrip("+-").startswith("0")
    return int(plain) if is_integer and not is_identifier and _has_valid_grouping(cell) else None


def _parse_float(cell: str) -> float | None:
    plain = cell.replace(",", "")
    if plain.lstrip("+-").isdecimal():
        integer = _parse_integer(cell)  # identifiers are no numbers either
        return None if integer is None else float(integer)
    if (
        not any(digit.isdecimal() for digit in plain)
        or not _has_valid_grouping(cell)
        or "_" in plain
    ):
        return None
    try:
        return float(plain)
    except ValueError:
        return None


def _has_valid_grouping(cell: str) -> bool:
    """Return whether all commas of a number separate groups of three digits."""
    groups = cell.partition(".")[0].split(",")[1:]
    return all(len(group) == 3 and group.isdecimal() for group in groups)  # noqa: PLR2004 - three


def _items(df: pd.DataFrame, column: str, schema: pa.Schema) -> Iterator[dict[str, Any]]:
    known = set(schema.names)
    for url, items in page_lists(df, column):
        for position, item in enumerate(items, 1):
            if isinstance(item, Mapping):
                # Services name the URL of an image `url` or `src`.
                fields = {"src": item.get("url"), **item} if column == "images" else item
                extra = {name: value for name, value in fields.items() if name not in known}
                known_fields = {name: value for name, value in fields.items() if name in known}
                yield {**known_fields, "url": url, "position": position, "extra": extra or None}


def page_lists(df: pd.DataFrame, column: str) -> Iterator[tuple[str, list[Any]]]:
    frame.require_column(df, column, f': pass formats=["{column}"] to the call')
    for url, value in zip(page_urls(df), df[column].tolist(), strict=True):
        items = decoded(value, column)
        if not isinstance(items, str | Mapping) and hasattr(items, "__iter__"):
            yield url, list(items)


def page_urls(df: pd.DataFrame) -> list[str]:
    frame.require_column(df, "url", ": it must be a frame of search_df or crawl_df")
    return ["" if pd.isna(url) else str(url) for url in df["url"].tolist()]


def to_frame(
    kind: str, items: list[dict[str, Any]], schema: pa.Schema, df: pd.DataFrame
) -> pd.DataFrame:
    """Return a frame with the receipt line of the frame that its items come from."""
    attrs = {"kind": kind, "line": frame.receipt_text(df, "line")}
    columns: list[pa.Array[Any]] = []
    for field in schema:
        values = [row.get(field.name) for row in items]
        if schemas.kind(field) == schemas.JSON:
            values = [None if value is None else dumps(value) for value in values]
        fitting = [_value_or_none(value, field.type) for value in values]
        columns.append(pa.array(fitting, field.type))
    return frame.build(
        pa.table(columns, schema=schema), attrs=attrs, dtype_backend=frame.backend_of(df)
    )


def _value_or_none(value: Any, data_type: pa.DataType) -> Any:
    """Return `value` if it has the type of the column, else None."""
    if pa.types.is_string(data_type):
        return value if isinstance(value, str) else None
    if pa.types.is_boolean(data_type):
        return value if isinstance(value, bool) else None
    if pa.types.is_timestamp(data_type):
        return value if isinstance(value, datetime) else None
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return value if is_integer and abs(value) < 2 ** (data_type.bit_width - 1) else None


_FIELDS: Final[list[tuple[str, pa.DataType]]] = [
    ("url", schemas.TEXT),
    ("position", pa.int32()),
    ("signal", schemas.TEXT),
    *((purpose, schemas.TEXT) for purpose in PURPOSES),
    ("read_at", schemas.WHEN),
    ("line_number", pa.int32()),
    *((name, schemas.TEXT) for name in ("source", "line", "problem")),
]
_SIGNALS: Final = pa.schema(_FIELDS)


def rights_df(df: pd.DataFrame) -> pd.DataFrame:
    """Return every declaration about the use of the pages, one row each.

    Parameters
    ----------
    df
        A frame with a `rights` column, from `crawl_df` or `scrape_df` with `rights` or `purpose`.

    Returns
    -------
    pandas.DataFrame
        ============ =================== ==================================================
        column       dtype               meaning
        ============ =================== ==================================================
        url          str                 the page
        position     Int32               position among the page's declarations, from 1
        signal       str                 `robots`, `content-signal`, `content-usage`, `rsl`,
                                         `robots-tag`, `tdm` or `license`
        search       str                 `allowed` or `refused`; missing where it says
                                         nothing of that purpose. So are `ai-input`,
                                         `ai-train` and `research`
        read_at      datetime64[us, UTC] when its source was read
        line_number  Int32               its line, if the source is a file
        source       str                 the URL of the file or page that has it
        line         str                 the line, header or element
        problem      str                 why it could not be read as a whole
        ============ =================== ==================================================

    Raises
    ------
    InvalidArgument
        The column is missing, or has text that is not JSON.

    Examples
    --------
    >>> import pandas as pd
    >>> signal = {"signal": "content-usage", "says": {"ai-train": "refused"}}
    >>> pages = pd.DataFrame({"url": ["http://a.test/"], "rights": [{"signals": [signal]}]})
    >>> rights_df(pages)["ai-train"].tolist()
    ['refused']
    """
    frame.require_column(df, "rights", ": pass rights=True or a purpose to the call")
    items: list[dict[str, Any]] = []
    for url, value in zip(page_urls(df), df["rights"].tolist(), strict=True):
        rights = decoded(value, "rights")
        signals: Any = rights.get("signals") if isinstance(rights, Mapping) else None
        if not pd.api.types.is_list_like(signals):  # pandas reads lists of Parquet as arrays
            continue
        for position, signal in enumerate(signals, 1):
            if isinstance(signal, Mapping):
                says = signal.get("says")
                verdicts = says if isinstance(says, Mapping) else {}
                fields = {**signal, "read_at": _read_at(signal.get("read_at"))}
                items.append({**fields, **verdicts, "url": url, "position": position})
    return to_frame("rights", items, _SIGNALS, df)


def _read_at(value: object) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


# Converts frames to the data of the figures: pages of a crawl, and ranks by snapshot.


_LABELS: Final = ("query", "engine", "language", "country")
# A column of fewer different numbers, such as status codes, has categories.
_FEW_VALUES: Final = 7


def pages(df: pd.DataFrame) -> list[tuple[tuple[str, ...], int | None]]:
    """Return the path and the depth of each page of a crawl; a query string is no part of it."""
    frame.require_columns(df, ("url", "depth", "status_code", "success"), "crawl_df")
    urls = [urlsplit("" if frame.is_missing(url) else str(url)) for url in df["url"].tolist()]
    has_several_hosts = len({parts.netloc for parts in urls}) > 1
    return [
        (
            (
                *([parts.netloc] if has_several_hosts else []),
                *(unquote(name) for name in parts.path.split("/") if name),
            ),
            _integer_or_none(depth),
        )
        for parts, depth in zip(urls, df["depth"].tolist(), strict=True)
    ]


def statuses(df: pd.DataFrame) -> list[tuple[int | None, bool]]:
    """Return the status code and the success of each page of a crawl."""
    codes, successes = df["status_code"].tolist(), df["success"].tolist()
    return [
        (_integer_or_none(code), success is not pd.NA and bool(success))
        for code, success in zip(codes, successes, strict=True)
    ]


def numbers(df: pd.DataFrame, name: str) -> list[float | None] | None:
    """Return the values of a column of many different numbers; None for any other column."""
    column = df[name]
    is_number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    if not is_number or column.nunique() <= _FEW_VALUES:
        return None
    return [None if frame.is_missing(value) else float(value) for value in column.tolist()]


def categories(df: pd.DataFrame, name: str) -> list[str | None]:
    """Return the values of a column as text.

    Raises
    ------
    InvalidArgument
        The column holds lists or dicts.
    """
    values = df[name].tolist()
    if any(isinstance(value, list | dict | bytes) for value in values):
        raise InvalidArgument(f"color must name a column of numbers or short texts; not {name!r}")
    return [None if frame.is_missing(value) else str(value) for value in values]


def check_color(df: pd.DataFrame, name: object) -> str:
    """Check that a frame has a column to colour by.

    Raises
    ------
    InvalidArgument
        It has not.
    """
    columns = [str(each) for each in df.columns]
    if not isinstance(name, str) or name not in {"status", *columns}:
        suggestion = did_you_mean(quoted(closest(name, columns)))
        raise InvalidArgument(
            f'color must be "status" or a column of df; it is {name!r}{suggestion}'
        )
    return name


def snapshots(df: pd.DataFrame) -> list[tuple[datetime, dict[str, tuple[str, int]]]]:
    """Return the time of each snapshot of a history, and the URL and rank of each result by key.

    Raises
    ------
    InvalidArgument
        The frame is not the history of one search.
    """
    frame.require_columns(df, ("taken_at", "rank", "url"), "history_df(search_df, ...)")
    several = [name for name in _LABELS if name in df and len(df[name].drop_duplicates()) > 1]
    if several:
        raise InvalidArgument(
            f"the history is of several searches: choose one by {' and '.join(several)}, or a site "
            "whose ranks to draw: history_df(rank_df, queries, site=...)"
        )
    hosts = {_host(str(url)) for url in df["url"].dropna().tolist()}
    snapshots = []
    for at, rows in df.groupby("taken_at", sort=True):
        ranked = rows[rows["rank"].notna() & rows["url"].notna()].sort_values("rank")
        results: dict[str, tuple[str, int]] = {}
        for url, rank in zip(ranked["url"].tolist(), ranked["rank"].tolist(), strict=True):
            parts = urlsplit(str(url))
            label = unquote(parts.path).rstrip("/") + (f"?{parts.query}" if parts.query else "")
            # Without the host if all URLs have the same.
            label = f"{_host(str(url))}{label}" if len(hosts) > 1 else label or "/"
            results.setdefault(result_key(str(url)), (label, int(rank)))
        snapshots.append((pd.Timestamp(str(at)).to_pydatetime(), results))
    return snapshots


def _host(url: str) -> str:
    return urlsplit(url).netloc.removeprefix("www.")


def _integer_or_none(value: Any) -> int | None:
    return None if frame.is_missing(value) else int(value)
