"""Writes and reads files in folders of this machine and at URLs such as `s3://` with fsspec.

A file appears whole or not at all. Folders of this machine need no fsspec. What the cache writes
is for its owner only.
"""

from __future__ import annotations

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pyarrow as pa

from webdata_nb.errors import InvalidArgument, MissingExtra, WebdataError
from webdata_nb.suggestions import format_path

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
TEMPORARY: Final = ".tmp"


def make_folder(path: Path, root: Path) -> None:
    """Make a folder and its missing parents up to `root`.

    An existing root keeps its mode, since it may be shared.

    Raises
    ------
    OSError
        A folder cannot be made.
    """
    try:
        path.mkdir(mode=FOLDER_MODE)
    except FileExistsError:
        if not path.is_dir():
            raise
    except FileNotFoundError:
        missing = [path, *path.parents]
        for folder in reversed(missing[: missing.index(root) + 1]):
            folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)


def write_atomically(
    path: Path, data: pa.Buffer | bytes, *, durable: bool = True, owner_only: bool = False
) -> None:
    """Write a temporary file, sync it to the disk if `durable`, and rename it to `path`."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY}")
    mode = FILE_MODE if owner_only else 0o666  # reduced by the umask
    try:
        with open(temporary, "xb", opener=partial(os.open, mode=mode)) as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


_SCHEME_SEPARATOR: Final = "://"


def is_remote(target: object) -> bool:
    """Return whether a target is a URL rather than a path."""
    return isinstance(target, str) and _SCHEME_SEPARATOR in target


def check_url(url: str) -> None:
    """Check that a URL can be written, before anything is sent.

    Raises
    ------
    MissingExtra
        fsspec, or the library for this kind of URL, is not installed.
    InvalidArgument
        fsspec does not support this kind of URL.
    """
    protocol = url.partition(_SCHEME_SEPARATOR)[0]
    try:
        _fsspec().get_filesystem_class(protocol)
    except ValueError:
        raise InvalidArgument(f"out: fsspec does not support {protocol}:// URLs") from None
    except ImportError as error:
        raise MissingExtra(
            f"{protocol}:// URLs need a library that is not installed: {error}"
        ) from None


def write_url(url: str, data: pa.Buffer | bytes, options: Mapping[str, Any] | None = None) -> None:
    """Write a file. Most object stores show it only when it is complete."""
    try:
        with _fsspec().open(url, "wb", **dict(options or {})) as file:
            file.write(memoryview(data))
    except (ValueError, ImportError):
        check_url(url)
        raise


def _file_system(target: str) -> tuple[Any, str]:
    """Return the fsspec file system of a path or URL, and the path in it."""
    system, path = _fsspec().core.url_to_fs(target)
    return system, path


def _fsspec() -> Any:
    try:
        return import_module("fsspec")
    except ImportError:
        raise MissingExtra(
            "writing to a URL needs fsspec: pip install 'webdata_nb[remote]', or name a local file"
        ) from None


_LOCAL: Final = frozenset({"file", "local"})
# Where a file appears only when it is complete.
_OBJECT_STORES: Final = frozenset(
    {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "memory", "oss", "r2"}
)


@contextmanager
def folder_errors(out: Path | str) -> Iterator[None]:
    """Turn an error of the file system into an `InvalidArgument` that names `out`."""
    try:
        yield
    except WebdataError:
        raise
    except Exception as error:  # noqa: BLE001 - each file system has errors of its own
        raise InvalidArgument(
            f"out: {format_path(out)} cannot be read and written: {type(error).__name__}: {error}"
        ) from None


class DatasetFolder(ABC):
    """The files of one folder, by their names; it pickles, and each process opens it by itself.

    Attributes
    ----------
    target
        The path or URL.
    """

    def __init__(self, target: Path | str) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.target,)

    @staticmethod
    def at(target: Path | str) -> DatasetFolder:
        """Return the folder at a path or URL; nothing is created.

        Raises
        ------
        MissingExtra
            The URL needs fsspec, which is not installed.
        """
        is_local = not is_remote(target) or urlsplit(str(target)).scheme in _LOCAL
        return _LocalDataset(target) if is_local else _RemoteDataset(target)

    @abstractmethod
    def names(self, pattern: str) -> list[str]:
        """Return the names of the files that match a pattern; none where there is no folder."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Return a file.

        Raises
        ------
        FileNotFoundError
            There is none of this name.
        """

    @abstractmethod
    def open(self, name: str) -> IO[bytes]:
        """Open a file, of which parts are read."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Return whether a file exists."""

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Write or replace a file."""

    @abstractmethod
    def write_exclusive(self, name: str, data: bytes) -> bool:
        """Write a file unless it exists, and return whether this call wrote it.

        Of several writers at the same time, one writes the file. On a file system without exclusive
        creation, which is neither local nor an object store, a later writer may replace it.
        """

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file, where it exists."""

    def read_if_exists(self, name: str) -> bytes | None:
        """Return a file; None if there is none of this name."""
        try:
            return self.read(name)
        except FileNotFoundError:
            return None


