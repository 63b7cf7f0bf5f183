"""Runs the tour of `webdata demo`: a crawl and a search over the crawled pages."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from webdata_nb.contract.choices import ENGINES
from webdata_nb.demo.server import SampleSite
from webdata_nb.errors import InvalidArgument
from webdata_nb.settings import current, options
from webdata_nb.toolkit import local, session
from webdata_nb.toolkit.api import crawl_df, search_df
from webdata_nb.toolkit.bridge import synced
from webdata_nb.toolkit.terminal_text import encodable, printable_line

if TYPE_CHECKING:
    import pandas as pd

_SAMPLE_QUERY: Final = "aurora forecast"
_SAMPLE_MAX_PAGES: Final = 50
_REAL_MAX_PAGES: Final = 25
_NUM_RESULTS: Final = 5
_MAX_QUERY_WORDS: Final = 6
_MAX_PRINTED_ROWS: Final = 40
_MIN_COLUMN_WIDTH: Final = 8
_COLUMN_GAP: Final = "  "
_CRAWL_COLUMNS: Final = ("url", "title", "status_code", "depth", "error")
_SEARCH_COLUMNS: Final = ("rank", "title", "url", "snippet", "error")
# Only the text index of crawled pages is searched, whatever engines the user has configured.
_LOCAL_ENGINES: Final = dict.fromkeys(ENGINES, ("local",))

_find = synced(local.find)
_stop = synced(local.stop)


def run_tour(url: str | None = None) -> None:
    """Crawl a site, search the crawled pages, and print both tables.

    Parameters
    ----------
    url
        Where to start; the sample web that ships with the package when None. A local service with
        a temporary data directory crawls the sample.

    Raises
    ------
    InvalidArgument
        No `url` is passed, and the settings name a service, which may run on another machine.
    WebdataError
        The crawl or the search failed. The tour still stops the service that it started.
    """
    with ExitStack() as stack:
        if url is None:
            if current().base_url is not None:
                raise InvalidArgument(
                    "the sample web is served on this machine's loopback interface, which another "
                    "service may not reach: unset WEBDATA_BASE_URL, or name a site: "
                    "webdata demo URL"
                )
            temporary = tempfile.TemporaryDirectory(
                prefix="webdata-demo-", ignore_cleanup_errors=True
            )
            folder = stack.enter_context(temporary)
            stack.enter_context(_temporary_options(data_dir=folder, log_dir=folder))
            url = stack.enter_context(SampleSite()).url
            print(f"The sample web, a small paper of about 25 pages, is at {url}")
            pages, query = _SAMPLE_MAX_PAGES, _SAMPLE_QUERY
        else:
            pages, query = _REAL_MAX_PAGES, ""
        stack.enter_context(_temporary_options(engines=_LOCAL_ENGINES))
        if current().base_url is None:
            stack.enter_context(_stop_service_at_end())
        print(f'\n>>> crawl_df("{url}", max_pages={pages})')
        crawled = crawl_df(url, max_pages=pages, refresh=True)
        _print_result(crawled, _CRAWL_COLUMNS)
        query = query or _query_from_titles(crawled, url)
        print(encodable(f'\n>>> search_df("{query}", num_results={_NUM_RESULTS})'))
        _print_result(search_df(query, num_results=_NUM_RESULTS, refresh=True), _SEARCH_COLUMNS)


@contextmanager
def _temporary_options(**values: Any) -> Iterator[None]:
    """Set options of this process until the context ends."""
    previous = {name: getattr(options, name) for name in values}
    try:
        for name, value in values.items():
            setattr(options, name, value)
        yield
    finally:
        for name, value in previous.items():
            setattr(options, name, value)


@contextmanager
def _stop_service_at_end() -> Iterator[None]:
    """Stop the local service when the context ends, unless it ran before."""
    settings = current()
    ran_before = _find(settings) is not None
    try:
        yield
    finally:
        session.default_connection().close()
        if not ran_before and _stop(settings):
            print("\nThe local service that the tour started is stopped.")


def _query_from_titles(crawled: pd.DataFrame, url: str) -> str:
    """Return the first words of the first title, which the index contains, or of the host."""
    titles = crawled.loc[crawled["success"], "title"].dropna()
    text = next((title for title in titles if title.strip()), urlsplit(url).hostname or url)
    words = "".join(char if char.isalnum() else " " for char in text).split()
    return " ".join(words[:_MAX_QUERY_WORDS])


def _print_result(frame: pd.DataFrame, columns: Sequence[str]) -> None:
    """Print the rows of a frame, its receipt in one line, and the path of its file."""
    receipt: dict[str, Any] = frame.attrs["webdata"]
    with_values = frame[[name for name in columns if frame[name].notna().any()]]
    for line in _table_lines(with_values) if len(with_values) else ["no rows"]:
        print(encodable(line))
    print(encodable(receipt["line"]))
    print(f"Parquet file: {receipt['file'] or 'none, the cache cannot be written'}")


def _table_lines(frame: pd.DataFrame) -> Iterator[str]:
    """Format the first rows within the width of the terminal; the widest columns are cut."""
    rows = [[_cell(value) for value in row] for row in frame.head(_MAX_PRINTED_ROWS).to_numpy()]
    table = [list(frame.columns), *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    available = shutil.get_terminal_size((120, 24)).columns - len(_COLUMN_GAP) * (len(widths) - 1)
    limit = max(widths)
    while limit > _MIN_COLUMN_WIDTH and sum(min(width, limit) for width in widths) > available:
        limit -= 1
    widths = [min(width, limit) for width in widths]
    for row in table:
        cells = (
            (text if len(text) <= width else text[: width - 1] + "…").ljust(width)
            for text, width in zip(row, widths, strict=True)
        )
        yield _COLUMN_GAP.join(cells).rstrip()
    if len(frame) > _MAX_PRINTED_ROWS:
        yield f"... and {len(frame) - _MAX_PRINTED_ROWS} more rows"


def _cell(value: object) -> str:
    """Return a value as one line of text; None and NaN become empty."""
    text = "" if value is None or value != value else printable_line(value)  # noqa: PLR0124 - NaN
    return " ".join(text.split())
