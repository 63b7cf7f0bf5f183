"""What a downloaded file is, told by its bytes; nothing a server says of it is believed."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from typing import Final

from PIL import Image, UnidentifiedImageError

# Still pictures that every browser shows and that can do nothing; SVG can run script.
_MIMES: Final = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "GIF": "image/gif",
    "WEBP": "image/webp",
}
OTHER: Final = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Kind:
    """A file's type and, for a picture, its size in pixels."""

    mime: str
    width: int | None = None
    height: int | None = None


def kind_of(data: bytes) -> Kind:
    """Return what a file is; only its head is read, nothing is decoded."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a huge picture is no bomb before it is decoded
            with Image.open(io.BytesIO(data), formats=tuple(_MIMES)) as image:
                return Kind(_MIMES[image.format or ""], *image.size)
    except (UnidentifiedImageError, OSError, ValueError, KeyError, Image.DecompressionBombError):
        return Kind(OTHER)