class _LocalDataset(DatasetFolder):
    """Writes under a temporary name, and renames."""

    def __init__(self, target: Path | str) -> None:
        super().__init__(target)
        is_url = is_remote(target)
        self._path = Path(url2pathname(urlsplit(str(target)).path) if is_url else target)

    def names(self, pattern: str) -> list[str]:
        if not self._path.is_dir():
            return []
        return [path.name for path in self._path.iterdir() if fnmatchcase(path.name, pattern)]

    def read(self, name: str) -> bytes:
        return (self._path / name).read_bytes()

    def open(self, name: str) -> IO[bytes]:
        return (self._path / name).open("rb")

    def exists(self, name: str) -> bool:
        return (self._path / name).exists()

    def write(self, name: str, data: bytes) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path / name, data)

    def write_exclusive(self, name: str, data: bytes) -> bool:
        draft = f".{name}.{secrets.token_hex(4)}"
        self.write(draft, data)
        try:
            (self._path / name).hardlink_to(self._path / draft)
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links
            return self._create(name, data)
        finally:
            self.delete(draft)
        return True

    def _create(self, name: str, data: bytes) -> bool:
        try:
            with (self._path / name).open("xb") as file:
                file.write(data)
        except FileExistsError:
            return False
        return True

    def delete(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)


class _RemoteDataset(DatasetFolder):
    """Writes under a temporary name and renames, except to object stores."""

    def __init__(self, target: Path | str) -> None:
        super().__init__(target)
        self._system, self._path = _file_system(str(target).rstrip("/"))
        protocol = self._system.protocol
        protocols = {protocol} if isinstance(protocol, str) else set(protocol)
        self._is_object_store = bool(protocols & _OBJECT_STORES)

    def names(self, pattern: str) -> list[str]:
        self._system.invalidate_cache()  # a cached listing would miss files of other processes
        try:
            entries = self._system.ls(self._path, detail=False)
        except FileNotFoundError:
            return []
        names = [str(entry).rstrip("/").rpartition("/")[2] for entry in entries]
        return [name for name in names if fnmatchcase(name, pattern)]

    def read(self, name: str) -> bytes:
        return bytes(self._system.cat_file(self._file(name)))

    def open(self, name: str) -> IO[bytes]:
        file: IO[bytes] = self._system.open(self._file(name), "rb")
        return file

    def exists(self, name: str) -> bool:
        self._system.invalidate_cache()
        return bool(self._system.exists(self._file(name)))

    def write(self, name: str, data: bytes) -> None:
        if self._is_object_store:
            self._system.pipe_file(self._file(name), data)
            return
        self._system.makedirs(self._path, exist_ok=True)
        temporary = self._file(f".{name}.{secrets.token_hex(4)}{TEMPORARY}")
        try:
            self._system.pipe_file(temporary, data)
            self._system.mv(temporary, self._file(name))
        except BaseException:
            with suppress(Exception):
                self._system.rm_file(temporary)
            raise

    def write_exclusive(self, name: str, data: bytes) -> bool:
        if not self._is_object_store:
            self._system.makedirs(self._path, exist_ok=True)
        try:
            self._system.pipe_file(self._file(name), data, mode="create")
        except FileExistsError:
            return False
        except (TypeError, ValueError, NotImplementedError):  # no exclusive creation
            if self.exists(name):
                return False
            self.write(name, data)
        return True

    def delete(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._system.rm_file(self._file(name))

    def _file(self, name: str) -> str:
        return f"{self._path}/{name}"
