"""Stores downloaded files by the hash of their content, in one folder per account.

A file is returned only to the account that downloaded it, and expires like every raw result.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import re
import time
import warnings
from dataclasses import dataclass
from typing import Any, Final

from PIL import Image, UnidentifiedImageError

from webdata_nb.contract import limits
from webdata_nb.service.blobs.store import BlobStore

RETENTION_S: Final = limits.RETENTION_HOURS * 3600.0
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_FOLDER: Final = "creatives"
# Raster formats that every browser shows and that cannot run code; SVG can contain scripts.
_IMAGE_MIMES: Final = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "GIF": "image/gif",
    "WEBP": "image/webp",
}
_OTHER_MIME: Final = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class ImageType:
    """The media type of a file and, for a picture, its size in pixels."""

    mime: str
    width: int | None = None
    height: int | None = None


def detect_image_type(data: bytes) -> ImageType:
    """Detect a file's type from its header, without decoding it; no server's claim is trusted."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # size warnings concern decoding only
            with Image.open(io.BytesIO(data), formats=tuple(_IMAGE_MIMES)) as image:
                return ImageType(_IMAGE_MIMES[image.format or ""], *image.size)
    except (UnidentifiedImageError, OSError, ValueError, KeyError, Image.DecompressionBombError):
        return ImageType(_OTHER_MIME)


@dataclass(frozen=True, slots=True)
class FileStore:
    """The downloaded files of all accounts."""

    blobs: BlobStore

    async def put(self, account_id: str, data: bytes) -> dict[str, Any]:
        """Store a file and return its hash, media type, size in bytes and size in pixels.

        Its retention counts from the last call that returned it.
        """
        sha256, image = await asyncio.to_thread(_describe, data)
        await self.blobs.write(_name(account_id, sha256), data)
        return {
            "sha256": sha256,
            "mime": image.mime,
            "bytes": len(data),
            "width": image.width,
            "height": image.height,
        }

    async def get(self, account_id: str, sha256: str) -> bytes | None:
        """Return a file of an account; None if there is none with that hash, or it has expired."""
        if not _SHA256.fullmatch(sha256):
            return None
        blob = await self.blobs.read(_name(account_id, sha256))
        if blob is None or time.time() - blob.modified_at > RETENTION_S:
            return None
        # Where files do not appear at once, this one may still be written.
        is_complete = await asyncio.to_thread(_has_hash, blob.data, sha256)
        return blob.data if is_complete else None

    async def delete_expired(self, now: float) -> int:
        """Delete expired files and return their count."""
        return await self.blobs.delete_older(_FOLDER, before=now - RETENTION_S)


def _describe(data: bytes) -> tuple[str, ImageType]:
    return hashlib.sha256(data).hexdigest(), detect_image_type(data)


def _has_hash(data: bytes, sha256: str) -> bool:
    return hashlib.sha256(data).hexdigest() == sha256


def _name(account_id: str, sha256: str) -> str:
    # An account id may contain characters that a file name must not.
    account_folder = hashlib.sha256(account_id.encode()).hexdigest()[:32]
    return f"{_FOLDER}/{account_folder}/{sha256[:2]}/{sha256}"
