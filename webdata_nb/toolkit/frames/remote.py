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


def file_system(target: str) -> tuple[Any, str]:
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
