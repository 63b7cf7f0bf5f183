"""Lists, measures and clears the cached results."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import pyarrow as pa

from webdata_nb import settings
from webdata_nb.contract.fields import http_url
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import closest, counted, did_you_mean, format_value, quoted
from webdata_nb.toolkit.bridge import synced
from webdata_nb.toolkit.cache import result_cache
from webdata_nb.toolkit.cache.result_cache import CacheFile
from webdata_nb.toolkit.frames import frame, schemas
from webdata_nb.toolkit.session import default_connection

if TYPE_CHECKING:
    import pandas as pd

    from webdata_nb.settings import Duration

__all__ = ["clear", "ls", "path", "size"]

OPS: Final = ("search", "crawl", "creatives")
_COLUMNS: Final[dict[str, pa.DataType]] = {
    "op": schemas.TEXT,
    "subject": schemas.TEXT,
    "at": schemas.WHEN,
    "rows": pa.int32(),
    "bytes": pa.int64(),
    "file": schemas.TEXT,
}


def path() -> Path:
    """Return the cache directory; it need not exist yet."""
    return settings.current().cache_dir


def size() -> int:
    """Return the bytes that all cached results take on disk."""
    return sum(file.size for file in result_cache.cache_files(path()))


def ls() -> pd.DataFrame:
    """List the cached results, newest first.

    Returns
    -------
    pandas.DataFrame
        ============ ====================== ==========================================
        column       dtype
        ============ ====================== ==========================================
        op           str                    search, crawl or creatives
        subject      str                    the query, start URL or advertiser
        at           datetime64[us, UTC]    when the result was taken
        rows         Int32                  rows of the result
        bytes        Int64                  its size on disk
        file         str                    the path; any Parquet reader opens it, and finds
                                            all pages of a list that was read at once
        ============ ====================== ==========================================
    """
    rows = [_describe(file) for file in result_cache.cache_files(path())]
    rows.sort(key=lambda row: row["at"], reverse=True)
    size_mb = sum(row["bytes"] for row in rows) / 1e6
    line = f"cache: {counted(len(rows), 'result')}, {size_mb:,.1f} MB in {path()}"
    table = pa.Table.from_pylist(rows, schema=pa.schema(_COLUMNS))
    return frame.build(table, attrs={"kind": "cache", "line": line})


def clear(
    op: str | None = None, *, older_than: Duration | None = None, site: str | None = None
) -> int:
    """Remove cached results; files that others put into the directory stay.

    Parameters
    ----------
    op
        Only results of `search`, `crawl` or `creatives`; of all three when None.
    older_than
        Only results taken longer ago: seconds, or a duration such as `"7d"`.
    site
        Any URL of a site: only crawls of this site. The local search forgets the site's pages as
        well, unless `op` or `older_than` restrict the removal; they return when the site is crawled
        again.

    Returns
    -------
    int
        How many files were removed.

    Raises
    ------
    InvalidArgument
        `op` is none of the three, `older_than` is negative, or `site` is no URL.
    LocalServiceError
        With `site`, the local service cannot start.
    """
    if op is not None and op not in OPS:
        suggestion = did_you_mean(quoted(closest(op, OPS)))
        raise InvalidArgument(
            f"op must be one of {', '.join(OPS)}, or None for all; "
            f"it is {format_value(op)}{suggestion}"
        )
    age_s = 0.0 if older_than is None else settings.seconds(older_than)
    if age_s is None or age_s < 0:
        raise InvalidArgument(
            f"older_than must be {settings.DURATION}; it is {format_value(older_than)}"
        )
    origin = None if site is None else _origin_of(site)
    result_cache.sweep(path())
    result_cache.sweep_locks(path())
    claimed_op = "crawl" if site is not None and op is None else op
    result_cache.remove_abandoned_claims(path(), claimed_op, older_than_s=age_s)
    unwanted = [
        file.path
        for file in result_cache.cache_files(path())
        if (op is None or op == file.op)
        and time.time() - file.at.timestamp() >= age_s
        and (origin is None or _is_crawl_of(file, origin))
    ]
    removed = result_cache.remove(path(), unwanted)
    if site is not None and op is None and older_than is None:
        _remove_from_search(site)
    return removed


def _origin_of(site: object) -> tuple[str, str]:
    """Return scheme and host of a URL. Raises `InvalidArgument`."""
    try:
        parts = urlsplit(http_url(site if isinstance(site, str) else ""))
    except ValueError as error:
        raise InvalidArgument(f"site {error}; it is {format_value(site)}") from None
    return parts.scheme.lower(), parts.netloc.lower()


def _is_crawl_of(file: CacheFile, origin: tuple[str, str]) -> bool:
    if file.op != "crawl":
        return False
    with suppress(InvalidArgument):
        return _origin_of(_describe(file).get("subject")) == origin
    return False


def _remove_from_search(site: str) -> None:
    connection = default_connection()
    chosen = connection.settings()
    if chosen.base_url is not None or chosen.offline or chosen.replay is not None:
        return

    async def remove() -> None:
        async with connection.client(chosen) as client:
            await client.remove_site(site)

    synced(remove)()


def _describe(file: CacheFile) -> dict[str, Any]:
    row = {"op": file.op, "at": file.at, "bytes": file.size, "file": str(file.path)}
    with suppress(OSError, ValueError, pa.ArrowException):
        rows_file, rows, attrs = result_cache.stored(file.path)
        row |= {"rows": rows, "subject": attrs.get("subject"), "file": str(rows_file)}
    return row
