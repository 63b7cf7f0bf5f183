"""PNG images as Chromium writes them, read without a library: their size and their pixels."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_CHANNELS: Final = {2: 3, 6: 4}


@dataclass(frozen=True, slots=True)
class Picture:
    """An image in 8 bits a channel; `rows` holds its bytes unfiltered."""

    width: int
    height: int
    channels: int
    rows: list[bytes]

    @property
    def size(self) -> tuple[int, int]:
        return self.width, self.height

    def colour(self, x: int, y: int) -> tuple[int, int, int]:
        at = x * self.channels
        red, green, blue = self.rows[y][at : at + 3]
        return red, green, blue


def size_of(png: bytes | None) -> tuple[int, int]:
    """Read the size alone."""
    assert png is not None
    assert png.startswith(_SIGNATURE)
    width, height = struct.unpack("!II", png[16:24])
    return width, height


def read(png: bytes | None) -> Picture:
    """Read the whole image."""
    assert png is not None
    width, height = size_of(png)
    channels = _CHANNELS[png[25]]
    data = zlib.decompress(b"".join(body for kind, body in _chunks(png) if kind == b"IDAT"))
    stride = width * channels
    rows: list[bytes] = []
    above = bytes(stride)
    for y in range(height):
        start = y * (stride + 1)
        above = _unfiltered(data[start], data[start + 1 : start + 1 + stride], above, channels)
        rows.append(above)
    return Picture(width, height, channels, rows)


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack("!I", png[at : at + 4])
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += length + 12


def _unfiltered(kind: int, line: bytes, above: bytes, channels: int) -> bytes:
    if kind == 0:
        return line
    if kind == 2:
        return bytes((a + b) & 255 for a, b in zip(line, above, strict=True))
    out = bytearray(len(line))
    for i, value in enumerate(line):
        left = out[i - channels] if i >= channels else 0
        corner = above[i - channels] if i >= channels else 0
        guess = {1: left, 3: (left + above[i]) // 2}.get(kind)
        out[i] = (value + (_paeth(left, above[i], corner) if guess is None else guess)) & 255
    return bytes(out)


def _paeth(left: int, up: int, corner: int) -> int:
    near = left + up - corner
    return min((left, up, corner), key=lambda each: abs(near - each))
