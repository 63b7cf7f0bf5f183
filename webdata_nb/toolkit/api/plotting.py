"""Figures of a crawl and of ranks over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.display import plots, site_figure
from webdata_nb.toolkit.display.site_figure import SiteColors, SitePage
from webdata_nb.toolkit.frames import series
from webdata_nb.toolkit.requests import arguments

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_UNITS: Final = {"time_taken": " (seconds)", "depth": " (clicks)"}


def plot_crawl(df: pd.DataFrame, *, color: str = "status") -> Figure:
    """Draw a crawl: the folders of the site, and its pages by clicks from the start.

    The folders are drawn as an icicle plot: each box is as high as it has pages, and the boxes of
    what is inside are next to it, up to three levels. Small ones are grouped ("+240 pages").
    Addresses that differ in their query string only are one page of the tree. On the right, how
    many pages are how many clicks away. Needs the extra `plot`.

    Parameters
    ----------
    df
        A frame of `crawl_df`, also with columns of your own.
    color
        What the colours show: `"status"` for the HTTP answers, or the name of a column. Each box
        has a stripe with the shares of the values; of a column of numbers, such as `time_taken`
        (seconds), it has the colour of their mean.

    Returns
    -------
    matplotlib.figure.Figure
        A notebook shows it when it is the last value of a cell; `savefig` writes it to a file.
        Its `alt_text` describes it.

    Raises
    ------
    InvalidArgument
        `df` is no frame of a crawl, or `color` is none of its columns.
    MissingExtra
        matplotlib is not installed.

    Examples
    --------
    >>> figure = plot_crawl(crawl_df(start_url, max_pages=5))
    >>> len(figure.axes)
    2
    """
    places = series.pages(df)
    by_column = series.check_color(df, color)
    numbers = None if by_column == "status" else series.numbers(df, by_column)
    if numbers is not None:
        values = zip(places, numbers, strict=True)
        pages = [SitePage(path, depth, number=number) for (path, depth), number in values]
        unit = _UNITS.get(by_column, "")
        colors = SiteColors(f"{by_column}{unit}", {})
    else:
        pages, colors = _by_category(df, places, by_column)
    return site_figure.site_figure(pages, series.subject(df) or "Crawl", colors)


def _by_category(
    df: pd.DataFrame, places: Sequence[tuple[tuple[str, ...], int | None]], by_column: str
) -> tuple[list[SitePage], SiteColors]:
    """Return the pages with their categories, and the colours of these."""
    if by_column == "status":
        named: Sequence[str | None] = [
            site_figure.status_label(code, success=success) for code, success in series.statuses(df)
        ]
        colors: Mapping[str, str] = site_figure.STATUSES
    else:
        named = series.categories(df, by_column)
        colors = site_figure.category_colors(named)
    pages = [
        SitePage(path, depth, name if name is None or name in colors else site_figure.OTHER)
        for (path, depth), name in zip(places, named, strict=True)
    ]
    return pages, SiteColors(by_column, colors)


def plot_ranks(history: pd.DataFrame, *, max_lines: int = 10) -> Figure:
    """Draw the rank of each result over the snapshots of a search; rank 1 is at the top.

    Markers show where a result enters and where it was last seen. A result with another spelling
    of its URL (`www.`, `http`) is the same line, as in `serp_diff`. Needs the extra `plot`.

    Parameters
    ----------
    history
        What `history_df(search_df, query, ...)` returns, of one search.
    max_lines
        Number of results in colour, those with the best ranks; the others are grey.

    Returns
    -------
    matplotlib.figure.Figure
        A notebook shows it when it is the last value of a cell; `savefig` writes it to a file.
        Its `alt_text` describes it.

    Raises
    ------
    InvalidArgument
        `history` is not the history of one search, or has no result.
    MissingExtra
        matplotlib is not installed.

    Examples
    --------
    >>> df = search_df("aurora forecast", formats=[])
    >>> figure = plot_ranks(history_df(search_df, "aurora forecast", formats=[]))
    >>> figure.axes[0].get_ylabel()
    'rank'
    """
    most = arguments.check_integer("max_lines", max_lines, minimum=1)
    snapshots = series.snapshots(history)
    tracks = plots.rank_series([ranks for _, ranks in snapshots])
    if not tracks:
        raise InvalidArgument("the history has no result: run the search first")
    subject = series.subject(history) or "search"
    title = f"{subject}: ranks in {len(snapshots)} snapshot{'s' * (len(snapshots) != 1)}"
    return plots.rank_figure([at for at, _ in snapshots], tracks, title, most=most)
