"""Small pictures of our own making, written into the page: nothing is loaded from elsewhere."""

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
    """Return an `img` element for the bytes of a picture or a downloaded file, None for others.

    What is drawn is a PNG of at most 240 by 240 pixels, made here, whatever the original holds.
    """
    if isinstance(value, bytes):
        return _element(io.BytesIO(value))
    file = value.get("file") if isinstance(value, dict) else None
    # Only a file of the cache, which is named by its hash: a row must not choose one of the disk.
    if not isinstance(file, str) or Path(file).name != value.get("sha256"):
        return None
    return _element(Path(file))


def first_of(values: Iterable[Any]) -> str | None:
    """Return the first that is a picture."""
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
    # Of a page that is long, its top: the whole would be a line.
    top = image.crop((0, 0, image.width, min(image.height, image.width * 2)))
    top.thumbnail((SIDE, SIDE))
    out = io.BytesIO()
    top.convert("RGBA").save(out, "PNG", optimize=True)
    return out.getvalue()
