"""The tour of `webdata demo`: a crawl and a search, as a user would call them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from webdata_nb import local, session
from webdata_nb.api import crawl_df, search_df
from webdata_nb.bridge import synced
from webdata_nb.contract.choices import ENGINES
from webdata_nb.demo.server import SampleSite
from webdata_nb.errors import InvalidArgument
from webdata_nb.settings import current, options

if TYPE_CHECKING:
    import pandas as pd

_SAMPLE_QUERY: Final = "aurora forecast"
_SAMPLE_PAGES: Final = 50
_REAL_PAGES: Final = 25
_RESULTS: Final = 5
_QUERY_WORDS: Final = 6
_SHOWN_ROWS: Final = 40
_NARROWEST: Final = 8
_GAP: Final = "  "
_CRAWL_COLUMNS: Final = ("url", "title", "status_code", "depth", "error")
_SEARCH_COLUMNS: Final = ("rank", "title", "url", "snippet", "error")
# The index over pages crawled here answers, whatever engines the user has set up.
_LOCAL_ENGINES: Final = dict.fromkeys(ENGINES, ("local",))

_find = synced(local.find)
_stop = synced(local.stop)


def run(url: str | None = None) -> int:
    """Crawl a site, search the pages that were crawled, and show both tables.

    Parameters
    ----------
    url
        Where to start; the sample web that ships with the package when None. The sample is
        crawled by a local service with a data directory of its own, which goes when it ends.

    Returns
    -------
    int
        0, the exit code of success.

    Raises
    ------
    InvalidArgument
        No `url`, and the settings name a service, which need not reach this machine's loopback.
    WebdataError
        Whatever the crawl or the search met; what the tour started is stopped all the same.
    """
    with ExitStack() as stack:
        if url is None:
            url = _sample(stack)
            pages, query = _SAMPLE_PAGES, _SAMPLE_QUERY
        else:
            pages, query = _REAL_PAGES, ""
        stack.enter_context(_set(engines=_LOCAL_ENGINES))
        if current().base_url is None:
            stack.enter_context(_service())
        _visit(url, pages, query)
    return 0


def _sample(stack: ExitStack) -> str:
    if current().base_url is not None:
        raise InvalidArgument(
            "the sample web is on this machine's loopback, which another service need not "
            "reach: unset WEBDATA_BASE_URL, or name a site: webdata demo URL"
        )
    scratch = tempfile.TemporaryDirectory(prefix="webdata-demo-", ignore_cleanup_errors=True)
    folder = stack.enter_context(scratch)
    stack.enter_context(_set(data_dir=folder, log_dir=folder))
    url = stack.enter_context(SampleSite()).url
    print(f"The sample web, a small paper of about 25 pages, is at {url}")
    return url


@contextmanager
def _set(**given: Any) -> Iterator[None]:
    """Set options of this process for a while."""
    before = {name: getattr(options, name) for name in given}
    try:
        for name, value in given.items():
            setattr(options, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(options, name, value)


@contextmanager
def _service() -> Iterator[None]:
    """Stop the local service at the end, if none ran before."""
    chosen = current()
    ran_before = _find(chosen) is not None
    try:
        yield
    finally:
        session.default_connection().close()
        if not ran_before and _stop(chosen):
            print("\nThe local service that the tour started is stopped.")


def _visit(url: str, pages: int, query: str) -> None:
    print(f'\n>>> crawl_df("{url}", max_pages={pages})')
    crawled = crawl_df(url, max_pages=pages, refresh=True)
    _show(crawled, _CRAWL_COLUMNS)
    query = query or _query_for(crawled, url)
    print(f'\n>>> search_df("{query}", num_results={_RESULTS})')
    _show(search_df(query, num_results=_RESULTS, refresh=True), _SEARCH_COLUMNS)


def _query_for(crawled: pd.DataFrame, url: str) -> str:
    """Take the title of the first page that has one: words that the index must know."""
    titles = crawled.loc[crawled["success"], "title"].dropna()
    text = next((title for title in titles if title.strip()), urlsplit(url).hostname or url)
    words = "".join(mark if mark.isalnum() else " " for mark in text).split()
    return " ".join(words[:_QUERY_WORDS])


def _show(frame: pd.DataFrame, columns: Sequence[str]) -> None:
    """Print a frame's rows, its receipt in one line and where its file is."""
    told: dict[str, Any] = frame.attrs["webdata"]
    shown = frame[[name for name in columns if frame[name].notna().any()]]
    for line in _lines(shown) if len(shown) else ["no rows"]:
        print(line)
    print(told["line"])
    print(f"Parquet file: {told['file'] or 'none, the cache cannot be written'}")


def _lines(frame: pd.DataFrame) -> Iterator[str]:
    """Lay out a table's first rows within the terminal's width, the widest columns cut."""
    rows = [[_cell(value) for value in row] for row in frame.head(_SHOWN_ROWS).to_numpy()]
    table = [list(frame.columns), *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    room = shutil.get_terminal_size((120, 24)).columns - len(_GAP) * (len(widths) - 1)
    cap = max(widths)
    while cap > _NARROWEST and sum(min(width, cap) for width in widths) > room:
        cap -= 1
    for row in table:
        cells = zip(row, widths, strict=True)
        yield _GAP.join(_cut(text, cap).ljust(min(width, cap)) for text, width in cells).rstrip()
    if len(frame) > _SHOWN_ROWS:
        yield f"... and {len(frame) - _SHOWN_ROWS} more rows"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _cell(value: object) -> str:
    """Write a value on one line; what a site sends must not steer the terminal."""
    text = "" if value is None or value != value else str(value)  # noqa: PLR0124 - so is NaN found
    return " ".join("".join(mark if mark.isprintable() else " " for mark in text).split())
