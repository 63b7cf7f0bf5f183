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


def of(value: Any, *, side: int = SIDE) -> str | None:
    """Return an `img` element for the bytes of a picture or a downloaded file, else None.

    The picture is converted to a PNG of at most `side` by `side` pixels.
    """
    if isinstance(value, bytes):
        return _element(io.BytesIO(value), side)
    file = value.get("file") if isinstance(value, dict) else None
    # Only files of the cache, which are named by their hash: a row must not name any other file.
    if not isinstance(file, str) or Path(file).name != value.get("sha256"):
        return None
    return _element(Path(file), side)


def first_of(values: Iterable[Any], *, side: int = SIDE) -> str | None:
    """Return the first picture among `values`, as `of` does."""
    pictures = (of(value, side=side) for value in values)
    return next((picture for picture in pictures if picture is not None), None)


def _element(source: Path | io.BytesIO, side: int) -> str | None:
    data = _small(source, side)
    if data is None:
        return None
    text = base64.b64encode(data).decode()
    return f'<img alt="" style="max-width:100%" src="data:image/png;base64,{text}">'


def _small(source: Path | io.BytesIO, side: int) -> bytes | None:
    from PIL import Image  # noqa: PLC0415 - only where pictures are drawn

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(source, formats=_FORMATS) as image:
                if image.width * image.height > _MOST_PIXELS:
                    return None
                return _png(image, side)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None


def _png(image: Any, side: int) -> bytes:
    # Crop long screenshots to their top.
    top = image.crop((0, 0, image.width, min(image.height, image.width * 2)))
    top.thumbnail((side, side))
    out = io.BytesIO()
    top.convert("RGBA").save(out, "PNG", optimize=True)
    return out.getvalue()
