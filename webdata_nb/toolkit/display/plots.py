"""Draws ranks over time and the findings of an audit as matplotlib figures.

Notebooks show them without any setup, with alternative text.
"""

from __future__ import annotations

import base64
import html
import io
import math
import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, Final
from unicodedata import bidirectional
from urllib.parse import quote

from webdata_nb.errors import MissingExtra
from webdata_nb.suggestions import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# The colours of Okabe and Ito, which are distinct for any colour vision.
LINES: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000")
GREY: Final = "#bdbdbd"
_BLACK: Final = "#000000"
INK: Final = "#222222"
# In points per inch: a pixel on most screens, and half a pixel on sharp ones.
_DPI: Final = 100
_SHARP_DPI: Final = 160
_READABLE: Final = 0.85
# What a front end with a dark theme declares: JupyterLab, VS Code, Colab and marimo.
_DARK_THEMES: Final = (
    '[data-jp-theme-light="false"]',
    ".vscode-dark",
    'html[theme="dark"]',
    "html.dark",
    "body.dark",
)
_COLORS: Final = 256
# On dark paper, greys have this lightness instead of 0 and 1.
_DARK_INK, _DARK_PAPER = 0.93, 0.07
# The identifier of texts on a colour, which is the same in both themes.
_ON_COLOR: Final = "on-color"
# Points, and the advance of a usual character at that size in 1/65536 of a point.
_FONT_SIZE: Final = 8
_CHARACTER_ADVANCE: Final = 0.634 * _FONT_SIZE * 65536
_RIGHT_TO_LEFT: Final = frozenset({"R", "AL"})
_LEFT_TO_RIGHT: Final = "\u200e"
# Fonts for scripts that the usual one of matplotlib lacks, as systems name them.
_FONTS: Final = (
    *("Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans CJK KR", "Source Han Sans", "PingFang SC"),
    *("Hiragino Sans", "Apple SD Gothic Neo", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic"),
    *("WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Droid Sans Fallback", "Arial Unicode MS"),
    *("Noto Sans Devanagari", "Noto Sans Thai", "Noto Sans Bengali", "Noto Sans Tamil"),
)


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
            alt, width = html.escape(self.alt_text), round(self.get_figwidth() * _DPI)
            # Labels of a narrower image would be too small to read; it scrolls instead.
            style = f"width:{width}px;max-width:max(100%,{width * _READABLE:.0f}px)"
            images = [("light", style, _small_png(self))]
            if not figure_theme(self).is_dark:
                with _on_dark_paper(self):
                    images.append(("dark", f"{style};display:none", _small_png(self)))
            # Without style sheets the light one is shown alone.
            rules = "".join(
                f"{theme} .webdata-light:not(:only-of-type){{display:none!important}}"
                f"{theme} .webdata-dark{{display:inline!important}}"
                for theme in _DARK_THEMES
            )
            return (
                f'<div style="overflow-x:auto"><style>{rules}</style>'
                + "".join(
                    f'<img class="webdata-{name}" alt="{alt}" style="{style}" '
                    f'src="data:image/png;base64,{base64.b64encode(data).decode()}">'
                    for name, style, data in images
                )
                + "</div>"
            )

        def _mime_(self) -> tuple[str, str]:
            # marimo's own formatter of matplotlib has no alternative text.
            return "text/html", self._repr_html_()

    return NotebookFigure(figsize=(width, height), layout="constrained")


def _png(figure: Figure, dpi: int) -> bytes:
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=dpi)
    return out.getvalue()


def _small_png(figure: Figure) -> bytes:
    """Return a sharp picture with a palette, a third of the size, of which a notebook keeps two."""
    from PIL import Image  # noqa: PLC0415 - matplotlib needs it, too

    with Image.open(io.BytesIO(_png(figure, _SHARP_DPI))) as image:
        out = io.BytesIO()
        image.convert("RGB").quantize(_COLORS, dither=Image.Dither.NONE).save(out, "png")
    return out.getvalue()


@contextmanager
def _on_dark_paper(figure: Figure) -> Iterator[None]:
    """Give all greys of a drawn figure those for dark paper while the block runs.

    Colours have a meaning and stay, and so does what is written on them.
    """
    from matplotlib.colors import to_rgba  # noqa: PLC0415 - an extra, and slow to load

    untyped: Any = to_rgba
    kinds = ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor")
    before: list[tuple[Any, Any]] = []
    # The colours of a figure and of its axes are those of their patches.
    owners = {figure, *figure.axes}
    for artist in figure.findobj(lambda each: each.get_gid() != _ON_COLOR):
        if artist in owners:
            continue
        # The colour of a patch would set both of its own.
        names = kinds[1:3] if hasattr(artist, "get_facecolor") else kinds
        for name in names:
            setter: Any = getattr(artist, f"set_{name}", None)
            if setter is None or hasattr(artist, "get_array"):
                continue
            color: Any = getattr(artist, f"get_{name}")()
            red, green, blue, alpha = untyped(color)
            if red == green == blue:
                before.append((setter, color))
                grey = _DARK_INK + (_DARK_PAPER - _DARK_INK) * red
                setter((grey, grey, grey, alpha))
    try:
        yield
    finally:
        for setter, color in before:
            setter(color)


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours on the background of a figure: of texts, folders, and what is black on white."""

    is_dark: bool
    ink: str
    folder: str
    black: str


_LIGHT: Final = Theme(is_dark=False, ink=INK, folder="#e8e8e8", black="#000000")
_DARK: Final = Theme(is_dark=True, ink="#ececec", folder="#3b3f47", black="#ffffff")


def figure_theme(figure: Figure | SubFigure) -> Theme:
    """Return the colours for a figure, whose background follows matplotlib's style."""
    return _DARK if luminance(figure.get_facecolor()) < 0.18 else _LIGHT  # noqa: PLR2004 - as below


