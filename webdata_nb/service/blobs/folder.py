"""Files in a folder of this machine, or of a mounted file system."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from webdata_nb.service.blobs.backend import (
    MAX_BLOB_BYTES,
    Blob,
    BlobBackend,
    ListedBlob,
    checked_name,
    is_valid_name,
)


class LocalFolder(BlobBackend):
    """A `BlobBackend` in a folder; files are written atomically."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def write(self, name: str, data: bytes) -> None:
        path = self._path(name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A valid name: a sweep lists and deletes what a kill leaves.
        draft = path.with_name(f"{path.name}-draft-{secrets.token_hex(4)}")
        try:
            with os.fdopen(
                os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
            ) as file:
                file.write(data)
            draft.replace(path)
        except BaseException:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise

    def read(self, name: str) -> Blob | None:
        try:
            with self._path(name).open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_size > MAX_BLOB_BYTES:
                    raise OSError("the file is too large")
                return Blob(file.read(), status.st_mtime)
        except FileNotFoundError:
            return None

    def delete(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def delete_older(self, folder: str, *, before: float) -> int:
        deleted = 0
        for path in _files_below(self._path(folder)):
            with suppress(FileNotFoundError):  # another process deletes as well
                if path.stat().st_mtime < before:
                    path.unlink()
                    deleted += 1
        return deleted

    def list_folder(self, folder: str) -> list[ListedBlob]:
        listed = []
        for path in _files_below(self._path(folder)):
            name = path.relative_to(self._root).as_posix()
            with suppress(FileNotFoundError):  # another process deletes
                if is_valid_name(name):
                    listed.append(ListedBlob(name, path.stat().st_mtime))
        return listed

    def _path(self, name: str) -> Path:
        return self._root / checked_name(name)


def _files_below(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        for name in names:
            yield Path(parent, name)
