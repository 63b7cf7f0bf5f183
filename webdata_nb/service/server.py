"""The process of a service: socket, HTTP server, signals, memory settings, shutdown."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import orjson
import uvicorn
from prometheus_client import CollectorRegistry, make_wsgi_app
from starlette.types import ASGIApp

from webdata_nb import malloc
from webdata_nb.contract.paths import HEALTH
from webdata_nb.page.errors import ApplicationError
from webdata_nb.service.http.connections import AdmissionMiddleware, ConnectionLimiter
from webdata_nb.service.http.middleware import CancelledRequestMiddleware
from webdata_nb.service.runtime.process import configure_gc

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

log: Final = logging.getLogger("webdata_nb.service")

# How long open replies may take when the service stops; jobs continue after the next start.
REPLY_GRACE_S: Final = 3
# How long a shutdown may take; the promise is ten seconds.
SHUTDOWN_S: Final = 8.0
# For `gc.set_threshold`: a crawl creates objects by the thousand, and with Python's own thresholds
# the garbage collector took a tenth of the event loop's time.
GC_THRESHOLDS: Final = (10_000, 20, 50)
# For `sys.setswitchinterval`: the event loop may wait that long for a busy thread each time it
# uses a socket, several times a request. Python's own value is 5 ms.
SWITCH_INTERVAL_S: Final = 0.001
# How many requests for the metrics are answered at a time, and how long each may take.
METRICS_REQUESTS: Final = 16
METRICS_REQUEST_S: Final = 10.0


def tune_process() -> None:
    """Set allocator, garbage collector and thread switches for a process that runs jobs."""
    malloc.tune()
    configure_gc(*GC_THRESHOLDS)
    sys.setswitchinterval(SWITCH_INTERVAL_S)


class CannotListen(ApplicationError):
    """An address on which this process should listen is not available."""


def listen(host: str, port: int, *, option: str = "--port") -> socket.socket:
    """Return a listening socket.

    It has IPPROTO_TCP, because asyncio sets TCP_NODELAY on such sockets only: without it each reply
    waits some 40 ms for an acknowledgement.

    Parameters
    ----------
    host, port
        The address; port 0 is a free one.
    option
        The option that chooses another address.

    Raises
    ------
    CannotListen
        The address is in use, not permitted, or not one of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            if os.name == "posix":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port))
            sock.listen(128)
            sock.set_inheritable(False)
        except BaseException:
            sock.close()
            raise
    except OSError as error:
        reason = _listen_error(error, option)
        raise CannotListen(f"cannot listen on {netloc(host, port)}: {reason}") from None
    return sock


def netloc(host: str, port: int) -> str:
    """Return an address as URLs have it: with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _listen_error(error: OSError, option: str) -> str:
    """Return why an address cannot be listened on, and what to do."""
    if isinstance(error, socket.gaierror):
        return f"this machine cannot resolve the host name; {option} takes an address of its own"
    match error.errno:
        case errno.EADDRINUSE:
            return f"in use by another process; stop it, or choose another port with {option}"
        case errno.EACCES | errno.EPERM:
            return (
                "this user may not listen on that port (those below 1024 need the capability "
                f"CAP_NET_BIND_SERVICE); choose another one with {option}"
            )
        case errno.EADDRNOTAVAIL | errno.EAFNOSUPPORT:
            return f"this machine does not have that address; choose one that it has with {option}"
        case _:
            return f"{error.strerror or type(error).__name__}; {option} chooses another address"


class Server(uvicorn.Server):
    """A server that leaves signals to `stop_on_signals`: there is more to close than sockets."""

    def __init__(self, app: ASGIApp, connections: ConnectionLimiter) -> None:
        super().__init__(
            uvicorn.Config(
                CancelledRequestMiddleware(AdmissionMiddleware(app, connections)),
                # uvicorn calls it like a class.
                http=cast("type[asyncio.Protocol]", connections.protocol),
                proxy_headers=False,
                ws="none",
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                timeout_graceful_shutdown=REPLY_GRACE_S,
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Change nothing."""
        yield


def listen_for_metrics(at: tuple[str, int] | None) -> AbstractContextManager[socket.socket | None]:
    """Return the socket of `serve_metrics`, None without an address; raises `CannotListen`."""
    return nullcontext() if at is None else listen(*at, option="--metrics")


