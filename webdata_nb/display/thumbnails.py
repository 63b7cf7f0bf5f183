"""Renders pictures as small PNGs inside data URLs, so that nothing external is loaded."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

SIDE: Final = 240
_MOST_PIXELS: Final = 40_000_000
_FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP")


def of(value: Any) -> str | None:
    """Return an `img` element for the bytes of a picture or a downloaded file, else None.

    The picture is converted to a PNG of at most 240 by 240 pixels.
    """
    if isinstance(value, bytes):
        return _element(io.BytesIO(value))
    file = value.get("file") if isinstance(value, dict) else None
    # Only files of the cache, which are named by their hash: a row must not name any other file.
    if not isinstance(file, str) or Path(file).name != value.get("sha256"):
        return None
    return _element(Path(file))


def first_of(values: Iterable[Any]) -> str | None:
    """Return the first picture among `values`, as `of` does."""
    return next((drawn for drawn in map(of, values) if drawn is not None), None)


def _element(source: Path | io.BytesIO) -> str | None:
    data = _small(source)
    if data is None:
        return None
    text = base64.b64encode(data).decode()
    return f'<img alt="" style="max-width:100%" src="data:image/png;base64,{text}">'


def _small(source: Path | io.BytesIO) -> bytes | None:
    from PIL import Image  # noqa: PLC0415 - only where pictures are drawn

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(source, formats=_FORMATS) as image:
                if image.width * image.height > _MOST_PIXELS:
                    return None
                return _png(image)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None


def _png(image: Any) -> bytes:
    # Crop long screenshots to their top.
    top = image.crop((0, 0, image.width, min(image.height, image.width * 2)))
    top.thumbnail((SIDE, SIDE))
    out = io.BytesIO()
    top.convert("RGBA").save(out, "PNG", optimize=True)
    return out.getvalue()
