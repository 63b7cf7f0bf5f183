"""Heads of responses that browsers accept, and the content codings of bodies."""

from __future__ import annotations

import asyncio
import gzip
import os
import random
import tracemalloc
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import brotli  # type: ignore[import-untyped]
import pytest

from tests.service.web.decompression_bombs import BOMBS, MIB
from tests.service.web.wire import WireServer
from tests.site.zstd import zstd
from webdata_nb.page.errors import FetchError
from webdata_nb.service.web.fetch import Fetcher, FetchRequest
from webdata_nb.service.web.response_reader import (
    ContentDecoder,
    parse_content_codings,
    repair_head,
)

SLACK = 64 * 1024


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def zstd_stream(data: bytes) -> bytes:
    packer = zstd.ZstdCompressor()
    return packer.compress(data) + packer.flush()


def quick_brotli(data: bytes) -> bytes:
    packed: bytes = brotli.compress(data, quality=4)
    return packed


PACKERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "raw deflate": ("deflate", raw_deflate),
    "br": ("br", quick_brotli),
    "zstd": ("zstd", zstd.compress),
    "zstd of unknown size": ("zstd", zstd_stream),
}
ALL_PACKERS = pytest.mark.parametrize("packer", PACKERS)
SIZES = (0, 1, 100, 32_751, 32_752, 32_753, 65_535, 65_536, 65_537, 131_072, 131_073, 400_000)


def text_of(size: int) -> bytes:
    """Bytes that compress about as well as a page does."""
    chance = random.Random(size)
    return bytes(chance.choices(b"etaoin shrdlu<>", k=size))


def decode(codings: Iterable[str], body: bytes, *, step: int = 16_384, ceiling: int = MIB) -> bytes:
    decoder = ContentDecoder(codings, ceiling)
    for start in range(0, len(body), step):
        decoder.feed(body[start : start + step])
    return decoder.finish()


