"""Draws the findings of an audit by kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from webdata_nb.toolkit.display.figures import INK, literal, new_figure, shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
