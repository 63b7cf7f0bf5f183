"""Content codings: gzip, deflate, br and zstd, chained, decoded in pieces under a ceiling."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from webdata_nb.service.errors import FetchError
from webdata_nb.service.web.decompress import DAMAGE, STAGES, BoundedOutput, DecompressionStage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ACCEPTED: Final = "gzip, deflate, br, zstd"
"""The value of Accept-Encoding."""

_MAX_CODINGS: Final = 5
_ALIASES: Final = {"x-gzip": "gzip"}
_NO_CODING: Final = frozenset(("", "identity"))


class ContentDecoder:
    """Undoes the content codings of one body while it arrives.

    Parameters
    ----------
    codings : sequence of str
        As `content_codings` gives them, in the order they were applied.
    ceiling : int
        The most decoded bytes; holds for what comes between two codings too.
    """

    def __init__(self, codings: Iterable[str], ceiling: int) -> None:
        self._pieces: list[bytes] = []
        self._stages: list[DecompressionStage] = []
        sink: Callable[[bytes], None] = self._pieces.append
        for coding in codings:
            stage = STAGES[coding](BoundedOutput(sink, ceiling))
            self._stages.append(stage)
            sink = stage.feed
        self._feed = sink

    @property
    def decoded_bytes(self) -> int:
        """How many bytes have come out so far."""
        return self._stages[0].outlet.produced if self._stages else sum(map(len, self._pieces))

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the body.

        Raises
        ------
        FetchError
            Of kind ``decode``, when the bytes are not what the codings say; ``too_large``, when
            more comes out than the ceiling allows.
        """
        with _damage_explained():
            self._feed(data)

    def finish(self) -> bytes:
        """Give the whole decoded body.

        Raises
        ------
        FetchError
            Of kind ``decode``, when a compressed stream ended early.
        """
        with _damage_explained():
            complete = all(stage.is_complete() for stage in reversed(self._stages))
        if not complete:
            raise FetchError("decode", "The compressed body ends before its end mark.")
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)


def content_codings(values: Iterable[str]) -> tuple[str, ...]:
    """Read the Content-Encoding header lines of a response.

    Raises
    ------
    FetchError
        Of kind ``decode``, when a coding is unknown or there are absurdly many.

    Examples
    --------
    >>> content_codings(["x-gzip, br"])
    ('gzip', 'br')
    """
    named = [name.strip().lower() for value in values for name in value.split(",")]
    codings = tuple(_ALIASES.get(name, name) for name in named if name not in _NO_CODING)
    for coding in codings:
        if coding not in STAGES:
            raise FetchError("decode", f"The body has the unknown content coding {coding[:40]!r}.")
    if len(codings) > _MAX_CODINGS:
        raise FetchError("decode", f"The body is compressed more than {_MAX_CODINGS} times over.")
    return codings


@contextmanager
def _damage_explained() -> Iterator[None]:
    try:
        yield
    except DAMAGE as exc:
        raise FetchError("decode", f"The compressed body is damaged ({exc}).") from exc
