from __future__ import annotations

import gzip
import socket
import zlib
from typing import TYPE_CHECKING

import aiohttp
import brotli  # type: ignore[import-untyped] # it ships no types
import pytest

from tests.site import faults
from tests.site.document import document
from tests.site.zstd import zstd

if TYPE_CHECKING:
    from tests.site.faults import Coding, Place
    from tests.site.server import Site

SIZE = 1 << 20


def received(site: Site, path: str) -> bytes:
    """Read what one plain request gets, to the end of the connection."""
    with socket.create_connection(("127.0.0.1", site.port), timeout=60) as connection:
        request = f"GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
        connection.sendall(request.encode())
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


@pytest.mark.parametrize("place", faults.PLACES)
async def test_no_cut_answer_passes_for_a_whole_one(site: Site, place: Place) -> None:
    url = site.page("/cut", faults.cut(place))
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            async with session.get(url) as answer:
                await answer.read()
    assert len(site.hits("/cut")) >= 1


@pytest.mark.parametrize(
    ("place", "end"),
    [
        ("start", b""),
        ("status", b"HTTP/1.1 "),
        ("header", b"text/html; chars"),
        ("last_chunk", b"</html>\n\r\n"),
        ("length", b"</html>\n"),
    ],
)
def test_cuts_fall_where_they_are_named(site: Site, place: Place, end: bytes) -> None:
    site.page("/cut", faults.cut(place))
    data = received(site, "/cut")
    assert data.endswith(end)
    assert bool(data) == bool(end)


def test_a_reset_is_a_reset(site: Site) -> None:
    site.page("/cut", faults.cut("start", reset=True))
    with pytest.raises(ConnectionResetError):
        received(site, "/cut")


def test_a_drip_arrives_whole(site: Site) -> None:
    site.page("/drip", faults.drip(b"slow water", interval=0.001, size=3))
    assert received(site, "/drip").endswith(b"\r\n\r\nslow water")


@pytest.mark.parametrize("declared", [True, False])
def test_a_huge_page_is_as_large_as_asked(site: Site, *, declared: bool) -> None:
    site.page("/huge", faults.huge(SIZE, declared=declared))
    data = received(site, "/huge")
    assert len(data) > SIZE
    assert (b"Content-Length" in data[:300]) is declared


@pytest.mark.parametrize("coding", faults.CODINGS)
def test_a_bomb_is_small_and_decodes_to_its_size(site: Site, coding: Coding) -> None:
    site.page("/bomb", faults.bomb(SIZE, coding=coding))
    head, _, body = received(site, "/bomb").partition(b"\r\n\r\n")
    assert f"Content-Encoding: {coding}".encode() in head
    assert len(body) < SIZE // 100
    unpack = {
        "gzip": gzip.decompress,
        "deflate": zlib.decompress,
        "br": brotli.decompress,
        "zstd": zstd.decompress,
    }[coding]
    assert len(unpack(body)) == pytest.approx(SIZE, abs=100)


def test_a_wrong_charset_is_declared(site: Site) -> None:
    site.page("/wrong", faults.mislabelled("zażółć", declared="utf-8", actual="iso-8859-2"))
    data = received(site, "/wrong")
    assert b"charset=utf-8" in data
    assert data.endswith("zażółć".encode("iso-8859-2"))


async def test_retry_after_ends(site: Site) -> None:
    url = site.page("/busy", faults.retry_after("7", times=2, then=document("Through")))
    async with aiohttp.ClientSession() as session:
        answers = []
        for _ in range(4):
            async with session.get(url) as answer:
                answers.append((answer.status, answer.headers.get("Retry-After")))
    assert answers == [(429, "7"), (429, "7"), (200, None), (200, None)]


async def test_a_counted_page_knows_its_number(site: Site) -> None:
    url = site.page("/count", faults.counted(lambda number: f"visit {number}"))
    async with aiohttp.ClientSession() as session:
        texts = [await (await session.get(url)).text() for _ in range(2)]
    assert texts == ["visit 1", "visit 2"]
