"""Writes files to URLs such as `s3://`, `gs://` and `memory://` with fsspec."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import pyarrow as pa

from webdata_nb.errors import InvalidArgument, MissingExtra

_SCHEME_SEPARATOR: Final = "://"


def is_url(target: object) -> bool:
    """Return whether a target is a URL rather than a path."""
    return isinstance(target, str) and _SCHEME_SEPARATOR in target


def check(url: str) -> None:
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


def write(url: str, data: pa.Buffer | bytes, options: Mapping[str, Any] | None = None) -> None:
    """Write a file. Most object stores show it only when it is complete."""
    try:
        with _fsspec().open(url, "wb", **dict(options or {})) as file:
            file.write(memoryview(data))
    except (ValueError, ImportError):
        check(url)
        raise


def write_part(folder: str, name: str, data: pa.Buffer | bytes, *, first: bool) -> None:
    """Write one file of a dataset; the `first` one replaces all older files of the folder."""
    system, path = _fsspec().core.url_to_fs(folder)
    if first:
        # A cached listing would miss files of other processes.
        system.invalidate_cache()
        for old in system.glob(f"{path}/part-*.parquet"):
            system.rm_file(old)
    system.makedirs(path, exist_ok=True)
    system.pipe_file(f"{path}/{name}", bytes(memoryview(data)))


def file_system(target: str) -> tuple[Any, str]:
    """Return the fsspec file system of a path or URL, and the path in it."""
    system, path = _fsspec().core.url_to_fs(target)
    return system, path


class DatasetFolder:
    """The files of a folder at a URL; most object stores show a file only when it is complete."""

    def __init__(self, url: str) -> None:
        self._system, self._path = _fsspec().core.url_to_fs(url.rstrip("/"))

    def names(self, pattern: str) -> list[str]:
        """Return the names of the files that match a pattern."""
        # A cached listing would miss files of other processes.
        self._system.invalidate_cache()
        paths = self._system.glob(f"{self._path}/{pattern}")
        return [str(path).rpartition("/")[2] for path in paths]

    def read(self, name: str) -> bytes | None:
        """Return a file; None if there is none of this name."""
        try:
            return bytes(self._system.cat_file(f"{self._path}/{name}"))
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Write a file."""
        self._system.makedirs(self._path, exist_ok=True)
        self._system.pipe_file(f"{self._path}/{name}", data)

    def delete(self, name: str) -> None:
        """Delete a file."""
        self._system.rm_file(f"{self._path}/{name}")


def _fsspec() -> Any:
    try:
        return import_module("fsspec")
    except ImportError:
        raise MissingExtra(
            "writing to a URL needs fsspec: pip install 'webdata_nb[remote]', or name a local file"
        ) from None
