"""Many small sites on one port: each has an address of the loopback network of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

_START_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class SmallPage:
    """A page of a small site."""

    body: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class ManySites:
    """The pages of all sites, by host and path, and the port on which they are served."""

    pages: dict[tuple[str, str], SmallPage] = field(default_factory=dict)
    requested: set[tuple[str, str]] = field(default_factory=set)
    port: int = 0

    def url(self, host: str, path: str = "/") -> str:
        """Return the URL of a page."""
        return f"http://{host}:{self.port}{path}"

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """Answer one request."""
        key = (request.host.partition(":")[0], request.path)
        self.requested.add(key)
        page = self.pages.get(key)
        if page is None:
            return web.Response(status=404)
        headers = {"Content-Type": "text/html; charset=utf-8", **page.headers}
        return web.Response(text=None, body=page.body.encode(), headers=headers)


def host_of(number: int) -> str:
    """Return the address of a site, up to 65,000 of them."""
    return f"127.77.{number // 250}.{number % 250 + 1}"


@contextmanager
def many_sites() -> Iterator[ManySites]:
    """Serve sites whose pages the test sets, on all addresses of this machine."""
    sites, ready = ManySites(), Future[Callable[[], None]]()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(sites, ready)), daemon=True)
    thread.start()
    stop = ready.result(_START_S)
    try:
        yield sites
    finally:
        stop()
        thread.join()


async def _serve(sites: ManySites, ready: Future[Callable[[], None]]) -> None:
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    runner = web.ServerRunner(web.Server(sites.handle))
    await runner.setup()
    server = web.TCPSite(runner, "0.0.0.0", 0, backlog=512)
    await server.start()
    [address] = runner.addresses
    sites.port = address[1]

    def stop() -> None:
        loop.call_soon_threadsafe(stopping.set)

    ready.set_result(stop)
    await stopping.wait()
    await runner.cleanup()
