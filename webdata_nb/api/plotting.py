"""Figures of a crawl and of ranks over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webdata_nb.display import plots
from webdata_nb.errors import InvalidArgument
from webdata_nb.frames import series
from webdata_nb.requests import arguments

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def plot_crawl(df: pd.DataFrame) -> Figure:
    """Draw a crawl: the folders of the site, and its pages by clicks from the start.

    Each folder is a box as high as it has pages, with a stripe that says how they were answered;
    on the right, how many pages are how many clicks away. Needs the extra `plot`.

    Parameters
    ----------
    df
        A frame of `crawl_df`.

    Returns
    -------
    matplotlib.figure.Figure
        A notebook shows it when it is the last value of a cell; `savefig` writes it to a file.

    Raises
    ------
    InvalidArgument
        `df` is no frame of a crawl.
    MissingExtra
        matplotlib is not installed.

    Examples
    --------
    >>> figure = plot_crawl(crawl_df(start_url, max_pages=5))
    >>> len(figure.axes)
    2
    """
    pages = [
        plots.SitePage(path, depth, plots.status_label(code, success=success))
        for path, depth, code, success in series.pages(df)
    ]
    return plots.site_figure(pages, series.subject(df) or "Crawl")


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