def luminance(color: Any) -> float:
    """Return the relative luminance of a colour, as WCAG defines it; a transparent one is white."""
    from matplotlib.colors import to_rgba  # noqa: PLC0415 - an extra, and slow to load

    untyped: Any = to_rgba
    *parts, alpha = untyped(color)
    if not alpha:
        return 1.0
    red, green, blue = (
        each / 12.92 if each <= 0.04 else ((each + 0.055) / 1.055) ** 2.4  # noqa: PLR2004 - sRGB
        for each in parts
    )
    return float(0.2126 * red + 0.7152 * green + 0.0722 * blue)


@cache
def font_families() -> tuple[str, ...]:
    """Return the fonts to draw names with: that of matplotlib's style, and for other scripts."""
    from matplotlib import font_manager, rcParams  # noqa: PLC0415 - an extra, and slow to load

    untyped: Any = font_manager
    installed = {font.name for font in untyped.fontManager.ttflist}
    return (*rcParams["font.family"], *(name for name in _FONTS if name in installed))


@cache
def text_width(character: str) -> float:
    """Return the width of a character, where that of a usual one is 1; 0 if no font has it."""
    from matplotlib import font_manager  # noqa: PLC0415 - an extra, and slow to load

    untyped: Any = font_manager
    for name in font_families():
        font = untyped.get_font(untyped.findfont(untyped.FontProperties(family=[name])))
        if font.get_char_index(ord(character)):
            font.set_size(_FONT_SIZE, 72)
            return float(font.load_char(ord(character)).linearHoriAdvance) / _CHARACTER_ADVANCE
    return 0.0


def drawable(text: str) -> str:
    """Return a text of characters that the fonts have; others are percent-encoded, as in a URL."""
    # A control character is drawn as a box.
    plain = "".join(each if each.isprintable() else "\ufffd" for each in text)
    return "".join(each if text_width(each) else quote(each) for each in plain)


def shorten(text: str, most: float) -> str:
    """Return a text for matplotlib, cut in the middle if it is wider than `most` characters."""
    plain = drawable(text)
    if _columns(plain) > most:
        head, tail = len(plain), 0
        while head and _columns(plain[:head]) > most - most // 2 - 1:
            head -= 1
        while _columns(plain[len(plain) - tail - 1 :]) <= most // 2:
            tail += 1
        plain = f"{plain[:head]}…{plain[len(plain) - tail :]}"
    if any(bidirectional(each) in _RIGHT_TO_LEFT for each in plain):
        # Numbers and punctuation behind it stay there.
        plain = f"{_LEFT_TO_RIGHT}{plain}{_LEFT_TO_RIGHT}"
    return literal(plain)


