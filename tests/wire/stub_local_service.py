"""A stub of the local service of any version: it serves the control calls only.

    python -m tests.wire.stub_local_service DATA_DIR [--version V] [--wire N] [--token T] ...

It holds the lock, publishes, answers and exits like the real one.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import socket
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse

from webdata_nb.contract import local
from webdata_nb.service.local_lifetime import LocalLifetime
from webdata_nb.service.routes.application import HANDLERS
from webdata_nb.service.routes.local import routes

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

SCHEMA = 7


class BearerCheck:
    """The bearer check that the real service's gate makes."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app = app
        self.expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        authorization = dict(scope["headers"]).get(b"authorization", b"")
        known = hmac.compare_digest(authorization, self.expected)
        app = self.app if known else PlainTextResponse("who?", 401)
        await app(scope, receive, send)


class StubLocalService:
    """The service, to be served on a socket that listens."""

    def __init__(self, lifetime: LocalLifetime, *, jobs: int = 0, token: str | None = None) -> None:
        self.lifetime = lifetime
        self.jobs = jobs
        app = Starlette(
            routes=routes(lifetime, self.active_jobs, self.stop, SCHEMA, self.remove_site),
            exception_handlers=HANDLERS,
        )
        guarded_app = BearerCheck(app, token or lifetime.token)
        config = uvicorn.Config(guarded_app, log_level="warning", lifespan="off", access_log=False)
        self.server = uvicorn.Server(config)

    async def active_jobs(self) -> int:
        return self.jobs

    async def remove_site(self, url: str) -> int:
        raise AssertionError(url)

    def stop(self) -> None:
        self.server.should_exit = True

    async def serve(self, listening: socket.socket) -> None:
        """Serve until stopped, as the real service does: published, watched, let go of."""
        host, port = listening.getsockname()
        self.lifetime.acquire()
        try:
            self.lifetime.publish(f"http://{host}:{port}")
            async with asyncio.TaskGroup() as tasks:
                watch = tasks.create_task(self.lifetime.watch(self.active_jobs, self.stop))
                await self.server.serve(sockets=[listening])
                watch.cancel()
        finally:
            self.lifetime.close()


def listening_socket() -> socket.socket:
    """Return a loopback socket that listens on a free port."""
    return socket.create_server(("127.0.0.1", 0))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--version", default="0.1.0")
    parser.add_argument("--wire", type=int, default=local.WIRE)
    parser.add_argument("--token", help="accept this one instead of the published one")
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--managed", action="store_true")
    args = parser.parse_args()
    with mock.patch.object(local, "WIRE", args.wire):
        lifetime = LocalLifetime(
            args.data_dir, version=args.version, schema=SCHEMA, managed=args.managed
        )
        service = StubLocalService(lifetime, jobs=args.jobs, token=args.token)
        with listening_socket() as listening:
            asyncio.run(service.serve(listening))


if __name__ == "__main__":
    main()
