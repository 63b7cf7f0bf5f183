"""Crawls a site again, and returns what has changed, by field."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack, cast

from webdata_nb.contract import limits
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.bridge import blocking
from webdata_nb.toolkit.calls.watch import Watch
from webdata_nb.toolkit.frames import storage
from webdata_nb.toolkit.requests import arguments
from webdata_nb.toolkit.requests.call_options import CallOptions
from webdata_nb.toolkit.requests.crawls import crawl_inputs
from webdata_nb.toolkit.requests.inputs import request_values
from webdata_nb.toolkit.requests.job_spec import is_long
from webdata_nb.toolkit.requests.options import CrawlDfOptions, CrawlOptions, WatchDfOptions
from webdata_nb.toolkit.requests.signatures import with_options
from webdata_nb.toolkit.requests.since import LAST
from webdata_nb.toolkit.sites.changes_file import CHANGES_COLUMNS

if TYPE_CHECKING:
    import pandas as pd

    from webdata_nb.toolkit.requests.job_spec import JobSpec

_SUFFIX: Final = ".parquet"


@with_options(WatchDfOptions, columns=CHANGES_COLUMNS)
async def awatch_df(
    url: str,
    *,
    columns: str | Sequence[str] | None = None,
    out: str | Path | None = None,
    wait: bool = True,
    **options: Unpack[WatchDfOptions],
) -> pd.DataFrame:
    """Crawl a site again, and return what has changed since the last call, by field.

    `awatch_df` is the same for async code. The crawl is one with `since="last"`: the site is asked
    for each page whether it has changed. The first call has nothing to compare with, and returns
    no changes.

    Parameters
    ----------
    url
        Where the crawl starts.
    columns
        What to compare: `title`, `description`, `content_hash`, the `formats` of the call, and the
        fields of `extract`. By default, title, description, all formats except `raw_html`, and all
        fields of `extract`.
    out
        A `.parquet` file to append the changes to. It also remembers the pages: a page that cannot
        be read for once keeps its last values, and a call that is killed loses no change. Without
        it, the crawl is compared with the last one in the cache.
    wait
        Whether to wait for another call with the same arguments that is not finished, for
        `timeout` seconds at most; otherwise WatchRunning.
    recheck
        Share of the unchanged pages that are fetched in full nevertheless, 0 to 1 (default 0.01).
        The receipt says how many had changed, and what that means for the others.
    timeout
        Seconds to wait for the crawl's end; then JobTimeout, and no change is reported.

    Returns
    -------
    pandas.DataFrame
        One row for each changed field: of changed and added pages in the order of the crawl, then
        of removed ones. A page that could not be read is none of these. `changes` in the receipt
        counts pages.

        {columns}

    Raises
    ------
    InvalidArgument
        An argument that is not allowed, or a file of something else; nothing was sent.
    NotSupported
        The service offers no incremental crawls; nothing was started.
    WatchRunning
        See `wait`.
    WebdataError
        As `crawl_df` raises. Nothing was compared, and the next call makes up for it.
    OSError
        `out` cannot be written, such as on a full disk, or another process has held its lock for a
        minute. The next call finds the same changes.

    Examples
    --------
    >>> len(watch_df(start_url, max_pages=5))
    0
    >>> watch_df(start_url, columns="title", max_pages=5)["field"].tolist()
    []
    """
    spec, call = _crawl_of(url, options)
    names, path = _names(columns), _path(out)
    is_waiting = arguments.check_flag("wait", wait)
    return await Watch.of(spec, call, names, path, wait=is_waiting).run()


watch_df = blocking(awatch_df)


def _crawl_of(url: object, options: WatchDfOptions) -> tuple[JobSpec, CallOptions]:
    """Return the crawl of a call, and the options of its run."""
    if not isinstance(url, str):
        raise InvalidArgument(f"url must be the URL of one site; it is {format_value(url)}")
    for name in ("audit", "check_links"):
        if options[name]:
            raise InvalidArgument(f"{name} is not possible with watch_df: use crawl_df, and diff")
    if is_long(options):
        raise InvalidArgument(
            f"max_pages must be from 1 to {limits.MAX_PAGES[1]}; it is {options['max_pages']}"
        )
    values = {
        **request_values(options, CrawlOptions),
        "since": {"base": LAST, "recheck": options["recheck"]},
    }
    [item] = crawl_inputs(url, cast("CrawlDfOptions", values))
    return item.spec, CallOptions.of(
        session=options["session"],
        progress=options["progress"],
        timeout=options["timeout"],
        cache=True,
    )


def _names(columns: object) -> Sequence[str] | None:
    if columns is None:
        return None
    names = arguments.list_items("columns", [columns] if isinstance(columns, str) else columns)
    if names is None:
        raise InvalidArgument(
            f"columns must be a name or a list of names; it is {format_value(columns)}"
        )
    return names


def _path(out: object) -> Path | None:
    """Return the file of changes."""
    if out is None:
        return None
    is_url = isinstance(out, str) and storage.is_remote(out)
    if is_url or not isinstance(out, str | Path) or Path(out).suffix != _SUFFIX:
        raise InvalidArgument(
            f"out must be the path of a {_SUFFIX} file of this machine; it is {format_value(out)}"
        )
    return arguments.check_file_path("out", out)
