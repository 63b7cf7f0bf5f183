"""The process around a service: its socket, its server, its signals, its memory, its end."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, cast

import uvicorn
from prometheus_client import CollectorRegistry, start_http_server
from starlette.types import ASGIApp

from webdata_nb.service.http.connections import Admission, Connections

log = logging.getLogger("webdata_nb.service")

# How long replies under way may take when the service stops; jobs go on after the next start.
GRACE_S: Final = 3
# How long a stop may take in all, with two seconds to spare for a slow machine.
END_S: Final = 8.0
# glibc's M_ARENA_MAX, M_TRIM_THRESHOLD and M_MMAP_THRESHOLD (malloc.h).
_MALLOC: Final = {-8: 2, -1: 8 * 1024 * 1024, -3: 256 * 1024}
# When Python looks for cycles: a crawl makes objects by the thousand, and by default the looks took
# a tenth of the loop's time.
COLLECTOR: Final = (10_000, 20, 50)
# Seconds that a thread runs before another gets its turn. The loop may wait as long for a thread
# that computes whenever it reads or writes a socket, several times a request; Python's own value is
# 5 ms.
SWITCH_S: Final = 0.001


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Made with IPPROTO_TCP, because asyncio sets TCP_NODELAY on such sockets alone: without it
    each reply waits some 40 ms for an acknowledgement.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if os.name == "posix":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((host, port))
    sock.listen(128)
    sock.set_inheritable(False)
    return sock


class Server(uvicorn.Server):
    """A server that leaves signals to `signals`: there is more to close than sockets."""

    def __init__(self, app: ASGIApp, connections: Connections) -> None:
        super().__init__(
            uvicorn.Config(
                Admission(app, connections),
                # uvicorn calls it as it would the class.
                http=cast("type[asyncio.Protocol]", connections.protocol),
                proxy_headers=False,
                ws="none",
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                timeout_graceful_shutdown=GRACE_S,
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Change nothing."""
        yield


@contextmanager
def measured(at: tuple[str, int] | None, registry: CollectorRegistry) -> Iterator[None]:
    """Show the metrics at an address of their own, to whoever can reach it."""
    if at is None:
        yield
        return
    host, port = at
    server, thread = start_http_server(port, host, registry)
    log.info("metrics at http://%s:%d/metrics", host, server.server_port)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def signals(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> Iterator[None]:
    """Turn the signals that ask a process to end into a graceful stop."""

    def ask(_number: int, _frame: object) -> None:
        loop.call_soon_threadsafe(stopping.set)

    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def bounded_end() -> Iterator[Callable[[], None]]:
    """Give what is called when a stop begins: from then on the process ends in time.

    A thread that never returns would keep it for ever. Nothing is lost by an end without its
    ceremony: what is answered is on disk, as it must be for a process that the kernel kills.
    """
    timer = threading.Timer(END_S, _end_now)
    timer.daemon = True
    try:
        yield timer.start
    finally:
        timer.cancel()


def _end_now() -> None:
    log.warning("not everything ended within %g s; jobs go on after the next start", END_S)
    logging.shutdown()
    os._exit(0)


def give_memory_back() -> None:
    """Have the C library return what rows and pages leave behind.

    By itself glibc keeps an arena for each thread, and learns from large buffers to keep ever
    more of them: a service that has passed on a thousand pages then holds half as much again.
    """
    if not sys.platform.startswith("linux"):
        return
    with suppress(OSError, AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in _MALLOC.items():
            mallopt(option, value)
