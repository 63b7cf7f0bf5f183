"""The blocking interface of a place for files, and the check of names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Protocol

# No dots: a name cannot leave its folder.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)*")
_MAX_NAME_CHARS: Final = 500
# No downloaded file is larger; what others put there is not read.
MAX_BLOB_BYTES: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Blob:
    """The content of a file, and when it was written in Unix seconds."""

    data: bytes
    modified_at: float


@dataclass(frozen=True, slots=True)
class ListedBlob:
    """A file of a listing, and when it was written in Unix seconds."""

    name: str
    modified_at: float


class BlobBackend(Protocol):
    """Stores files by name; its methods block, and raise what the place raises."""

    def write(self, name: str, data: bytes) -> None:
        """Write a file in place of an earlier one."""

    def read(self, name: str) -> Blob | None:
        """Return a file; None if there is none."""

    def delete(self, name: str) -> None:
        """Delete a file, if there is one."""

    def delete_older(self, folder: str, *, before: float) -> int:
        """Delete the files below a folder that were written before; return their number."""

    def list_folder(self, folder: str) -> list[ListedBlob]:
        """Return the files below a folder, those that others put there only if their names fit."""


def is_valid_name(name: str) -> bool:
    """Whether a name of a file or folder cannot be another path."""
    return len(name) <= _MAX_NAME_CHARS and _NAME.fullmatch(name) is not None


def checked_name(name: str) -> str:
    """Return a name of a file or folder; raises `ValueError` if it may be another path.

    Examples
    --------
    >>> checked_name("creatives/0a1b")
    'creatives/0a1b'
    """
    if not is_valid_name(name):
        raise ValueError("a name of a file consists of letters, digits, '_', '-' and '/'")
    return name
