"""Decompressors for gzip, deflate, br and zstd that give their output in bounded pieces."""

from __future__ import annotations

import secrets
import zlib
from typing import TYPE_CHECKING, Final, Protocol, cast

import brotli  # type: ignore[import-untyped]  # it ships no types
import zstandard

from webdata_nb.service.errors import FetchError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

DAMAGE: Final = (zlib.error, brotli.error, zstandard.ZstdError)
"""What the libraries raise when the bytes are not what the coding says."""

_PIECE: Final = 64 * 1024
_MAX_GZIP_MEMBERS: Final = 1024
_GZIP_MAGIC: Final = b"\x1f\x8b"


class BoundedOutput:
    """Where a stage's output goes: in pieces, counted against the ceiling."""

    def __init__(self, sink: Callable[[bytes], None], ceiling: int) -> None:
        self._sink = sink
        self._ceiling = ceiling
        self.produced = 0

    def room(self) -> int:
        """Give the size of the next piece: one byte beyond the ceiling shows there is more."""
        return min(_PIECE, self._ceiling - self.produced + 1)

    def emit(self, piece: bytes) -> None:
        """Pass a piece on; raise `FetchError` of kind ``too_large`` beyond the ceiling."""
        self.produced += len(piece)
        if self.produced > self._ceiling:
            raise FetchError("too_large", f"The page unpacks to more than {self._ceiling:,} bytes.")
        self._sink(piece)


class DecompressionStage(Protocol):
    """One coding: takes bytes by `feed` and hands decoded pieces to its outlet."""

    outlet: BoundedOutput

    def feed(self, data: bytes) -> None:
        """Decode the next bytes; raise one of `DAMAGE` when they are not of this coding."""

    def is_complete(self) -> bool:
        """Tell, after the last bytes, whether the stream came to its own end."""


class _Inflater(Protocol):
    """What zlib's decompressor offers."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def unconsumed_tail(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def _inflate(stream: _Inflater, data: bytes, outlet: BoundedOutput) -> bytes:
    """Decode as far as the stream goes; give what follows its end."""
    while True:
        room = outlet.room()
        piece = stream.decompress(data, room)
        if piece:
            outlet.emit(piece)
        if stream.eof:
            return stream.unused_data
        data = stream.unconsumed_tail
        if not data and len(piece) < room:
            return b""


class _Gzip:
    """Gzip, of one member or several; what follows the last member is ignored, as gzip does."""

    def __init__(self, outlet: BoundedOutput) -> None:
        self.outlet = outlet
        self._stream: _Inflater | None = None
        self._members = 0
        self._held = b""
        self._is_over = False

    def feed(self, data: bytes) -> None:
        data, self._held = self._held + data, b""
        while data and not self._is_over:
            stream = self._stream or self._next_member(data)
            if stream is None:
                return
            data = _inflate(stream, data, self.outlet)
            self._stream = None if stream.eof else stream

    def is_complete(self) -> bool:
        return self._members > 0 and self._stream is None

    def _next_member(self, data: bytes) -> _Inflater | None:
        """Begin a member; none when the bytes are too few to tell, or are no member."""
        if self._members and len(data) < len(_GZIP_MAGIC):
            self._held = data
            return None
        if self._members and not data.startswith(_GZIP_MAGIC):
            self._is_over = True
            return None
        self._members += 1
        if self._members > _MAX_GZIP_MEMBERS:
            raise FetchError("decode", f"The body has more than {_MAX_GZIP_MEMBERS} gzip members.")
        return zlib.decompressobj(zlib.MAX_WBITS | 16)


class _Deflate:
    """Deflate, with the zlib header that the standard asks for or without, as many send it."""

    def __init__(self, outlet: BoundedOutput) -> None:
        self.outlet = outlet
        self._stream: _Inflater | None = None
        self._held = b""

    def feed(self, data: bytes) -> None:
        data, self._held = self._held + data, b""
        if self._stream is None:
            if len(data) < len(b"\x78\x9c"):
                self._held = data
                return
            self._stream = zlib.decompressobj(_deflate_window(data))
        if not self._stream.eof:
            _inflate(self._stream, data, self.outlet)

    def is_complete(self) -> bool:
        return self._stream is not None and self._stream.eof


def _deflate_window(start: bytes) -> int:
    has_header = start[0] & 0x0F == zlib.DEFLATED and int.from_bytes(start[:2], "big") % 31 == 0
    return zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS


class _BrotliStream(Protocol):
    """What brotli's decompressor offers."""

    def process(self, data: bytes, *, output_buffer_limit: int) -> bytes: ...

    def is_finished(self) -> bool: ...


class _Brotli:
    """Brotli; its window is at most 16 MiB."""

    # The decoder grows its output by whole blocks: with a limit below the size of the first,
    # 32 KiB, a piece is never larger than that.
    _LIMIT: Final = 32_000

    def __init__(self, outlet: BoundedOutput) -> None:
        self.outlet = outlet
        self._stream: _BrotliStream = brotli.Decompressor()

    def feed(self, data: bytes) -> None:
        # Only an empty answer says that nothing is held back: it takes in the whole input at once.
        while piece := self._stream.process(data, output_buffer_limit=self._LIMIT):
            self.outlet.emit(piece)
            data = b""

    def is_complete(self) -> bool:
        return self._stream.is_finished()


class _Zstd:
    """Zstandard, of one frame or several, with windows up to 8 MiB (RFC 9659)."""

    _WINDOW: Final = 8 * 1024 * 1024

    def __init__(self, outlet: BoundedOutput) -> None:
        self.outlet = outlet
        self._file = _ZstdFile(outlet)
        decompressor = zstandard.ZstdDecompressor(max_window_size=self._WINDOW)
        self._stream = decompressor.stream_writer(
            cast("IO[bytes]", self._file), write_size=_PIECE, closefd=False
        )

    def feed(self, data: bytes) -> None:
        self._stream.write(data)

    def is_complete(self) -> bool:
        """Append a frame that nobody can guess: only after a whole frame does it come out."""
        self._file.kept = bytearray()
        try:
            # In two writes: at the start of an input the library takes a whole frame for one,
            # even when it is in the middle of another's header.
            self._stream.write(_PROBE_FRAMES[:1])
            self._stream.write(_PROBE_FRAMES[1:])
        except zstandard.ZstdError:
            return False
        kept = bytes(self._file.kept)
        if rest := kept.removesuffix(_PROBE):
            self.outlet.emit(rest)
        return kept.endswith(_PROBE)


class _ZstdFile:
    """What the decompressor writes to; keeps its output back once there is something to keep."""

    def __init__(self, outlet: BoundedOutput) -> None:
        self._outlet = outlet
        self.kept: bytearray | None = None

    def write(self, piece: bytes) -> int:
        if self.kept is None:
            self._outlet.emit(bytes(piece))
        else:
            self.kept += piece
        return len(piece)


# Repeated, so that its compressed form does not contain it; the empty skippable frame behind it
# (RFC 8878, 3.1.2) pushes out what the decompressor still holds.
_PROBE: Final = secrets.token_bytes(4) * 64
_PROBE_FRAMES: Final = zstandard.ZstdCompressor().compress(_PROBE) + b"\x50\x2a\x4d\x18" + bytes(4)

STAGES: Final[dict[str, Callable[[BoundedOutput], DecompressionStage]]] = {
    "gzip": _Gzip,
    "deflate": _Deflate,
    "br": _Brotli,
    "zstd": _Zstd,
}
"""The content codings that are known, by their HTTP names."""
