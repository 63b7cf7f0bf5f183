"""Bodies that unpack to a gigabyte, made on the fly from one repeated piece."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import brotli  # type: ignore[import-untyped]  # it ships no types

from tests.site.zstd import zstd as zstandard

MIB = 1024 * 1024
_ZEROS = bytes(MIB)


def _deflate_like(window: int) -> Iterator[bytes]:
    packer = zlib.compressobj(9, zlib.DEFLATED, window)
    yield packer.compress(_ZEROS) + packer.flush(zlib.Z_FULL_FLUSH)
    repeated = packer.compress(_ZEROS) + packer.flush(zlib.Z_FULL_FLUSH)
    for _ in range(1023):
        yield repeated
    yield packer.flush()


def gzip() -> Iterator[bytes]:
    return _deflate_like(zlib.MAX_WBITS | 16)


def deflate() -> Iterator[bytes]:
    return _deflate_like(-zlib.MAX_WBITS)


def br() -> Iterator[bytes]:
    packer = brotli.Compressor(quality=5)
    for _ in range(1024):
        yield packer.process(_ZEROS) + packer.flush()
    yield packer.finish()


def zstd() -> Iterator[bytes]:
    frame = zstandard.compress(_ZEROS)
    for _ in range(1024):
        yield frame


def gzip_members() -> Iterator[bytes]:
    """Gzip of a thousand members, a mebibyte each."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    member = packer.compress(_ZEROS) + packer.flush()
    for _ in range(1024):
        yield member


BOMBS: dict[str, tuple[str, Callable[[], Iterator[bytes]]]] = {
    "gzip": ("gzip", gzip),
    "gzip of many members": ("gzip", gzip_members),
    "deflate": ("deflate", deflate),
    "br": ("br", br),
    "zstd": ("zstd", zstd),
}
"""By name: the Content-Encoding, and the pieces of the body."""
