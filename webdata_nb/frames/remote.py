"""Files elsewhere than on a local disk, by fsspec: `s3://`, `gs://`, `memory://` and others."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import pyarrow as pa

from webdata_nb.errors import InvalidArgument, MissingExtra

_MARK: Final = "://"


def is_url(target: object) -> bool:
    """Whether a target is a URL, and no path."""
    return isinstance(target, str) and _MARK in target


def check(url: str) -> None:
    """Refuse a URL that cannot be written, before anything is sent.

    Raises
    ------
    MissingExtra
        fsspec, or the library that it needs for this kind of URL, is not installed.
    InvalidArgument
        fsspec knows no such kind of URL.
    """
    protocol = url.partition(_MARK)[0]
    try:
        _fsspec().get_filesystem_class(protocol)
    except ValueError:
        raise InvalidArgument(f"out: fsspec knows no {protocol}:// URLs") from None
    except ImportError as error:
        raise MissingExtra(f"{protocol}:// URLs need another library: {error}") from None


def write(url: str, data: pa.Buffer | bytes, options: Mapping[str, Any] | None = None) -> None:
    """Write a file; the store shows it once it is whole, where the store is such."""
    try:
        with _fsspec().open(url, "wb", **dict(options or {})) as file:
            file.write(memoryview(data))
    except (ValueError, ImportError):
        check(url)
        raise


def write_part(folder: str, name: str, data: pa.Buffer | bytes, *, first: bool) -> None:
    """Write a file of a dataset; the `first` one takes the place of all that the folder held."""
    system, path = _fsspec().core.url_to_fs(folder)
    if first:
        # A listing that was kept from before would not tell of what others have written.
        system.invalidate_cache()
        for old in system.glob(f"{path}/part-*.parquet"):
            system.rm_file(old)
    system.makedirs(path, exist_ok=True)
    system.pipe_file(f"{path}/{name}", bytes(memoryview(data)))


def _fsspec() -> Any:
    try:
        return import_module("fsspec")
    except ImportError:
        raise MissingExtra(
            "writing to a URL needs fsspec: pip install 'webdata_nb[remote]', or name a local file"
        ) from None
