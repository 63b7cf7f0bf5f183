"""Heads of responses that browsers accept are read; ambiguous ones are not."""

from __future__ import annotations

import asyncio

import pytest

from tests.service.web.wire import WireServer
from webdata_nb.page.errors import FetchError
from webdata_nb.service.web.fetch import Fetcher, FetchRequest
from webdata_nb.service.web.response_reader import repair_head

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
