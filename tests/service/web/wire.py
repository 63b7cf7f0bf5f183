"""A server that says exactly the bytes a test wants, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tests.sockets import reset_on_close

Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class WireServer:
    """Answers by path; an answer is bytes, or a function that writes to the connection."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self.answers: dict[str, Answer | list[Answer]] = {}
        self.requests: list[ReceivedRequest] = []
        self.connections = 0
        self._tls = tls
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()

    def url(self, path: str = "/", *, host: str = "127.0.0.1") -> str:
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}{path}"

    def page(self, path: str, body: bytes, *headers: str, status: str = "200 OK") -> str:
        """Answer this path with a page; give its URL."""
        self.answers[path] = page(body, *headers, status=status)
        return self.url(path)

    def redirect(self, path: str, to: str, *headers: str, status: str = "302 Found") -> str:
        """Answer this path with a redirect; give its URL."""
        self.answers[path] = page(b"", f"Location: {to}", *headers, status=status)
        return self.url(path)

    @property
    def last(self) -> ReceivedRequest:
        return self.requests[-1]

    def paths(self) -> list[str]:
        return [one.target for one in self.requests]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while not writer.is_closing():
                request = await _read_request(reader)
                self.requests.append(request)
                await self._say(self._answer(request.target), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    def _answer(self, target: str) -> Answer:
        found = self.answers.get(target.partition("?")[0], page(b"", status="404 Not Found"))
        if isinstance(found, list):
            return found.pop(0) if len(found) > 1 else found[0]
        return found

    async def _say(self, answer: Answer, writer: asyncio.StreamWriter) -> None:
        if isinstance(answer, bytes):
            writer.write(answer)
            await writer.drain()
        else:
            await answer(writer)


async def _read_request(reader: asyncio.StreamReader) -> ReceivedRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head[:-4].split("\r\n")
    method, target, _ = first.split(" ")
    pairs = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return ReceivedRequest(method, target, headers, body)


def page(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines: Sequence[str] = (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers)
    return "\r\n".join((*lines, "", "")).encode() + body


def then_close(data: bytes) -> Answer:
    """Say this and end the connection."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        writer.close()

    return answer


def then_reset(data: bytes) -> Answer:
    """Say this and break the connection off (RST)."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        reset_on_close(writer.get_extra_info("socket"))
        writer.transport.abort()

    return answer


def then_hang(data: bytes) -> Answer:
    """Say this and nothing more, keeping the connection open."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        await asyncio.Event().wait()

    return answer
