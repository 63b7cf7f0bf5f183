"""Draws the figures: the folders of a crawled site, and ranks over time."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The colours of Okabe and Ito, which are distinct for any colour vision.
_STATUS: Final = {
    "read": "#0072B2",
    "redirect": "#56B4E9",
    "client error (4xx)": "#E69F00",
    "server error (5xx)": "#D55E00",
    "no answer": "#000000",
}
_LINES: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000")
_GREY: Final = "#bdbdbd"
_FOLDER: Final = "#e8e8e8"
_LINE: Final = 0.14  # height of a line of text in inches
_MARGINS: Final = 1.4  # height of title, axis and legend in inches
_LABEL: Final = 34


@dataclass(frozen=True, slots=True)
class SitePage:
    """A crawled page: its folders, its distance from the start page in clicks, its status."""

    path: tuple[str, ...]
    depth: int | None
    status: str


@dataclass(slots=True)
class _Folder:
    name: str
    pages: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    inside: dict[str, _Folder] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RankSeries:
    """The ranks of a result by snapshot; None where it is missing."""

    name: str
    ranks: tuple[int | None, ...]

    @property
    def best(self) -> int:
        """The best rank."""
        return min(rank for rank in self.ranks if rank is not None)


def status_label(code: int | None, *, success: bool) -> str:
    """Return the label of a page's status."""
    if code is None:
        return "read" if success else "no answer"
    names = {3: "redirect", 4: "client error (4xx)", 5: "server error (5xx)"}
    return names.get(code // 100, "read" if success else "no answer")


def site_figure(pages: Sequence[SitePage], title: str) -> Figure:
    """Draw the folders of a site, and its pages by clicks from the start."""
    height = max(3.0, min(9.0, _MARGINS + 0.2 * len(pages)))
    figure = _figure(11.0, height)
    tree, depths = figure.subplots(1, 2, width_ratios=(3, 1.3))
    figure.suptitle(f"{title}: {len(pages):,} page{'s' * (len(pages) != 1)}", x=0.01, ha="left")
    _draw_folders(tree, pages, height)
    _draw_depths(depths, pages)
    statuses = [name for name in _STATUS if any(page.status == name for page in pages)]
    handles = [_legend_patch(name) for name in statuses]
    figure.legend(handles=handles, loc="outside lower left", ncols=len(handles) or 1, frameon=False)
    return figure


def _figure(width: float, height: float) -> Figure:
    try:
        # Not pyplot, which would show the figure a second time.
        from matplotlib.figure import Figure as MatplotlibFigure  # noqa: PLC0415 - an extra, and slow to load
    except ImportError:
        raise MissingExtra("plots need matplotlib: pip install 'webdata_nb[plot]'") from None

    class NotebookFigure(MatplotlibFigure):
        """A figure that notebooks show without any setup of matplotlib."""

        def _repr_png_(self) -> bytes:
            out = io.BytesIO()
            self.savefig(out, format="png", dpi=100)
            return out.getvalue()

    return NotebookFigure(figsize=(width, height), layout="constrained")


def _legend_patch(name: str) -> Any:
    from matplotlib.patches import Patch  # noqa: PLC0415 - as above

    return Patch(color=_STATUS[name], label=name)


def _draw_folders(axes: Axes, pages: Sequence[SitePage], height: float) -> None:
    root = _folder_tree(pages)
    axes.set_title("Folders; the height is the number of pages", fontsize=10, loc="left")
    axes.set_axis_off()
    axes.set_xlim(0, max((len(page.path) for page in pages), default=1) + 0.02)
    axes.set_ylim(max(root.pages, 1), 0)
    _draw_subfolders(axes, root, 0, 0.0, _LINE * max(root.pages, 1) / (height - _MARGINS))


def _folder_tree(pages: Sequence[SitePage]) -> _Folder:
    root = _Folder("")
    for page in pages:
        here = root
        _count_page(here, page)
        for name in page.path:
            here = here.inside.setdefault(name, _Folder(name))
            _count_page(here, page)
    return root


def _count_page(folder: _Folder, page: SitePage) -> None:
    folder.pages += 1
    folder.statuses[page.status] += 1


def _draw_subfolders(axes: Axes, parent: _Folder, level: int, top: float, least: float) -> None:
    """Draw the folders in a folder next to it, the largest first."""
    for folder in sorted(parent.inside.values(), key=lambda each: (-each.pages, each.name)):
        _draw_folder(axes, folder, level, top, least)
        _draw_subfolders(axes, folder, level + 1, top, least)
        top += folder.pages


def _draw_folder(axes: Axes, folder: _Folder, level: int, top: float, least: float) -> None:
    axes.add_patch(_rectangle(level, top, 0.97, folder.pages, _FOLDER))
    share = top
    for name, colour in _STATUS.items():
        if count := folder.statuses[name]:
            axes.add_patch(_rectangle(level, share, 0.06, count, colour, edge=False))
            share += count
    if folder.pages >= least:
        many = f"  {folder.pages:,}" if folder.pages > 1 else ""
        label = f"{_shorten(folder.name, 20)}{many}"
        axes.text(level + 0.09, top + folder.pages / 2, label, va="center", fontsize=8)


def _rectangle(
    x: float, y: float, width: float, height: float, colour: str, *, edge: bool = True
) -> Any:
    from matplotlib.patches import Rectangle  # noqa: PLC0415 - as above

    line = {"edgecolor": "white", "linewidth": 0.5} if edge else {"linewidth": 0}
    return Rectangle((x, y), width, height, facecolor=colour, **line)


def _draw_depths(axes: Axes, pages: Sequence[SitePage]) -> None:
    known = sorted({page.depth for page in pages if page.depth is not None})
    counts = Counter((page.depth, page.status) for page in pages)
    left = dict.fromkeys(known, 0)
    for status, colour in _STATUS.items():
        widths = [counts[depth, status] for depth in known]
        axes.barh(known, widths, left=[left[depth] for depth in known], color=colour, height=0.7)
        left = {depth: left[depth] + counts[depth, status] for depth in known}
    for depth, count in left.items():
        axes.annotate(
            f"{count:,}",
            (count, depth),
            (3, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    axes.set_title("Pages by clicks from the start", fontsize=10, loc="left")
    axes.set_ylabel("clicks")
    axes.set_xlabel("pages")
    axes.set_yticks(known)
    axes.set_ylim(max(known, default=0) + 0.8, min(known, default=0) - 0.8)
    axes.margins(x=0.15)
    axes.locator_params(axis="x", integer=True)
    axes.spines[["top", "right"]].set_visible(False)


def rank_figure(
    times: Sequence[Any], series: Sequence[RankSeries], title: str, *, most: int
) -> Figure:
    """Draw the rank of each result over time: the `most` best in colour, the others in grey."""
    lowest = max((rank for each in series for rank in each.ranks if rank is not None), default=1)
    figure = _figure(11.0, min(12.0, 2.2 + 0.32 * lowest))
    axes = figure.subplots()
    figure.suptitle(title, x=0.01, ha="left")
    ordered = sorted(series, key=lambda each: each.best)
    for place in reversed(range(len(ordered))):  # the best on top
        colour = _LINES[place % len(_LINES)] if place < most else _GREY
        _draw_series(axes, times, ordered[place], colour, place if place < most else None)
    axes.set_ylim(lowest + 0.6, 0.4)
    axes.set_yticks(range(1, lowest + 1) if lowest <= 20 else [1, *range(5, lowest + 1, 5)])  # noqa: PLR2004 - as many as fit
    axes.set_ylabel("rank")
    axes.set_xlabel("time of the snapshot (UTC)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#eeeeee")
    axes.set_axisbelow(True)
    _format_dates(axes, times)
    figure.legend(handles=_legend_handles(), loc="outside lower left", ncols=2, frameon=False)
    return figure


def _draw_series(
    axes: Axes, times: Sequence[Any], series: RankSeries, colour: str, place: int | None
) -> None:
    values = [float("nan") if rank is None else rank for rank in series.ranks]
    dashes = "--" if place is not None and place >= len(_LINES) else "-"
    axes.plot(times, values, dashes, marker=".", color=colour, linewidth=1.8, zorder=2)
    there = [n for n, rank in enumerate(series.ranks) if rank is not None]
    for n in there:
        if n > 0 and series.ranks[n - 1] is None:
            axes.plot(times[n], values[n], **_marker_style(">", colour))
        if n + 1 < len(times) and series.ranks[n + 1] is None:
            axes.plot(times[n], values[n], **_marker_style("x", colour))
    last = there[-1]
    stayed = last == len(times) - 1
    if place is not None or stayed:
        _annotate(axes, times[last], values[last], series.name, colour, stayed=stayed)


def _annotate(axes: Axes, x: Any, y: float, name: str, colour: str, *, stayed: bool) -> None:
    dark = "#777777" if colour == _GREY else "#222222"
    axes.annotate(
        _shorten(name, _LABEL),
        (x, y),
        (8, 0) if stayed else (4, -9),
        textcoords="offset points",
        va="center",
        fontsize=8,
        color=dark,
        annotation_clip=False,
    )


def _marker_style(marker: str, colour: str) -> dict[str, Any]:
    return {
        "marker": marker,
        "color": colour,
        "markersize": 8,
        "markerfacecolor": "white",
        "markeredgewidth": 1.8,
        "linestyle": "none",
        "zorder": 3,
    }


def _legend_handles() -> list[Any]:
    from matplotlib.lines import Line2D  # noqa: PLC0415 - as above

    return [
        Line2D([], [], **_marker_style(marker, "#444444"), label=label)
        for marker, label in ((">", "entered"), ("x", "seen for the last time before it left"))
    ]


def _format_dates(axes: Axes, times: Sequence[Any]) -> None:
    from matplotlib import dates  # noqa: PLC0415 - as above

    untyped: Any = dates
    locator = untyped.AutoDateLocator(minticks=2, maxticks=8)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(untyped.ConciseDateFormatter(locator))
    if len(times) == 1:
        axes.set_xticks(list(times))


def _shorten(text: str, most: int) -> str:
    # A dollar sign would start a formula; a control character is drawn as a box.
    plain = "".join(each if each.isprintable() else "\ufffd" for each in text).replace("$", r"\$")
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def rank_series(snapshots: Sequence[Mapping[str, tuple[str, int]]]) -> list[RankSeries]:
    """Return the ranks of each result in `snapshots`, which map keys to names and ranks."""
    keys = list(dict.fromkeys(key for snapshot in snapshots for key in snapshot))
    names = {key: told[0] for snapshot in snapshots for key, told in snapshot.items()}
    return [
        RankSeries(
            names[key],
            tuple(snapshot[key][1] if key in snapshot else None for snapshot in snapshots),
        )
        for key in keys
    ]