def feed_all(decoder: ContentDecoder, pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        decoder.feed(piece)


def failure(codings: Iterable[str], body: bytes, **limits: int) -> str:
    with pytest.raises(FetchError) as caught:
        decode(codings, body, **limits)
    return caught.value.kind


@ALL_PACKERS
@pytest.mark.parametrize("size", SIZES)
def test_every_coding_is_decoded(packer: str, size: int) -> None:
    coding, pack = PACKERS[packer]
    data = text_of(size)
    assert decode([coding], pack(data)) == data


@ALL_PACKERS
def test_single_bytes_are_decoded(packer: str) -> None:
    coding, pack = PACKERS[packer]
    data = text_of(5_000)
    assert decode([coding], pack(data), step=1) == data


@ALL_PACKERS
def test_truncation_is_detected(packer: str) -> None:
    coding, pack = PACKERS[packer]
    for data in (b"", b"a", text_of(200), os.urandom(200), bytes(300), text_of(70_000)):
        packed = pack(data)
        places = range(1, len(packed), 1 if len(packed) < 1000 else 997)
        for end in (*places, len(packed) - 1):
            assert failure([coding], packed[:end]) == "decode", end


@ALL_PACKERS
def test_damage_is_detected(packer: str) -> None:
    coding, _ = PACKERS[packer]
    assert failure([coding], b"\xff\xfe<html>this was never compressed</html>" * 20) == "decode"


@ALL_PACKERS
def test_limit_is_exact(packer: str) -> None:
    coding, pack = PACKERS[packer]
    packed = pack(text_of(100_000))
    assert len(decode([coding], packed, ceiling=100_000)) == 100_000
    assert failure([coding], packed, ceiling=99_999) == "too_large"


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("ceiling", [1_000_000, 20 * MIB])
def test_bomb_stops_at_limit(name: str, ceiling: int) -> None:
    coding, pieces = BOMBS[name]
    bomb = pieces()
    decoder = ContentDecoder([coding], ceiling)
    tracemalloc.start()
    try:
        with pytest.raises(FetchError) as caught:
            feed_all(decoder, bomb)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.kind == "too_large"
    assert decoder.decoded_bytes <= ceiling + SLACK
    assert peak < ceiling + 8 * MIB


def test_bomb_inside_another_coding_stops_at_limit() -> None:
    bomb = b"".join(BOMBS["gzip"][1]())
    twice = gzip.compress(gzip.compress(bomb))
    assert failure(["gzip", "gzip", "gzip"], twice, ceiling=MIB) == "too_large"


def test_bombs_of_the_corpus(corpora: Path) -> None:
    for coding in ("br", "deflate", "gzip", "zstd"):
        bomb = (corpora / "compressed" / f"bomb-{coding}.bin").read_bytes()
        assert failure([coding], bomb, ceiling=1_000_000) == "too_large"
        assert len(decode([coding], bomb, ceiling=20 * MIB)) == 11_511_612


@pytest.mark.parametrize(
    ("name", "codings"),
    [
        ("br", ["br"]),
        ("gzip", ["gzip"]),
        ("zlibdeflate", ["deflate"]),
        ("rawdeflate", ["deflate"]),
        ("zstd-static-content-size", ["zstd"]),
        ("zstd-static-no-content-size", ["zstd"]),
        ("zstd-streaming-no-content-size", ["zstd"]),
        ("gzip-deflate", ["gzip", "deflate"]),
        ("gzip-deflate-gzip", ["gzip", "deflate", "gzip"]),
    ],
)
def test_pages_of_the_corpus(corpora: Path, name: str, codings: list[str]) -> None:
    page = decode(codings, (corpora / "compressed" / f"html-{name}.bin").read_bytes())
    assert b"<html" in page
    assert page.rstrip().endswith(b"</html>")


@pytest.mark.parametrize(
    "name", ["truncated-crc-error.gz", "truncated-crc-error-short.gz", "unexpected-eof.gz"]
)
def test_truncated_gzip_of_the_corpus(corpora: Path, name: str) -> None:
    assert failure(["gzip"], (corpora / "compressed" / name).read_bytes()) == "decode"


def test_chained_codings_are_decoded_in_reverse() -> None:
    data = text_of(50_000)
    packed = zstd.compress(quick_brotli(zlib.compress(data)))
    assert decode(["deflate", "br", "zstd"], packed) == data


def test_gzip_with_several_members() -> None:
    members = [gzip.compress(text_of(size)) for size in (10, 0, 70_000)]
    assert decode(["gzip"], b"".join(members), step=7) == text_of(10) + text_of(70_000)


@pytest.mark.parametrize("padding", [b"\0" * 100, b"\x1f", b"trailing words"])
@pytest.mark.parametrize("step", [1, 16_384])
def test_bytes_after_last_gzip_member_are_ignored(padding: bytes, step: int) -> None:
    assert decode(["gzip"], gzip.compress(b"page") + padding, step=step) == b"page"


def test_bytes_after_deflate_stream_are_ignored() -> None:
    assert decode(["deflate"], zlib.compress(b"page") + b"\0\0") == b"page"


def test_zstd_with_several_frames() -> None:
    pack = zstd.compress
    frames = [pack(text_of(size)) for size in (10, 0, 200_000)]
    assert decode(["zstd"], b"".join(frames)) == text_of(10) + text_of(200_000)


def test_zstd_window_larger_than_in_browsers_fails() -> None:
    packer = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 27})
    assert failure(["zstd"], packer.compress(b"page") + packer.flush()) == "decode"


def test_flood_of_empty_zstd_frames_fails() -> None:
    assert failure(["zstd"], zstd.compress(b"") * 2000) == "decode"


@pytest.mark.parametrize("step", [1, 5, 16_384])
def test_zstd_skippable_frames_are_ignored(step: int) -> None:
    skippable = b"\x50\x2a\x4d\x18\x04\x00\x00\x00meta"
    packed = skippable + zstd.compress(text_of(1000)) + skippable
    assert decode(["zstd"], packed, step=step) == text_of(1000)


def test_flood_of_empty_gzip_members_fails() -> None:
    assert failure(["gzip"], gzip.compress(b"") * 2000) == "decode"


