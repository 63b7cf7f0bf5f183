"""Draws the ranks of search results over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.toolkit.display import figures
from webdata_nb.toolkit.display.figures import GREY, LINES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LABEL: Final = 34
_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class RankSeries:
    """The ranks of a result by snapshot; None where it is missing."""

    name: str
    ranks: tuple[int | None, ...]

    @property
    def best(self) -> int:
        """The best rank."""
        return min(rank for rank in self.ranks if rank is not None)


def rank_figure(
    times: Sequence[Any], series: Sequence[RankSeries], title: str, *, most: int
) -> Figure:
    """Draw the rank of each result over time: the `most` best in colour, the others in grey."""
    lowest = max((rank for each in series for rank in each.ranks if rank is not None), default=1)
    figure = figures.new_figure(9.4, min(12.0, 2.2 + 0.32 * lowest))
    axes = figure.subplots()
    figure.suptitle(figures.literal(title), x=0.01, ha="left")
    ordered = sorted(series, key=lambda each: each.best)
    for place in reversed(range(len(ordered))):  # the best on top
        colour = LINES[place % len(LINES)] if place < most else GREY
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
    figure.alt_text = _alternative_text(title, times, ordered)
    return figure  # type: ignore[no-any-return] # matplotlib is an extra


def _alternative_text(title: str, times: Sequence[Any], ordered: Sequence[RankSeries]) -> str:
    """Return what the figure shows in sentences."""
    best = ", ".join(
        f"{each.name} (best {each.best}, last {each.ranks[-1] or 'missing'})"
        for each in ordered[:_NAMED]
    )
    period = f"{times[0]:%Y-%m-%d %H:%M} to {times[-1]:%Y-%m-%d %H:%M} UTC"
    return f"{title}, {period}. Best results: {best}"


def _draw_series(
    axes: Axes, times: Sequence[Any], series: RankSeries, colour: str, place: int | None
) -> None:
    values = [float("nan") if rank is None else rank for rank in series.ranks]
    dashes = "--" if place is not None and place >= len(LINES) else "-"
    axes.plot(times, values, dashes, marker=".", color=colour, linewidth=1.8, zorder=2)
    ranked = [n for n, rank in enumerate(series.ranks) if rank is not None]
    for n in ranked:
        if n > 0 and series.ranks[n - 1] is None:
            axes.plot(times[n], values[n], **_marker_style(">", colour))
        if n + 1 < len(times) and series.ranks[n + 1] is None:
            axes.plot(times[n], values[n], **_marker_style("x", colour))
    last = ranked[-1]
    is_last = last == len(times) - 1
    if place is not None or is_last:
        _annotate(axes, times[last], values[last], series.name, colour, is_last=is_last)


def _annotate(axes: Axes, x: Any, y: float, name: str, colour: str, *, is_last: bool) -> None:
    dark = "#777777" if colour == GREY else "#222222"
    axes.annotate(
        figures.shorten(name, _LABEL),
        (x, y),
        (8, 0) if is_last else (4, -9),
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


def rank_series(snapshots: Sequence[Mapping[str, tuple[str, int]]]) -> list[RankSeries]:
    """Return the ranks of each result in `snapshots`, which map keys to names and ranks."""
    keys = list(dict.fromkeys(key for snapshot in snapshots for key in snapshot))
    names = {key: values[0] for snapshot in snapshots for key, values in snapshot.items()}
    return [
        RankSeries(
            names[key],
            tuple(snapshot[key][1] if key in snapshot else None for snapshot in snapshots),
        )
        for key in keys
    ]
