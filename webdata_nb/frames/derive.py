"""One crawl, several tables: the links, images, headings and tables of its pages.

Each row tells the page it is from (`url`) and its place there (`position`, from 1), so that the
tables join with the crawl and with each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import orjson
import pandas as pd
import pyarrow as pa

from webdata_nb.errors import InvalidArgument
from webdata_nb.frames import frame, html_tables, rows, schemas

__all__ = ["headings_df", "images_df", "links_df", "tables"]

Source = Literal["html", "raw_html", "markdown"]
_SOURCES: Final = ("html", "raw_html", "markdown")


def _plain(**named: pa.DataType) -> list[pa.Field[Any]]:
    return [pa.field(name, data_type) for name, data_type in named.items()]


_PLACE: Final = _plain(url=schemas.TEXT, position=pa.int32())
_EXTRA: Final = pa.field("extra", schemas.TEXT, metadata={b"webdata.type": schemas.JSON})
_LINKS: Final = pa.schema([*_PLACE, *_plain(link=schemas.TEXT, internal=pa.bool_())])
_IMAGES: Final = pa.schema(
    [
        *_PLACE,
        *_plain(src=schemas.TEXT, alt=schemas.TEXT, width=pa.int32(), height=pa.int32()),
        *_plain(caption=schemas.TEXT),
        _EXTRA,
    ]
)
_HEADINGS: Final = pa.schema(
    [*_PLACE, *_plain(level=pa.int16(), text=schemas.TEXT, anchor=schemas.TEXT), _EXTRA]
)


def links_df(df: pd.DataFrame) -> pd.DataFrame:
    """Return every link of the pages, one row each.

    Parameters
    ----------
    df
        A frame with a `links` column: `formats` must have asked for `"links"`.

    Returns
    -------
    pandas.DataFrame
        ============ ========= ====================================================
        column       dtype     meaning
        ============ ========= ====================================================
        url          str       the page
        position     Int32     place among the page's links, from 1
        link         str       where it leads
        internal     boolean   whether it stays on the page's host
        ============ ========= ====================================================

    Raises
    ------
    InvalidArgument
        There is no such column.

    Examples
    --------
    >>> import pandas as pd
    >>> pages = pd.DataFrame({"url": ["http://a.test/"], "links": [["http://b.test/"]]})
    >>> links_df(pages)["link"].tolist()
    ['http://b.test/']
    """
    made = [
        {
            "url": url,
            "position": position,
            "link": link,
            "internal": _host(link) == _host(url),
        }
        for url, links in _listed(df, "links")
        for position, link in enumerate(links, 1)
        if isinstance(link, str)
    ]
    return _framed(made, _LINKS, df)


def images_df(df: pd.DataFrame) -> pd.DataFrame:
    """Return every image of the pages, one row each.

    Parameters
    ----------
    df
        A frame with an `images` column: `formats` must have asked for `"images"`.

    Returns
    -------
    pandas.DataFrame
        `url`, `position`; `src`, `alt`, `caption` (str), `width`, `height` (Int32, CSS pixels) as
        the page states them; `extra` (dict of further fields).

    Raises
    ------
    InvalidArgument
        There is no such column.

    Examples
    --------
    >>> import pandas as pd
    >>> pages = pd.DataFrame({"url": ["http://a.test/"], "images": [[{"src": "/a.png"}]]})
    >>> images_df(pages)["src"].tolist()
    ['/a.png']
    """
    return _framed(list(_items(df, "images", _IMAGES)), _IMAGES, df)


def headings_df(df: pd.DataFrame) -> pd.DataFrame:
    """Return every heading of the pages, one row each.

    Parameters
    ----------
    df
        A frame with a `headings` column: `formats` must have asked for `"headings"`.

    Returns
    -------
    pandas.DataFrame
        `url`, `position`; `level` (Int16, 1 to 6), `text`, `anchor` (str); `extra` (dict of
        further fields).

    Raises
    ------
    InvalidArgument
        There is no such column.

    Examples
    --------
    >>> import pandas as pd
    >>> listed = [[{"level": 1, "text": "Welcome"}]]
    >>> pages = pd.DataFrame({"url": ["http://a.test/"], "headings": listed})
    >>> headings_df(pages)["text"].tolist()
    ['Welcome']
    """
    return _framed(list(_items(df, "headings", _HEADINGS)), _HEADINGS, df)


def tables(
    df: pd.DataFrame, *, source: Source | None = None, min_rows: int = 1
) -> list[pd.DataFrame]:
    r"""Return each table of the pages as a DataFrame of its own.

    Parameters
    ----------
    df
        A frame with an `html`, `raw_html` or `markdown` column.
    source
        Which of them to read; by default the first of these that there is.
    min_rows
        Rows that a table must have, besides its header.

    Returns
    -------
    list of pandas.DataFrame
        In the order of the pages. The first two columns are `url` and `position` (the table's
        place on the page, from 1); the others are the table's own, numbers as Int64 or Float64,
        truth values as boolean, everything else as str. `attrs["webdata"]` has `url`, `position`
        and `caption`.

    Raises
    ------
    InvalidArgument
        There is no such column.

    Examples
    --------
    >>> import pandas as pd
    >>> text = "| city | people |\n|---|---|\n| Oslo | 700000 |"
    >>> pages = pd.DataFrame({"url": ["http://a.test/"], "markdown": [text]})
    >>> tables(pages)[0]["people"].tolist()
    [700000]
    """
    chosen = _source(df, source)
    read = html_tables.of_markdown if chosen == "markdown" else html_tables.of_html
    return [
        _table(url, position, table)
        for url, text in zip(_urls(df), df[chosen].tolist(), strict=True)
        if isinstance(text, str)
        for position, table in enumerate(read(text), 1)
        if len(table.rows) >= min_rows
    ]


def _source(df: pd.DataFrame, wanted: str | None) -> str:
    frame.require(df)
    if wanted is not None and wanted not in _SOURCES:
        raise InvalidArgument(f"source must be one of {', '.join(map(repr, _SOURCES))}, or None")
    there = [name for name in (_SOURCES if wanted is None else (wanted,)) if name in df.columns]
    if not there:
        raise InvalidArgument(f"df has no column {' or '.join(_SOURCES)}: ask for it in formats")
    return there[0]


def _table(url: str, position: int, table: html_tables.Table) -> pd.DataFrame:
    names = _distinct([name or f"column {n}" for n, name in enumerate(table.header, 1)])
    columns: dict[str, Any] = {
        "url": pd.Series([url] * len(table.rows), dtype="str"),
        "position": pd.Series([position] * len(table.rows), dtype="Int32"),
    }
    for place, name in enumerate(names):
        columns[name] = _typed([row[place] for row in table.rows])
    made = pd.DataFrame(columns)
    told = {"kind": "table", "url": url, "position": position, "caption": table.caption}
    made.attrs = {frame.ATTRS: told}
    return made


def _distinct(names: list[str]) -> list[str]:
    """Return names that differ from each other and from the two of the place."""
    seen = Counter({"url": 1, "position": 1})
    made = []
    for name in names:
        seen[name] += 1
        made.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return made


def _typed(cells: list[str]) -> pd.Series[Any]:
    """Return a column as numbers where every cell is one; an empty cell is missing."""
    known = [cell for cell in cells if cell]
    for dtype, read in (("Int64", _whole), ("Float64", _number), ("boolean", _truth)):
        values = [read(cell) for cell in known]
        if known and None not in values:
            left = iter(values)
            return pd.Series([next(left) if cell else pd.NA for cell in cells], dtype=dtype)
    return pd.Series(cells, dtype="str")


def _whole(cell: str) -> int | None:
    plain = cell.replace(",", "")
    # Leading zeros and 19 digits are names (postcodes, ids), not numbers.
    fits = plain.lstrip("+-").isdecimal() and plain.isascii() and len(plain) < len(str(2**62))
    named = len(plain.lstrip("+-")) > 1 and plain.lstrip("+-").startswith("0")
    return int(plain) if fits and not named and _grouped(cell) else None


def _number(cell: str) -> float | None:
    plain = cell.replace(",", "")
    if plain.lstrip("+-").isdecimal():
        whole = _whole(cell)  # what is no whole number for its length or zeros is none at all
        return None if whole is None else float(whole)
    if not any(digit.isdecimal() for digit in plain) or not _grouped(cell) or "_" in plain:
        return None
    try:
        return float(plain)
    except ValueError:
        return None


def _grouped(cell: str) -> bool:
    """Whether the commas of a number, if any, stand before groups of three digits."""
    groups = cell.partition(".")[0].split(",")[1:]
    return all(len(group) == 3 and group.isdecimal() for group in groups)  # noqa: PLR2004 - three


def _truth(cell: str) -> bool | None:
    return {"true": True, "false": False}.get(cell.lower())


def _items(df: pd.DataFrame, column: str, schema: pa.Schema) -> Iterator[dict[str, Any]]:
    known = set(schema.names)
    for url, listed in _listed(df, column):
        for position, item in enumerate(listed, 1):
            if isinstance(item, Mapping):
                # Services name an image's own address `url` or `src`.
                told = {"src": item.get("url"), **item} if column == "images" else item
                extra = {name: value for name, value in told.items() if name not in known}
                mine = {name: value for name, value in told.items() if name in known}
                yield {**mine, "url": url, "position": position, "extra": extra or None}


def _listed(df: pd.DataFrame, column: str) -> Iterator[tuple[str, list[Any]]]:
    frame.require(df)
    if column not in df.columns:
        raise InvalidArgument(f'df has no column {column}: ask for it, formats=["{column}"]')
    for url, value in zip(_urls(df), df[column].tolist(), strict=True):
        listed = orjson.loads(value) if isinstance(value, str) else value
        if not isinstance(listed, str | Mapping) and hasattr(listed, "__iter__"):
            yield url, list(listed)


def _urls(df: pd.DataFrame) -> list[str]:
    frame.require(df)
    if "url" not in df.columns:
        raise InvalidArgument("df has no column url: it must be a frame of search_df or crawl_df")
    return ["" if pd.isna(url) else str(url) for url in df["url"].tolist()]


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return url


def _framed(made: list[dict[str, Any]], schema: pa.Schema, df: pd.DataFrame) -> pd.DataFrame:
    table = pa.table(
        [_column(made, field) for field in schema],
        schema=schema,
    )
    backend: frame.DtypeBackend = "pyarrow" if frame.arrow_backed(df) else "pandas"
    return frame.build(table, dtype_backend=backend)


def _column(made: list[dict[str, Any]], field: pa.Field[Any]) -> pa.Array[Any]:
    values = [row.get(field.name) for row in made]
    if schemas.kind(field) == schemas.JSON:
        values = [None if value is None else rows.dumps(value) for value in values]
    column: pa.Array[Any] = pa.array([_fitting(value, field.type) for value in values], field.type)
    return column


def _fitting(value: Any, data_type: pa.DataType) -> Any:
    """Return the value, or None where it is not what the column holds."""
    if pa.types.is_string(data_type):
        return value if isinstance(value, str) else None
    if pa.types.is_boolean(data_type):
        return value if isinstance(value, bool) else None
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and abs(value) < 2 ** (data_type.bit_width - 1) else None