@contextmanager
def serve_metrics(
    sock: socket.socket | None, registry: CollectorRegistry, problem: Callable[[], str | None]
) -> Iterator[None]:
    """Serve metrics and a health check at their own address, without authentication.

    Parameters
    ----------
    sock
        A listening socket; None to serve nothing.
    registry
        The metrics at ``/metrics``.
    problem
        Returns why this process does not work, or None if it does, for ``/healthz``.
    """
    if sock is None:
        yield
        return
    server = _MetricsServer(sock, _metrics_app(registry, problem))
    thread = threading.Thread(target=server.serve_forever, name="webdata-metrics", daemon=True)
    thread.start()
    log.info("metrics at http://%s/metrics", netloc(*sock.getsockname()[:2]))
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _MetricsServer(ThreadingHTTPServer, WSGIServer):
    """An HTTP server with threads of its own: it answers while the event loop is blocked."""

    def __init__(self, sock: socket.socket, app: WSGIApplication) -> None:
        host, port = sock.getsockname()[:2]
        # The constructor makes a socket, too, and binding it looks up the name of the host.
        super().__init__((host, port), _MetricsRequest, bind_and_activate=False)
        self.socket.close()
        self.socket = sock
        self.server_name, self.server_port = host, port
        self.setup_environ()
        self.set_app(app)
        self._free = threading.BoundedSemaphore(METRICS_REQUESTS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request in a thread; more than a few at a time are closed."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a request, or close its connection after `METRICS_REQUEST_S`."""
        limit = threading.Timer(METRICS_REQUEST_S, _close_connection, (request,))
        limit.daemon = True
        limit.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            limit.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - of socketserver
        """Log what is not the fault of a client that left, or was too slow."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            log.error("a request for the metrics failed", exc_info=error)


def _close_connection(connection: socket.socket) -> None:
    with suppress(OSError):  # it has ended
        connection.shutdown(socket.SHUT_RDWR)


class _MetricsRequest(WSGIRequestHandler):
    """A request that is not logged."""

    def log_message(self, *_: object) -> None:
        """Do nothing: Prometheus asks every few seconds."""


def _metrics_app(registry: CollectorRegistry, problem: Callable[[], str | None]) -> WSGIApplication:
    metrics = make_wsgi_app(registry)

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        reason, allow = None, []
        if path not in {HEALTH, "/metrics"}:
            status, reply = "404 Not Found", {"detail": f"only /metrics and {HEALTH} are here"}
        elif method not in {"GET", "HEAD"}:
            status, reply = "405 Method Not Allowed", {"detail": "only GET and HEAD are allowed"}
            allow = [("Allow", "GET, HEAD")]
        else:
            status, reply = "200 OK", {"status": "ok"}
            if path == HEALTH:
                reason = problem()
            else:
                try:
                    # It answers GET only.
                    body = metrics({**environ, "REQUEST_METHOD": "GET"}, start_response)
                except Exception as error:  # noqa: BLE001 - of any collector, such as of the store
                    known = isinstance(error, ApplicationError)
                    cause = str(error) if known else type(error).__name__
                    reason = f"the metrics cannot be collected: {cause}"
                else:
                    return [] if method == "HEAD" else body
        if reason is not None:
            status, reply = "503 Service Unavailable", {"status": "unavailable", "reason": reason}
        start_response(status, [("Content-Type", "application/json"), *allow])
        return [] if method == "HEAD" else [orjson.dumps(reply)]

    return app


@contextmanager
def stop_on_signals(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> Iterator[None]:
    """Stop gracefully on the signals that ask a process to end."""

    def request_stop(_number: int, _frame: object) -> None:
        loop.call_soon_threadsafe(stopping.set)

    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, request_stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def limited_shutdown() -> Iterator[Callable[[], None]]:
    """Yield a function to call when a shutdown begins; the process then exits within `SHUTDOWN_S`.

    A thread that does not return would block the exit forever. Nothing is lost by a forced exit:
    what the service has answered is on disk.
    """
    timer = threading.Timer(SHUTDOWN_S, _exit_now)
    timer.daemon = True
    try:
        yield timer.start
    finally:
        timer.cancel()


def _exit_now() -> None:
    log.warning("not everything ended within %g s; jobs go on after the next start", SHUTDOWN_S)
    logging.shutdown()
    os._exit(0)
