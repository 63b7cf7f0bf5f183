"""Stores downloaded files by the hash of their content, in one folder per account.

A file is returned only to the account that downloaded it, and expires like every raw result.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import secrets
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from PIL import Image, UnidentifiedImageError

from webdata_nb.contract import limits

RETENTION_S: Final = limits.RETENTION_HOURS * 3600.0
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_DRAFT_SUFFIX: Final = ".draft"
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
    """The files of all accounts below one folder; its methods do blocking file I/O."""

    root: Path

    def put(self, account_id: str, data: bytes) -> dict[str, Any]:
        """Store a file and return its hash, media type, size in bytes and size in pixels."""
        sha256 = hashlib.sha256(data).hexdigest()
        path = self._path(account_id, sha256)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists():
            os.utime(path)  # retention counts from the last call that returned the file
        else:
            draft = path.with_name(f"{sha256}.{secrets.token_hex(4)}{_DRAFT_SUFFIX}")
            with os.fdopen(
                os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
            ) as file:
                file.write(data)
            draft.replace(path)
        image = detect_image_type(data)
        return {
            "sha256": sha256,
            "mime": image.mime,
            "bytes": len(data),
            "width": image.width,
            "height": image.height,
        }

    def get(self, account_id: str, sha256: str) -> bytes | None:
        """Return a file of an account; None if there is none with that hash, or it has expired."""
        if not _SHA256.fullmatch(sha256):
            return None
        path = self._path(account_id, sha256)
        try:
            if time.time() - path.stat().st_mtime > RETENTION_S:
                return None
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def delete_expired(self, now: float) -> int:
        """Delete expired files and return their count."""
        deleted = 0
        for path in self.root.glob("*/*/*"):
            with suppress(OSError):
                if now - path.stat().st_mtime > RETENTION_S:
                    path.unlink()
                    deleted += 1
        return deleted

    def _path(self, account_id: str, sha256: str) -> Path:
        # An account id may contain characters that a file name must not.
        account_folder = hashlib.sha256(account_id.encode()).hexdigest()[:32]
        return self.root / account_folder / sha256[:2] / sha256
