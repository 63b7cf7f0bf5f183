"""Clients that take their time, against a service that runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import httpx
import pytest

from tests.shell import TIMEOUT_S, Shell
from webdata_nb.service.http.connections import HEADERS_TIMEOUT_S, MAX_HEADER_BYTES

pytestmark = pytest.mark.slow

SLOW = 800
PACE_S = 0.5


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(tmp_path_factory.mktemp("slow"))


@pytest.fixture(scope="module")
def key(shell: Shell) -> str:
    return shell.run("keys", "create", "--name", "alice").stdout.strip()


@pytest.fixture(scope="module")
def port(shell: Shell) -> Iterator[int]:
    with shell.start("serve", "--mode", "team", "--port", "0") as process:
        try:
            assert process.stderr is not None
            said = next(line for line in process.stderr if "serves http://" in line)
            yield int(said.rsplit(":", 1)[1])
        finally:
            process.terminate()
            process.communicate(timeout=TIMEOUT_S)


@asynccontextmanager
async def connected(
    port: int,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def dripping(port: int, first: bytes) -> tuple[float, bytes]:
    """Send a byte of a header now and then; return how long that went on, and the answer."""
    async with connected(port) as (reader, writer):
        began = time.monotonic()
        writer.write(first)
        answer = asyncio.ensure_future(reader.read())
        while not answer.done():
            with suppress(OSError):
                writer.write(b"x")
            await asyncio.wait([answer], timeout=PACE_S)
        said = b"" if answer.exception() else answer.result()
        return time.monotonic() - began, said


async def test_800_slow_headers_are_closed_while_others_are_served(port: int) -> None:
    async def count_normal_replies(until: asyncio.Event) -> int:
        """Ask as any client does, and count the answers."""
        answered = 0
        async with httpx.AsyncClient(trust_env=False, timeout=TIMEOUT_S) as client:
            while not until.is_set():
                answer = await client.get(f"http://127.0.0.1:{port}/healthz")
                assert answer.status_code == 200
                answered += 1
                await asyncio.sleep(0.05)
        return answered

    over = asyncio.Event()
    serving = asyncio.create_task(count_normal_replies(over))
    async with asyncio.timeout(TIMEOUT_S):
        ends = await asyncio.gather(
            *[dripping(port, b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: ") for _ in range(SLOW)]
        )
    over.set()
    assert await serving > HEADERS_TIMEOUT_S  # more than one a second, all the while
    assert [said for _, said in ends if said and b"408" not in said.split(b"\r\n")[0]] == []
    assert min(seconds for seconds, _ in ends) > HEADERS_TIMEOUT_S / 2


async def silent(port: int) -> bytes:
    async with connected(port) as (reader, _):
        return await reader.read()


async def slow_second_request(port: int) -> bytes:
    async with connected(port) as (reader, writer):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b'{"status":"ok"}')
        writer.write(b"GET /hea")
        return await reader.read()


async def slow_body(port: int, key: str) -> bytes:
    head = (
        "POST /v1/crawl HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {key}\r\nContent-Length: 100000\r\n\r\n{{"
    )
    _, said = await dripping(port, head.encode())
    return said


async def test_silence_a_slow_second_request_and_slow_bodies_are_closed_too(
    port: int, key: str
) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        *answers, refused = await asyncio.gather(
            silent(port), slow_second_request(port), slow_body(port, key), slow_body(port, "none")
        )
    for answer in answers:
        assert answer.startswith(b"HTTP/1.1 408 "), answer
        assert b'{"detail":' in answer
    assert refused.startswith(b"HTTP/1.1 401 ")


async def test_what_is_no_http_is_told_so_in_the_documented_shape(port: int) -> None:
    for garbage in (b"\x16\x03\x01\x02\x00\x01", b"hello\r\n\r\n"):
        async with connected(port) as (reader, writer), asyncio.timeout(TIMEOUT_S):
            writer.write(garbage)
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 400 "), answer
        assert answer.endswith(b'{"detail":"not a valid HTTP request"}')


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("GET {path} HTTP/1.1\r\n", b"400"),
        ("GET {path} HTTP/1.1\r\nHost: a\r\nHost: b\r\n", b"400"),
        ("GET {path} HTTP/1.0\r\n", b"200"),
        ("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n", b"200"),
    ],
)
@pytest.mark.parametrize("path", ["/healthz", "/v1/jobs"])
async def test_http_1_1_needs_one_host(
    port: int, key: str, head: str, status: bytes, path: str
) -> None:
    request = f"{head.format(path=path)}Authorization: Bearer {key}\r\n\r\n"
    async with connected(port) as (reader, writer):
        writer.write(request.encode())
        async with asyncio.timeout(TIMEOUT_S):
            answer = await reader.read()
    assert answer.split(b" ", 2)[1] == status, answer
    assert status == b"200" or b'"detail":"an HTTP/1.1 request needs one Host header"' in answer


async def test_headers_without_end_are_refused(port: int) -> None:
    partial_head = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: "
    async with connected(port) as (reader, writer), asyncio.timeout(TIMEOUT_S):
        writer.write(partial_head.ljust(MAX_HEADER_BYTES + 1, b"x"))
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 431 "), answer
    assert b'{"detail":' in answer


async def test_a_long_body_behind_an_early_answer_is_no_header(port: int) -> None:
    head = (
        "POST /v1/crawl HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer none\r\nContent-Length: {4 * MAX_HEADER_BYTES}\r\n\r\n"
    )
    async with connected(port) as (reader, writer), asyncio.timeout(TIMEOUT_S):
        writer.write(head.encode())
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 401 ")
        writer.write(b" " * 4 * MAX_HEADER_BYTES + b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200 ")
