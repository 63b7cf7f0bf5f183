"""Makes matplotlib figures that notebooks show without any setup, with alternative text."""

from __future__ import annotations

import base64
import html
import io
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.errors import MissingExtra

if TYPE_CHECKING:
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
