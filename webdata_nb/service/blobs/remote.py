"""Files at a URL of fsspec, such as `s3://BUCKET/FOLDER`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC
from importlib import import_module
from threading import Lock
from typing import Any, Final

from webdata_nb.service.blobs.backend import (
    MAX_BLOB_BYTES,
    Blob,
    BlobBackend,
    ListedBlob,
    checked_name,
    is_valid_name,
)
from webdata_nb.service.errors import MissingDriver

_LOCK_S: Final = 30.0


class RemoteFolder(BlobBackend):
    """A `BlobBackend` at a URL of fsspec.

    Object stores show a file when it is complete. Elsewhere a reader may see a part of a file that
    is being written.

    Raises
    ------
    MissingDriver
        fsspec, or the library for this kind of URL, is not installed.
    """

    def __init__(self, url: str) -> None:
        scheme = url.partition("://")[0]
        fsspec = _import_fsspec()
        try:
            fsspec.get_filesystem_class(scheme)
        except ValueError:
            raise MissingDriver(
                f"--blobs (WEBDATA_BLOBS): fsspec knows no {scheme}:// URLs"
            ) from None
        except ImportError:
            known = import_module("fsspec.registry").known_implementations
            reason = known.get(scheme, {}).get("err", "")
            raise MissingDriver(
                f"--blobs (WEBDATA_BLOBS): {scheme}:// URLs need another library: {reason}"
            ) from None
        self._system, root = fsspec.core.url_to_fs(url)
        self._root = root.rstrip("/")
        self._lock = Lock()

    def write(self, name: str, data: bytes) -> None:
        path = self._path(name)
        with self._one_at_a_time():
            try:
                self._system.pipe_file(path, data)
            except FileNotFoundError:  # file systems need the folder first
                self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
                self._system.pipe_file(path, data)

    def read(self, name: str) -> Blob | None:
        path = self._path(name)
        with self._one_at_a_time():
            self._system.invalidate_cache()  # another process may have written it
            try:
                size = self._system.info(path)["size"]
                if size is not None and size > MAX_BLOB_BYTES:
                    raise OSError("the file is too large")
                return Blob(self._system.cat_file(path), self._modified_at(path))
            except FileNotFoundError:
                return None

    def delete(self, name: str) -> None:
        with self._one_at_a_time(), suppress(FileNotFoundError):
            self._system.rm_file(self._path(name))

    def delete_older(self, folder: str, *, before: float) -> int:
        deleted = 0
        for path in self._paths_below(folder):
            with self._one_at_a_time(), suppress(FileNotFoundError):
                if self._modified_at(path) < before:
                    self._system.rm_file(path)
                    deleted += 1
        return deleted

    def list_folder(self, folder: str) -> list[ListedBlob]:
        listed = []
        for path in self._paths_below(folder):
            name = path.removeprefix(f"{self._root}/")
            with self._one_at_a_time(), suppress(FileNotFoundError):
                if is_valid_name(name):
                    listed.append(ListedBlob(name, self._modified_at(path)))
        return listed

    def _paths_below(self, folder: str) -> Iterator[str]:
        self._system.invalidate_cache()  # another process writes and deletes as well
        for _, _, files in self._system.walk(self._path(folder), detail=True):
            for info in list(files.values()):
                yield str(info["name"])

    def _path(self, name: str) -> str:
        return f"{self._root}/{checked_name(name)}"

    def _modified_at(self, path: str) -> float:
        modified = self._system.modified(path)
        return float((modified if modified.tzinfo else modified.replace(tzinfo=UTC)).timestamp())

    @contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        """Lock file systems that are not made for threads, such as those over FTP."""
        if self._system.async_impl:
            yield
            return
        if not self._lock.acquire(timeout=_LOCK_S):
            raise TimeoutError
        try:
            yield
        finally:
            self._lock.release()


def _import_fsspec() -> Any:
    try:
        return import_module("fsspec")
    except ImportError:
        raise MissingDriver(
            "--blobs (WEBDATA_BLOBS) at a URL other than file:/// needs fsspec: "
            'pip install "webdata_nb[blobs]"'
        ) from None
