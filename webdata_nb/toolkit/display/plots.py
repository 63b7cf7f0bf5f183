"""Draws ranks over time and the findings of an audit as matplotlib figures.

Notebooks show them without any setup, with alternative text.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The colours of Okabe and Ito, which are distinct for any colour vision.
LINES: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000")
GREY: Final = "#bdbdbd"
INK: Final = "#222222"
# In points per inch: a pixel on most screens, and half a pixel on sharp ones.
_DPI: Final = 100
_SHARP_DPI: Final = 160
_READABLE: Final = 0.85


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of this size in inches; set its `alt_text`.

    Raises
    ------
    MissingExtra
        matplotlib is not installed.
    """
    try:
        # Not pyplot, which would show the figure a second time.
        from matplotlib.figure import Figure as MatplotlibFigure  # noqa: PLC0415 - an extra, and slow to load
    except ImportError:
        raise MissingExtra("plots need matplotlib: pip install 'webdata_nb[plot]'") from None

    class NotebookFigure(MatplotlibFigure):
        """A figure that describes itself: `alt_text` is for readers who cannot see it."""

        alt_text: str = ""

        def __repr__(self) -> str:
            return f"Figure: {self.alt_text}"

        def _repr_png_(self) -> bytes:
            return _png(self, _DPI)

        def _repr_html_(self) -> str:
            data = base64.b64encode(_png(self, _SHARP_DPI)).decode()
            alt, width = html.escape(self.alt_text), round(self.get_figwidth() * _DPI)
            # Labels of a narrower image would be too small to read; it scrolls instead.
            style = f"width:{width}px;max-width:max(100%,{width * _READABLE:.0f}px);background:#fff"
            return (
                f'<div style="overflow-x:auto"><img alt="{alt}" style="{style}" '
                f'src="data:image/png;base64,{data}"></div>'
            )

        def _mime_(self) -> tuple[str, str]:
            # marimo's own formatter of matplotlib has no alternative text.
            return "text/html", self._repr_html_()

    return NotebookFigure(figsize=(width, height), layout="constrained")


def _png(figure: Figure, dpi: int) -> bytes:
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=dpi)
    return out.getvalue()


def shorten(text: str, most: int) -> str:
    """Return a text for matplotlib, cut in the middle if it is longer than `most`."""
    # A control character is drawn as a box.
    plain = "".join(each if each.isprintable() else "\ufffd" for each in text)
    if len(plain) > most:
        tail = most // 2
        plain = f"{plain[: most - tail - 1]}…{plain[-tail:]}"
    return literal(plain)


def literal(text: str) -> str:
    """Escape dollar signs, which would start a formula."""
    return text.replace("$", r"\$")


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
    figure = new_figure(9.4, min(12.0, 2.2 + 0.32 * lowest))
    axes = figure.subplots()
    figure.suptitle(literal(title), x=0.01, ha="left")
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
        shorten(name, _LABEL),
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


SEVERITY_COLORS: Final = {"error": "#D55E00", "warning": "#E69F00", "notice": "#56B4E9"}
# Kinds that fit one figure; the others are counted below it.
MAX_KINDS: Final = 25
_WIDTH: Final = 8.0
_BAR_HEIGHT: Final = 0.26
_MAX_TITLE: Final = 80

KindCount = tuple[str, str, int]


def audit_figure(counts: Sequence[KindCount], title: str) -> Figure:
    """Return a bar for each kind of finding, the first at the top.

    Parameters
    ----------
    counts
        Kind, severity and number of findings.
    title
        What was audited.
    """
    top_kinds = list(counts[:MAX_KINDS])
    figure = new_figure(_WIDTH, 1.1 + _BAR_HEIGHT * max(1, len(top_kinds)))
    axes = figure.subplots()
    places = range(len(top_kinds))
    colors = [SEVERITY_COLORS.get(severity, INK) for _, severity, _ in top_kinds]
    bars = axes.barh(places, [count for _, _, count in top_kinds], color=colors, height=0.7)
    axes.bar_label(
        bars, [f"{count:,}" for _, _, count in top_kinds], padding=3, color=INK, fontsize=8
    )
    axes.set_yticks(places, [literal(name) for name, _, _ in top_kinds], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(f"findings{_others(counts)}")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.margins(x=0.08)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(shorten(title, _MAX_TITLE), loc="left", fontsize=10)
    _add_legend(figure, {severity for _, severity, _ in top_kinds})
    figure.alt_text = _alt_text(counts, title)
    return figure  # type: ignore[no-any-return]


def _add_legend(figure: Figure, severities: set[str]) -> None:
    from matplotlib.patches import Patch  # noqa: PLC0415 - an extra, and slow to load

    patches = [
        Patch(color=color, label=name)
        for name, color in SEVERITY_COLORS.items()
        if name in severities
    ]
    if patches:
        figure.legend(
            handles=patches, loc="outside lower right", ncols=3, fontsize=8, frameon=False
        )


def _others(counts: Sequence[KindCount]) -> str:
    """Return what the figure leaves out."""
    others = counts[MAX_KINDS:]
    if not others:
        return ""
    total = sum(count for _, _, count in others)
    return f" (not shown: {total:,} of {len(others)} other kinds)"


def _alt_text(counts: Sequence[KindCount], title: str) -> str:
    if not counts:
        return f"{title}: no findings"
    listed = ", ".join(f"{count} {name}" for name, _, count in counts[:MAX_KINDS])
    return f"{title}: {listed}{_others(counts)}"