@pytest.mark.parametrize(
    ("lines", "codings"),
    [
        ([], ()),
        (["gzip"], ("gzip",)),
        (["GZIP"], ("gzip",)),
        (["x-gzip"], ("gzip",)),
        (["identity"], ()),
        ([""], ()),
        (["gzip, br"], ("gzip", "br")),
        (["gzip", "br"], ("gzip", "br")),
        ([" gzip ,, identity ,br"], ("gzip", "br")),
        (["none"], ()),
        (["binary"], ()),
        (["UTF-8"], ()),
        (["iso-8859-1"], ()),
        (["utf-8, gzip"], ("gzip",)),
        (["gzip,aws-chunked"], ("gzip",)),
    ],
)
def test_content_codings(lines: list[str], codings: tuple[str, ...]) -> None:
    assert parse_content_codings(lines) == codings


@pytest.mark.parametrize("lines", [["compress"], ["gzip, dcb"], ["sdch"], ["gzip," * 6]])
def test_unknown_codings_fail(lines: list[str]) -> None:
    with pytest.raises(FetchError) as caught:
        parse_content_codings(lines)
    assert caught.value.kind == "decode"


def test_decoder_without_codings_returns_body() -> None:
    decoder = ContentDecoder([], 10)
    decoder.feed(b"pa")
    decoder.feed(b"ge")
    assert decoder.decoded_bytes == 4
    assert decoder.finish() == b"page"


OK = b"HTTP/1.1 200 OK\r\n"
BODY = b"here"
LENGTH = b"Content-Length: 4\r\n"


@pytest.mark.parametrize(
    ("head", "repaired"),
    [
        (b"X-Stash : 1\r\n", b"X-Stash: 1\r\n"),
        (b"X \t: 1\r\n", b"X: 1\r\n"),
        (b'"X-XSS: 0"\r\nA: b\r\n', b"A: b\r\n"),
        (b"junk\r\n continued\r\nA: b\r\n more\r\n", b"A: b\r\n more\r\n"),
        (b": no name\r\nA: b\r\n", b"A: b\r\n"),
        (LENGTH + b"content-length:4\r\n", LENGTH),
        (b"Set-Cookie: a=1\r\nSet-Cookie: a=1\r\n", b"Set-Cookie: a=1\r\nSet-Cookie: a=1\r\n"),
        (b"A:\r\nB: \xe9\r\n", b"A:\r\nB: \xe9\r\n"),
    ],
)
def test_repairs(head: bytes, repaired: bytes) -> None:
    assert repair_head(OK + head + b"\r\n") == OK + repaired + b"\r\n"


def test_lengths_that_differ_are_left_to_the_parser() -> None:
    head = OK + LENGTH + b"Content-Length: 5\r\n\r\n"
    assert repair_head(head) == head


@pytest.mark.parametrize(
    "head",
    [
        LENGTH + b"X-Stash : 1\r\n",
        LENGTH + b'"junk"\r\n',
        LENGTH + LENGTH,
        b"Content-Length : 4\r\n",
        LENGTH.replace(b"\r\n", b"\n"),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_pages_with_such_heads_are_read(
    server: WireServer, fetcher: Fetcher, head: bytes, size: int
) -> None:
    data = OK + head + b"\r\n" + BODY

    async def in_pieces(writer: asyncio.StreamWriter) -> None:
        for start in range(0, len(data), size):
            writer.write(data[start : start + size])
            await writer.drain()
            await asyncio.sleep(0)

    server.answers["/"] = in_pieces
    for _ in range(2):
        fetched = await fetcher.fetch(FetchRequest(server.url("/")))
        assert (fetched.status, fetched.body) == (200, BODY)


async def test_informational_responses_come_before(server: WireServer, fetcher: Fetcher) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink : </a.css>\r\n\r\n"
    server.answers["/"] = early + early + OK + LENGTH + b"junk\r\n\r\n" + BODY
    assert (await fetcher.fetch(FetchRequest(server.url("/")))).body == BODY


@pytest.mark.parametrize(
    "head",
    [LENGTH + b"Content-Length: 5\r\n", b"Content-Length: 4, 5\r\n", b"Content-Length: x\r\n"],
)
async def test_ambiguous_lengths_fail(server: WireServer, fetcher: Fetcher, head: bytes) -> None:
    server.answers["/"] = OK + head + b"\r\n" + BODY
    with pytest.raises(FetchError, match="not valid HTTP"):
        await fetcher.fetch(FetchRequest(server.url("/")))
