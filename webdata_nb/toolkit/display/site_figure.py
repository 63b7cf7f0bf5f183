"""Draws a crawled site: its folders as an icicle plot, and its pages by clicks from the start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.toolkit.display import figures, site_tree
from webdata_nb.toolkit.display.site_tree import SiteBox, SiteNode, SitePage

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STATUSES: Final = {
    "read": "#0072B2",
    "redirect": "#56B4E9",
    "client error (4xx)": "#E69F00",
    "server error (5xx)": "#D55E00",
    "no answer": "#000000",
}
OTHER: Final = "other"
_FOLDER: Final = "#e8e8e8"
_WIDTH: Final = 9.4
_LINE: Final = 0.17  # height of a line of text in inches
_MARGINS: Final = 1.5  # height of titles, axis and legend in inches
_LOWEST, _HIGHEST = 3.0, 9.0
_NAME: Final = 28
_CHARACTERS: Final = 92  # of all columns together, at 8 points
_LISTED_FROM: Final = 3  # lines of a group that lists names
_STRIPE: Final = 0.05
_GAP: Final = 0.02
_BRIGHT: Final = 0.3
_LARGEST: Final = 5


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
    largest = ranked[: len(figures.LINES) - 1] if len(ranked) > len(figures.LINES) else ranked
    colors = dict(zip(largest, figures.LINES, strict=False))
    return colors if len(largest) == len(ranked) else {**colors, OTHER: figures.GREY}


def site_figure(pages: Sequence[SitePage], subject: str, colors: SiteColors) -> Figure:
    """Draw the folders of a site, and its pages by clicks from the start."""
    root = site_tree.tree(pages)
    height = _height(root)
    figure = figures.new_figure(_WIDTH, height)
    tree_axes, depth_axes = figure.subplots(1, 2, width_ratios=(3.6, 1.1))
    title = f"{subject}: {_counted(len(pages))}"
    figure.suptitle(figures.literal(title), x=0.01, ha="left")
    least = _LINE * max(root.pages, 1) / (height - _MARGINS)
    boxes = list(site_tree.layout(root, least=least))
    paint = _Paint(colors, _scale(boxes, colors))
    _draw_boxes(tree_axes, boxes, paint, least, max(root.pages, 1))
    _draw_depths(depth_axes, pages, colors)
    _draw_key(figure, tree_axes, paint, root)
    figure.alt_text = _alternative_text(title, root, pages, colors)
    return figure  # type: ignore[no-any-return] # matplotlib is an extra


def _counted(pages: int) -> str:
    return f"{pages:,} page{'s' * (pages != 1)}"


def _height(root: SiteNode) -> float:
    """Return a height that has a line for each page of a small site."""
    return max(_LOWEST, min(_HIGHEST, _MARGINS + 0.3 * root.pages))


@dataclass(frozen=True, slots=True)
class _Paint:
    """Gives boxes their colours; `scale` maps numbers to colours."""

    colors: SiteColors
    scale: Any

    def face(self, node: SiteNode) -> str:
        if self.scale is None:
            return _FOLDER
        return _FOLDER if node.mean is None else self.scale.to_rgba(node.mean)

    def ink(self, node: SiteNode) -> str:
        if self.scale is None or node.mean is None:
            return figures.INK
        red, green, blue, _ = self.scale.to_rgba(node.mean)
        linear = [each / 12.92 if each <= 0.04 else ((each + 0.055) / 1.055) ** 2.4  # noqa: PLR2004 - sRGB
                  for each in (red, green, blue)]  # fmt: skip
        light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
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
    for box in boxes:
        _draw_box(axes, box, paint, least, _CHARACTERS // levels)


def _draw_box(axes: Axes, box: SiteBox, paint: _Paint, least: float, width: int) -> None:
    node, left = box.node, float(box.level)
    edge = {"edgecolor": "white", "linewidth": 0.8 if box.height >= least else 0.0}
    _add_rectangle(axes, (left, box.top), 1 - _GAP, box.height, paint.face(node), **edge)
    top = box.top
    for name, color in paint.colors.categories.items():
        if count := node.categories[name]:
            _add_rectangle(axes, (left, top), _STRIPE, count, color, linewidth=0)
            top += count
    if box.height >= least:
        lines = int(box.height / least)
        _write(axes, box, paint.ink(node), lines=lines, width=width)


def _write(axes: Axes, box: SiteBox, ink: str, *, lines: int, width: int) -> None:
    """Write into a box of `lines` lines of `width` characters."""
    columns = _group_columns(box, lines, width) if box.grouped else [[_box_label(box.node, width)]]
    for number, words in enumerate(columns):
        x = box.level + _STRIPE + 0.02 + number * (1 - _STRIPE - _GAP) / len(columns)
        middle = box.top + box.height / 2
        axes.text(x, middle, "\n".join(words), va="center", fontsize=8, color=ink, clip_on=True)


def _box_label(node: SiteNode, width: int) -> str:
    count = "" if node.pages == 1 else f"  {node.pages:,}"
    return f"{figures.shorten(site_tree.label(node), width - len(count))}{count}"


def _group_columns(box: SiteBox, lines: int, width: int) -> list[list[str]]:
    """Return the text of a group in columns: its number of pages, and names of its members."""
    title = f"+{_counted(box.node.pages)}"
    if lines < _LISTED_FROM:
        return [[figures.literal(_in_line(title, box.grouped, width))]]
    longest = min(max(map(len, box.grouped[: 4 * lines])), _NAME) + 2
    count = max(1, min(width // longest, len(box.grouped) // (lines - 1) + 1))
    names = [figures.shorten(name, width // count - 2) for name in box.grouped]
    rows = lines - 1
    if len(names) > rows * count:
        names = [*names[: rows * count - 1], "…"]
    parts = [names[start : start + rows] for start in range(0, len(names), rows)]
    height = max(map(len, parts))
    return [
        [title if number == 0 else "", *part, *[""] * (height - len(part))]
        for number, part in enumerate(parts)
    ]


def _in_line(title: str, names: Sequence[str], width: int) -> str:
    """Return the title, and as many names as fit into a line."""
    fitting = ""
    for number, name in enumerate(names):
        longer = f"{fitting}, {name}" if fitting else f"{title}: {name}"
        if len(longer) + (3 if number + 1 < len(names) else 0) > width:
            return f"{fitting}, …" if fitting else title
        fitting = longer
    return fitting


def _add_rectangle(
    axes: Axes, corner: tuple[float, float], width: float, height: float, color: Any, **line: Any
) -> None:
    from matplotlib.patches import Rectangle  # noqa: PLC0415 - an extra, and slow to load

    axes.add_patch(Rectangle(corner, width, height, facecolor=color, **line))


# --------------------------------------------------------------------------------------- depths


def _draw_depths(axes: Axes, pages: Sequence[SitePage], colors: SiteColors) -> None:
    counts = site_tree.depth_counts(pages)
    depths = list(counts)
    left = dict.fromkeys(depths, 0)
    parts: list[tuple[str | None, str]] = [*colors.categories.items(), (None, figures.GREY)]
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
        Patch(color=paint.colors.categories[name], label=figures.shorten(name, _NAME))
        for name in names
    ]
    figure.legend(
        handles=handles,
        loc="outside lower left",
        ncols=min(len(handles), 7) or 1,
        frameon=False,
        title=paint.colors.label,
        alignment="left",
    )


def _alternative_text(
    title: str, root: SiteNode, pages: Sequence[SitePage], colors: SiteColors
) -> str:
    """Return what the figure shows in sentences."""
    largest = sorted(root.children.values(), key=lambda each: -each.pages)[:_LARGEST]
    folders = ", ".join(f"{site_tree.label(node)} {node.pages:,}" for node in largest)
    clicks = ", ".join(
        f"{sum(counts.values()):,} at {depth}"
        for depth, counts in site_tree.depth_counts(pages).items()
    )
    values = ", ".join(
        f"{name} {root.categories[name]:,}" for name in colors.categories if root.categories[name]
    )
    mean = "" if root.mean is None else f"mean {root.mean:.3g}"
    parts = [title, f"largest folders: {folders}" if folders else "",
             f"{colors.label}: {values or mean}" if values or mean else "",
             f"pages by clicks from the start: {clicks}" if clicks else ""]  # fmt: skip
    return ". ".join(part for part in parts if part)