def _columns(text: str) -> float:
    return sum(map(text_width, text))


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
    from matplotlib import dates  # noqa: PLC0415 - as above
    from matplotlib.lines import Line2D  # noqa: PLC0415 - as above

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
    untyped: Any = dates
    locator = untyped.AutoDateLocator(minticks=2, maxticks=8)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(untyped.ConciseDateFormatter(locator))
    if len(times) == 1:
        axes.set_xticks(list(times))
    handles = [
        Line2D([], [], **_marker_style(marker, "#444444"), label=label)
        for marker, label in ((">", "entered"), ("x", "seen for the last time before it left"))
    ]
    figure.legend(handles=handles, loc="outside lower left", ncols=2, frameon=False)
    best = ", ".join(
        f"{each.name} (best {each.best}, last {each.ranks[-1] or 'missing'})"
        for each in ordered[:_NAMED]
    )
    period = f"{times[0]:%Y-%m-%d %H:%M} to {times[-1]:%Y-%m-%d %H:%M} UTC"
    figure.alt_text = f"{title}, {period}. Best results: {best}"
    return figure  # type: ignore[no-any-return] # matplotlib is an extra


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
        axes.annotate(
            shorten(series.name, _LABEL),
            (times[last], values[last]),
            (8, 0) if is_last else (4, -9),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color="#777777" if colour == GREY else "#222222",
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


# Ranks of many queries


@dataclass(frozen=True, slots=True)
class RankTrack:
    """The ranks of a query by snapshot: a rank, `not_ranked`, `failed`, or None without a row."""

    name: str
    states: tuple[int | str | None, ...]

    @property
    def places(self) -> list[float]:
        """The ranks that are known, as places: that of no rank is after all others."""
        known = [state for state in self.states if state not in (None, "failed")]
        return [float(state) if isinstance(state, int) else math.inf for state in known]

    @property
    def gain(self) -> float:
        """The ranks gained (positive) or lost from the first known place to the last one."""
        places = self.places
        return 0.0 if not places or places[0] == places[-1] else places[0] - places[-1]

    def last(self, wanted: int) -> str:
        """Return the last state as a short text, with the ranks that were gained or lost."""
        state = self.states[-1]
        if not isinstance(state, int):
            return f">{wanted}" if state == "not_ranked" else str(state or "no row")
        if not self.gain:
            return str(state)
        ranks = "" if math.isinf(self.gain) else f"{abs(self.gain):.0f}"
        return f"{state} {UP if self.gain > 0 else DOWN}{ranks}"


UP, DOWN = "\u25b2", "\u25bc"
# More series than these are in panels of their own.
_MAX_IN_ONE: Final = 6
# It fits an output of 600 pixels, that of a window of 800, without a scroll bar.
_RANKS_WIDTH: Final = 7.0
# Names have more room in three columns, and so many panels more in four.
_THREE_COLUMNS: Final = 24
MAX_PANELS: Final = 60
_BETTER: Final = ("#0072B2", "better than at first")
_WORSE: Final = ("#D55E00", "worse")
_EQUAL: Final = ("#767676", "the same")
_BAND: Final = "#eeeeee"


def tracks_figure(
    times: Sequence[Any], tracks: Sequence[RankTrack], title: str, *, wanted: int
) -> Figure:
    """Draw the ranks of queries over time: a few in one plot, many in a panel each.

    Rank 1 is at the top. Snapshots without a rank among the `wanted` results are in a band below
    the last rank, and a search that failed makes a gap.
    """
    scale = _RankScale.of(tracks, wanted)
    first, last = (f"{at.day} {at:%b %Y}" for at in (times[0], times[-1]))
    period = last if first == last else f"{first} to {last}"
    if len(tracks) <= _MAX_IN_ONE:
        height = min(7.0, 2.4 + 0.26 * scale.lowest)
        figure = new_figure(_RANKS_WIDTH, height)
        handles = _track_handles(tracks, wanted, figure_theme(figure).ink)
        _draw_together(figure.subplots(), times, tracks, scale, height)
        figure.legend(handles=handles, loc="outside lower left", ncols=5, frameon=False, fontsize=8)
    else:
        columns = 3 if len(tracks) <= _THREE_COLUMNS else 4
        rows = -(-len(tracks) // columns)
        height = 1.15 + 0.92 * rows
        figure = new_figure(_RANKS_WIDTH, height)
        handles = _track_handles(tracks, wanted, figure_theme(figure).ink)
        # Constrained layout takes seconds for 50 panels.
        figure.set_layout_engine("none")
        margins = {"top": 1 - 0.62 / height, "bottom": 0.58 / height, "hspace": 0.55}
        _draw_panels(figure, times, tracks, scale, (rows, columns, margins))
        figure.legend(
            handles=[*(_direction_handles(tracks) if len(times) > 1 else ()), *handles],
            loc="lower left",
            bbox_to_anchor=(0.0, 0.0), ncols=5, frameon=False, fontsize=8,
        )  # fmt: skip
    figure.suptitle(literal(f"{title}, {period}"), x=0.01, ha="left", fontsize=11)
    moved = sorted(tracks, key=lambda track: -abs(track.gain))[:_NAMED]
    listed = ", ".join(f"{track.name} ({track.last(wanted)})" for track in moved)
    figure.alt_text = f"{title}, {period}. Moved most: {listed}"
    return figure  # type: ignore[no-any-return] # matplotlib is an extra


@dataclass(frozen=True, slots=True)
class _RankScale:
    """The ranks of an axis from 1 to `lowest`, and the band below for what has none."""

    lowest: int
    wanted: int

    @classmethod
    def of(cls, tracks: Sequence[RankTrack], wanted: int) -> _RankScale:
        ranks = [state for track in tracks for state in track.states if isinstance(state, int)]
        return cls(max(ranks, default=1), wanted)

    def in_band(self, share: float) -> float:
        """Return a height in the band, by its distance from the top of the band."""
        return self.lowest + 0.6 + share * max(1.6, 0.3 * self.lowest)

    def prepare(self, axes: Axes, ticks: Sequence[int], size: int) -> None:
        """Draw the band and the ticks of axes."""
        axes.set_ylim(self.in_band(1), 0.3)
        theme = figure_theme(axes.figure)
        band = theme.folder if theme.is_dark else _BAND
        axes.axhspan(self.in_band(0), self.in_band(1), color=band, linewidth=0)
        axes.set_yticks(
            [*ticks, self.in_band(0.33)], [*(str(rank) for rank in ticks), f">{self.wanted}"]
        )
        axes.tick_params(labelsize=size, length=2, color=GREY)
        axes.grid(axis="y", color=band)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(GREY)

    def draw(
        self, axes: Axes, times: Sequence[Any], track: RankTrack, colour: str, *,
        shift: float = 0.0, size: float,
    ) -> float:  # fmt: skip
        """Draw one series, and return the height of its last point."""
        heights = [
            state + shift
            if isinstance(state, int)
            else self.in_band(0.33) + shift
            if state == "not_ranked"
            else math.nan
            for state in track.states
        ]
        axes.plot(times, heights, "-", color=colour, linewidth=1.5, zorder=2)
        points = list(zip(times, heights, track.states, strict=True))
        for face, marked in (
            (colour, [each[:2] for each in points if isinstance(each[2], int)]),
            ("white", [each[:2] for each in points if each[2] == "not_ranked"]),
        ):
            axes.plot(
                [x for x, _ in marked], [y for _, y in marked], "o", color=colour, markersize=size,
                markerfacecolor=face, zorder=3,
            )  # fmt: skip
        failed = [time for time, _, state in points if state == "failed"]
        axes.plot(
            failed, [self.in_band(0.75)] * len(failed), "x", markersize=size, zorder=3,
            color=figure_theme(axes.figure).ink, markeredgewidth=0.9,
        )  # fmt: skip
        known = [height for height in heights if not math.isnan(height)]
        return known[-1] if known else self.in_band(0.75)


def _draw_together(
    axes: Axes, times: Sequence[Any], tracks: Sequence[RankTrack], scale: _RankScale, inches: float
) -> None:
    """Draw a few series in one plot, each with its name at its end."""
    step = max(1, -(-scale.lowest // 20))
    scale.prepare(axes, list(dict.fromkeys([1, *range(step, scale.lowest + 1, step)])), 8)
    axes.set_ylabel("rank")
    _set_snapshot_ticks(axes, times, 7)
    ends: list[tuple[float, str, str]] = []
    for number, track in enumerate(tracks):
        colour = LINES[number % len(LINES)]
        # Equal ranks lie beside each other.
        shift = (number - (len(tracks) - 1) / 2) * 0.08
        height = scale.draw(axes, times, track, colour, shift=shift, size=4.0)
        name = f"{shorten(track.name, _LABEL)}  {track.last(scale.wanted)}"
        ends.append((height, name, colour))
    line = 0.19 * (scale.in_band(1) - 0.3) / (inches - 1.1)
    placed = -math.inf
    for height, name, colour in sorted(ends):
        placed = max(height, placed + line)
        across = axes.get_yaxis_transform()
        axes.plot(
            [1.01], [placed], ".", color=colour, markersize=8, clip_on=False, transform=across
        )
        ink = figure_theme(axes.figure).ink
        axes.text(1.02, placed, name, va="center", fontsize=8, color=ink, transform=across)


def _draw_panels(
    figure: Any,
    times: Sequence[Any],
    tracks: Sequence[RankTrack],
    scale: _RankScale,
    layout: tuple[int, int, Mapping[str, float]],
) -> None:
    """Draw each series in a panel of its own, with its name and its last rank above."""
    rows, columns, margins = layout
    points = 72 * _RANKS_WIDTH * 0.93 / (columns + 0.1 * (columns - 1))
    grid = figure.subplots(
        rows, columns, sharex=True, sharey=True, squeeze=False,
        gridspec_kw={"left": 0.05, "right": 0.98, "wspace": 0.1, **margins},
    )  # fmt: skip
    for number, axes in enumerate(grid.flat):
        if number >= len(tracks):
            axes.set_visible(False)
            continue
        track = tracks[number]
        scale.prepare(axes, list(dict.fromkeys([1, max(1, scale.lowest // 2)])), 7)
        scale.draw(axes, times, track, _direction(track)[0], size=2.6)
        last = track.last(scale.wanted)
        room = points - _text_width(f"{last}  ")
        name, most = shorten(track.name, 60), 60
        while _text_width(name) > room and most > 1:
            most = min(most, len(name)) - 1
            name = shorten(track.name, most)
        axes.set_title(name, loc="left", fontsize=8, pad=3, color=figure_theme(figure).ink)
        is_known = track.states[-1] not in (None, "failed")
        ink = (_direction(track) if is_known else _EQUAL)[0]
        axes.set_title(last, loc="right", fontsize=8, pad=3, color=ink)
    # All panels share their ticks; those without a panel below have the labels.
    _set_snapshot_ticks(grid[0][0], times, 2)
    for number, axes in enumerate(list(grid.flat)[: len(tracks)]):
        axes.tick_params(labelbottom=number + columns >= len(tracks))
        for label, side in zip(axes.get_xticklabels(), ("left", "right"), strict=False):
            label.set_ha(side if len(times) > 1 else "center")


# Within two days, ticks have times.
_FEW_DAYS_S: Final = 2 * 86_400


def _set_snapshot_ticks(axes: Axes, times: Sequence[Any], most: int) -> None:
    """Mark up to `most` of the snapshots, with their days, or times within two days."""
    count = min(most, len(times))
    chosen = [times[round(n * (len(times) - 1) / max(1, count - 1))] for n in range(count)]
    is_large = most > 2  # noqa: PLR2004 - a panel has room for the first and the last one
    days = [f"{at.day} {at:%b}" for at in chosen]
    names = [f"{day} {at:%H:%M}" for day, at in zip(days, chosen, strict=True)]
    if not is_large:
        names = [f"{at:%H:%M}" for at in chosen] if len(set(days)) == 1 else days
    is_short = (times[-1] - times[0]).total_seconds() < _FEW_DAYS_S
    axes.set_xticks(chosen, names if is_short else days)
    if len(times) > 1:
        axes.margins(x=0.03)


def _text_width(text: str) -> float:
    """Return the width of a text of 8 points in points."""
    from matplotlib.textpath import TextPath  # noqa: PLC0415 - as above

    return float(TextPath((0, 0), text or " ", size=_FONT_SIZE).get_extents().width)


def _direction(track: RankTrack) -> tuple[str, str]:
    return _BETTER if track.gain > 0 else _WORSE if track.gain < 0 else _EQUAL


def _direction_handles(tracks: Sequence[RankTrack]) -> list[Any]:
    from matplotlib.lines import Line2D  # noqa: PLC0415 - as above

    used = {_direction(track) for track in tracks}
    kinds = (each for each in (_BETTER, _WORSE, _EQUAL) if each in used)
    return [Line2D([], [], color=colour, label=label) for colour, label in kinds]


def _track_handles(tracks: Sequence[RankTrack], wanted: int, ink: str) -> list[Any]:
    from matplotlib.lines import Line2D  # noqa: PLC0415 - as above

    states = {state for track in tracks for state in track.states}
    style: dict[str, Any] = {"linestyle": "none", "color": ink, "markersize": 5}
    marks = {
        "not_ranked": ("o", f"not among the first {wanted}"),
        "failed": ("x", "search failed"),
    }
    return [
        Line2D([], [], marker=marker, markerfacecolor="white", label=label, **style)
        for state, (marker, label) in marks.items()
        if state in states
    ]


SEVERITY_COLORS: Final = {"error": "#D55E00", "warning": "#E69F00", "notice": "#56B4E9"}
# Kinds that fit one figure; the others are counted below it.
MAX_KINDS: Final = 25
_WIDTH: Final = 8.0
_BAR_HEIGHT: Final = 0.26
_MAX_TITLE: Final = 80


@dataclass(frozen=True, slots=True)
class KindCount:
    """How many findings an audit has of a kind, and whether one is of the whole site."""

    name: str
    severity: str
    findings: int
    is_sitewide: bool = False

    @property
    def label(self) -> str:
        """The number, and that it is no page's own fault."""
        return f"{self.findings:,}{'  whole site' if self.is_sitewide else ''}"


def audit_figure(counts: Sequence[KindCount], title: str) -> Figure:
    """Return a bar for each kind of finding, the first at the top; `title` is what was audited."""
    from matplotlib.patches import Patch  # noqa: PLC0415 - an extra, and slow to load

    top_kinds = list(counts[:MAX_KINDS])
    figure = new_figure(_WIDTH, 1.1 + _BAR_HEIGHT * max(1, len(top_kinds)))
    axes = figure.subplots()
    places = range(len(top_kinds))
    colors = [SEVERITY_COLORS.get(each.severity, INK) for each in top_kinds]
    bars = axes.barh(places, [each.findings for each in top_kinds], color=colors, height=0.7)
    axes.bar_label(bars, [each.label for each in top_kinds], padding=3, fontsize=8)
    axes.set_yticks(places, [literal(each.name) for each in top_kinds], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(f"findings{_others(counts)}")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.margins(x=0.16 if any(each.is_sitewide for each in top_kinds) else 0.08)
    axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        shorten(title, _MAX_TITLE), x=0.01, ha="left", fontsize=10, family=list(font_families())
    )
    severities = {each.severity for each in top_kinds}
    patches = [
        Patch(color=color, label=name)
        for name, color in SEVERITY_COLORS.items()
        if name in severities
    ]
    if patches:
        figure.legend(
            handles=patches, loc="outside lower right", ncols=3, fontsize=8, frameon=False
        )
    listed = ", ".join(f"{each.findings} {each.name}" for each in top_kinds)
    figure.alt_text = f"{title}: {listed}{_others(counts)}" if counts else f"{title}: no findings"
    return figure  # type: ignore[no-any-return]


def _others(counts: Sequence[KindCount]) -> str:
    """Return what the figure leaves out."""
    others = counts[MAX_KINDS:]
    if not others:
        return ""
    total = sum(each.findings for each in others)
    return f" (not shown: {total:,} of {len(others)} other kinds)"


# Draws a crawled site: its folders as an icicle plot, and its pages by clicks from the start.


LEVELS: Final = 3
INDEX: Final = "(index)"
FRONT: Final = "(front page)"


@dataclass(frozen=True, slots=True)
class SitePage:
    """A crawled page: its path, its distance from the start page in clicks, and its colour.

    The colour comes from a `category` or from a `number`; one of them is None, and both are where
    the value is missing.
    """

    path: tuple[str, ...]
    depth: int | None
    category: str | None = None
    number: float | None = None


@dataclass(slots=True)
class SiteNode:
    """A folder or a page with all pages inside; `own` counts the pages at its very path.

    A group of names that begin alike has their `prefix`.
    """

    name: str
    prefix: str = ""
    pages: int = 0
    own: int = 0
    categories: Counter[str] = field(default_factory=Counter)
    number_sum: float = 0.0
    numbers: int = 0
    children: dict[str, SiteNode] = field(default_factory=dict)

    @property
    def mean(self) -> float | None:
        """The mean of the pages' numbers."""
        return self.number_sum / self.numbers if self.numbers else None

    def count(self, page: SitePage) -> None:
        """Add a page that is inside this node."""
        self.pages += 1
        if page.category is not None:
            self.categories[page.category] += 1
        if page.number is not None:
            self.number_sum += page.number
            self.numbers += 1

    def merge(self, other: SiteNode) -> None:
        """Add all pages of another node."""
        self.pages += other.pages
        self.categories += other.categories
        self.number_sum += other.number_sum
        self.numbers += other.numbers


@dataclass(frozen=True, slots=True)
class SiteBox:
    """A box of the plot: its column, its top and height in pages, and what it stands for.

    A box of several small nodes has no name of its own; `grouped` are their names, largest first.
    They are all nodes of their column and folder, or those that are left beside others.
    """

    level: int
    top: float
    node: SiteNode
    grouped: tuple[str, ...] = ()
    has_others: bool = False

    @property
    def height(self) -> float:
        """The height in pages."""
        return float(self.node.pages)


def tree(pages: Sequence[SitePage]) -> SiteNode:
    """Return the root of the tree; folders that hold nothing but one folder are joined to it."""
    root = SiteNode("")
    for page in pages:
        here = root
        here.count(page)
        for name in page.path:
            here = here.children.setdefault(name, SiteNode(name))
            here.count(page)
        here.own += 1
    root.children = {each.name: each for each in map(_joined, root.children.values())}
    return root


def _joined(node: SiteNode) -> SiteNode:
    while len(node.children) == 1 and not node.own:
        [child] = node.children.values()
        child.name = f"{node.name}/{child.name}"
        node = child
    node.children = {each.name: each for each in map(_joined, node.children.values())}
    return node


def layout(root: SiteNode, *, least: float) -> Iterator[SiteBox]:
    """Yield the boxes of all levels, the largest first.

    Nodes of fewer than `least` pages, which have no room for a label, are grouped by the beginnings
    of their names, and what is left to one box.
    """
    yield from _boxes(root, 0, 0.0, least)


def _boxes(parent: SiteNode, level: int, top: float, least: float) -> Iterator[SiteBox]:
    if level == LEVELS or not parent.children:
        return
    inside = sorted(_with_index(parent, level), key=lambda each: (-each.pages, each.name))
    nodes = [node for node in inside if node.pages >= least]
    rest = inside[len(nodes) :]
    if sum(node.pages for node in rest) >= 2 * least:
        grouped = prefix_groups(rest, parent.prefix, least)
        # All names of a folder have this beginning: what follows tells them apart.
        while len(grouped) == 1 and grouped[0].pages == parent.pages:
            grouped = prefix_groups(rest, grouped[0].prefix, least)
        members = {id(node) for group in grouped for node in group.children.values()}
        rest = [node for node in rest if id(node) not in members]
        nodes = sorted([*nodes, *grouped], key=lambda each: (-each.pages, each.name))
    if len(rest) == 1 and not nodes:
        nodes, rest = rest, []
    for node in nodes:
        yield SiteBox(level, top, node)
        yield from _boxes(node, level + 1, top, least)
        top += node.pages
    if rest:
        names = tuple(map(counted_label, rest))
        yield SiteBox(level, top, _group(rest), names, has_others=bool(nodes))


# A word with what separates it from the next one, or before a number.
_WORD: Final = re.compile(r"[\W_]*(?:[^\W_]+[\W_]+|[^\W\d_]{3,}(?=\d))")


def prefix_groups(nodes: Sequence[SiteNode], prefix: str, least: float) -> list[SiteNode]:
    """Return groups of at least `least` pages whose names begin alike, beyond `prefix`.

    Names are grouped by their next word (`sql-createtable.html`, `sql-select.html`), and those that
    are left by their next letter or digit.
    """

    def next_word(node: SiteNode) -> str:
        stem = node.name.partition("/")[0].rpartition(".")[0] or node.name
        match = _WORD.match(stem, len(prefix))
        return "" if match is None or match.end() == len(stem) else stem[: match.end()]

    def next_letter(node: SiteNode) -> str:
        return node.name[: len(prefix) + 1].casefold()

    groups: list[SiteNode] = []
    left = list(nodes)
    for key in (next_word, next_letter):
        members: dict[str, list[SiteNode]] = {}
        for node in left:
            members.setdefault(key(node), []).append(node)
        for name, alike in members.items():
            group = _group(alike)
            if name not in ("", prefix) and len(alike) > 1 and group.pages >= least:
                common = commonprefix([node.name for node in alike])  # noqa: RUF071 - of characters
                group.prefix = max(common, name, key=len)
                group.name = f"{group.prefix}*"
                group.children = {node.name: node for node in alike}
                groups.append(group)
        taken = {id(node) for group in groups for node in group.children.values()}
        left = [node for node in left if id(node) not in taken]
    return groups


def _with_index(parent: SiteNode, level: int) -> list[SiteNode]:
    """Return the children, and the pages at the path of the parent itself."""
    children = list(parent.children.values())
    if not parent.own:
        return children
    index = SiteNode(INDEX if level else FRONT, pages=parent.own, own=parent.own)
    index.categories = parent.categories - sum((each.categories for each in children), Counter())
    index.numbers = parent.numbers - sum(each.numbers for each in children)
    index.number_sum = parent.number_sum - sum(each.number_sum for each in children)
    return [*children, index]


def _group(nodes: Sequence[SiteNode]) -> SiteNode:
    group = SiteNode("")
    for node in nodes:
        group.merge(node)
    return group


def label(node: SiteNode) -> str:
    """Return the name of a node, with a slash behind folders."""
    return f"{node.name}/" if node.children and not node.prefix else node.name


def counted_label(node: SiteNode) -> str:
    """Return the name of a node, and the number of its pages if there are several."""
    return label(node) if node.pages == 1 else f"{label(node)} {node.pages:,}"


def depth_counts(pages: Sequence[SitePage]) -> dict[int, Counter[str | None]]:
    """Return the pages by clicks from the start, by category."""
    counts: dict[int, Counter[str | None]] = {}
    for page in pages:
        if page.depth is not None:
            counts.setdefault(page.depth, Counter())[page.category] += 1
    return dict(sorted(counts.items()))


STATUSES: Final = {
    "read": "#0072B2",
    "redirect": "#56B4E9",
    "client error (4xx)": "#E69F00",
    "server error (5xx)": "#D55E00",
    "no answer": "#000000",
}
OTHER: Final = "other"
_SITE_WIDTH: Final = 9.4
_LINE: Final = 0.17  # height of a line of text in inches
_MARGINS: Final = 1.5  # height of titles, axis and legend in inches
_LOWEST, _HIGHEST = 3.0, 9.0
_NAME: Final = 28
_CHARACTERS: Final = 82  # of all columns together, at 8 points
_LISTED_FROM: Final = 3  # lines of a group that lists names
_STRIPE: Final = 0.05
_GAP: Final = 0.02
_LARGEST: Final = 5
_SHORTEST: Final = 12  # characters of a name that is cut
_COLUMN_GAP: Final = 2.0


@dataclass(frozen=True, slots=True)
class SiteColors:
    """What the colours of the figure stand for.

    `categories` maps names to colours; it is empty for a column of numbers, whose mean is shown on
    a scale with the title `label`.
    """

    label: str
    categories: Mapping[str, str]


def status_label(code: int | None, *, success: bool) -> str:
    """Return the label of a page's status."""
    if code is None:
        return "read" if success else "no answer"
    names = {3: "redirect", 4: "client error (4xx)", 5: "server error (5xx)"}
    return names.get(code // 100, "read" if success else "no answer")


def category_colors(values: Sequence[str | None]) -> dict[str, str]:
    """Return the colours of the most frequent values; all others are `other`."""
    ranked = [name for name, _ in Counter(filter(None, values)).most_common()]
    largest = ranked[: len(LINES) - 1] if len(ranked) > len(LINES) else ranked
    colors = dict(zip(largest, LINES, strict=False))
    return colors if len(largest) == len(ranked) else {**colors, OTHER: GREY}


def site_figure(pages: Sequence[SitePage], subject: str, colors: SiteColors) -> Figure:
    """Draw the folders of a site, and its pages by clicks from the start."""
    root = tree(pages)
    # A line for each page of a small site.
    height = max(_LOWEST, min(_HIGHEST, _MARGINS + 0.3 * root.pages))
    figure = new_figure(_SITE_WIDTH, height)
    tree_axes, depth_axes = figure.subplots(1, 2, width_ratios=(3.6, 1.1))
    count = f": {counted(len(pages), 'page')}"
    title = f"{subject}{count}"
    figure.suptitle(
        f"{shorten(subject, _MAX_TITLE - len(count))}{count}",
        x=0.01,
        ha="left",
        family=list(font_families()),
    )
    theme = figure_theme(figure)
    visible = {name: theme.black if color == _BLACK else color
               for name, color in colors.categories.items()}  # fmt: skip
    colors = SiteColors(colors.label, visible)
    least = _LINE * max(root.pages, 1) / (height - _MARGINS)
    boxes = list(layout(root, least=least))
    paint = _Paint(colors, _scale(boxes, colors), theme)
    _draw_boxes(tree_axes, boxes, paint, least, max(root.pages, 1))
    _draw_depths(depth_axes, pages, colors)
    _draw_key(figure, tree_axes, paint, root)
    figure.alt_text = _site_text(title, root, pages, colors)
    return figure  # type: ignore[no-any-return] # matplotlib is an extra


@dataclass(frozen=True, slots=True)
class _Paint:
    """Gives boxes their colours; `scale` maps numbers to colours."""

    colors: SiteColors
    scale: Any
    theme: Theme

    def face(self, node: SiteNode) -> Any:
        if self.scale is None or node.mean is None:
            return self.theme.folder
        return self.scale.to_rgba(node.mean)

    def ink(self, node: SiteNode) -> str:
        if self.scale is None or node.mean is None:
            return self.theme.ink
        light = luminance(self.scale.to_rgba(node.mean))
        return "#000000" if light > 0.18 else "#ffffff"  # noqa: PLR2004 - equal contrast to both


def _scale(boxes: Sequence[SiteBox], colors: SiteColors) -> Any:
    """Return the scale of a column of numbers; None for categories, or without any number."""
    means = [box.node.mean for box in boxes if box.node.mean is not None]
    if colors.categories or not means:
        return None
    from matplotlib.cm import ScalarMappable  # noqa: PLC0415 - an extra, and slow to load
    from matplotlib.colors import Normalize  # noqa: PLC0415 - as above

    untyped: Any = Normalize(min(means), max(means))
    return ScalarMappable(untyped, cmap="viridis")


# -------------------------------------------------------------------------------------- folders


def _draw_boxes(
    axes: Axes, boxes: Sequence[SiteBox], paint: _Paint, least: float, total: int
) -> None:
    levels = max((box.level for box in boxes), default=0) + 1
    axes.set_title("Folders; heights are numbers of pages", fontsize=10, loc="left")
    axes.set_axis_off()
    axes.set_xlim(0, levels)
    axes.set_ylim(total, 0)
    figure: Any = axes.get_figure()
    for box in boxes:
        node, left, top = box.node, float(box.level), box.top
        edge = {
            "edgecolor": figure.get_facecolor(),
            "linewidth": 0.8 if box.height >= least else 0.0,
        }
        place = _add_rectangle(axes, (left, top), 1 - _GAP, box.height, paint.face(node), **edge)
        for name, color in paint.colors.categories.items():
            if count := node.categories[name]:
                _add_rectangle(axes, (left, top), _STRIPE, count, color, linewidth=0)
                top += count
        if box.height >= least:
            lines, width = int(box.height / least), _CHARACTERS // levels
            on_color = paint.scale is not None and node.mean is not None
            _write(axes, box, paint.ink(node), place, lines=lines, width=width, on_color=on_color)


def _write(
    axes: Axes, box: SiteBox, ink: str, place: Any, *, lines: int, width: int, on_color: bool
) -> None:
    """Write into a box of `lines` lines of `width` characters, and nowhere else."""
    if box.grouped:
        columns = _group_columns(box, lines, width)
    else:
        count = "" if box.node.pages == 1 else f"  {box.node.pages:,}"
        columns = [[f"{shorten(label(box.node), width - len(count))}{count}"]]
    for number, words in enumerate(columns):
        x = box.level + _STRIPE + 0.02 + number * (1 - _STRIPE - _GAP) / len(columns)
        middle = box.top + box.height / 2
        style: Any = {"va": "center", "fontsize": 8, "color": ink, "family": list(font_families())}
        text = axes.text(x, middle, "\n".join(words), clip_on=True, **style)
        text.set_clip_path(place)
        if on_color:
            text.set_gid(_ON_COLOR)


def _group_columns(box: SiteBox, lines: int, width: int) -> list[list[str]]:
    """Return the text of a group in columns: its number of pages, and names of its members."""
    # What is in a folder needs no number, which the folder has.
    title = f"… {box.node.pages:,} more" if box.has_others else ""
    if box.level == 0 and not title:
        title = counted(box.node.pages, "page")
    if lines < _LISTED_FROM:
        return [[_in_line(title, box.grouped, width)]]
    rows = lines - bool(title)
    names = [drawable(name) for name in box.grouped[: rows * width]]
    longest = min(max(map(_columns, names[: 4 * rows])), _NAME) + _COLUMN_GAP
    count = max(1, min(int(width // longest), -(-len(names) // rows)))
    names = [shorten(name, width / count - _COLUMN_GAP) for name in names[: rows * count + 1]]
    if len(names) > rows * count:
        names = [*names[: rows * count - 1], "…"]
    parts = [names[start : start + rows] for start in range(0, len(names), rows)]
    height = max(map(len, parts))
    return [
        [*([title if number == 0 else ""] if title else []), *part, *[""] * (height - len(part))]
        for number, part in enumerate(parts)
    ]


def _in_line(title: str, names: Sequence[str], width: int) -> str:
    """Return the title, and as many names as fit into a line."""
    fitting = title
    for number, name in enumerate(names):
        separator = ", " if number else ": " if title else ""
        more = ", …" if number + 1 < len(names) else ""
        room = width - _columns(f"{fitting}{separator}{more}")
        wide = _columns(drawable(name))
        if room < min(wide, _SHORTEST):
            return f"{fitting}, …" if number else fitting
        if room < wide:
            return f"{fitting}{separator}{shorten(name, room)}{more}"
        fitting = f"{fitting}{separator}{shorten(name, room)}"
    return fitting


def _add_rectangle(
    axes: Axes, corner: tuple[float, float], width: float, height: float, color: Any, **line: Any
) -> Any:
    from matplotlib.patches import Rectangle  # noqa: PLC0415 - an extra, and slow to load

    return axes.add_patch(Rectangle(corner, width, height, facecolor=color, **line))


# --------------------------------------------------------------------------------------- depths


def _draw_depths(axes: Axes, pages: Sequence[SitePage], colors: SiteColors) -> None:
    counts = depth_counts(pages)
    depths = list(counts)
    left = dict.fromkeys(depths, 0)
    parts: list[tuple[str | None, str]] = [*colors.categories.items(), (None, GREY)]
    for category, color in parts:
        widths = [counts[depth][category] for depth in depths]
        axes.barh(depths, widths, left=[left[depth] for depth in depths], color=color, height=0.7)
        left = {depth: left[depth] + counts[depth][category] for depth in depths}
    for depth, count in left.items():
        style: Any = {"textcoords": "offset points", "va": "center", "fontsize": 8}
        axes.annotate(f"{count:,}", (count, depth), (3, 0), **style)
    axes.set_title("Pages by clicks from the start", fontsize=10, loc="left")
    axes.set_ylabel("clicks")
    axes.set_xlabel("pages")
    axes.set_yticks(depths)
    axes.set_ylim(max(depths, default=0) + 0.8, min(depths, default=0) - 0.8)
    axes.margins(x=0.2)
    axes.locator_params(axis="x", integer=True, nbins=4)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_key(figure: Any, axes: Axes, paint: _Paint, root: SiteNode) -> None:
    """Draw the legend of the categories, or the scale of the numbers."""
    if paint.scale is not None:
        figure.colorbar(
            paint.scale, ax=axes, location="bottom", shrink=0.5, aspect=40, pad=0.02,
            label=f"mean {paint.colors.label}",
        )  # fmt: skip
        return
    from matplotlib.patches import Patch  # noqa: PLC0415 - an extra, and slow to load

    names = [name for name in paint.colors.categories if root.categories[name]]
    handles = [
        Patch(color=paint.colors.categories[name], label=shorten(name, _NAME)) for name in names
    ]
    figure.legend(
        handles=handles,
        loc="outside lower left",
        ncols=min(len(handles), 7) or 1,
        frameon=False,
        title=paint.colors.label,
        alignment="left",
    )


def _site_text(title: str, root: SiteNode, pages: Sequence[SitePage], colors: SiteColors) -> str:
    """Return what the figure shows in sentences."""
    largest = sorted(root.children.values(), key=lambda each: -each.pages)[:_LARGEST]
    folders = ", ".join(f"{label(node)} {node.pages:,}" for node in largest)
    clicks = ", ".join(
        f"{sum(counts.values()):,} at {depth}" for depth, counts in depth_counts(pages).items()
    )
    values = ", ".join(
        f"{name} {root.categories[name]:,}" for name in colors.categories if root.categories[name]
    )
    mean = "" if root.mean is None else f"mean {root.mean:.3g}"
    parts = [title, f"largest folders: {folders}" if folders else "",
             f"{colors.label}: {values or mean}" if values or mean else "",
             f"pages by clicks from the start: {clicks}" if clicks else ""]  # fmt: skip
    return ". ".join(part for part in parts if part)
