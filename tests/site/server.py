"""A real web server for tests: pages set by the test, faults on demand, every request recorded."""

from __future__ import annotations

import asyncio
import inspect
import random
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from aiohttp import web

if TYPE_CHECKING:
    from types import TracebackType

Answer: TypeAlias = web.StreamResponse | str | bytes
Handler: TypeAlias = Callable[[web.BaseRequest], Answer | Awaitable[Answer]]
Content: TypeAlias = str | bytes | Handler

_HOST: Final = "127.0.0.1"
_HTML: Final = "text/html; charset=utf-8"
_ROBOTS: Final = "/robots.txt"
_START_SECONDS: Final = 60.0
_PATIENCE: Final = 0.02  # seconds for handlers to end; aiohttp reads 0 as "for ever"
_BACKLOG: Final = 128
_ACCEPT_STEPS: Final = 5  # of the event loop, from an accepted connection to its handler


@dataclass(frozen=True, slots=True)
class Hit:
    """One request as it arrived; `path` holds the query, `time` is time.monotonic()."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    time: float
    peer: int


@dataclass(frozen=True, slots=True)
class Page:
    """What a path answers; status and headers apply to text, a handler may set its own."""

    content: Content
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0


class Site:
    """A web site on loopback, in its own thread and event loop.

    Parameters
    ----------
    seed
        Decides the latency and the transient failures, per path and not per time.
    latency
        Longest extra wait before an answer, in seconds; each request draws its own. Can be set.
    fault_rate
        Share of the paths whose first request gets a 503; robots.txt never does.
    host
        An address of this machine, for a site that another network namespace reaches.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        latency: float = 0.0,
        fault_rate: float = 0.0,
        host: str = _HOST,
    ) -> None:
        self._seed, self._fault_rate, self._host = seed, fault_rate, host
        self.latency = latency
        self._pages: dict[str, Page] = {}
        self._prefixes: dict[str, Page] = {}
        self._gates: dict[str, asyncio.Event] = {}
        self._hits: list[Hit] = []
        self._seen: Counter[str] = Counter()
        self._active = self._peak = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._port = 0

    @property
    def port(self) -> int:
        """Port on which the site listens."""
        return self._port

    @property
    def url(self) -> str:
        """Address of the path ``/``, with its slash."""
        return self.at("/")

    def at(self, path: str, *, host: str | None = None) -> str:
        """Return the absolute URL of a path; `host` may be another name of loopback."""
        return f"http://{host or self._host}:{self._port}{path}"

    def page(
        self,
        path: str,
        content: Content = "",
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        delay: float = 0.0,
    ) -> str:
        """Set what a path (or a path with its query) answers, and return its URL.

        `content` is a body, or a function of the request (plain or async) that returns a body or
        an aiohttp response. `delay` is in seconds. A path with a query goes before the bare one.
        """
        self._pages[path] = Page(content, status, headers or {}, delay)
        return self.at(path)

    def under(self, prefix: str, content: Content, *, status: int = 200) -> None:
        """Set what every path answers that starts with `prefix` and has no page of its own."""
        self._prefixes[prefix] = Page(content, status)

    def redirect(self, path: str, to: str, *, status: int = 302) -> str:
        """Let a path redirect, and return its URL."""
        return self.page(path, status=status, headers={"Location": to})

    def robots(self, text: str, *, status: int = 200) -> None:
        """Set robots.txt; without this call it is a 404."""
        self.page(_ROBOTS, text, status=status, headers={"Content-Type": "text/plain"})

    def hold(self, path: str) -> Gate:
        """Let requests for a path (as sent, with its query) wait until the gate is released."""
        event = self._gates[path] = asyncio.Event()
        return Gate(lambda: self._call(event.set))

    @property
    def requests(self) -> tuple[Hit, ...]:
        """Every request so far, in order of arrival."""
        with self._changed:
            return tuple(self._hits)

    @property
    def paths(self) -> tuple[str, ...]:
        """Path and query of every request so far, robots.txt left out."""
        return tuple(hit.path for hit in self.requests if hit.path != _ROBOTS)

    @property
    def peak(self) -> int:
        """Most requests that were being answered at one time."""
        with self._changed:
            return self._peak

    def hits(self, path: str) -> tuple[Hit, ...]:
        """Return the requests for one path, given as it was sent."""
        return tuple(hit for hit in self.requests if hit.path == path)

    def forget(self) -> None:
        """Drop the record of requests; pages, and what is transient, stay as they are."""
        with self._changed:
            self._hits.clear()
            self._peak = self._active

    def wait_for(self, path: str, count: int = 1, *, timeout: float = 60.0) -> tuple[Hit, ...]:
        """Wait until a path was requested `count` times, and return those requests.

        Raises
        ------
        TimeoutError
            It was not, within `timeout` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._seen[path] >= count, timeout):
                raise TimeoutError(f"{path} was requested {self._seen[path]} times, not {count}")
        return self.hits(path)

    def is_transient(self, path: str) -> bool:
        """Say whether the first request for a path gets a 503."""
        return path != _ROBOTS and self._draw("fault", path) < self._fault_rate

    def start(self) -> Self:
        """Listen on a port that the system chooses."""
        ready: Future[None] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(ready)), name="test-site", daemon=True
        )
        self._thread.start()
        ready.result(_START_SECONDS)
        return self

    def close(self) -> None:
        """Stop listening, drop every connection and wait for the thread; may be called twice."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._call(self._stopping.set)
            thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _call(self, action: Callable[[], None]) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(action)

    async def _serve(self, ready: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        server = web.Server(self._handle, access_log=None, max_line_size=65536)
        runner = web.ServerRunner(server, shutdown_timeout=_PATIENCE)
        try:
            await runner.setup()
            listener = await self._loop.create_server(server, self._host, 0, backlog=_BACKLOG)
        except BaseException as error:
            ready.set_exception(error)
            raise
        self._port = listener.sockets[0].getsockname()[1]
        ready.set_result(None)
        try:
            await self._stopping.wait()
        finally:
            await _stop_listening(listener)
            await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        visit = self._record(request, await request.content.read())
        try:
            return await self._answer(request, visit)
        finally:
            with self._changed:
                self._active -= 1

    def _record(self, request: web.BaseRequest, body: bytes) -> int:
        """Note a request, and return how many there were for its path, itself included."""
        peer = request.transport.get_extra_info("peername")[1] if request.transport else 0
        path = request.raw_path
        with self._changed:
            self._hits.append(
                Hit(request.method, path, request.headers, body, time.monotonic(), peer)
            )
            self._seen[path] += 1
            self._active += 1
            self._peak = max(self._peak, self._active)
            self._changed.notify_all()
            return self._seen[path]

    async def _answer(self, request: web.BaseRequest, visit: int) -> web.StreamResponse:
        path = request.raw_path
        page = self._find(path)
        wait = page.delay + self.latency * self._draw("latency", f"{path} {visit}")
        if wait:
            await asyncio.sleep(wait)
        gate = self._gates.get(path)
        if gate is not None:
            await gate.wait()
        if visit == 1 and self.is_transient(path):
            return web.Response(status=503, text="busy, try again")
        content = page.content(request) if callable(page.content) else page.content
        answer = await content if inspect.isawaitable(content) else content
        return answer if isinstance(answer, web.StreamResponse) else _response(page, answer)

    def _find(self, path: str) -> Page:
        bare = path.partition("?")[0]
        page = self._pages.get(path) or self._pages.get(bare)
        if page is not None:
            return page
        matching = [prefix for prefix in self._prefixes if path.startswith(prefix)]
        if matching:
            return self._prefixes[max(matching, key=len)]
        return Page("<!DOCTYPE html><title>Not found</title><h1>Not found</h1>", status=404)

    def _draw(self, purpose: str, path: str) -> float:
        return random.Random(f"{self._seed} {purpose} {path}").random()


async def _stop_listening(listener: asyncio.Server) -> None:
    """Close a listener, after connections that are accepted already have their handlers.

    On Python 3.11 others would leave their sockets open.
    """
    loop = asyncio.get_running_loop()
    for sock in listener.sockets:
        loop.remove_reader(sock.fileno())
    for _ in range(_ACCEPT_STEPS):
        await asyncio.sleep(0)
    listener.close()


class Gate:
    """Holds the requests for one path until `release`, or until its `with` block ends."""

    def __init__(self, release: Callable[[], None]) -> None:
        self.release = release

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def _response(page: Page, body: str | bytes) -> web.Response:
    data = body.encode() if isinstance(body, str) else body
    headers = {"Content-Type": _HTML, **page.headers}
    return web.Response(status=page.status, body=data, headers=headers)
